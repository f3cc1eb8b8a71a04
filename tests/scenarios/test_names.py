"""Two clients with one name: nothing that either was acknowledged is lost, and the earlier one is told.

Sessions have identities as `holdfast.connect` gives them, and begin as there with the question for their numbers.
"""

import pytest

from holdfast.model.identities import make_identity, name_of
from holdfast.protocols.config import BrokerConfig, ClientConfig, LinkConfig
from holdfast.protocols.registry import find_protocol
from holdfast.simulation.applications import judged_rows
from holdfast.simulation.checkers.honesty import complaints
from holdfast.simulation.checkers.names import judge_names
from holdfast.simulation.faults import Attach, Confirm, Crash, Cut, Detach, Freeze, Heal, Part, Publish, Subscribe, Thaw
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import Simulation

CHAIN = "A-B B-C C-D D-E"
EARLY, LATE, LATEST = (make_identity("alice", moment, 7) for moment in (1, 2, 3))
LINK = LinkConfig(heartbeat_s=0.3, silence_s=1.5)
KINDS = [
    ("ginger", 0),
    ("ginger", 1),
    ("ginger", 2),
    ("cbcast", 0),
    ("cbcast", 1),
    ("barriers", 0),
    ("delta-neighbourhood", 0),
    ("delta-neighbourhood", 1),
    ("locamu", 0),
    ("locamu", 1),
]
everywhere = pytest.mark.parametrize(("protocol", "tolerance"), KINDS)


def cluster(protocol: str = "ginger", tolerance: int = 1, seed: int = 0) -> Simulation:
    sim = Simulation(
        CHAIN,
        protocol,
        seed,
        network=NetworkConfig(latency=Constant(2.0), client_latency=Constant(0.1), connect_timeout_s=1.0),
        broker=BrokerConfig("*", link=LINK, join_s=1.0, brokers=5),
        client=ClientConfig("*", link=LINK),
        tolerance=tolerance,
        check_invariants=True,
    )
    for reader in ("a@A", "c@C", "e@E"):
        sim.at(0.0, Subscribe(reader, "t"))
    return sim


def come(sim: Simulation, time_s: float, client: str, count: int = 3, every_s: float = 0.0) -> None:
    """A session begins, and publishes."""
    sim.at(time_s, Attach(client))
    for number in range(count):
        payload = f"{client[-1]}{number}".encode()
        sim.at(time_s + number * every_s, Publish(client, "t", payload, "fifo"))


def finish(sim: Simulation) -> None:
    sim.run_until_quiet(limit_s=90, quiet_s=3.0)
    assert sim.check().ok, str(sim.check())
    clients = {name: sim.client(name) for name in sim.clients}
    assert complaints(judged_rows(sim.events, clients)) == []
    assert judge_names(sim.events, [one for client in clients.values() for one in client.session()]) == []
    assert sim.failures() == []
    assert sim.unrepaired() == []


def told(sim: Simulation, identity: str) -> str:
    """How the session of that identity ended, in the words that its application gets."""
    return next((words for words in sim.client(identity).failures if words.startswith("session of")), "")


def numbers(sim: Simulation, reader: str = "c") -> list[int]:
    return [message.seq for message in sim.deliveries(reader) if message.publisher == "alice"]


@everywhere
def test_at_two_brokers_at_once_both_are_heard_and_the_earlier_is_told(protocol: str, tolerance: int):
    sim = cluster(protocol, tolerance)
    come(sim, 5.0, f"{EARLY}@A")
    come(sim, 6.0, f"{LATE}@E")
    finish(sim)
    for reader in ("a", "c", "e"):
        assert sorted(sim.delivered(reader)) == [b"A0", b"A1", b"A2", b"E0", b"E1", b"E2"]
    assert told(sim, EARLY).endswith("another client connected as alice at E")
    assert told(sim, LATE) == ""
    assert len(set(numbers(sim))) == 6


@everywhere
@pytest.mark.parametrize("apart_ms", [0.0, 1.0, 3.0, 9.0])
def test_in_the_same_instant_one_remains(protocol: str, tolerance: int, apart_ms: float):
    sim = cluster(protocol, tolerance)
    come(sim, 5.0, f"{LATE}@A", 5, 0.001)
    come(sim, 5.0 + apart_ms / 1000, f"{EARLY}@E", 5, 0.001)
    finish(sim)
    assert told(sim, EARLY).endswith("another client connected as alice at A")
    assert told(sim, LATE) == ""
    assert {b"A0", b"A1", b"A2", b"A3", b"A4"} <= set(sim.delivered("c"))


@everywhere
def test_a_name_that_moves_is_one_session_after_the_other(protocol: str, tolerance: int):
    sim = cluster(protocol, tolerance)
    come(sim, 5.0, f"{EARLY}@A")
    sim.at(5.5, Detach(EARLY))
    come(sim, 6.0, f"{LATE}@E")
    sim.at(6.5, Detach(LATE))
    come(sim, 7.0, f"{LATEST}@A")
    finish(sim)
    assert sim.delivered("c") == [b"A0", b"A1", b"A2", b"E0", b"E1", b"E2", b"A0", b"A1", b"A2"]
    assert len(set(numbers(sim))) == 9
    if find_protocol(protocol).name == "ginger":
        assert numbers(sim) == list(range(1, 10))


