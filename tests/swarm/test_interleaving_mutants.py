"""One rule switched off at a time: a complete search, storms, or the story that is made for it, must find each.

A search through all orders of a small world needs no seed, and finds a mutant wherever the world is large enough for it
(`holdfast.simulation.exploring`). Storms are for mutants that need more: sessions that end, brokers that join. The way
in which a mutant is found stands beside it.
"""

from collections.abc import Callable, Collection, Iterable
from random import Random

import pytest
from msgspec.structs import replace

from holdfast.model.batches import Batch
from holdfast.model.costs import cost_bytes
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import Confirm, Data, Frame, Hello, Interest, Publish, Refusal, SessionMessage, Turned
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.confirmations import Confirmations
from holdfast.protocols.edges import Phase
from holdfast.protocols.ginger import GingerBroker
from holdfast.protocols.ginger.turning import Turning
from holdfast.protocols.interests import InterestMap, _Announcement, _Request
from holdfast.protocols.links import Link
from holdfast.simulation import faults
from holdfast.simulation.exploring.plans import Plan
from holdfast.simulation.exploring.search import Bounds
from holdfast.simulation.exploring.tasks import search
from holdfast.simulation.exploring.worlds import Budget
from tests.support import casts, interleavings
from tests.support.interleavings import Stuck, World
from tests.support.storms import MakeBroker, Storm, Weather, mixed

# -------------------------------------------------------------------------------------------------- mutants of brokers


class HastyReceipts(GingerBroker):
    """A question for a receipt overtakes the message that it is about, which has not turned."""

    def _is_early(self, asked: Confirm) -> bool:  # noqa: ARG002
        return False


class ServesBeforeItKnows(GingerBroker):
    """A broker admits clients and children before it has heard what is wanted."""

    def admit(self, hello: Hello) -> Refusal | None:
        return None if self.phase is Phase.JOINING else super().admit(hello)


# -------------------------------------------------------------------------------------------------- mutants of turning


def with_turning(kind: type[Turning]) -> MakeBroker:
    def make(config: BrokerConfig, incarnation: int) -> GingerBroker:
        broker = GingerBroker(config, incarnation)
        broker.turning = kind(broker, broker.interests, broker._send)
        return broker

    return make


class TurnsAnywhere(Turning):
    """A message turns where it is published, wherever its subscribers are."""

    def _hop(self, batch: Batch) -> str | None:  # noqa: ARG002
        return None


class TotalsAloneClimb(Turning):
    """Weaker messages with keys spread from where they are published."""

    def _hop(self, batch: Batch) -> str | None:
        return super()._hop(batch) if batch.guarantee == TOTAL else None


class GoesPastWhatWentUp(Turning):
    """Behind what went up, other messages of its publisher spread at once."""

    def goes_up(self, batch: Batch) -> bool:
        return self._hop(batch) is not None


class TellsAtOnce(Turning):
    """A broker says that a message has turned when it has only gone further up."""

    def enter(self, batch: Batch, came_from: str) -> None:
        super().enter(batch, came_from)
        if came_from in self._interests.neighbours and batch.publisher in self._of:
            self._send(came_from, Turned(batch.publisher, batch.last))


class ForgetsToTell(Turning):
    """Nobody hears that a message has turned, unless by a copy of it."""

    def _tell(self, batch: Batch, sources: Iterable[str], told: Collection[str]) -> None:
        neighbours = self._interests.neighbours
        super()._tell(batch, [one for one in sources if one not in neighbours], told)


class NotBackDown(GingerBroker):
    """What turns does not go back by the link by which it came."""

    def spread_turned(self, batch: Batch, came_from: str) -> None:
        self._pass_on(Publish(batch), came_from)


# ------------------------------------------------------------------------------------------------ mutants of interests


def with_interests(kind: type[InterestMap], asks: type[Confirmations] = Confirmations) -> MakeBroker:
    def make(config: BrokerConfig, incarnation: int) -> GingerBroker:
        broker = GingerBroker(config, incarnation)
        broker.interests = kind(broker._send)
        broker.turning = Turning(broker, broker.interests, broker._send)
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
BEHIND_A_TOTAL = (faults.Publish("a", "t", b"1", "total", ("k",)), faults.Publish("a", "t", b"2", "causal"))
ONE_HOP = Plan(
    "0-1", scripts={"a@1": (faults.Subscribe("a", "t"), *BEHIND_A_TOTAL), "b@0": (faults.Subscribe("b", "t"),)}
)
TWO_HOPS = replace(ONE_HOP, tree="0-1 1-2", scripts={"a@2": ONE_HOP.scripts["a@1"], "b@0": ONE_HOP.scripts["b@0"]})
ONE_OF_TWO_HOPS = Plan("0-1 1-2", scripts={"a@2": BEHIND_A_TOTAL, "b@1": (faults.Subscribe("b", "t"),)})
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
    pytest.param(with_turning(TurnsAnywhere), THREE_IN_A_ROW, " total", id="messages turn anywhere"),
    pytest.param(with_turning(TotalsAloneClimb), THREE_IN_A_ROW, " total", id="weaker messages do not climb"),
    pytest.param(with_turning(GoesPastWhatWentUp), ONE_HOP, "fifo", id="messages go past what went up"),
    pytest.param(with_turning(TellsAtOnce), TWO_HOPS, "fifo", id="brokers tell too early what has turned"),
    pytest.param(with_turning(ForgetsToTell), ONE_OF_TWO_HOPS, "have not turned", id="brokers do not tell what turned"),
    pytest.param(NotBackDown, ONE_HOP, "have not turned", id="what turns does not go back down"),
    pytest.param(with_interests(ConfirmsAtOnce), TWO_MESSAGES, " lost", id="subscriptions are confirmed at once"),
]

BY_STORMS = [
    pytest.param(ServesBeforeItKnows, mixed, "lost", id="brokers serve before they know"),
    pytest.param(with_interests(LearnsNothing), mixed, "lost", id="newcomers learn nothing"),
]

BY_STORIES = [
    pytest.param(HastyReceipts, casts.receipt_of_a_total_batch, "was confirmed", id="receipts do not wait"),
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


@pytest.mark.parametrize(
    "plan",
    [TWO_MESSAGES, A_RESET, ONE_HOP, TWO_HOPS, ONE_OF_TWO_HOPS],
    ids=["two messages", "a reset", "one hop", "two hops", "one of two hops"],
)
def test_a_search_finds_nothing_where_every_rule_is_kept(plan: Plan):
    assert search(plan).verdict() == "all states, no violation"


@pytest.mark.parametrize(("make", "climate", "finding"), BY_STORMS)
def test_storms_find_a_broker_without_a_rule(make: MakeBroker, climate: Climate, finding: str):
    assert finding in first_find(make, climate, SEEDS)


@pytest.mark.parametrize(("make", "story", "finding"), BY_STORIES)
def test_a_story_finds_a_broker_without_a_rule(make: MakeBroker, story: Story, finding: str):
    assert finding in "\n".join(casts.complaints(story(make)))


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
