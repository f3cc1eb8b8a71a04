"""Cuts at one broker: requests, markers, acknowledgements and releases, as exact messages."""

import pytest

from holdfast.model.batches import Batch, make_batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import (
    SessionMessage,
    TotalAck,
    TotalMarker,
    TotalProcessed,
    TotalRequest,
)
from holdfast.protocols.ginger.cuts import ROOT, BatchId, CutMap
from holdfast.protocols.interests import InterestMap

Happened = tuple[object, ...]


def total(publisher: str, first: int = 1, topic: str = "t", keys: tuple[str, ...] = ("k",)) -> Batch:
    return make_batch(publisher, first, topic, TOTAL, [b"x"], [keys])


def marker(batch: Batch) -> TotalMarker:
    return TotalMarker(batch.publisher, batch.first, batch.topic, tuple(batch.key_set()))


def ack(batch: Batch) -> TotalAck:
    return TotalAck(batch.publisher, batch.first)


def processed(batch: Batch, with_it: bool = True) -> TotalProcessed:
    return TotalProcessed(batch.publisher, batch.first, batch if with_it else None)


class Desk:
    """The cuts of a broker with these neighbours, and everything that they did, in order."""

    def __init__(self, parent: str | None = None, children: tuple[str, ...] = ()) -> None:
        self.parent = parent
        self.happened: list[Happened] = []
        self.interests = InterestMap(self._send)
        for peer in ((parent,) if parent else ()) + children:
            self.interests.join(peer, tell=False)
        self.cuts = CutMap(self, self.interests, self._send)

    def _send(self, peer: str, message: SessionMessage) -> None:
        self.happened.append((peer, message))

    def want(self, *peers: str, topic: str = "t") -> "Desk":
        for peer in peers:
            self.interests.table.add(topic, "", peer)
        return self

    def want_no_more(self, *peers: str, topic: str = "t") -> None:
        for peer in peers:
            self.interests.table.remove(topic, "", peer)
        self.cuts.pump()

    def take(self) -> list[Happened]:
        happened = list(self.happened)
        self.happened.clear()
        self.cuts.check_invariants()
        return happened

    # ---- what the cuts ask of their broker

    def deliver_total(self, batch: Batch, source: str) -> None:
        self.happened.append(("deliver", batch, source))

    def total_done(self, client: str, batch_id: BatchId) -> None:
        self.happened.append(("done", client, batch_id))

    def cut_ended(self) -> None:
        self.happened.append(("ended",))


def markers(happened: list[Happened]) -> list[object]:
    return [thing for one in happened for thing in one if isinstance(thing, TotalMarker)]


M, N = total("alice"), total("bob")


# ------------------------------------------------------------------------------------------------ where a batch goes


def test_what_nobody_wants_is_done_at_once():
    desk = Desk()
    desk.cuts.request(M, "alice")
    assert desk.take() == [("done", "alice", ("alice", 1))]
    assert desk.cuts.idle()


@pytest.mark.parametrize(
    ("wanting", "hop"),
    [
        (("client",), ROOT),
        (("client", "c1"), ROOT),
        (("c1", "c2"), ROOT),
        (("c1",), "c1"),
        (("parent",), "parent"),
        (("parent", "c1"), "parent"),
        (("parent", "client"), "parent"),
        ((), None),
    ],
)
def test_a_total_batch_climbs_to_the_topmost_broker_of_its_topics_subtree(wanting: tuple[str, ...], hop: str | None):
    desk = Desk("parent", ("c1", "c2")).want(*wanting)
    assert desk.cuts.next_hop("t") == hop


def test_a_request_is_passed_on_and_its_publisher_told_when_it_is_done():
    desk = Desk("parent", ("c1",)).want("parent")
    desk.cuts.request(M, "c1")
    assert desk.take() == [("parent", TotalRequest(M))]
    desk.cuts.on_processed("parent", processed(M, with_it=False))
    assert desk.take() == [("c1", processed(M, with_it=False))]
    assert desk.cuts.idle()


# ------------------------------------------------------------------------------------------------------- at the root


def test_a_root_without_participants_delivers_at_once():
    desk = Desk().want("bob")
    desk.cuts.request(M, "alice")
    assert desk.take() == [("deliver", M, ROOT), ("done", "alice", ("alice", 1)), ("ended",)]