@everywhere
def test_a_client_that_cannot_be_reached_is_told_when_it_is_back(protocol: str, tolerance: int):
    sim = cluster(protocol, tolerance)
    come(sim, 5.0, f"{EARLY}@A")
    sim.at(6.0, Cut("A", EARLY))
    come(sim, 9.0, f"{LATE}@A")
    sim.at(12.0, Heal("A", EARLY))
    finish(sim)
    assert told(sim, EARLY).endswith("another client connected as alice at A")
    assert len(sim.delivered("c")) == 6


@everywhere
def test_a_client_that_stood_still_is_told_when_it_goes_on(protocol: str, tolerance: int):
    sim = cluster(protocol, tolerance)
    come(sim, 5.0, f"{EARLY}@A")
    sim.at(6.0, Freeze(EARLY))
    come(sim, 9.0, f"{LATE}@E")
    sim.at(12.0, Thaw(EARLY))
    finish(sim)
    assert told(sim, EARLY).endswith("another client connected as alice at E")
    assert len(sim.delivered("c")) == 6


# ------------------------------------------------------------------------------------------------ where brokers repair


@pytest.mark.parametrize("seed", range(4))
def test_on_two_sides_of_a_partition_both_are_heard_and_one_remains_when_it_is_over(seed: int):
    sim = cluster(seed=seed)
    come(sim, 5.0, f"{EARLY}@A", 60, 0.1)
    sim.at(6.0, Part(("A", "B")))
    come(sim, 9.0, f"{LATE}@E", 30, 0.1)
    sim.at(13.0, Heal())
    finish(sim)
    assert told(sim, EARLY).endswith("another client connected as alice at E")
    # Both have numbered on while they did not hear of each other.
    assert {name_of(event.publisher) for event in sim.events if event.event == "publish"} == {"alice"}
    assert len(sim.delivered("a")) == len(set(numbers(sim, "a"))) >= 60


@pytest.mark.parametrize("seed", range(4))
def test_a_name_that_begins_on_both_sides_of_a_partition_draws_no_number_twice(seed: int):
    sim = cluster(seed=seed)
    sim.at(4.0, Part(("A", "B")))
    come(sim, 8.0, f"{EARLY}@A", 10, 0.1)
    come(sim, 8.0, f"{LATE}@E", 10, 0.1)
    sim.at(13.0, Heal())
    finish(sim)
    assert told(sim, EARLY).endswith("another client connected as alice at E")
    assert len(sim.delivered("c")) == len(set(numbers(sim))) == 20


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("after_ms", [0, 5, 40, 80, 200])
def test_while_the_earlier_clients_broker_is_lost_nothing_acknowledged_is(seed: int, after_ms: int):
    sim = cluster(seed=seed)
    come(sim, 5.0, f"{EARLY}@B", 20, 0.01)
    sim.at(5.1, Crash("B"))
    come(sim, 5.1 + after_ms / 1000, f"{LATE}@D", 20, 0.01)
    finish(sim)
    assert "another client connected as alice at D" in told(sim, EARLY)
    assert {f"D{number}".encode() for number in range(20)} <= set(sim.delivered("c"))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("after_ms", [0, 5, 40, 80, 200])
def test_while_a_broker_between_the_two_is_lost_the_earlier_client_is_told_all_the_same(seed: int, after_ms: int):
    sim = cluster(seed=seed)
    come(sim, 5.0, f"{EARLY}@A", 20, 0.02)
    sim.at(5.1, Crash("D"))
    come(sim, 5.1 + after_ms / 1000, f"{LATE}@E", 20, 0.02)
    finish(sim)
    assert told(sim, EARLY).endswith("another client connected as alice at E")


def test_a_client_that_moves_from_a_lost_broker_is_the_same_session():
    sim = cluster()
    come(sim, 5.0, f"{EARLY}@B", 40, 0.01)
    sim.at(5.2, Crash("B"))
    finish(sim)
    assert told(sim, EARLY) == ""
    assert numbers(sim) == list(range(1, 41))


@pytest.mark.parametrize("tolerance", [0, 1])
def test_a_receipt_names_the_subscriber_whose_name_was_taken_before_it_had_the_message(tolerance: int):
    sim = cluster(tolerance=tolerance)
    sim.at(5.0, Attach(f"{EARLY}@A"))
    sim.at(5.0, Subscribe(EARLY, "t"))
    sim.at(6.0, Freeze(EARLY))
    sim.at(6.1, Publish("e@E", "t", b"x", "fifo"))
    sim.at(6.2, Confirm("e@E", "t"))
    sim.at(6.5, Attach(f"{LATE}@C"))
    sim.at(9.0, Thaw(EARLY))
    sim.run_until_quiet(limit_s=60, quiet_s=3.0)
    [unconfirmed] = [report.detail for _, name, report in sim.reports if report.event == "unconfirmed"]
    assert unconfirmed == f"{EARLY} has been given up since"
    assert told(sim, EARLY).endswith("another client connected as alice at C")
