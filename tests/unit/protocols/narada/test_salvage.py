"""What a repository makes of a store that has lost pairs: everything but what only they knew."""

import pytest

from holdfast.model.batches import Batch
from holdfast.model.errors import LocalMisuse
from holdfast.model.reliable import Entry
from holdfast.protocols.narada import Repository, RepositoryConfig
from holdfast.protocols.narada.chains import Place
from holdfast.protocols.narada.events import SKIPPED, catenation
from holdfast.protocols.narada.stream_state import RepositoryStream


def entry(first: int, publisher: str, number: int) -> Entry:
    return Entry(first, catenation(1, number), Batch(publisher, 1, "orders", 1, b"x"), 0)


def adopted(*entries: Entry) -> RepositoryStream:
    machine = Repository(RepositoryConfig("r1"), ["orders"], 7)
    machine.adopt("orders", entries)
    machine.check_invariants()
    return machine.streams["orders"].stream_state


def test_what_is_stored_is_known_again_and_numbers_go_on_behind_it():
    stream_state = adopted(entry(1, "alice", 1), entry(2, "bob", 1), entry(3, "alice", 2))
    assert stream_state.next == 4
    assert stream_state.chains["alice", 1].stored.prefix == 2
    assert stream_state.era == 7


def test_what_is_missing_gets_a_place_between_its_neighbours():
    stream_state = adopted(entry(1, "alice", 1), entry(2, "bob", 2), entry(5, "alice", 4), entry(7, "bob", 3))
    # Bob's first comes before 2 and there is nothing free: it was forgotten with the rest. Numbers 3, 4 and 6 are free.
    assert stream_state.chains["alice", 1].places == [Place(2, 3, 2)]
    assert stream_state.chains["bob", 1].places == []
    assert stream_state.chains["bob", 1].forgotten == 1
    assert [(row.first, row.last, row.kind) for row in stream_state.voids] == [(6, 6, SKIPPED)]


def test_who_must_be_earlier_gets_the_earlier_place():
    stream_state = adopted(entry(1, "alice", 1), entry(2, "bob", 1), entry(4, "bob", 3), entry(6, "alice", 3))
    assert stream_state.chains["bob", 1].places == [Place(2, 3, 1)]
    assert stream_state.chains["alice", 1].places == [Place(2, 5, 1)]


def test_a_life_that_the_pairs_tell_of_and_the_store_does_not_fit_is_refused():
    machine = Repository(RepositoryConfig("r1"), ["orders"], 7)
    machine.streams["orders"].stream_state.chain("alice", 1)
    with pytest.raises(LocalMisuse, match="It does not start"):
        machine.adopt("orders", [entry(1, "alice", 1), entry(5, "alice", 4)])
