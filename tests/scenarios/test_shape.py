"""A broker with too many neighbours moves children below others, make before break, and nobody notices."""

from random import Random

import pytest

from holdfast.protocols.config import BrokerConfig, ClientConfig, LinkConfig
from holdfast.protocols.ginger import RepairingBroker
from holdfast.simulation.faults import Crash, Cut, Heal, Publish, Subscribe, Unsubscribe, When
from holdfast.simulation.latencies import Uniform
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import Simulation

STAR = " ".join(f"0-{child}" for child in range(1, 9))
FIVES = "0-1 0-2 0-3 0-4 1-5 2-6 3-7 4-8"
"""One child too many."""
DEGREE_MAX = 3
BEGIN_S = 3.0
GUARANTEES = ("eventual", "fifo", "causal", "total")


def grow(
    tree: str, pause_s: float = BEGIN_S, seed: int = 0, tolerance: int = 1, silence_s: float = 2.0, **more: float
) -> Simulation:
    link = LinkConfig(heartbeat_s=0.5, silence_s=silence_s)
    broker = BrokerConfig("*", link=link, degree_max=DEGREE_MAX, move_pause_s=pause_s, **more)  # type: ignore[arg-type]
    return Simulation(
        tree,
        "ginger",
        seed,
        network=NetworkConfig(latency=Uniform(1.0, 6.0), client_latency=Uniform(0.1, 1.0)),
        broker=broker,
        client=ClientConfig("*", link=link),
        tolerance=tolerance,
        check_invariants=True,
    )


def crowd(sim: Simulation) -> list[str]:
    """A client at every broker that wants everything."""
    clients = [f"c{broker}@{broker}" for broker in sim.tree]
    for client in clients:
        sim.at(0.0, Subscribe(client, "#"))
    return clients


def chatter(sim: Simulation, clients: list[str], begin_s: float, end_s: float, per_s: int, total: bool = True) -> None:
    chance = Random(sim.seed)
    for number in range(int((end_s - begin_s) * per_s)):
        client, key = chance.choice(clients), f"k{chance.randrange(3)}"
        guarantee = chance.choice(GUARANTEES if total else GUARANTEES[:-1])
        topic = chance.choice(("a", "b"))
        sim.at(begin_s + number / per_s, Publish(client, topic, b"%d" % number, guarantee, (key,)))


def finish(sim: Simulation) -> None:
    sim.run_until_quiet(limit_s=120, quiet_s=4.0)
    assert sim.check().ok, str(sim.check())
    assert (sim.failures(), sim.unrepaired()) == ([], [])


def alive(sim: Simulation) -> dict[str, RepairingBroker]:
    nodes = {name: sim.node(name) for name in sim.tree if sim.network.hosts[name].up}
    return {name: node for name, node in nodes.items() if isinstance(node, RepairingBroker)}


def degrees(sim: Simulation) -> dict[str, int]:
    return {name: node.tree_shape.degree for name, node in alive(sim).items()}


def told(sim: Simulation, event: str) -> list[tuple[str, str]]:
    return [(name, report.peer) for _, name, report in sim.reports if report.event == event]


def test_after_a_root_crash_the_new_root_hands_its_children_on():
    sim = grow(STAR, pause_s=1.0, seed=3)
    clients = crowd(sim)
    chatter(sim, clients[1:], 2.0, 14.0, 40)
    sim.at(0.9, Crash("0"))
    finish(sim)
    assert max(degrees(sim).values()) == DEGREE_MAX
    assert len(told(sim, "move_end")) >= 3


def test_without_a_limit_nobody_is_moved():
    sim = Simulation(STAR, "ginger", 1, tolerance=1, check_invariants=True)
    sim.run_until_quiet(limit_s=60, quiet_s=4.0)
    assert (degrees(sim)["0"], told(sim, "move_start")) == (8, [])


def test_a_move_ends_at_both_ends_and_keeps_what_is_below_the_mover():
    cast = roles(1, 1)
    sim = grow(FIVES, seed=1)
    clients = crowd(sim)
    chatter(sim, clients, 2.5, 5.0, 60)
    finish(sim)
    assert told(sim, "move_end") == [(cast["parent"], cast["mover"])]
    assert told(sim, "moved") == [(cast["mover"], cast["target"])]
    below = {name: node.parent for name, node in alive(sim).items() if name > "4"}
    assert below == {"5": "1", "6": "2", "7": "3", "8": "4"}


