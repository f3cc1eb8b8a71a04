"""One rule switched off at a time: a complete search, storms, or the story that is made for it, must find each.

A search through all orders of a small world needs no seed, and finds a mutant wherever the world is large enough for it
(`holdfast.simulation.exploring`). Storms are for mutants that need more: sessions that end, brokers that join. The way
in which a mutant is found stands beside it.

Acknowledging in order and keeping the participants of cuts under way are two rules for one danger: either is enough
(see `casts.changing_participants`), and only without both something goes wrong.
"""

from collections import deque
from collections.abc import Callable, Iterable
from random import Random

import pytest

from holdfast.model.batches import Batch
from holdfast.model.costs import cost_bytes
from holdfast.model.messages import Confirm, Data, Frame, Hello, Interest, Publish, Refusal, SessionMessage, TotalAck
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.confirmations import Confirmations
from holdfast.protocols.edges import Phase
from holdfast.protocols.ginger import GingerBroker
from holdfast.protocols.ginger.broker import _Held
from holdfast.protocols.ginger.cuts import ROOT, Cut, CutMap
from holdfast.protocols.interests import InterestMap, _Announcement, _Request
from holdfast.protocols.links import Link
from holdfast.simulation import faults
from holdfast.simulation.exploring.plans import Plan
from holdfast.simulation.exploring.search import Bounds
from holdfast.simulation.exploring.tasks import search
from holdfast.simulation.exploring.worlds import Budget
from tests.support import casts, interleavings
from tests.support.interleavings import Stuck, World
from tests.support.storms import MakeBroker, Storm, Weather, coming_and_going, crossing, mixed, shifting

# -------------------------------------------------------------------------------------------------- mutants of brokers


class NothingWaits(GingerBroker):
    """A cut never closes."""

    def _cut_off(self, peer: str, batch: Batch) -> bool:  # noqa: ARG002
        return False


class ClosesAtTheMarker(GingerBroker):
    """What enters waits from the marker on, at the root too."""

    def _cut_off(self, peer: str, batch: Batch) -> bool:
        return any(not cut.includes(peer) for cut in self.cuts.on(batch.topic, batch.key_set()))


class HoldsTheMessageAlone(GingerBroker):
    """Behind what waits, other messages of the same peer go on."""

    def _take(self, link: Link, message: SessionMessage, arrived: SessionMessage) -> None:
        if self._must_wait(link.peer, message):
            self._lanes.setdefault(link.peer, deque()).append(_Held(link, message, arrived))
        else:
            self._consumed(link, arrived)
            self._handle(link, message)


class ImpatientPublisher(GingerBroker):
    """A publisher's later messages do not wait for its total batch."""

    def _must_wait(self, peer: str, message: SessionMessage) -> bool:
        under_way, self._under_way = self._under_way, {}
        try:
            return super()._must_wait(peer, message)
        finally:
            self._under_way = under_way


class HastyReceipts(GingerBroker):
    """A question for a receipt overtakes the total batch that it may be about."""

    def _must_wait(self, peer: str, message: SessionMessage) -> bool:
        return not isinstance(message, Confirm) and super()._must_wait(peer, message)


class ServesBeforeItKnows(GingerBroker):
    """A broker admits clients and children before it has heard what is wanted."""

    def admit(self, hello: Hello) -> Refusal | None:
        return None if self.phase is Phase.JOINING else super().admit(hello)


class KeepsOldRequests(GingerBroker):
    """What a session asked for is carried out after its end."""

    def _thin_out(self, peer: str) -> None:
        pass


class ForgetsOldPublications(GingerBroker):
    """What a session published and what waits is dropped with it."""

    def _thin_out(self, peer: str) -> None:
        self._lanes.pop(peer, None)


class CountsLate(GingerBroker):
    """The numbers of a publication are used when it goes on, not when it arrives."""

    def _accepted(self, client: str, message: Publish) -> Publish | None:  # noqa: ARG002
        return message

    def _handle(self, link: Link, message: SessionMessage) -> None:
        if isinstance(message, Publish) and link.kind == "client":
            accepted = super()._accepted(link.peer, message)
            if accepted is None:
                return
            message = accepted
        super()._handle(link, message)


# ----------------------------------------------------------------------------------------------------- mutants of cuts


def with_cuts(kind: type[CutMap]) -> MakeBroker:
    def make(config: BrokerConfig, incarnation: int) -> GingerBroker:
        broker = GingerBroker(config, incarnation)
        broker.cuts = kind(broker, broker.interests, broker._send)
        return broker

    return make


class AcknowledgesInAnyOrder(CutMap):
    def _acknowledge(self) -> None:
        for cut in self._cuts.values():
            if not cut.closed and not cut.awaiting and cut.source != ROOT:
                cut.closed = True
                self._send(cut.source, TotalAck(*cut.batch_id))


