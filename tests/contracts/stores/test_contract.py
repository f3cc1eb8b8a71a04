"""What every store does, sentence by sentence."""

from collections.abc import Callable, Iterator

import pytest

from holdfast.model.reliable import LEVELS, Level
from holdfast.storage.stores import Store, StoreError
from tests.contracts.stores.places import Place
from tests.support.entries import entry, payloads

EVERYTHING = 1 << 40


def stored(store: Store, *entries, level: Level = Level.WRITTEN):
    store.append("orders", entries)
    store.commit(level)


def now_and_later(store: Store, place: Place) -> Iterator[Store]:
    """The store as it is, and when it was opened again."""
    yield store
    yield place.open()


@pytest.mark.parametrize("level", LEVELS)
def test_what_was_committed_is_there_after_it_was_opened_again(place: Place, level: Level):
    one = entry(1, payloads=[b"a", b"bb"], time_ns=7)
    with place.open() as store:
        stored(store, one, level=level)
        store.put("key", b"value")
        store.commit(level)
    store = place.open()
    assert store.read("orders", 1, 9, EVERYTHING) == [one]
    assert store.streams() == ["orders"]
    assert store.bounds("orders") == (1, 3)
    assert list(store.items()) == [("key", b"value")]
    assert store.verify() == []


def test_what_was_not_committed_is_neither_shown_nor_kept(place: Place):
    store = place.open()
    store.append("orders", [entry(1)])
    store.put("key", b"value")
    assert store.read("orders", 1, 9, EVERYTHING) == []
    assert store.bounds("orders") == (1, 1)
    store = place.open()
    assert store.streams() == []
    assert list(store.items()) == []


def test_of_a_stream_that_nobody_wrote_there_is_nothing(store: Store):
    assert store.read("orders", 1, 9, EVERYTHING) == []
    assert store.by_identity("orders", "alice", 1, 9, EVERYTHING) == []
    assert store.bounds("orders") == (1, 1)
    assert store.at_time("orders", 0) == 1
    store.forget("orders", 5)
    store.commit(Level.FSYNCED)
    assert store.streams() == []


def test_a_range_is_cut_out_of_the_entries_that_hold_it(store: Store):
    stored(store, entry(1, payloads=[b"a", b"b", b"c"]), entry(4, cat=4, payloads=[b"d", b"e"]))
    found = store.read("orders", 2, 4, EVERYTHING)
    assert [(one.first, one.cat, one.count) for one in found] == [(2, 2, 2), (4, 4, 1)]
    assert payloads(found) == [b"b", b"c", b"d"]


def test_a_read_ends_with_the_entry_that_is_enough(store: Store):
    stored(store, *(entry(number, cat=number, payloads=[b"x" * 10]) for number in range(1, 101)))
    assert len(store.read("orders", 1, 100, 25)) == 3
    assert len(store.read("orders", 1, 100, 1)) == 1
    assert len(store.read("orders", 1, 100, 0)) == 1
    assert len(store.read("orders", 1, 100, EVERYTHING)) == 100
    assert len(store.by_identity("orders", "alice", 5, 100, 500)) == 50


def test_a_place_is_filled_later(store: Store):
    stored(store, entry(1, cat=1), entry(5, cat=5, payloads=[b"e"]))
    stored(store, entry(2, cat=2, payloads=[b"b", b"c", b"d"]))
    assert payloads(store.read("orders", 1, 9, EVERYTHING)) == [b"a", b"b", b"c", b"d", b"e"]
    assert store.bounds("orders") == (1, 6)


def test_messages_are_found_by_their_identity_in_its_order(store: Store):
    stored(store, entry(1, cat=1, payloads=[b"a1", b"a2"]), entry(3, publisher="bob", payloads=[b"b1"]))
    stored(store, entry(4, cat=5, payloads=[b"a5"]), entry(5, cat=3, payloads=[b"a3", b"a4"]))
    assert payloads(store.by_identity("orders", "alice", 2, 5, EVERYTHING)) == [b"a2", b"a3", b"a4", b"a5"]
    assert payloads(store.by_identity("orders", "bob", 1, 9, EVERYTHING)) == [b"b1"]
    assert store.by_identity("orders", "carol", 1, 9, EVERYTHING) == []


def test_a_sequence_number_is_given_once(store: Store):
    stored(store, entry(1, cat=1, payloads=[b"a", b"b"]), entry(5, cat=9))
    for taken in (entry(2, cat=20), entry(1, cat=20), entry(4, cat=20, payloads=[b"x", b"y"])):
        with pytest.raises(StoreError, match="sequence number"):
            store.append("orders", [taken])
    store.append("orders", [entry(3, cat=20)])
    with pytest.raises(StoreError, match="sequence number"):
        store.append("orders", [entry(3, cat=30)])