@pytest.mark.parametrize("seed", range(2))
def test_cuts_in_flight_neither_break_nor_are_broken(seed: int):
    sim = grow(STAR, pause_s=1.0, seed=seed)
    clients = crowd(sim)
    chatter(sim, clients, 2.0, 9.0, 120)
    finish(sim)
    assert max(degrees(sim).values()) == DEGREE_MAX


@pytest.mark.parametrize("seed", range(2))
def test_subscriptions_that_come_and_go_meanwhile_are_kept(seed: int):
    sim = grow(STAR, pause_s=1.0, seed=seed)
    clients = [f"c{broker}@{broker}" for broker in sim.tree]
    chance = Random(seed)
    for number in range(120):
        client, pattern = chance.choice(clients), chance.choice(("a", "b", "#"))
        at_s = 1.0 + number * 0.05
        sim.at(at_s, Subscribe(client, pattern))
        sim.at(at_s + chance.random() / 2, Unsubscribe(client, pattern))
    chatter(sim, clients, 1.0, 8.0, 60)
    finish(sim)
    assert len(told(sim, "move_end")) >= 4


# The parent says ask, freeze, adopt, commit; the mover ready, frozen, drained; the target adopted, then it opens the
# link and says committed.
MOMENTS = [("parent", "Move", n) for n in (1, 2, 3, 4)]
MOMENTS += [("mover", "Move", n) for n in (1, 2, 3)]
MOMENTS += [("target", "Move", n) for n in (1, 2)] + [("target", "Open", 1)]


def roles(seed: int, tolerance: int) -> dict[str, str]:
    """Who will move whom below whom: the same run without any fault tells."""
    sim = grow(FIVES, seed=seed, tolerance=tolerance)
    crowd(sim)
    sim.run_for(BEGIN_S + 1.0)
    [(parent, mover)] = told(sim, "move_end")
    return {"parent": parent, "mover": mover, "target": alive(sim)[mover].parent or ""}


def strike(seed: int, tolerance: int, *blows: tuple[str, str, int]) -> tuple[Simulation, list[str]]:
    """The same run under traffic, in which these are lost."""
    cast = roles(seed, tolerance)
    struck = [cast[who] for who, _, _ in blows]
    sim = grow(FIVES, seed=seed, tolerance=tolerance)
    clients = [client for client in crowd(sim) if client.partition("@")[2] not in struck]
    chatter(sim, clients, 2.8, 4.5, 80)
    for victim, (_, says, nth) in zip(struck, blows, strict=True):
        sim.at(BEGIN_S - 0.2 if says == "Move" else BEGIN_S, When(victim, says, Crash(victim), nth))
    finish(sim)
    return sim, struck


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
@pytest.mark.parametrize("seed", [2])
def test_whoever_is_lost_in_the_midst_of_a_move_takes_nothing_along(moment: tuple[str, str, int], seed: int):
    sim, [lost] = strike(seed, 1, moment)
    assert lost not in alive(sim)


@pytest.mark.parametrize("second", ["parent", "mover", "target"])
@pytest.mark.parametrize("first", [one for one in MOMENTS if one[1] == "Move"], ids=str)
def test_two_neighbours_that_are_lost_in_a_move_take_nothing_along(first: tuple[str, str, int], second: str):
    if first[0] != second:
        strike(3, 2, first, (second, "Levels", 4))


def test_a_move_that_cannot_go_through_is_given_up_and_tried_again():
    cast = roles(1, 1)
    sim = grow(FIVES, seed=1, silence_s=60.0)
    clients = crowd(sim)
    chatter(sim, clients, 2.5, 40.0, 10, total=False)
    for other in {"1", "2", "3", "4"} - {cast["mover"]}:
        sim.at(1.0, Cut(cast["mover"], other))
    sim.at(26.0, Heal())
    finish(sim)
    assert told(sim, "move_given_up")[0] == ("0", cast["mover"])
    assert len(told(sim, "move_end")) == 1
    assert degrees(sim)["0"] == DEGREE_MAX


def test_a_broker_says_whom_it_moves_and_what_that_waits_for():
    cast = roles(1, 1)
    mover, target = cast["mover"], cast["target"]
    sim = grow(FIVES, seed=1, silence_s=60.0)
    crowd(sim)
    sim.at(1.0, Cut(mover, target))
    sim.run_for(BEGIN_S + 2.0)
    node = alive(sim)["0"]
    assert f"{mover} to be moved below {target}: their link to fall silent" in node.waiting_for()
    assert f"its move from 0 to {target} (asked)" in alive(sim)[mover].waiting_for()
    status = node.status()
    assert (status["degree"], status["degree_max"], status["moves"]) == (4, 3, {"done": 0, "given_up": 0})
