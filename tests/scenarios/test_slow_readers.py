"""A subscriber whose process stands still: nobody else notices, it is told what it misses, and receipts name it."""

import pytest

from holdfast.model.slow_messages import Slow
from holdfast.protocols.config import BrokerConfig, ClientConfig, LinkConfig
from holdfast.simulation.checkers.honesty import complaints
from holdfast.simulation.faults import Confirm, Crash, Freeze, Publish, Subscribe, Thaw
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import Simulation

TINY = LinkConfig(window_bytes=2_000, backlog_bytes_max=8_000, away_bytes_max=32_000)
BEGIN_S = 5.0
COUNT = 2_000
EVERY_S = 0.002
END_S = BEGIN_S + COUNT * EVERY_S
"""All of it is published within four seconds: nobody has been silent for long enough to be missed."""
NOT_BLOCKING: tuple[Slow, ...] = ("drop-oldest", "drop-newest", "disconnect")

tolerances = pytest.mark.parametrize("tolerance", [0, 1])


def world(protocol: str, tolerance: int, slow: Slow, slow_s: float = 2.0, guarantee: str = "fifo") -> Simulation:
    """Publisher p at A; r reads at A and at B, and s, at B, stands still from just before the first message on."""
    sim = Simulation(
        "A-B",
        protocol,
        seed=3,
        network=NetworkConfig(latency=Constant(2.0), client_latency=Constant(0.1)),
        broker=BrokerConfig("*", link=TINY),
        client=ClientConfig("*", link=TINY),
        tolerance=tolerance,
        check_invariants=True,
    )
    for reader in ("r@A", "near@B"):
        sim.at(0.0, Subscribe(reader, "t"))
    sim.at(0.0, Subscribe("s@B", "t", slow=slow, slow_s=slow_s))
    sim.at(BEGIN_S - 0.1, Freeze("s"))
    for number in range(COUNT):
        sim.at(BEGIN_S + number * EVERY_S, Publish("p@A", "t", b"%05d" % number, guarantee))
    return sim


def count(sim: Simulation, client: str) -> int:
    return len(sim.delivered(client))


def told(sim: Simulation, client: str) -> list[str]:
    """Where a client was handed messages, and where it was told that some are missing."""
    rows = [row.event for row in sim.events if row.node == client and row.event in ("deliver", "gap")]
    return [row for place, row in enumerate(rows) if not place or rows[place - 1] != row]


def is_honest(sim: Simulation) -> None:
    """Whatever is missing, its subscriber was told; nothing came twice or out of order, and no receipt was wrong."""
    assert complaints(sim.events) == []
    verdict = sim.check()
    assert (verdict.duplicated, verdict.created, verdict.fifo, verdict.causal, verdict.total) == (0, 0, 0, 0, 0)


@tolerances
def test_a_subscription_that_blocks_stops_the_others_as_it_always_did(tolerance: int):
    sim = world("ginger", tolerance, "block")
    sim.run_for(END_S + 0.5 - sim.now)
    assert count(sim, "near") < COUNT
    assert count(sim, "r") < COUNT
    sim.at(END_S + 0.6, Thaw("s"))
    sim.run_until_quiet(limit_s=60)
    assert count(sim, "s") == count(sim, "near") == count(sim, "r") == COUNT


@tolerances
@pytest.mark.parametrize("slow", NOT_BLOCKING)
def test_nobody_else_notices_a_process_that_stands_still(slow: Slow, tolerance: int):
    sim = world("ginger", tolerance, slow)
    for quarter in range(1, 5):
        # What was published so far has come, but for what is still on its way.
        sim.run_for(BEGIN_S + quarter * (END_S - BEGIN_S) / 4 + 0.02 - sim.now)
        assert count(sim, "near") >= quarter * COUNT // 4 - 20
        assert count(sim, "r") >= quarter * COUNT // 4 - 20
    assert count(sim, "s") == 0
    sim.at(END_S + 0.6, Thaw("s"))
    sim.run_until_quiet(limit_s=60)
    assert count(sim, "near") == count(sim, "r") == COUNT
    assert 0 < count(sim, "s") < COUNT
    is_honest(sim)


@tolerances
def test_the_newest_messages_are_dropped_with_a_gap_behind_the_old_ones(tolerance: int):
    sim = world("ginger", tolerance, "drop-newest")
    sim.at(END_S + 0.6, Thaw("s"))
    sim.at(END_S + 2.0, Publish("p", "t", b"later"))
    sim.run_until_quiet(limit_s=60)
    got = sim.delivered("s")
    assert got[0] == b"00000"
    assert got[-1] == b"later"
    assert got[-2] != b"%05d" % (COUNT - 1)
    assert told(sim, "s") == ["deliver", "gap", "deliver"]
    is_honest(sim)


