"""Vector clocks, one a group: what changed, how it is written, and what is kept of it."""

import pytest

from holdfast.model.batches import make_batch
from holdfast.model.direct_messages import Cast
from holdfast.model.errors import PeerViolation
from holdfast.protocols.comparators.cbcast.clocks import ClockReader, ClockWriter, GroupClocks, whole
from holdfast.protocols.comparators.cbcast.stability import CastOutbox, KeptCast


def test_only_what_changed_since_a_version_is_told_and_the_latest_change_last():
    clocks = GroupClocks()
    clocks.advance("t", 0, 1)
    clocks.advance("u", 1, 4)
    version = clocks.version
    assert clocks.advance("t", 0, 2)
    assert not clocks.advance("u", 1, 3)
    assert clocks.since(version) == [("t", 0, 2)]
    assert clocks.since(0) == [("u", 1, 4), ("t", 0, 2)]


def test_what_one_writes_the_other_reads_and_topics_are_written_once():
    clocks, writer, reader = GroupClocks(), ClockWriter(), ClockReader()
    clocks.advance("t", 0, 1)
    clocks.advance("t", 2, 7)
    first = writer.changes(clocks)
    assert first == (("t", (0, 1, 2, 7)),)
    clocks.advance("u", 1, 1)
    clocks.advance("t", 0, 2)
    second = writer.changes(clocks)
    assert second == (("u", (1, 1)), (0, (0, 2)))
    assert reader.read(first) == [("t", 0, 1), ("t", 2, 7)]
    assert reader.read(second) == [("u", 1, 1), ("t", 0, 2)]
    assert writer.changes(clocks) == ()


@pytest.mark.parametrize("rows", [((0, (1, 1)),), (("t", (1,)),)])
def test_a_clock_that_cannot_be_read_is_the_senders_fault(rows: tuple[tuple[int | str, tuple[int, ...]], ...]):
    with pytest.raises(PeerViolation):
        ClockReader().read(rows)


def cast(serial: int) -> Cast:
    return Cast(1, serial, 0, (), make_batch("p", serial, "t", 2, [b""]))


def test_what_is_kept_of_a_sender_has_whole_clocks_whatever_was_let_go_before():
    kept = KeptCast()
    kept.add(cast(1), [("t", 0, 1), ("u", 3, 9)])
    kept.add(cast(2), [("t", 0, 2)])
    kept.add(cast(4), [("t", 0, 3), ("t", 1, 1)])
    kept.release(1)
    assert (len(kept), kept.has(1), kept.has(3), kept.has(4)) == (2, True, False, True)
    clocks = [(one.serial, sorted(entries)) for one, entries in kept.with_whole_clocks()]
    assert clocks == [(2, [("t", 0, 2), ("u", 3, 9)]), (4, [("t", 0, 3), ("t", 1, 1), ("u", 3, 9)])]
    assert whole(clocks[0][1]) == (("t", (0, 2)), ("u", (3, 9)))


def test_a_cast_is_stable_when_all_its_receivers_have_it_or_are_gone():
    outbox = CastOutbox()
    first, second = outbox.begin(["a", "b"]), outbox.begin(["a"])
    outbox.sent(first, "a", 5)
    outbox.sent(second, "a", 6)
    outbox.sent(first, "b", 1)
    assert outbox.first_open == first
    assert outbox.arrived("a", 6)
    assert (outbox.first_open, outbox.missing()) == (first, {"b": 1})
    outbox.drop("b")
    assert not outbox
    assert outbox.first_open == second + 1
