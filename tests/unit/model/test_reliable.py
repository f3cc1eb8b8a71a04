"""Entries: batches with their two numbers, and how they are cut."""

from holdfast.model.batches import make_batch
from holdfast.model.reliable import LEVELS, Entry, Level


def entry():
    batch = make_batch("alice", 41, "bank/orders", 2, [b"a", b"bb", b"ccc", b"dddd"])
    return Entry(first=10, cat=3, batch=batch, time_ns=77)


def test_a_part_keeps_each_message_under_its_three_numbers():
    part = entry().part(11, 12)
    assert (part.first, part.last, part.cat, part.cat_last, part.batch.first) == (11, 12, 4, 5, 42)
    assert part.batch.payload_list() == [b"bb", b"ccc"]
    assert part.time_ns == 77


def test_a_part_may_be_asked_for_by_catenation_numbers():
    assert entry().cat_part(4, 5) == entry().part(11, 12)


def test_a_part_that_reaches_beyond_is_the_whole():
    whole = entry()
    assert whole.part(1, 99) is whole


def test_an_entry_that_is_moved_keeps_its_identity():
    moved = entry().moved(100)
    assert (moved.first, moved.last, moved.cat, moved.publisher) == (100, 103, 3, "alice")
    assert moved.batch == entry().batch


def test_levels_are_ordered_from_memory_to_the_disk():
    assert [level.rank for level in LEVELS] == [0, 1, 2]
    assert LEVELS == (Level.MEMORY, Level.WRITTEN, Level.FSYNCED)
