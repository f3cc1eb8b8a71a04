"""docs/papers/ginger.md, 12: key locks put a weaker message on different sides of a total one, without any fault."""

from pathlib import Path

from holdfast.simulation.scenarios import load_scenario
from holdfast.simulation.world import Simulation

COUNTER_EXAMPLE = Path(__file__).parents[2] / "examples" / "scenarios" / "key-locks.toml"


def run(protocol: str) -> Simulation:
    scenario = load_scenario(COUNTER_EXAMPLE)
    sim = scenario.build(protocol)
    sim.run_until_quiet(scenario.limit_s)
    return sim


def test_with_key_locks_one_subscriber_sees_the_message_before_and_the_other_after():
    sim = run("ginger-locks")
    assert sim.delivered("a") == [b"x", b"m"]
    assert sim.delivered("b") == [b"m", b"x"]
    verdict = sim.check()
    assert {kind: count for kind, count in verdict.faults.items() if count} == {"total": 1}


def test_where_both_turn_at_the_top_both_see_them_in_one_order():
    sim = run("ginger")
    assert sim.delivered("a") == sim.delivered("b") == [b"m", b"x"]
    assert sim.check().ok
