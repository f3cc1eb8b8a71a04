"""What a client's log says of gaps: one sentence, however many subscriptions there are."""

import logging

import pytest

from holdfast.client.deliveries import PATTERNS_SHOWN_MAX, Deliveries
from holdfast.client.errors import ClientClosed, Gap, SessionLost
from holdfast.client.listening import Listener
from holdfast.client.subscriptions import Delivery, Subscription
from holdfast.model.batches import Batch
from holdfast.runtime.logs import ProcessLog


class Source:
    """A client that nobody asks anything."""

    def batch_taken(self, delivery: Delivery) -> None: ...

    def batch_read(self, delivery: Delivery) -> None: ...

    def batch_dropped(self, subscription: Subscription, batch: Batch, delivery: Delivery, reason: str) -> None: ...

    def end_slow(self, subscription: Subscription, gap: Gap) -> None: ...

    async def end_subscription(self, subscription: Subscription) -> None: ...


def deliveries_of(count: int) -> Deliveries:
    made = Deliveries(lambda _: None, lambda _: None, lambda _: None, ProcessLog("holdfast.client", node="alice"))
    for number in range(count):
        made.add(Subscription(Source(), f"t/{number}/+", ""))
    return made


def test_a_thousand_subscriptions_that_may_miss_something_are_one_sentence_in_the_log(caplog: pytest.LogCaptureFixture):
    deliveries_of(1000).miss("b0 gave up what it kept for alice")
    [record] = caplog.records
    assert getattr(record, "event", "") == (
        "gap: messages to 1,000 subscriptions may be missing here, and reading goes on: "
        "b0 gave up what it kept for alice"
    )
    assert len(getattr(record, "fields", {})["patterns"]) == PATTERNS_SHOWN_MAX


def test_a_lost_session_is_one_sentence_in_the_log(caplog: pytest.LogCaptureFixture):
    deliveries_of(1).finish(SessionLost("alice lost its session at b0"))
    [record] = caplog.records
    assert (record.levelno, getattr(record, "event", "")) == (
        logging.WARNING,
        "gap: the session is lost, and with it 1 subscription: alice lost its session at b0",
    )


def test_a_client_that_is_closed_or_has_no_subscription_of_the_application_has_no_gap(caplog: pytest.LogCaptureFixture):
    deliveries_of(2).finish(ClientClosed("alice was closed"))
    only_holdfast = deliveries_of(0)
    only_holdfast.add(Listener(Source(), "~narada/answers", lambda _: None))
    only_holdfast.miss("b0 gave up what it kept for alice")
    assert caplog.records == []
