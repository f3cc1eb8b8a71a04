"""Worlds that are searched completely: what holds in every order, and what is found without any seed."""

import pytest

from holdfast.model.messages import Data, Frame, Levels, SubscribeAck
from holdfast.model.messages import Publish as PublishMessage
from holdfast.protocols.ginger import GingerBroker, LockingBroker
from holdfast.protocols.links import Link
from holdfast.protocols.node import Effects, Send, SetTimer
from holdfast.simulation.exploring.plans import BrokerFactory, Plan, small_plan
from holdfast.simulation.exploring.search import Bounds
from holdfast.simulation.exploring.tasks import search
from holdfast.simulation.exploring.worlds import Budget
from holdfast.simulation.faults import Publish, Subscribe
from tests.scenarios.test_partitions_literal import Settled
from tests.scenarios.test_repairs_literal import Claimant, Forgetful
from tests.support.parts import with_parts

BEHIND_A_TOTAL = Plan(
    "0-1",
    "ginger",
    0,
    {
        "a@1": (Subscribe("a", "t"), Publish("a", "t", b"1", "total", ("k",)), Publish("a", "t", b"2", "causal")),
        "b@0": (Subscribe("b", "t"),),
    },
)
A_LOSS_ON_THE_WAY = Plan(
    "P-B B-C",
    "ginger",
    1,
    {"w@C": (Publish("w", "t", b"1", "causal"),), "p@P": (Subscribe("p", "t"),)},
    Budget(crashes=1),
    ("B",),
)
A_LOST_ROOT = Plan(
    "0-1 0-2",
    "ginger",
    1,
    {"a@1": (Publish("a", "t", b"1", "causal"),), "b@2": (Subscribe("b", "t"),)},
    Budget(crashes=1),
    ("0",),
)


class TurnsAnywhere(GingerBroker):
    """Messages with keys turn where they are published."""

    def _publish(self, link: Link, message: PublishMessage) -> None:
        self._pass_on(message, link.peer)


class GoesPast(GingerBroker):
    """What is published behind a message that went up does not go up behind it."""

    def _publish(self, link: Link, message: PublishMessage) -> None:
        if message.batch.keys:
            super()._publish(link, message)
        else:
            self._pass_on(message, link.peer)


class Failing(GingerBroker):
    """A broker that raises at the second publication."""

    taken = 0

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:
        if isinstance(frame, Data) and isinstance(frame.message, PublishMessage):
            self.taken += 1
            if self.taken == 2:
                raise ValueError("two are too many")
        return super().receive(peer, frame, now)


class Wrong(GingerBroker):
    """A broker whose invariants do not hold once something climbs."""

    def check_invariants(self) -> None:
        super().check_invariants()
        assert self.turning.idle(), "something climbs"


MARK = Levels((7,), (7,))


class Echoing(GingerBroker):
    """A broker that answers a certain frame with the same one: between two of them that never stops."""

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:
        if frame == MARK:
            return self.marked(peer)
        begins = isinstance(frame, Data) and isinstance(frame.message, SubscribeAck)
        return [*super().receive(peer, frame, now), *(self.began(peer) if begins else [])]

    def began(self, peer: str) -> Effects:
        return [Send(peer, MARK)]

    def marked(self, peer: str) -> Effects:
        return [Send(peer, MARK)]


class Counting(Echoing):
    """The same, and no two of its states are alike."""

    marks = 0

    def marked(self, peer: str) -> Effects:
        self.marks += 1
        return super().marked(peer)


class Nagging(Echoing):
    """A broker that sends a frame every half a second, for ever."""

    def began(self, peer: str) -> Effects:
        return [SetTimer(f"nag {peer}", 0.5)]

    def marked(self, peer: str) -> Effects:  # noqa: ARG002 - a peer that only listens
        return []

    def timer(self, name: str, now: float) -> Effects:
        if not name.startswith("nag "):
            return super().timer(name, now)
        peer = name.removeprefix("nag ")
        return [Send(peer, MARK), *self.began(peer)]