def test_a_message_is_stored_once(store: Store):
    stored(store, entry(1, cat=1, payloads=[b"a", b"b"]), entry(3, cat=5))
    for taken in (entry(10, cat=2), entry(10, cat=4, payloads=[b"x", b"y"])):
        with pytest.raises(StoreError, match="of alice already"):
            store.append("orders", [taken])
    store.append("orders", [entry(10, cat=3), entry(11, cat=2, publisher="bob")])
    with pytest.raises(StoreError, match="of alice already"):
        store.append("orders", [entry(12, cat=3)])


def test_what_was_stored_at_or_after_a_time_is_found(store: Store):
    stored(store, entry(1, cat=1, time_ns=100), entry(2, cat=2, time_ns=200), entry(5, cat=5, time_ns=300))
    assert [store.at_time("orders", time_ns) for time_ns in (0, 100, 101, 200, 300, 301)] == [1, 1, 2, 2, 5, 6]


def test_a_place_that_was_filled_late_counts_as_stored_late(store: Store):
    stored(store, entry(1, cat=1, time_ns=100), entry(3, cat=3, time_ns=200), entry(4, cat=4, time_ns=300))
    stored(store, entry(2, cat=2, time_ns=400))
    assert [store.at_time("orders", time_ns) for time_ns in (150, 250, 350, 450)] == [2, 2, 2, 5]


def test_a_clock_that_goes_back_hides_nothing(store: Store):
    stored(store, entry(1, cat=1, time_ns=500), entry(2, cat=2, time_ns=100), entry(3, cat=3, time_ns=600))
    assert [store.at_time("orders", time_ns) for time_ns in (50, 200, 550, 601)] == [1, 1, 3, 4]


def test_what_is_forgotten_is_gone_and_its_numbers_stay_used(place: Place):
    store = place.open()
    stored(store, entry(1, payloads=[b"a", b"b", b"c"]), entry(4, cat=4))
    store.forget("orders", 3)
    store.commit(Level.FSYNCED)
    for again in now_and_later(store, place):
        assert payloads(again.read("orders", 1, 9, EVERYTHING)) == [b"c", b"a"]
        assert payloads(again.by_identity("orders", "alice", 1, 9, EVERYTHING)) == [b"c", b"a"]
        assert again.bounds("orders") == (3, 5)
        assert again.at_time("orders", 0) == 3


def test_a_stream_may_be_forgotten_altogether_and_goes_on(place: Place):
    store = place.open()
    stored(store, entry(1, payloads=[b"a", b"b"]))
    store.forget("orders", 99)
    store.commit(Level.WRITTEN)
    assert store.bounds("orders") == (3, 3)
    store = place.open()
    assert store.bounds("orders") == (3, 3)
    stored(store, entry(3, cat=3))
    assert payloads(store.read("orders", 1, 9, EVERYTHING)) == [b"a"]
    assert (store.info("orders").messages, store.verify()) == (1, [])


def test_what_fills_a_place_that_was_forgotten_is_left_out(store: Store):
    stored(store, entry(1, cat=1), entry(9, cat=9))
    store.forget("orders", 5)
    store.commit(Level.WRITTEN)
    stored(store, entry(2, cat=2), entry(4, cat=4, payloads=[b"x", b"y"]))
    assert [(one.first, one.cat) for one in store.read("orders", 1, 9, EVERYTHING)] == [(5, 5), (9, 9)]


def test_retention_by_age_forgets_what_is_older(store: Store):
    stored(store, *(entry(number, cat=number, time_ns=number * 10) for number in range(1, 11)))
    assert store.retain("orders", now_ns=110, age_ns=50) == 6
    store.commit(Level.WRITTEN)
    assert store.bounds("orders") == (6, 11)
    assert store.retain("orders", now_ns=1000, age_ns=1) == 11


def test_retention_by_size_forgets_the_oldest(store: Store):
    stored(store, *(entry(number, cat=number, payloads=[bytes(1000)]) for number in range(1, 11)))
    assert store.retain("orders", now_ns=0, bytes_max=store.info("orders").bytes) == 1
    assert store.retain("orders", now_ns=0, bytes_max=5500) == 6
    store.commit(Level.WRITTEN)
    assert store.info("orders").messages == 5
    assert store.info("orders").bytes <= 5500
    assert store.retain("orders", now_ns=0, bytes_max=0) == 11


