"""An intruder among honest nodes says well-typed words in any order: nobody raises, and clients keep what was promised.

The intruder is a client or a broker, under a name of its own or of somebody else. Each run is drawn from one seed; a
failure prints the expression that repeats it. `make swarm`, or `SWARM_RUNS`, makes more runs.
"""

import pytest

from holdfast.protocols.comparators.cbcast import CbcastBroker
from holdfast.protocols.registry import PROTOCOLS
from tests.support.intruders import BROKERS, MALLORY, IntrudedWorld
from tests.support.reliable_intruders import IntrudedBundle
from tests.swarm.seeds import FIRST, RUNS

SEEDS = range(FIRST, FIRST + max(2, RUNS // 300))
WORLDS = [(name, tolerance) for name, info in PROTOCOLS.items() if not info.sited for tolerance in (0, 1)]
"""Of brokers alone; intruders among the brokers of sites are in test_sesdad."""


@pytest.mark.parametrize(("protocol", "tolerance"), WORLDS)
def test_a_client_that_says_anything_harms_nobody(protocol: str, tolerance: int):
    for seed in SEEDS:
        world = IntrudedWorld(protocol, tolerance, "client", seed).run()
        verdict = world.verdict()
        assert verdict.ok or protocol == "ginger-locks", f"{world.sim.replay}: {verdict.examples}"
        assert world.sim.failures() == [], world.sim.replay
        assert world.sim.unrepaired() == [], world.sim.replay


@pytest.mark.parametrize(("protocol", "tolerance"), WORLDS)
def test_a_client_that_takes_the_names_of_brokers_harms_nobody(protocol: str, tolerance: int):
    for seed in SEEDS[:2]:
        world = IntrudedWorld(protocol, tolerance, "client", seed, (MALLORY, *BROKERS)).run()
        verdict = world.verdict()
        assert verdict.ok or protocol == "ginger-locks", f"{world.sim.replay}: {verdict.examples}"
        assert world.sim.failures() == [], world.sim.replay


@pytest.mark.parametrize(("protocol", "tolerance"), WORLDS)
def test_a_client_that_takes_everybodys_name_ends_no_node(protocol: str, tolerance: int):
    names = (MALLORY, "alice", "bob", "carol", *BROKERS)
    for seed in SEEDS[:2]:
        IntrudedWorld(protocol, tolerance, "client", seed, names).run(quiet=False)


@pytest.mark.parametrize(("protocol", "tolerance"), WORLDS)
def test_a_broker_that_says_anything_ends_no_node(protocol: str, tolerance: int):
    for seed in SEEDS:
        IntrudedWorld(protocol, tolerance, "broker", seed).survives()


@pytest.mark.parametrize(("protocol", "tolerance"), WORLDS)
def test_a_broker_that_says_anything_under_the_name_of_another_ends_no_node(protocol: str, tolerance: int):
    for seed in SEEDS[:3]:
        IntrudedWorld(protocol, tolerance, "broker", seed, BROKERS).survives()


def test_the_intruder_is_heard():
    """If nobody listened, nobody could come to harm: of each kind it gets in, and says most of what can be said."""
    for kind in ("client", "broker"):
        # A broker of this name may be turned away from the start, as with seed 1; over several seeds it gets in.
        intruders = [IntrudedWorld("ginger", 1, kind, seed).run(quiet=False).intruder for seed in (1, 2, 3)]
        assert max(len(one.said) for one in intruders) >= (6 if kind == "client" else 20)
        assert sum(one.let_in for one in intruders) > 9


def test_a_run_is_a_function_of_its_seed():
    first, again = (IntrudedWorld("ginger", 1, "client", 2).run() for _ in range(2))
    assert first.sim.events == again.sim.events


def test_control_events_of_any_kind_end_no_participant_of_a_reliable_topic():
    for seed in (*SEEDS, *(seed + len(SEEDS) for seed in SEEDS)):
        bundle = IntrudedBundle(seed).run()
        assert bundle.said > 200


def test_the_intruder_finds_a_check_that_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(CbcastBroker, "_check_roster", lambda *_: None)
    ended = 0
    for seed in range(1, 5):
        try:
            IntrudedWorld("cbcast", 1, "broker", seed).run()
        except (ValueError, LookupError, StopIteration):
            ended += 1
    assert ended