def test_a_root_releases_when_all_participants_have_acknowledged():
    desk = Desk(children=("c1", "c2", "c3")).want("c1", "c2", "bob")
    desk.cuts.request(M, "alice")
    assert desk.take() == [("c1", marker(M)), ("c2", marker(M))]
    [cut] = desk.cuts.on("t", ["k", "other"])
    assert not cut.closed
    assert list(cut.participants) == ["c1", "c2"]
    desk.cuts.on_ack("c1", ack(M))
    desk.cuts.on_ack("c3", ack(M))
    desk.cuts.on_ack("c1", ack(M))
    assert desk.take() == []
    desk.cuts.on_ack("c2", ack(M))
    assert desk.take() == [
        ("deliver", M, ROOT),
        ("c1", processed(M)),
        ("c2", processed(M)),
        ("done", "alice", ("alice", 1)),
        ("ended",),
    ]
    assert desk.cuts.on("t", ["k"]) == []


def test_batches_on_one_key_are_taken_one_at_a_time_in_order_of_arrival():
    desk = Desk(children=("c1", "c2")).want("c1", "c2")
    third = total("carol")
    for batch in (M, N, third):
        desk.cuts.request(batch, batch.publisher)
    assert desk.take() == [("c1", marker(M)), ("c2", marker(M))]
    for peer in ("c1", "c2"):
        desk.cuts.on_ack(peer, ack(M))
    assert desk.take()[-3:] == [("c1", marker(N)), ("c2", marker(N)), ("ended",)]


def test_keys_and_topics_that_do_not_conflict_do_not_wait_for_each_other():
    desk = Desk(children=("c1", "c2")).want("c1", "c2").want("c1", "c2", topic="u")
    batches = [M, total("bob", keys=("other",)), total("carol", topic="u")]
    for batch in batches:
        desk.cuts.request(batch, batch.publisher)
    assert desk.take() == [(peer, marker(batch)) for batch in batches for peer in ("c1", "c2")]


def test_a_batch_with_several_keys_takes_its_place_in_all_their_queues_at_once():
    desk = Desk(children=("c1", "c2")).want("c1", "c2")
    both, second = total("bob", keys=("k", "l")), total("carol", keys=("l",))
    for batch in (M, both, second):
        desk.cuts.request(batch, batch.publisher)
    # carol's key is free, but bob is before her in its queue.
    assert desk.take() == [("c1", marker(M)), ("c2", marker(M))]
    for batch, following in ((M, both), (both, second)):
        for peer in ("c1", "c2"):
            desk.cuts.on_ack(peer, ack(batch))
        assert markers(desk.take()) == [marker(following)] * 2


def test_a_key_that_is_named_twice_is_one_key():
    desk = Desk(children=("c1", "c2")).want("c1", "c2")
    batch = total("alice", keys=("k", "k"))
    desk.cuts.request(batch, "alice")
    assert desk.take()[0] == ("c1", marker(M))
    for peer in ("c1", "c2"):
        desk.cuts.on_ack(peer, ack(batch))
    assert desk.take()[-1] == ("ended",)
    assert desk.cuts.idle()


# ------------------------------------------------------------------------------------------------------ below the root


def test_a_broker_below_the_root_cuts_passes_the_marker_on_and_acknowledges_behind_its_participants():
    desk = Desk("parent", ("c1", "c2")).want("parent", "c1", "bob")
    desk.cuts.on_marker("parent", marker(M))
    assert desk.take() == [("c1", marker(M))]
    [cut] = desk.cuts.on("t", ["k"])
    closed = [cut.closed]
    desk.cuts.on_ack("c1", ack(M))
    assert desk.take() == [("parent", ack(M))]
    assert [*closed, cut.closed] == [False, True]
    assert (cut.source, list(cut.participants)) == ("parent", ["c1"])
    desk.cuts.on_processed("parent", processed(M))
    assert desk.take() == [("deliver", M, "parent"), ("c1", processed(M)), ("ended",)]


def test_a_broker_with_nobody_below_acknowledges_at_once():
    desk = Desk("parent", ("c1",)).want("parent", "bob")
    desk.cuts.on_marker("parent", marker(M))
    assert desk.take() == [("parent", ack(M))]


def test_a_participant_that_has_left_the_subtree_is_told_of_the_end_without_the_batch():
    desk = Desk("parent", ("c1",)).want("parent", "c1")
    desk.cuts.on_marker("parent", marker(M))
    desk.cuts.on_ack("c1", ack(M))
    desk.want_no_more("c1")
    desk.take()
    desk.cuts.on_processed("parent", processed(M))
    assert ("c1", processed(M, with_it=False)) in desk.take()


def test_who_joins_the_subtree_during_a_cut_is_not_in_it():
    desk = Desk("parent", ("c1", "c2")).want("parent", "c1")
    desk.cuts.on_marker("parent", marker(M))
    desk.want("c2")
    desk.cuts.on_ack("c1", ack(M))
    desk.take()
    desk.cuts.on_processed("parent", processed(M))
    assert desk.take() == [("deliver", M, "parent"), ("c1", processed(M)), ("ended",)]


