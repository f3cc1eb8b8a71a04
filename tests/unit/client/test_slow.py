"""Applications that do not read: what a subscription keeps for them, drops, and says of it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast.client.deliveries import Deliveries
from holdfast.client.errors import Gap
from holdfast.client.slow import DEFAULT, FAR_TOO_MUCH, Slowness, checked_slow
from holdfast.client.subscriptions import Delivery, Subscription
from holdfast.model.batches import Batch, make_batch
from holdfast.model.errors import LocalMisuse
from holdfast.model.slow_messages import Slow
from holdfast.runtime.logs import ProcessLog

PAYLOAD = b"x" * 36
COST = make_batch("ann", 1, "t", 0, [PAYLOAD]).cost_bytes
ROOM = 10
"""So many messages may wait."""


class Client:
    """What a subscription asks of its client, written down."""

    def __init__(self) -> None:
        self.consumed: list[int] = []
        self.read: list[int] = []
        self.dropped: list[int] = []
        self.reasons: list[str] = []
        self.ended: list[Subscription] = []
        self.has_ended = asyncio.Event()
        self.deliveries = Deliveries(
            lambda batch: self.consumed.append(batch.first),
            lambda batch: self.read.append(batch.first),
            lambda _: None,
            ProcessLog("test"),
        )
        self.batch_taken, self.batch_read = self.deliveries.taken, self.deliveries.read
        self._published = 0

    def subscribe(self, slow: Slow, where: str = "", slow_s: float = 1e6) -> Subscription:
        one = Subscription(self, "t", where, Slowness(slow, slow_s, ROOM * COST))
        self.deliveries.add(one)
        return one

    def publish(self, count: int) -> None:
        for _ in range(count):
            self._published += 1
            self.deliveries.arrive(make_batch("ann", self._published, "t", 0, [PAYLOAD]))

    def batch_dropped(self, subscription: Subscription, batch: Batch, delivery: Delivery, reason: str) -> None:
        assert subscription in self.deliveries
        self.dropped.append(batch.first)
        self.reasons += [reason] if reason else []
        self.deliveries.read(delivery)

    def end_slow(self, subscription: Subscription, gap: Gap) -> None:
        self.ended.append(subscription)
        self.has_ended.set()
        self.deliveries.remove(subscription)
        subscription.end(gap)

    async def end_subscription(self, subscription: Subscription) -> None:
        subscription.end(None)


def story(tell: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    async def told() -> None:
        async with asyncio.timeout(20):
            await tell(Client())

    asyncio.run(told())


async def read_all(subscription: Subscription) -> list[int | str]:
    """The numbers of all messages that are there, and what each gap says in its place."""
    seen: list[int | str] = []
    while True:
        try:
            seen.append((await subscription.get(0.01)).seq)
        except Gap as gap:
            seen.append(f"{gap.dropped} dropped" if gap.goes_on else "over")
            if not gap.goes_on:
                return seen
        except TimeoutError:
            return seen


def test_the_newest_messages_are_dropped_with_their_count_until_half_of_what_waits_is_read():
    async def tell(client: Client) -> None:
        inbox = client.subscribe("drop-newest")
        client.publish(ROOM + 5)
        assert client.dropped == [11, 12, 13, 14, 15]
        for seq in range(1, 5):
            assert (await inbox.get()).seq == seq
        client.publish(1)
        assert (await inbox.get()).seq == 5
        client.publish(2)
        assert await read_all(inbox) == [6, 7, 8, 9, 10, "6 dropped", 17, 18]

    story(tell)


def test_the_oldest_messages_make_room_and_their_count_stands_before_what_is_left():
    async def tell(client: Client) -> None:
        inbox = client.subscribe("drop-oldest")
        client.publish(3)
        assert (await inbox.get()).seq == 1
        client.publish(30)
        seen = await read_all(inbox)
        dropped = len(client.dropped)
        assert client.dropped == list(range(2, 2 + dropped))
        assert seen == [f"{dropped} dropped", *range(2 + dropped, 34)]
        assert ROOM / 2 <= len(seen) - 1 <= ROOM

    story(tell)


@pytest.mark.parametrize("slow", ["drop-oldest", "drop-newest"])
def test_a_gap_says_what_was_handed_over_before_it_and_its_reason_is_given_once(slow: Slow):
    async def tell(client: Client) -> None:
        inbox = client.subscribe(slow)
        client.publish(1)
        await inbox.get()
        client.publish(3 * ROOM)
        handed = 1
        if slow == "drop-newest":
            handed = [(await inbox.get()).seq for _ in range(ROOM)][-1]
        with pytest.raises(Gap, match="messages to the subscription to 't' were dropped here") as caught:
            await inbox.get()
        assert caught.value.received == {"ann": handed}
        assert caught.value.goes_on
        (reason,) = client.reasons
        assert "did not read" in reason

    story(tell)


@pytest.mark.parametrize("slow", ["drop-oldest", "drop-newest", "disconnect"])
def test_the_broker_may_send_more_whether_the_application_reads_or_not(slow: Slow):
    async def tell(client: Client) -> None:
        client.subscribe(slow)
        client.publish(2 * ROOM)
        assert client.consumed == list(range(1, 2 * ROOM + 1))
        assert client.read == client.dropped

    story(tell)


def test_a_subscription_that_blocks_takes_the_room_of_what_it_has_not_read_beside_one_that_drops():
    async def tell(client: Client) -> None:
        blocks, drops = client.subscribe("block"), client.subscribe("drop-newest")
        client.publish(2 * ROOM)
        assert client.consumed == []
        assert await read_all(blocks) == list(range(1, 2 * ROOM + 1))
        assert client.consumed == list(range(1, 2 * ROOM + 1))
        assert await read_all(drops) == [*range(1, ROOM + 1), f"{ROOM} dropped"]

    story(tell)


def test_a_subscription_that_is_behind_for_too_long_ends_behind_what_had_come():
    async def tell(client: Client) -> None:
        inbox = client.subscribe("disconnect", slow_s=0.001)
        client.publish(ROOM + 1)
        await client.has_ended.wait()
        client.publish(5)
        assert await read_all(inbox) == [*range(1, ROOM + 2), "over"]
        with pytest.raises(Gap, match="does not keep up") as caught:
            await inbox.get()
        assert caught.value.received == {"ann": ROOM + 1}
        assert client.dropped == []

    story(tell)


def test_a_subscription_that_is_far_behind_ends_at_once():
    async def tell(client: Client) -> None:
        inbox = client.subscribe("disconnect")
        client.publish(FAR_TOO_MUCH * ROOM)
        assert client.ended == []
        client.publish(1)
        assert client.ended == [inbox]
        assert await read_all(inbox) == [*range(1, FAR_TOO_MUCH * ROOM + 2), "over"]

    story(tell)


def test_a_subscription_that_has_caught_up_is_not_ended():
    async def tell(client: Client) -> None:
        inbox = client.subscribe("disconnect", slow_s=0.001)
        client.publish(ROOM + 1)
        assert await read_all(inbox) == list(range(1, ROOM + 2))
        assert inbox._slow_timer is None
        assert client.ended == []

    story(tell)


def test_something_may_always_wait_however_small_the_bound():
    async def tell(client: Client) -> None:
        for slow in ("drop-oldest", "drop-newest"):
            one = Subscription(client, "t", "", Slowness(slow, 1.0, 1))
            client.deliveries.add(one)
            client.publish(2)
            assert "1 dropped" in await read_all(one)
            client.deliveries.remove(one)

    story(tell)


def test_what_the_broker_has_dropped_and_what_it_only_fears_stand_in_one_place():
    async def tell(client: Client) -> None:
        inbox, other = client.subscribe("drop-newest"), client.subscribe("drop-newest", where="not exists n")
        client.publish(1)
        client.deliveries.skip([("t", "", 3)], "bob did not take it")
        client.deliveries.skip([("t", "", 2)], "bob did not take it")
        client.deliveries.skip([("t", "", 0)], "the broker was lost")
        client.publish(1)
        assert (await inbox.get()).seq == 1
        with pytest.raises(Gap) as caught:
            await inbox.get()
        assert str(caught.value) == (
            "5 messages to the subscription to 't' were dropped here: bob did not take it; messages to the "
            "subscription to 't' may be missing here: the broker was lost; reading goes on"
        )
        assert caught.value.dropped == 5
        assert (await inbox.get()).seq == 2
        assert await read_all(other) == [1, 2]

    story(tell)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("never", None, None, False), "slow is one of 'block', 'drop-oldest', 'drop-newest', 'disconnect'"),
        ((7, None, None, False), "slow is one of"),
        ((["block"], None, None, False), "slow is one of"),
        (("block", 3.0, None, False), "only slow='disconnect' has a time"),
        (("disconnect", 0, None, False), "more than 0 and at most"),
        (("disconnect", float("nan"), None, False), "more than 0 and at most"),
        (("disconnect", True, None, False), "more than 0 and at most"),
        (("disconnect", "soon", None, False), "more than 0 and at most"),
        (("block", None, 5, False), "keeps a window"),
        (("drop-oldest", None, 0, False), "a number of bytes"),
        (("drop-oldest", None, 1.5, False), "a number of bytes"),
        (("drop-oldest", None, None, True), "a durable subscription keeps nobody waiting"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(arguments: tuple[Any, ...], sentence: str):
    with pytest.raises(LocalMisuse, match=sentence):
        checked_slow(*arguments)


def test_a_slow_reader_is_disconnected_unless_it_says_otherwise():
    assert checked_slow(None, None, None, durable=True) == checked_slow(None, None, None, durable=False) == DEFAULT
    assert Slowness("disconnect", 30.0, 16 << 20) == DEFAULT
    assert checked_slow(None, 5, 100, durable=False) == Slowness("disconnect", 5.0, 100)
    assert checked_slow("drop-oldest", None, None, durable=False).policy == "drop-oldest"
