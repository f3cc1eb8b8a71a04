"""The command line as a fixture."""

import pytest

from tests.unit.cli.command_line import CommandLine


@pytest.fixture
def holdfast(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.setenv("COLUMNS", "100")
    return CommandLine(monkeypatch, capsys)