@tolerances
def test_the_oldest_messages_are_dropped_with_a_gap_before_the_new_ones(tolerance: int):
    sim = world("ginger", tolerance, "drop-oldest")
    sim.at(END_S + 0.6, Thaw("s"))
    sim.run_until_quiet(limit_s=60)
    got = sim.delivered("s")
    assert got[-1] == b"%05d" % (COUNT - 1)
    # The window was under way when it stood still; nobody can take that back.
    assert told(sim, "s") == ["deliver", "gap", "deliver"]
    assert got == sorted(got)
    is_honest(sim)


@tolerances
@pytest.mark.parametrize("slow", NOT_BLOCKING)
def test_receipts_of_what_was_dropped_name_the_subscriber(slow: Slow, tolerance: int):
    sim = world("ginger", tolerance, slow)
    # In the middle, where each policy drops.
    sim.at(BEGIN_S + 1.5, Confirm("p", "t"))
    sim.at(END_S + 0.6, Thaw("s"))
    sim.run_until_quiet(limit_s=60)
    (doubt,) = [reason for _, reason in sim.client("p").doubts]
    assert "s has not got it" in doubt if slow != "disconnect" else "s has been given up" in doubt
    is_honest(sim)


@tolerances
def test_a_client_that_asked_to_be_disconnected_learns_it_with_the_reason_as_soon_as_it_runs(tolerance: int):
    sim = world("ginger", tolerance, "disconnect", slow_s=1.0)
    sim.at(END_S + 0.6, Thaw("s"))
    sim.run_for(END_S + 0.7 - sim.now)
    assert sim.client("s").ended
    (failure,) = sim.client("s").failures
    assert "kept" in failure or "was behind for" in failure
    sim.run_until_quiet(limit_s=60)
    is_honest(sim)


@tolerances
def test_a_client_that_blocks_and_takes_nothing_learns_why_its_session_is_over(tolerance: int):
    sim = Simulation(
        "A-B",
        "ginger",
        seed=3,
        broker=BrokerConfig("*", link=TINY, stall_s=5.0),
        client=ClientConfig("*", link=TINY),
        tolerance=tolerance,
    )
    sim.client("s@B").consume_s = 1_000.0
    sim.at(0.0, Subscribe("s@B", "t"))
    for number in range(500):
        sim.at(BEGIN_S + number * EVERY_S, Publish("p@A", "t", b"%05d" % number, "fifo"))
    sim.run_for(25.0)
    (failure,) = sim.client("s").failures
    assert "took nothing from a full buffer" in failure
    assert complaints(sim.events) == []


@pytest.mark.parametrize("slow", ["drop-oldest", "drop-newest"])
def test_a_slow_process_whose_broker_dies_is_told_that_something_may_be_missing(slow: Slow):
    sim = world("ginger", 1, slow, guarantee="causal")
    sim.at(BEGIN_S + 3.0, Crash("B"))
    sim.at(END_S + 0.6, Thaw("s"))
    sim.run_until_quiet(limit_s=60)
    assert "gap" in told(sim, "s")
    is_honest(sim)


@pytest.mark.parametrize("slow", ["drop-oldest", "drop-newest"])
def test_a_process_that_stands_still_for_longer_than_silence_lasts_goes_on_with_its_session(slow: Slow):
    sim = world("ginger", 1, slow, guarantee="causal")
    sim.at(BEGIN_S + 20.0, Thaw("s"))
    sim.at(BEGIN_S + 22.0, Publish("p", "t", b"later", "causal"))
    sim.run_until_quiet(limit_s=60)
    assert not sim.client("s").ended
    assert sim.delivered("s")[-1] == b"later"
    is_honest(sim)


@pytest.mark.parametrize("slow", NOT_BLOCKING)
@pytest.mark.parametrize("protocol", ["delta-neighbourhood", "cbcast", "barriers", "locamu"])
def test_nobody_else_notices_it_under_the_other_protocols(protocol: str, slow: Slow):
    tolerance = 1 if protocol in ("delta-neighbourhood", "locamu") else 0
    sim = world(protocol, tolerance, slow)
    # The delta protocol has one message of a publisher under way at a time, and takes twice as long for all of them.
    sim.run_for(END_S + 4.5 - sim.now)
    assert count(sim, "near") == count(sim, "r") == COUNT
    assert count(sim, "s") == 0
    sim.at(END_S + 4.6, Thaw("s"))
    sim.run_until_quiet(limit_s=60)
    # LoCaMu numbers what it sends again after a crash as before, and so drops nothing: it ends the session.
    ends = slow == "disconnect" or protocol == "locamu"
    assert sim.client("s").ended is ends
    assert "gap" in told(sim, "s")
    is_honest(sim)