class Deaf(GingerBroker):
    """A broker that never confirms a subscription."""

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:
        deaf = isinstance(frame, Data) and isinstance(frame.message, SubscribeAck)
        return [] if deaf else super().receive(peer, frame, now)


ONE_SUBSCRIPTION = Plan("0-1", "ginger", 0, {"b@1": (Subscribe("b", "t"),)})


@pytest.mark.parametrize(
    ("make", "finding"),
    [
        (Echoing, "the same state comes again after 2 steps"),
        (Counting, "1,000 steps at one moment bring nothing to anybody"),
        (Nagging, "frames go round, though nobody waits for anything"),
        (Deaf, "does not come to rest: 1 waits for"),
    ],
)
def test_what_never_comes_to_rest_is_found(make: BrokerFactory, finding: str):
    assert finding in search(ONE_SUBSCRIPTION, make=make).finding


@pytest.mark.parametrize(
    "plan",
    [
        small_plan("ginger", 2, 2, 2),
        small_plan("ginger", 3, 2, 2),
        BEHIND_A_TOTAL,
        small_plan("locamu", 2, 2, 2),
        small_plan("cbcast", 2, 2, 2),
        small_plan("barriers", 3, 2, 2),
        small_plan("delta-neighbourhood", 2, 2, 2),
        small_plan("delta", 2, 2, 2),
    ],
    ids=["ginger", "three", "behind a total", "locamu", "cbcast", "barriers", "delta-neighbourhood", "delta"],
)
def test_every_order_keeps_every_promise(plan: Plan):
    report = search(plan)
    assert report.verdict() == "all states, no violation"
    assert report.finals > 0


@pytest.mark.parametrize("plan", [A_LOSS_ON_THE_WAY, A_LOST_ROOT], ids=["a loss on the way", "a lost root"])
def test_a_broker_may_be_lost_at_any_moment(plan: Plan):
    assert search(plan).verdict() == "all states, no violation"


def test_a_broker_that_the_others_wait_for_may_crash_at_any_moment_and_comes_back():
    report = search(small_plan("locamu", 2, 1, 1, 0, Budget(crashes=1, returns=1)))
    assert report.verdict() == "all states, no violation"


def test_a_broker_that_the_others_wait_for_must_come_back():
    plan = small_plan("locamu", 2, 1, 1, 0, Budget(crashes=1))
    assert "waits for" in search(plan, Bounds(shortest=False)).finding


@pytest.mark.parametrize("budget", [Budget(freezes=1), Budget(cuts=1)], ids=["a freeze", "a cut"])
def test_a_broker_may_freeze_or_be_cut_off_for_a_time_at_any_moment(budget: Budget):
    assert search(small_plan("ginger", 2, 1, 1, 0, budget)).verdict() == "all states, no violation"


@pytest.mark.parametrize(
    ("make", "plan", "finding"),
    [
        (TurnsAnywhere, small_plan("ginger", 3, 2, 2), "total"),
        (LockingBroker, small_plan("ginger", 3, 2, 2), "total"),
        (GoesPast, BEHIND_A_TOTAL, "fifo"),
        (Failing, BEHIND_A_TOTAL, "ValueError: two are too many"),
        (Wrong, BEHIND_A_TOTAL, "something climbs"),
        (with_parts(repairs=Forgetful), A_LOSS_ON_THE_WAY, "does not come to rest"),
        (with_parts(rejoin=Claimant, reunion=Settled), A_LOSS_ON_THE_WAY, "lost"),
        (with_parts(rejoin=Claimant), A_LOST_ROOT, "lost"),
        (GingerBroker, A_LOSS_ON_THE_WAY, "C waits for"),
    ],
)
def test_a_broker_without_a_rule_is_found_without_a_seed(make: BrokerFactory, plan: Plan, finding: str):
    report = search(plan, Bounds(states_max=100_000, shortest=False), make=make)
    assert finding in report.finding
    assert report.story
