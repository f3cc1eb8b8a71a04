"""Settings every test shares."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.postgres import PostgresServer, server_or_skip

# The suite gives the same answer twice: examples are drawn from a fixed seed, and a slow machine fails nothing.
# HOLDFAST_HYPOTHESIS=explore draws new ones at every run, for whoever goes looking.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HOLDFAST_HYPOTHESIS") or "steady")

# Whoever starts the tests in the background may have left interrupts ignored: every program that a test starts would
# inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A real server of PostgreSQL's, which the tests of a module may kill."""
    yield from server_or_skip()
