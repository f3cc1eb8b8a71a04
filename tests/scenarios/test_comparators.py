"""What the comparators have in common: they refuse what they do not give, and say what every copy costs."""

import pytest

from holdfast.model.metadata import thesis_bytes
from holdfast.protocols.comparators.barriers import BarriersBroker
from holdfast.protocols.comparators.cbcast import CbcastBroker
from holdfast.protocols.comparators.delta_neighbourhood import NeighbourhoodBroker
from holdfast.simulation.faults import Publish, Subscribe
from tests.scenarios.diaries import told

KINDS = [CbcastBroker, BarriersBroker, NeighbourhoodBroker]


@pytest.mark.parametrize("kind", KINDS)
def test_a_guarantee_that_is_not_given_is_refused_and_the_next_publication_is_not(kind: type):
    sim, _ = told("0-1", kind)
    sim.at(0.0, Subscribe("bob@1", "t"))
    sim.at(2.0, Publish("alice@0", "t", b"too much", "total", ("k",)))
    sim.at(2.1, Publish("alice@0", "t", b"enough", "fifo"))
    sim.run_until_quiet()
    [failure] = sim.failures("alice")
    assert "does not give 'total': it gives eventual, fifo" in failure
    assert sim.delivered("bob") == [b"enough"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_copy_leaves_a_row_with_its_header_bytes(kind: type):
    sim, diary = told("0-1 1-2", kind)
    for broker in "012":
        sim.at(0.0, Subscribe(f"c{broker}@{broker}", "t"))
    for number in range(3):
        sim.at(2.0 + number, Publish("c0@0", "t", b"x" * 32, "fifo"))
    sim.run_until_quiet()
    rows = [row for row in sim.events if row.event == "relay"]
    copies = [message for broker in "012" for _, message in diary.of(broker, object) if hasattr(message, "batch")]
    assert len(rows) == len(copies) == 6
    assert sorted(int(row.detail) for row in rows) == sorted(map(thesis_bytes, copies))
    assert all(20 <= row.overhead <= 60 for row in rows)
    assert {row.peer for row in rows} == {"1", "2"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_leaves_when_what_it_took_in_has_gone_out(kind: type):
    sim, _ = told("0-1 0-2", kind)
    sim.at(0.0, Subscribe("bob@1", "t"))
    sim.at(2.0, Publish("alice@2", "t", b"last words", "fifo"))
    sim.run_for(2.0002)
    sim.host("2").stop()
    sim.run_for(5.0)
    assert sim.delivered("bob") == [b"last words"]
    assert any(report.event == "stopped" for _, name, report in sim.reports if name == "2")