class ForgetsParticipants(CutMap):
    """A new cut has those who want its topic now."""

    def _inside(self, topic: str) -> dict[str, None]:
        cuts, self._cuts = self._cuts, {}
        try:
            return super()._inside(topic)
        finally:
            self._cuts = cuts


class NeitherRule(AcknowledgesInAnyOrder, ForgetsParticipants):
    pass


class AcknowledgesTheMarker(CutMap):
    """A broker acknowledges without waiting for those below."""

    def _start(self, cut: Cut) -> None:
        super()._start(cut)
        if cut.source != ROOT and not cut.closed:
            cut.closed = True
            self._send(cut.source, TotalAck(*cut.batch_id))


class StaysRoot(CutMap):
    """A batch that waits at a root which is one no longer is started there all the same."""

    _stays = False

    def _pump_once(self) -> None:
        self._stays = True
        super()._pump_once()
        self._stays = False

    def _start(self, cut: Cut) -> None:
        self._stays = False
        super()._start(cut)
        self._stays = True

    def next_hop(self, topic: str) -> str | None:
        return ROOT if self._stays else super().next_hop(topic)


class WaitsForTheDeparted(CutMap):
    def drop(self, peer: str) -> None:  # noqa: ARG002
        self.pump()


# ------------------------------------------------------------------------------------------------ mutants of interests


def with_interests(kind: type[InterestMap], asks: type[Confirmations] = Confirmations) -> MakeBroker:
    def make(config: BrokerConfig, incarnation: int) -> GingerBroker:
        broker = GingerBroker(config, incarnation)
        broker.interests = kind(broker._send)
        broker.cuts = CutMap(broker, broker.interests, broker._send)
        broker.confirmations = asks(broker._send)
        return broker

    return make


class ConfirmsAtOnce(InterestMap):
    @staticmethod
    def _await(announcement: _Announcement, request: _Request) -> None:
        """Nobody is waited for."""


class LearnsNothing(InterestMap):
    def learn(self, peer: str, entries: Iterable[Interest]) -> None:
        """What a newcomer is told goes in at one ear."""


class AnswersTheNextSession(InterestMap):
    def drop(self, source: str) -> None:
        asked = {id(one): list(one.waiters) for one in self._open.values()}
        super().drop(source)
        for announcement in self._open.values():
            announcement.waiters = asked.get(id(announcement), announcement.waiters)


class ReceiptsForTheNextSession(Confirmations):
    def forget_source(self, source: str) -> None:
        """The question outlives its session."""


# -------------------------------------------------------------------------------------------------- who finds what

Story = Callable[[MakeBroker], World]
Climate = Callable[[Random], Weather]
SEEDS = 100
"""How many storms may pass before each mutant is found; the worst of them takes 35."""

THREE_IN_A_ROW = Plan(
    "0-1 1-2",
    scripts={
        "a@0": (
            faults.Subscribe("a", "t"),
            faults.Publish("a", "t", b"1", "total", ("k",)),
            faults.Publish("a", "t", b"2", "causal", ("j",)),
        ),
        "b@2": (
            faults.Subscribe("b", "t"),
            faults.Publish("b", "t", b"3", "causal", ("k",)),
            faults.Publish("b", "t", b"4", "causal", ("j",)),
        ),
    },
)
TWO_MESSAGES = Plan(
    "0-1",
    scripts={
        "a@1": (faults.Publish("a", "t", b"1", "causal"), faults.Publish("a", "t", b"2", "causal")),
        "b@0": (faults.Subscribe("b", "t"),),
    },
)
A_RESET = Plan(
    "0-1",
    scripts={"a@1": (faults.Publish("a", "t", b"1", "causal"),), "b@0": (faults.Subscribe("b", "t"),)},
    budget=Budget(resets=1),
)

BY_SEARCH = [
    pytest.param(NothingWaits, THREE_IN_A_ROW, " total", id="nothing waits at a cut"),
    pytest.param(HoldsTheMessageAlone, THREE_IN_A_ROW, " fifo", id="messages wait, links do not"),
    pytest.param(ImpatientPublisher, THREE_IN_A_ROW, " fifo", id="publishers do not wait for their total batches"),
    pytest.param(with_cuts(AcknowledgesTheMarker), THREE_IN_A_ROW, " total", id="markers are acknowledged at once"),
    pytest.param(with_interests(ConfirmsAtOnce), TWO_MESSAGES, " lost", id="subscriptions are confirmed at once"),
]

