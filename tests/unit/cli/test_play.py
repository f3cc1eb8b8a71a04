"""`holdfast play` in virtual time: what it prints, writes and returns."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.command_line import CommandLine

SCRIPT = """Broker a
Broker b Parent a
Publisher p At a
Subscriber s At b
Subscriber s Subscribe t
Publisher p Publish 3 OnTopic t Interval 10
WaitQuiet
Expect s Delivered 3
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "evening.play"
    path.write_text(SCRIPT)
    return path


def test_a_play_prints_its_event_log_and_the_verdict(holdfast: CommandLine, script: Path):
    ran = holdfast("play", script)
    assert (ran.code, ran.err) == (0, "")
    assert "s delivers p#3 on t (causal)" in ran.out
    assert ran.out.splitlines()[-1].startswith("ginger on simulation, seed 1: 3 publications, 3 deliveries in ")
    assert ran.out.splitlines()[-1].endswith("1 of 1 expectation met; the audit finds nothing wrong")


def test_the_trace_of_a_play_is_judged_by_the_audit_and_the_log_may_go_to_a_file(
    holdfast: CommandLine, script: Path, tmp_path: Path
):
    ran = holdfast(
        "play", script, "--seed", 7, "--trace", tmp_path / "trace", "--log", tmp_path / "events.txt", "--json"
    )
    said = json.loads(ran.out)
    assert (ran.code, said["ok"], said["seed"], said["failures"]) == (0, True, 7, [])
    assert said["verdict"]["deliveries"] == 3
    judged = json.loads(holdfast("audit", tmp_path / "trace", "--json").out)
    assert (judged["ok"], judged["deliveries"]) == (True, 3)
    assert "p publishes p#1 on t (causal)" in (tmp_path / "events.txt").read_text()


def test_an_expectation_that_fails_is_exit_code_1_with_its_line(holdfast: CommandLine, script: Path):
    script.write_text(SCRIPT.replace("Delivered 3", "Delivered 4"))
    ran = holdfast("play", script)
    assert ran.code == 1
    assert "line 8: Expect s Delivered 4: s got 3 (3 of p), and not exactly 4" in ran.out
    assert json.loads(holdfast("play", script, "--json").out)["failures"][0]["line"] == 8


def test_a_line_that_cannot_be_read_is_exit_code_2_and_nothing_is_played(holdfast: CommandLine, script: Path):
    script.write_text(SCRIPT + "Expct s Delivered 3\n")
    ran = holdfast("play", script)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"holdfast: {script}:9: there is no command 'Expct' (did you mean 'expect'?)")


def test_a_script_that_is_not_there_is_said_in_a_sentence(holdfast: CommandLine, tmp_path: Path):
    ran = holdfast("play", tmp_path / "no.play")
    assert (ran.code, ran.err) == (
        2,
        f"holdfast: There is no script {tmp_path / 'no.play'}; examples/scripts has some to start from.\n",
    )
    (tmp_path / "latin.play").write_bytes(b"Broker caf\xe9\n")
    assert "is not UTF-8 text (byte 10)" in holdfast("play", tmp_path / "latin.play").err


def test_a_full_log_has_what_brokers_report(holdfast: CommandLine, script: Path):
    script.write_text("LoggingLevel full\nTolerance 1\n" + SCRIPT + "Crash b\nWait 2s\n")
    assert "broker b crash" in holdfast("play", script).out
