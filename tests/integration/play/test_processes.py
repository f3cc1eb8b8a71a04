"""Plays on real processes: crashes of clients, expectations that fail, and Ctrl-C."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.integration.cluster.terminal import (
    INTERRUPTED,
    LIMIT_S,
    Terminal,
    eventually,
    press_ctrl_c,
    processes_that_mention,
)

CHAIN = """
Tolerance 1
Broker a
Broker b Parent a
Publisher p At a
Publisher q At b
Subscriber s At b
Subscriber s2 At a
Subscriber s Subscribe t
Subscriber s2 Subscribe t
"""


@pytest.fixture
def terminal(tmp_path: Path):
    made = Terminal(tmp_path)
    yield made
    made.close()


def test_clients_that_crash_and_freeze_break_no_promise_and_wrong_expectations_are_told(terminal: Terminal):
    (terminal.directory / "s.play").write_text(
        CHAIN
        + "Publisher p Publish 20000 OnTopic t Interval 2\nPublisher q Publish 100 OnTopic t Interval 5\n"
        + "Freeze s\nWait 150\nCrash p\nCrash s2\nUnfreeze s\nWaitQuiet\n"
        + "Expect s Delivered 100 From q\nExpect NoDuplicates\nExpect Clean\n"
        + "Expect s Delivered 3 From q\nExpect a Down\n"
    )
    ran = terminal.run("play", "s.play", "--on", "processes", "--json", "--trace", "trace", "--log", "events.txt")
    said = json.loads(ran.stdout)
    assert ran.returncode == 1, ran.stderr
    assert [(one["line"], one["complaint"]) for one in said["failures"]] == [
        (22, "s got 100 (100 of q), and not exactly 3"),
        (23, "a is ready, the root"),
    ]
    assert said["verdict"]["ok"], said["verdict"]
    assert 100 <= said["published"] < 20_100
    assert terminal.run("audit", "trace").returncode == 0
    log = (terminal.directory / "events.txt").read_text()
    assert log.index("[15] Crash p") < log.index("[18] WaitQuiet")
    assert eventually(lambda: processes_that_mention(str(terminal.directory)) == [])


def test_ctrl_c_leaves_no_process_behind(terminal: Terminal):
    (terminal.directory / "s.play").write_text(CHAIN + "Wait 600s\n")
    running = terminal.start("play", "s.play", "--on", "processes", "--keep", "kept")
    trace = terminal.directory / "kept" / "trace"
    assert eventually(lambda: any('"subscribe"' in one.read_text() for one in trace.glob("client-s2*.jsonl")))
    code, _, err = press_ctrl_c(running)
    assert (code, err) == (130, INTERRUPTED)
    assert eventually(lambda: processes_that_mention(str(terminal.directory)) == [])


def test_a_broker_that_ends_unasked_ends_the_play_with_its_line_and_its_log(terminal: Terminal):
    (terminal.directory / "s.play").write_text(CHAIN + "Wait 600s\n")
    running = terminal.start("play", "s.play", "--on", "processes", "--keep", "kept")
    trace = terminal.directory / "kept" / "trace"
    assert eventually(lambda: any('"subscribe"' in one.read_text() for one in trace.glob("client-s2*.jsonl")))
    [victim] = [pid for pid in processes_that_mention('"name":"b"') if pid in processes_that_mention(str(trace))]
    os.kill(victim, signal.SIGKILL)
    _, err = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 1
    assert err.startswith("holdfast: line 11 (Wait 600s): broker b ended with exit code -9 in mid-work.")
