"""Parts of the prompt: what a word may become, and what was typed as a script."""

from pathlib import Path

import pytest

from holdfast.cluster.play.cast import Cast, check_script
from holdfast.cluster.play.completion import completions, options_of
from holdfast.cluster.play.grammar import parse_line, parse_script
from holdfast.cluster.play.recording import Recording
from holdfast.model.errors import ConfigError


@pytest.fixture
def cast() -> Cast:
    return check_script(parse_script("Broker lisbon\nBroker porto Parent lisbon\nPublisher petra At lisbon\n"))


def test_a_line_begins_with_a_command(cast: Cast):
    assert completions("p", cast) == ["Protocol", "Publisher", "Part"]
    assert "WaitQuiet" in completions("", cast)


def test_behind_a_command_stand_its_words_and_names_of_the_cast(cast: Cast):
    assert completions("Broker faro P", cast) == ["Parent", "Port", "porto", "petra"]
    assert completions("crash ", cast) == ["lisbon", "porto", "petra"]
    assert completions("Publisher petra Publish 3 on", cast) == ["On", "OnTopic"]
    assert completions("Nonsense x", cast) == []


def test_the_words_of_a_command_are_those_of_its_usage():
    assert options_of("RoutingPolicy") == ["flooding", "filtering"]
    assert options_of("Subscriber") == ["At", "On", "Subscribe", "NoWait", "Where", "Unsubscribe"]
    assert "Within" in options_of("Expect")


def record(path: Path, stage: str, *typed: tuple[str, float]) -> str:
    made = Recording(path, stage)
    for number, (line, at) in enumerate(typed, 1):
        statement = parse_line(line, number)
        assert statement is not None
        made.add(statement, at)
    made.close()
    return path.read_text()


def test_what_was_typed_is_a_script_without_comments(tmp_path: Path):
    text = record(tmp_path / "a.play", "simulation", ("Broker a # the root", 0.0), ("wait 20", 5.0), ("Heal", 99.0))
    assert text.splitlines()[1:] == ["Broker a", "wait 20", "Heal"]
    check_script(parse_script(text))


def test_pauses_between_actions_on_processes_are_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    clock = iter([10.0, 11.0, 12.0])
    monkeypatch.setattr("holdfast.cluster.play.recording.monotonic", lambda: next(clock))
    typed = (("Broker a", 1.0), ("Crash a", 9.0), ("Restart a", 10.734), ("Heal", 11.01))
    assert record(tmp_path / "a.play", "processes", *typed).splitlines()[1:] == [
        "Broker a",
        "Crash a",
        "Wait 730",
        "Restart a",
        "Heal",
    ]


def test_an_earlier_script_is_not_overwritten(tmp_path: Path):
    (tmp_path / "a.play").write_text("Broker a\n")
    with pytest.raises(ConfigError, match="is there already; name a new file"):
        Recording(tmp_path / "a.play", "simulation")