def test_a_new_cut_of_the_topic_has_everybody_who_is_in_one_under_way():
    desk = Desk("parent", ("c1", "c2")).want("parent", "c1", "c2")
    other = total("bob", keys=("other",))
    desk.cuts.on_marker("parent", marker(M))
    desk.want_no_more("c1")
    desk.take()
    desk.cuts.on_marker("parent", marker(other))
    assert desk.take() == [("c2", marker(other)), ("c1", marker(other))]


def test_the_request_of_somebody_outside_the_cut_is_told_of_the_end_too():
    desk = Desk("parent", ("c1", "c2")).want("parent", "c1", "bob")
    desk.cuts.request(M, "c2")
    assert desk.take() == [("parent", TotalRequest(M))]
    desk.cuts.on_marker("parent", marker(M))
    desk.cuts.on_ack("c1", ack(M))
    desk.take()
    desk.cuts.on_processed("parent", processed(M))
    assert desk.take() == [
        ("deliver", M, "parent"),
        ("c1", processed(M)),
        ("c2", processed(M, with_it=False)),
        ("ended",),
    ]


# --------------------------------------------------------------------------------------------------- order of cuts


def test_a_cut_is_not_acknowledged_before_an_earlier_one_that_awaits_a_neighbour_outside_it():
    """Otherwise what c1 publishes on u would wait here, and its acknowledgement of t's cut behind it."""
    desk = Desk("parent", ("c1",)).want("parent", "c1").want("parent", "bob", topic="u")
    other = total("bob", topic="u")
    desk.cuts.on_marker("parent", marker(M))
    desk.cuts.on_marker("parent", marker(other))
    assert desk.take() == [("c1", marker(M))]
    assert desk.cuts.waiting_for()[-1] == "acknowledgements of earlier cuts for total batch bob#1 on u"
    desk.cuts.on_ack("c1", ack(M))
    assert desk.take() == [("parent", ack(M)), ("parent", ack(other))]


def test_a_cut_is_acknowledged_before_a_later_one_whatever_that_awaits():
    desk = Desk("parent", ("c1",)).want("parent", "c1").want("parent", "bob", topic="u")
    other = total("bob", topic="u")
    desk.cuts.on_marker("parent", marker(other))
    desk.cuts.on_marker("parent", marker(M))
    assert desk.take() == [("parent", ack(other)), ("c1", marker(M))]


def test_cuts_with_the_same_participants_are_acknowledged_as_they_complete():
    desk = Desk("parent", ("c1", "c2")).want("parent", "c1", "c2")
    other = total("bob", keys=("other",))
    desk.cuts.on_marker("parent", marker(M))
    desk.cuts.on_marker("parent", marker(other))
    desk.take()
    for peer in ("c1", "c2"):
        desk.cuts.on_ack(peer, ack(other))
    assert desk.take() == [("parent", ack(other))]


def test_a_cut_of_our_own_is_an_earlier_one_as_well():
    desk = Desk("parent", ("c1", "c2")).want("c1", "c2").want("parent", "bob", topic="u")
    other = total("bob", topic="u")
    desk.cuts.request(M, "alice")
    desk.cuts.on_marker("parent", marker(other))
    assert [peer for peer, *_ in desk.take()] == ["c1", "c2"]
    desk.cuts.on_ack("c1", ack(M))
    assert desk.take() == []
    desk.cuts.on_ack("c2", ack(M))
    assert desk.take()[-1] == ("parent", ack(other))


def test_markers_start_in_order_of_arrival():
    """Else two brokers could start two cuts in different order, and each wait for the other."""
    desk = Desk("parent", ("c1", "c2")).want("c1", "c2").want("parent", "c1", topic="u")
    first, second = total("bob"), total("carol", topic="u")
    desk.cuts.request(M, "alice")
    desk.take()
    desk.want("parent")
    desk.cuts.on_marker("parent", marker(first))
    desk.cuts.on_marker("parent", marker(second))
    assert desk.take() == []
    for peer in ("c1", "c2"):
        desk.cuts.on_ack(peer, ack(M))
    assert markers(desk.take()) == [marker(first), marker(first), marker(second)]


# ----------------------------------------------------------------------------------------------------- moving roots


def test_a_batch_that_waits_at_a_broker_which_is_the_root_no_longer_is_sent_on():
    desk = Desk("parent", ("c1", "c2")).want("c1", "c2")
    desk.cuts.request(M, "alice")
    desk.cuts.request(N, "c1")
    desk.take()
    desk.want("parent")
    desk.cuts.pump()
    assert desk.take() == [("parent", TotalRequest(N))]
    desk.cuts.on_processed("parent", processed(N, with_it=False))
    assert desk.take() == [("c1", processed(N, with_it=False))]


