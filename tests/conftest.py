"""Settings every test shares."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

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


LONG_FIRST = ("integration/pipeline", "integration", "swarm", "scenarios", "contracts")
"""Rooms in the order in which their tests are run; all others come behind, and take milliseconds a test."""
_TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first: workers that share a run (`--dist worksteal`) end it together, with short tests.

    A worker takes over the last half of what another one has before it. What is at the front stays together: so one
    worker alone starts Spark.
    """
    items.sort(key=lambda item: _rank(item.path))


def _rank(path: Path) -> int:
    place = path.relative_to(_TESTS) if path.is_relative_to(_TESTS) else path
    return next((at for at, room in enumerate(LONG_FIRST) if place.is_relative_to(room)), len(LONG_FIRST))
