"""The ready scripts, each on both stages: every expectation is met, and the audit finds nothing wrong."""

import json
from pathlib import Path

import pytest

from holdfast.cluster.play.cast import check_script
from holdfast.cluster.play.grammar import parse_script
from holdfast.simulation.checkers import check
from holdfast.storage.traces import read_trace
from tests.integration.cluster.terminal import Terminal, eventually, processes_that_mention
from tests.tidy.sources import ROOT
from tests.unit.cluster.play.scripts import play as play_simulated

SCRIPTS = sorted((ROOT / "examples" / "scripts").glob("*.play"))
ON_THIS_MACHINE = [one for one in SCRIPTS if "\nMachine " not in one.read_text()]
"""Those on several machines are played by `tests/integration/agents/test_machines.py`."""
SEEDS = range(1, 4)


def names(script: Path) -> str:
    return script.stem


@pytest.fixture
def terminal(tmp_path: Path):
    made = Terminal(tmp_path)
    yield made
    made.close()


def play(terminal: Terminal, script: Path, *options: object) -> dict[str, object]:
    ran = terminal.run("play", script, "--json", *options)
    assert ran.returncode == 0, (ran.stdout[-3000:], ran.stderr)
    found: dict[str, object] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("script", SCRIPTS, ids=names)
def test_a_script_expects_something_and_says_what_it_shows(script: Path):
    text = script.read_text()
    assert text.startswith("# ")
    assert any(line.startswith("Expect") for line in text.splitlines())
    check_script(parse_script(text, script.name), script.name)


@pytest.mark.parametrize("script", SCRIPTS, ids=names)
def test_a_script_holds_in_virtual_time(script: Path):
    for seed in SEEDS:
        played = play_simulated(script.read_text(), seed)
        assert played.summary.ok, (seed, played.complaints, played.summary.verdict)
        assert check(played.rows).ok


@pytest.mark.parametrize("script", ON_THIS_MACHINE, ids=names)
def test_a_script_holds_on_processes_and_leaves_none_behind(terminal: Terminal, script: Path):
    found = play(terminal, script, "--on", "processes", "--trace", "trace", "--keep", "kept")
    assert (found["ok"], found["stage"]) == (True, "processes")
    judged = check(read_trace(terminal.directory / "trace"))
    assert judged.ok, judged.examples
    assert judged.deliveries == found["verdict"]["deliveries"]  # type: ignore[index]
    assert eventually(lambda: processes_that_mention(str(terminal.directory)) == [])
