"""The prompt of `holdfast play`, typed at a terminal and through a pipe."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.integration.cluster.terminal import Terminal, eventually, processes_that_mention

LINES = (
    "Broker a\nBroker b Parent a\nPublisher p At a\nSubscriber s At b\nSubscriber s Subscribe t\n"
    "Publisher p Publish 3 OnTopic t\nNonsense\nCrash nobody\nWaitQuiet\nExpect s Delivered 3\n"
)


class Typist:
    """Somebody at a terminal."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._end, other = pty.openpty()
        self.screen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "play", *arguments],
            cwd=directory,
            env={**os.environ, "XDG_STATE_HOME": str(directory / "state"), "TERM": "xterm", "TMPDIR": str(directory)},
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while piece := os.read(self._end, 1 << 16):
                self.screen += piece.decode(errors="replace")
        except OSError:
            return

    def type(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def sees(self, text: str) -> bool:
        return eventually(lambda: text in self.screen)

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._end)


@pytest.fixture
def typist(tmp_path: Path) -> Iterator[Typist]:
    made = Typist(tmp_path, "--on", "simulation", "--record", "typed.play")
    yield made
    made.close()


def test_lines_are_completed_recorded_and_kept_for_the_next_time(typist: Typist, tmp_path: Path):
    assert typist.sees("play> ")
    typist.type("bro\tlisbon\n")
    typist.type("Broker porto Par\tlis\t\n")
    typist.type("Client c At porto\nClient c Subscribe t\n")
    assert typist.sees("c subscribes to t")
    typist.type("Help WaitQ\n")
    assert typist.sees("pause until everything has arrived")
    typist.type("Client c Publish 2 OnTopic t\nWait 100\n")
    assert typist.sees("c delivers c#2 on t (causal)")
    typist.type("Wait 5 wrong\n")
    assert typist.sees("'wrong' is one word too many")
    typist.type("\x04")
    assert eventually(lambda: typist.process.poll() is not None)
    assert typist.process.returncode == 0
    assert "2 publications, 2 deliveries" in typist.screen
    recorded = (tmp_path / "typed.play").read_text().splitlines()
    assert [line.strip() for line in recorded[1:]] == [
        "Broker lisbon",
        "Broker porto Parent lisbon",
        "Client c At porto",
        "Client c Subscribe t",
        "Client c Publish 2 OnTopic t",
        "Wait 100",
    ]
    assert "Broker lisbon" in (tmp_path / "state" / "holdfast" / "play-history").read_text()


def test_lines_through_a_pipe_are_played_on_processes_and_wrong_ones_left_out(tmp_path: Path):
    terminal = Terminal(tmp_path)
    ran = terminal.run("play", "--record", "typed.play", stdin=LINES)
    assert ran.returncode == 0, ran.stderr
    assert "prompt:7: there is no command 'Nonsense'" in ran.stdout
    assert "prompt:8: there is no broker or client 'nobody'" in ran.stdout
    assert "3 publications, 3 deliveries" in ran.stdout
    assert "1 of 1 expectation met" in ran.stdout
    assert eventually(lambda: processes_that_mention(str(tmp_path)) == [])
    again = terminal.run("play", "typed.play")
    assert (again.returncode, "1 of 1 expectation met" in again.stdout) == (0, True)


def test_ctrl_c_drops_a_line_and_the_session_goes_on(typist: Typist):
    assert typist.sees("play> ")
    typist.type("half a li")
    assert typist.sees("half a li")
    os.kill(typist.process.pid, signal.SIGINT)
    assert eventually(lambda: typist.screen.count("play> ") > 1)
    typist.type("Broker a\nStatus\n")
    assert typist.sees("0 subscriptions")
    typist.type("exit\n")
    assert eventually(lambda: typist.process.poll() is not None)
    assert typist.process.returncode == 0