def test_pairs_are_replaced_erased_and_found_by_how_they_begin(place: Place):
    store = place.open()
    for key, value in (("a/1", b"1"), ("a/2", b"2"), ("b", b"3"), ("a%", b"4")):
        store.put(key, value)
    store.commit(Level.WRITTEN)
    store.put("a/1", b"one")
    store.put("b", b"")
    store.commit(Level.WRITTEN)
    assert list(store.items("a/")) == [("a/1", b"one"), ("a/2", b"2")]
    assert list(place.open().items()) == [("a%", b"4"), ("a/1", b"one"), ("a/2", b"2")]


def test_streams_do_not_see_each_other(store: Store):
    store.append("orders", [entry(1)])
    store.append("bank/#", [entry(1, payloads=[b"b"])])
    store.commit(Level.WRITTEN)
    assert store.streams() == ["bank/#", "orders"]
    assert payloads(store.read("bank/#", 1, 9, EVERYTHING)) == [b"b"]


def test_compaction_changes_nothing_that_can_be_asked_for(place: Place):
    store = place.open()
    stored(store, *(entry(number, cat=number, payloads=[bytes(2000)]) for number in range(1, 101)))
    store.put("key", b"value")
    store.forget("orders", 91)
    store.commit(Level.FSYNCED)
    before = store.read("orders", 1, 200, EVERYTHING)
    store.compact()
    for again in now_and_later(store, place):
        assert again.read("orders", 1, 200, EVERYTHING) == before
        assert again.bounds("orders") == (91, 101)
        assert list(again.items()) == [("key", b"value")]
        assert again.verify() == []


def test_mending_fills_what_is_missing_and_touches_nothing_else(make_place: Callable[[], Place]):
    store, sibling = make_place().open(), make_place().open()
    whole = [entry(1, payloads=[b"a", b"b", b"c"]), entry(4, cat=4, payloads=[b"d", b"e"])]
    stored(sibling, *whole)
    stored(store, whole[0].part(2, 2), whole[1].part(5, 5))
    store.mend("orders", sibling.read("orders", 1, 9, EVERYTHING))
    store.commit(Level.FSYNCED)
    assert payloads(store.read("orders", 1, 9, EVERYTHING)) == [b"a", b"b", b"c", b"d", b"e"]
    store.mend("orders", whole)
    store.commit(Level.FSYNCED)
    assert (store.info("orders").messages, store.verify()) == (5, [])


def test_repairing_what_is_sound_changes_nothing(place: Place):
    store = place.open()
    stored(store, entry(1, payloads=[b"a", b"b"]), entry(4, cat=4))
    stored(store, entry(3, cat=3))
    before = store.read("orders", 1, 9, EVERYTHING)
    store.repair()
    for again in now_and_later(store, place):
        assert again.read("orders", 1, 9, EVERYTHING) == before
        assert (again.bounds("orders"), again.verify()) == ((1, 5), [])


def test_an_empty_commit_is_one(store: Store):
    store.commit(Level.WRITTEN)
    store.commit(Level.FSYNCED)
    assert store.streams() == []


def test_a_commit_that_is_refused_leaves_the_store_as_it_was(store: Store):
    stored(store, entry(1))
    with pytest.raises(StoreError):
        store.append("orders", [entry(2, cat=2), entry(2, cat=3)])
    store.commit(Level.WRITTEN)
    assert store.bounds("orders") == (1, 3)


@pytest.mark.parametrize("name", ["a\0b", "\\0", "\\", "ünï/☃", "x" * 128, "'; --", "100%s?"])
def test_whatever_a_publisher_a_stream_or_a_key_is_called_it_is_found(place: Place, name: str):
    store = place.open()
    store.append(name, [entry(1, publisher=name)])
    store.put(name, b"value")
    store.commit(Level.WRITTEN)
    for again in now_and_later(store, place):
        assert again.streams() == [name]
        assert [one.publisher for one in again.by_identity(name, name, 1, 1, EVERYTHING)] == [name]
        assert list(again.items(name)) == [(name, b"value")]
        assert again.verify() == []


def test_many_entries_in_one_commit_are_stored_as_few_are(place: Place):
    store = place.open()
    many = [entry(number, cat=number, payloads=[b"%d" % number], publisher="a\0b") for number in range(1, 701)]
    stored(store, *many)
    assert place.open().read("orders", 1, 1 << 70, EVERYTHING) == many
