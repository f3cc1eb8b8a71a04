"""The command line as a fixture."""

import logging
from collections.abc import Iterator

import pytest

from tests.unit.cli.command_line import CommandLine


@pytest.fixture
def holdfast(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[CommandLine]:
    monkeypatch.setenv("COLUMNS", "100")
    logger = logging.getLogger("holdfast")
    handlers, level, propagate = list(logger.handlers), logger.level, logger.propagate
    yield CommandLine(monkeypatch, capsys)
    # A command that logs to the captured stderr of one test must not do so in all later tests of this process.
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)
