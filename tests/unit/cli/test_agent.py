"""`holdfast agent`: what it refuses, in a sentence."""

from pathlib import Path

import pytest

from holdfast.storage.locks import hold
from tests.unit.cli.command_line import CommandLine


@pytest.fixture(autouse=True)
def no_secret(monkeypatch: pytest.MonkeyPatch):
    for name in ("HOLDFAST_AGENT_SECRET", "HOLDFAST_AGENT_SECRET_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_an_agent_that_could_be_reached_by_everybody_does_not_start_without_a_secret(holdfast: CommandLine):
    ran = holdfast("agent", "--listen", "0.0.0.0:0")
    assert (ran.code, "give it a secret, --secret-file FILE" in ran.err) == (2, True)


def test_an_address_that_is_none_is_told_with_what_would_be_one(holdfast: CommandLine):
    ran = holdfast("agent", "--listen", "here")
    assert (ran.code, ran.err) == (
        2,
        "holdfast: --listen 'here' is no address; write HOST:PORT, as in 10.0.0.1:7300.\n",
    )


def test_two_agents_do_not_share_a_directory(holdfast: CommandLine, tmp_path: Path):
    with hold(tmp_path / "lock"):
        ran = holdfast("agent", "--listen", "127.0.0.1:0", "--directory", tmp_path)
    assert (ran.code, "another agent has the directory" in ran.err) == (2, True)