BY_STORMS = [
    pytest.param(ClosesAtTheMarker, crossing, "waits for", id="cuts close at the marker"),
    pytest.param(ServesBeforeItKnows, mixed, "lost", id="brokers serve before they know"),
    pytest.param(ForgetsOldPublications, coming_and_going, "lost", id="publications die with their session"),
    pytest.param(with_cuts(StaysRoot), shifting, "waits for", id="roots stay where they were"),
    pytest.param(with_interests(LearnsNothing), mixed, "lost", id="newcomers learn nothing"),
]

BY_STORIES = [
    pytest.param(
        with_cuts(AcknowledgesInAnyOrder),
        casts.crossed_cuts,
        "waits for acknowledgements",
        id="cuts are acknowledged in any order",
    ),
    pytest.param(
        with_cuts(NeitherRule),
        casts.changing_participants,
        "waits for acknowledgements",
        id="cuts are acknowledged in any order and forget their participants",
    ),
    pytest.param(
        with_cuts(WaitsForTheDeparted),
        casts.leaf_leaves_a_cut,
        "waits for acknowledgements of e",
        id="cuts wait for the departed",
    ),
    pytest.param(HastyReceipts, casts.receipt_of_a_total_batch, "was confirmed", id="receipts do not wait"),
    pytest.param(CountsLate, casts.number_in_a_lane, "published twice", id="numbers are used late"),
    pytest.param(KeepsOldRequests, casts.request_in_a_lane, "which is gone", id="requests outlive their session"),
    pytest.param(
        with_interests(AnswersTheNextSession, ReceiptsForTheNextSession),
        casts.answer_of_the_last_session,
        "lost",
        id="answers go to the next session",
    ),
]


def found_by_storm(make: MakeBroker, climate: Climate, seed: int) -> list[str]:
    storm = Storm(seed, make, climate=climate)
    try:
        storm.blow()
    except Stuck as stuck:
        return [str(stuck)]
    except AssertionError as broken:
        return [str(broken)]
    return storm.complaints()


def first_find(make: MakeBroker, climate: Climate, seeds: int) -> str:
    """What the first storm says that finds something."""
    return next(("\n".join(found) for seed in range(seeds) if (found := found_by_storm(make, climate, seed))), "")


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch):
    """A mutant that never comes to rest is found out early."""
    monkeypatch.setattr(interleavings, "MOVES_MAX", 20_000)


def found_by_search(make: MakeBroker, plan: Plan) -> str:
    return search(plan, Bounds(states_max=20_000, shortest=False), make=make).finding


@pytest.mark.parametrize(("make", "plan", "finding"), BY_SEARCH)
def test_a_search_finds_a_broker_without_a_rule(make: MakeBroker, plan: Plan, finding: str):
    assert finding in found_by_search(make, plan)


@pytest.mark.parametrize("plan", [TWO_MESSAGES, A_RESET], ids=["two messages", "a reset"])
def test_a_search_finds_nothing_where_every_rule_is_kept(plan: Plan):
    assert search(plan).verdict() == "all states, no violation"


@pytest.mark.parametrize(("make", "climate", "finding"), BY_STORMS)
def test_storms_find_a_broker_without_a_rule(make: MakeBroker, climate: Climate, finding: str):
    assert finding in first_find(make, climate, SEEDS)


@pytest.mark.parametrize(("make", "story", "finding"), BY_STORIES)
def test_a_story_finds_a_broker_without_a_rule(make: MakeBroker, story: Story, finding: str):
    assert finding in "\n".join(casts.complaints(story(make)))


def test_a_cut_that_forgets_its_participants_is_saved_by_acknowledging_in_order():
    assert casts.complaints(casts.changing_participants(with_cuts(ForgetsParticipants))) == []


# ----------------------------------------------------------------------------------------------------- mutants of links


def _unchecked(_: Link) -> None:
    """These links break their own invariants."""


def test_links_that_do_not_send_again_are_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Link, "_wait_again", lambda link: link.sent.clear())
    monkeypatch.setattr(Link, "check_invariants", _unchecked)
    assert found_by_search(GingerBroker, A_RESET)


def test_links_that_neither_trim_nor_tell_repeats_are_found(monkeypatch: pytest.MonkeyPatch):
    """Resumption sends what the peer lacks; a repeat is told by its number. Without both, messages come twice."""
    opened = Link.open

    def forgetful(link: Link, received: int, credit: int, now: float) -> list[Frame]:
        return opened(link, link.acked if received <= link.queued else received, credit, now)

    def gullible(link: Link, data: Data) -> SessionMessage | None:
        link.received = max(link.received, data.seq)
        link.received_bytes += cost_bytes(data.message)
        return data.message

    monkeypatch.setattr(Link, "open", forgetful)
    assert found_by_search(GingerBroker, A_RESET) == ""
    monkeypatch.setattr(Link, "on_data", gullible)
    monkeypatch.setattr(Link, "check_invariants", _unchecked)
    assert "duplicated" in found_by_search(GingerBroker, A_RESET)
