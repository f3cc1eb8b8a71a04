"""Climbs at one broker: what goes up, what turns, and who is told, as exact messages."""

import pytest

from holdfast.model.batches import Batch, make_batch
from holdfast.model.guarantees import CAUSAL, EVENTUAL, TOTAL
from holdfast.model.messages import Climb, SessionMessage, Turned
from holdfast.protocols.ginger.turning import Turning
from holdfast.protocols.interests import InterestMap

Happened = tuple[object, ...]


def batch(first: int = 1, guarantee: int = TOTAL, topic: str = "t", key: str = "k", publisher: str = "alice") -> Batch:
    return make_batch(publisher, first, topic, guarantee, [b"x"], [(key,)] if key else ())


class Desk:
    """The turning of a broker with these neighbours, and everything that it did, in order."""

    def __init__(self, parent: str | None = None, children: tuple[str, ...] = ()) -> None:
        self.parent = parent
        self.happened: list[Happened] = []
        self.interests = InterestMap(self._send)
        for peer in ((parent,) if parent else ()) + children:
            self.interests.join(peer, tell=False)
        self.turning = Turning(self, self.interests, self._send)

    def _send(self, peer: str, message: SessionMessage) -> None:
        self.happened.append((peer, message))

    def want(self, *peers: str, topic: str = "t") -> "Desk":
        for peer in peers:
            self.interests.table.add(topic, "", peer)
        return self

    def take(self) -> list[Happened]:
        happened = list(self.happened)
        self.happened.clear()
        self.turning.check_invariants()
        return happened

    # ---- what turning asks of its broker

    def spread_turned(self, batch: Batch, came_from: str) -> None:
        self.happened.append(("spread", batch, came_from))

    def has_turned(self, client: str) -> None:
        self.happened.append(("turned", client))


@pytest.mark.parametrize("guarantee", [EVENTUAL, CAUSAL, TOTAL])
@pytest.mark.parametrize(
    ("wanting", "up"),
    [
        (("parent",), True),
        (("parent", "c1"), True),
        (("parent", "client"), True),
        (("client",), False),
        (("c1", "c2"), False),
        (("c1",), False),
        ((), False),
    ],
)
def test_a_message_with_keys_goes_up_while_somebody_above_wants_its_topic(
    wanting: tuple[str, ...], up: bool, guarantee: int
):
    desk = Desk("parent", ("c1", "c2")).want(*wanting)
    assert desk.turning.goes_up(batch(guarantee=guarantee)) is up


def test_a_message_without_keys_goes_nowhere_by_itself():
    desk = Desk("parent").want("parent", "client")
    assert not desk.turning.goes_up(batch(guarantee=CAUSAL, key=""))


@pytest.mark.parametrize("guarantee", [EVENTUAL, CAUSAL])
def test_behind_what_went_up_everything_of_its_publisher_goes_up(guarantee: int):
    desk = Desk("parent").want("parent").want("client", topic="u")
    follower = batch(2, guarantee, topic="u", key="")
    desk.turning.enter(batch(), "alice")
    assert desk.turning.goes_up(follower)
    assert not desk.turning.goes_up(batch(1, guarantee, topic="u", key="", publisher="bob"))
    desk.turning.enter(follower, "alice")
    assert desk.take() == [("parent", Climb(batch())), ("parent", Climb(follower))]
    # The first has turned, and the second is further up still.
    desk.turning.on_turned("alice", 1)
    assert desk.turning.goes_up(batch(3, guarantee, topic="u", key=""))
    desk.turning.on_turned("alice", 2)
    assert not desk.turning.goes_up(batch(3, guarantee, topic="u", key=""))


def test_at_the_top_a_batch_turns_and_those_who_sent_it_up_and_get_no_copy_are_told_behind_it():
    desk = Desk("parent", ("c1", "c2")).want("c2", "client")
    desk.turning.enter(batch(), "c1")
    assert desk.take() == [("spread", batch(), "c1"), ("c1", Turned("alice", 1))]
    assert desk.turning.idle()


def test_a_copy_says_that_the_batch_has_turned():
    desk = Desk("parent", ("c1", "c2")).want("c1", "c2")
    desk.turning.enter(batch(), "c1")
    assert desk.take() == [("spread", batch(), "c1")]


def test_above_the_top_a_batch_is_passed_down_as_it_is():
    desk = Desk("parent", ("c1", "c2")).want("c2")
    desk.turning.enter(batch(), "c1")
    assert desk.take() == [("spread", batch(), "c1"), ("c1", Turned("alice", 1))]


def test_that_a_batch_has_turned_walks_back_down():
    desk = Desk("parent", ("c1",)).want("parent")
    desk.turning.enter(batch(), "c1")
    desk.turning.enter(batch(1, publisher="bob"), "bob")
    desk.take()
    desk.turning.on_turned("alice", 1)
    assert desk.take() == [("c1", Turned("alice", 1))]
    desk.turning.on_turned("bob", 1)
    assert desk.take() == [("turned", "bob")]
    assert desk.turning.idle()


def test_a_copy_from_above_ends_the_climb_and_tells_those_below_who_get_none():
    desk = Desk("parent", ("c1", "c2")).want("parent", "c2")
    desk.turning.enter(batch(), "c1")
    desk.turning.enter(batch(1, publisher="bob"), "c2")
    desk.take()
    desk.turning.passed(batch())
    desk.turning.passed(batch(1, publisher="bob"))
    assert desk.take() == [("c1", Turned("alice", 1))]
    assert desk.turning.idle()


def test_what_a_parent_that_leaves_has_not_taken_turns_here_in_order():
    desk = Desk("parent", ("c1",)).want("parent", "c1")
    desk.turning.enter(batch(1), "alice")
    desk.turning.enter(batch(2, CAUSAL, key=""), "alice")
    desk.take()
    desk.interests.drop("parent")
    desk.turning.drop("parent")
    assert [one[:2] for one in desk.take() if one[0] == "spread"] == [
        ("spread", batch(1)),
        ("spread", batch(2, CAUSAL, key="")),
    ]


def test_what_has_not_turned_is_said_in_words():
    desk = Desk("parent").want("parent")
    for first in (1, 2, 3):
        desk.turning.enter(batch(first), "alice")
    assert desk.turning.waiting_for() == ["3 messages of alice, which went up to parent and have not turned"]
    assert desk.turning.has_climbing("alice", 1)
    assert not desk.turning.has_climbing("bob", 1)
