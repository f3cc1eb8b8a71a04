"""A store in memory crashes as a machine would: what was not synced is lost, from the end."""

from holdfast.model.reliable import Level
from holdfast.storage.stores import MemoryStore
from tests.support.entries import entry, payloads


def test_a_crash_loses_what_was_not_synced():
    store = MemoryStore()
    store.append("orders", [entry(1, payloads=[b"a"])])
    store.commit(Level.FSYNCED)
    store.append("orders", [entry(2, cat=2, payloads=[b"b"])])
    store.put("key", b"value")
    store.commit(Level.WRITTEN)
    store.crash()
    assert payloads(store.read("orders", 1, 9, 99)) == [b"a"]
    assert list(store.items()) == []


def test_of_the_commits_that_were_not_synced_the_first_ones_may_survive():
    store = MemoryStore()
    for number in (1, 2, 3):
        store.append("orders", [entry(number, cat=number, payloads=[b"%d" % number])])
        store.commit(Level.MEMORY)
    assert store.unsynced == 3
    store.crash(surviving=2)
    assert payloads(store.read("orders", 1, 9, 99)) == [b"1", b"2"]
    assert store.unsynced == 0


def test_a_store_goes_on_after_a_crash_and_may_crash_again():
    store = MemoryStore()
    store.append("orders", [entry(1)])
    store.commit(Level.FSYNCED)
    store.crash()
    store.append("orders", [entry(2, cat=2)])
    store.commit(Level.WRITTEN)
    store.crash()
    assert store.bounds("orders") == (1, 2)