def test_a_batch_that_was_sent_on_and_comes_back_is_taken_here():
    desk = Desk("parent", ("c1", "c2")).want("parent", "c1", "c2")
    desk.cuts.request(M, "alice")
    assert desk.take() == [("parent", TotalRequest(M))]
    desk.want_no_more("parent")
    desk.cuts.request(M, "parent")
    assert desk.take() == [("c1", marker(M)), ("c2", marker(M))]
    for peer in ("c1", "c2"):
        desk.cuts.on_ack(peer, ack(M))
    assert desk.take()[-3:] == [("done", "alice", ("alice", 1)), ("parent", processed(M, with_it=False)), ("ended",)]


def test_a_marker_waits_for_our_own_cut_on_its_key():
    desk = Desk("parent", ("c1", "c2")).want("c1", "c2")
    desk.cuts.request(M, "alice")
    desk.want("parent")
    desk.cuts.on_marker("parent", marker(N))
    assert [message for _, message in desk.take()] == [marker(M), marker(M)]
    for peer in ("c1", "c2"):
        desk.cuts.on_ack(peer, ack(M))
    assert ("c1", marker(N)) in desk.take()


def test_a_batch_that_nobody_wants_any_more_is_done():
    desk = Desk(children=("c1", "c2")).want("c1", "c2")
    desk.cuts.request(M, "alice")
    desk.cuts.request(N, "bob")
    desk.take()
    desk.want_no_more("c1", "c2")
    assert desk.take() == [("done", "bob", ("bob", 1))]


# ------------------------------------------------------------------------------------------------------- departures


def test_nobody_waits_for_the_acknowledgement_of_a_neighbour_that_has_left():
    desk = Desk(children=("c1", "c2")).want("c1", "c2")
    desk.cuts.request(M, "alice")
    desk.cuts.on_ack("c1", ack(M))
    desk.take()
    desk.interests.drop("c2")
    desk.cuts.drop("c2")
    assert ("deliver", M, ROOT) in desk.take()
    assert desk.cuts.idle()


def test_what_was_asked_of_a_neighbour_that_has_left_is_asked_elsewhere():
    desk = Desk("parent", ("c1", "c2")).want("parent", "c1", "bob")
    desk.cuts.request(M, "alice")
    assert desk.take() == [("parent", TotalRequest(M))]
    desk.interests.drop("parent")
    desk.parent = None
    desk.cuts.drop("parent")
    assert desk.take() == [("c1", marker(M))]


def test_what_was_asked_of_the_only_one_who_wanted_it_is_done_when_that_one_has_left():
    desk = Desk(children=("c1", "c2")).want("c1")
    desk.cuts.request(M, "alice")
    assert desk.take() == [("c1", TotalRequest(M))]
    desk.interests.drop("c1")
    desk.cuts.drop("c1")
    assert desk.take() == [("done", "alice", ("alice", 1))]


def test_a_cut_whose_source_has_left_is_over():
    desk = Desk("parent", ("c1",)).want("parent", "c1", "bob")
    desk.cuts.on_marker("parent", marker(M))
    desk.take()
    desk.interests.drop("parent")
    desk.cuts.drop("parent")
    assert desk.take() == [("c1", processed(M, with_it=False)), ("ended",)]
    assert desk.cuts.idle()


def test_a_cut_that_ends_before_its_time_stands_in_nobodys_way():
    desk = Desk("parent", ("c1", "c2")).want("c1", "c2").want("parent", "bob", topic="u")
    desk.interests.join("old", tell=False)
    other = total("bob", topic="u")
    desk.cuts.on_marker("old", marker(M))
    desk.cuts.on_marker("parent", marker(other))
    assert markers(desk.take()) == [marker(M)] * 2
    desk.interests.drop("old")
    desk.cuts.drop("old")
    assert ("parent", ack(other)) in desk.take()


# -------------------------------------------------------------------------------------------------------- namesakes


def test_the_batch_of_a_second_publisher_of_the_same_name_waits_for_that_of_the_first():
    desk = Desk(children=("c1", "c2")).want("c1", "c2")
    desk.cuts.request(M, "c1")
    desk.cuts.request(total("alice", keys=("other",)), "c2")
    assert [message for _, message in desk.take()] == [marker(M), marker(M)]
    for peer in ("c1", "c2"):
        desk.cuts.on_ack(peer, ack(M))
    assert ("c1", marker(total("alice", keys=("other",)))) in desk.take()


def test_invariants_notice_a_cut_that_lost_its_key():
    desk = Desk(children=("c1", "c2")).want("c1", "c2")
    desk.cuts.request(M, "alice")
    desk.cuts._by_key.clear()
    with pytest.raises(AssertionError, match="lost a key"):
        desk.cuts.check_invariants()
