"""One seed gives one run, to the byte: again in this process, and in another one with another hash seed."""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from holdfast.model.trace import encode_line
from holdfast.simulation.scenarios import Scenario, load_scenario
from holdfast.simulation.workloads import FAULT_KINDS, Trouble, random_scenario
from holdfast.simulation.world import Simulation

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "scenarios"

PROGRAM = """
import sys
from tests.scenarios.test_determinism import fingerprint, scenarios
print(*(fingerprint(scenario) for scenario in scenarios()), sep="\\n")
"""


def scenarios() -> list[Scenario]:
    """Random ones with every kind of fault, and examples."""
    stormy = [random_scenario(seed, trouble=Trouble(FAULT_KINDS)) for seed in range(20)]
    return [*stormy, *(load_scenario(EXAMPLES / f"{name}.toml") for name in ("key-contention", "connection-resets"))]


def ran(scenario: Scenario) -> Simulation:
    sim = scenario.build()
    sim.run_until_quiet(scenario.limit_s)
    return sim


def trace(sim: Simulation) -> bytes:
    return b"".join(map(encode_line, sim.events))


def fingerprint(scenario: Scenario) -> str:
    return sha256(trace(ran(scenario))).hexdigest()


def test_two_runs_of_one_seed_leave_the_same_bytes():
    for scenario in scenarios():
        first, second = ran(scenario), ran(scenario)
        assert trace(first) == trace(second)
        assert len(trace(first)) > 1000
        assert first.kernel.events == second.kernel.events


def test_another_seed_leaves_others():
    scenario = load_scenario(EXAMPLES / "key-contention.toml")
    sims = [scenario.build(seed=seed) for seed in range(5)]
    for sim in sims:
        sim.run_until_quiet(scenario.limit_s)
    assert len({trace(sim) for sim in sims}) == 5


@pytest.mark.parametrize("hash_seed", ["1", "4242"])
def test_another_process_with_another_hash_seed_leaves_the_same_bytes(hash_seed: str):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == [fingerprint(scenario) for scenario in scenarios()]


def test_watching_a_run_does_not_change_it():
    scenario = random_scenario(3, trouble=Trouble(FAULT_KINDS))
    plain = trace(ran(scenario))
    watched = scenario.build(check_invariants=True)
    for _ in range(40):
        watched.run_for(0.05)
        assert watched.events is not None
    watched.run_until_quiet(scenario.limit_s)
    assert trace(watched) == plain
