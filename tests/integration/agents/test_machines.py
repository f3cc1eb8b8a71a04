"""Network namespaces as machines, with latencies between them: a script, an agent killed, a machine unplugged."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.agents.support_agents import SECRET, AgentProcess, clean_up
from tests.integration.cluster.terminal import eventually
from tests.integration.network.support_network import OBSERVER, Network, why_not
from tests.tidy.sources import ROOT
from tests.unit.cluster.play.scripts import play

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"no network namespaces here: {why_not()}")

SCRIPTS = [ROOT / "examples" / "scripts" / f"{name}.play" for name in ("three-machines", "sites-on-machines")]
MACHINES = ("m1", "m2", "m3")
LATENCY_MS = {"m1": {"m2": 20.0, "m3": 40.0}, "m2": {"m1": 20.0, "m3": 30.0}, "m3": {"m1": 40.0, "m2": 30.0}}
LIMIT_S = 240.0


class Site:
    """Three machines with an agent each, and the master's terminal in a fourth place."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.network = Network([*MACHINES, OBSERVER], LATENCY_MS)
        self.agents = {
            name: AgentProcess(directory / name, self.network.address(name), 7300, SECRET, self.network.launcher(name))
            for name in MACHINES
        }
        self.secret = directory / "secret"
        self.secret.write_bytes(SECRET)
        self.secret.chmod(0o600)

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """A command of the master, which reaches all machines without delay."""
        command = [*self.network.launcher(OBSERVER), sys.executable, "-m", "holdfast", *map(str, arguments)]
        environment = {**os.environ, "HOLDFAST_AGENT_SECRET_FILE": str(self.secret)}
        return subprocess.run(
            command, cwd=self.directory, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )

    def close(self) -> None:
        for one in self.agents.values():
            clean_up(one)
        self.network.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_same_script_holds_on_three_machines_and_in_virtual_time(site: Site, script: Path):
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) >= 40
    simulated = play(script.read_text())
    assert simulated.summary.ok, simulated.complaints
    ran = site.run("play", script, "--on", "processes", "--json", "--trace", "trace", "--log", "events.txt")
    assert ran.returncode == 0, (ran.stdout[-2000:], ran.stderr[-2000:])
    found = json.loads(ran.stdout)
    assert (found["ok"], found["stage"]) == (True, "processes")
    assert found["brokers"] == simulated.summary.brokers
    assert found["verdict"]["deliveries"] == simulated.summary.verdict["deliveries"]
    assert json.loads(site.run("audit", "trace", "--json").stdout)["ok"]
    told = "s  broker " in (site.directory / "events.txt").read_text()
    assert told is ("LoggingLevel full" in lines)
    assert eventually(lambda: [one.processes() for one in site.agents.values()] == [[], [], []])


def cluster_file(site: Site) -> Path:
    lines = ["tolerance = 1", "silence_s = 1.0"]
    for name in MACHINES:
        lines += [f"[machines.{name}]", f'address = "{site.agents[name].address}"']
    for name, parent, machine in (("a", "", "m1"), ("b", "a", "m2"), ("c", "b", "m3"), ("d", "b", "m2")):
        lines += [f"[brokers.{name}]", f'machine = "{machine}"', *([f'parent = "{parent}"'] if parent else [])]
    path = site.directory / "far.toml"
    path.write_text("\n".join(lines))
    return path


def ready(site: Site) -> dict[str, str | None]:
    """Each broker that is ready, and its parent."""
    seen = json.loads(site.run("status", "--json").stdout)
    return {one["name"]: one["parent"] for one in seen["brokers"] if one["ready"]}


def test_a_machine_that_is_unplugged_is_done_without_and_comes_back(site: Site):
    ran = site.run("up", cluster_file(site))
    assert ran.returncode == 0, ran.stderr
    address = f"{site.network.address('m1')}:7400"
    assert eventually(lambda: set(ready(site)) == {"a", "b", "c", "d"})
    site.agents["m1"].end(9)  # type: ignore[arg-type]
    site.network.unplug("m2")
    assert eventually(lambda: ready(site) == {"a": None, "c": "a"})
    assert "does not answer: no answer within 2 s" in site.run("why", "b").stdout
    assert "the agent of machine m2" in site.run("crash", "b").stderr
    assert site.run("pub", "t", "x", "-a", address).returncode == 0
    assert site.run("down").returncode == 1
    site.network.heal()
    site.agents["m1"].start()
    # Those of m2 come together again; m1's and m3's have been stopped, or are now.
    assert eventually(lambda: site.run("down").returncode == 0), site.run("down").stderr
    assert eventually(lambda: [one.processes() for one in site.agents.values()] == [[], [], []])
