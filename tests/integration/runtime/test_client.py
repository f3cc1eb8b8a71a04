"""The client as an application sees it: errors, cancellation, backpressure, receipts, the end."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

import holdfast
from holdfast.protocols.config import LinkConfig
from holdfast.protocols.ginger import RepairingBroker
from tests.integration.support_brokers import QUICK, address_of, broker_here, chain_here, until

SMALL_WINDOW = LinkConfig(window_bytes=1 << 16, backlog_bytes_max=1 << 18, redial_s=0.005)


def with_client(story: Callable[[holdfast.Client], Coroutine[Any, Any, None]]) -> None:
    """Play a story with a client of one broker."""

    async def play():
        async with broker_here() as broker, holdfast.connect(address_of(broker), name="alice") as client:
            await story(client)

    holdfast.run(play())


# ------------------------------------------------------------------------------------------------------- connecting


def test_when_nobody_is_there_one_sentence_says_where_it_was_tried():
    async def story():
        with pytest.raises(holdfast.ConnectionFailed) as failed:
            await holdfast.connect("holdfast://127.0.0.1:1,127.0.0.1:2", name="alice")
        assert str(failed.value) == (
            "no broker answers alice; tried 127.0.0.1:1 (nobody is listening there); "
            "127.0.0.1:2 (nobody is listening there). Is the cluster running? `holdfast up` starts one on this "
            "machine; otherwise give its address"
        )
        assert failed.value.outcome == "did not happen"

    holdfast.run(story())


def test_a_broker_that_accepts_connections_and_says_nothing_is_given_up():
    async def story():
        mute = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
        port = mute.sockets[0].getsockname()[1]
        with pytest.raises(holdfast.ConnectionFailed, match=rf"within 0\.1 s; tried 127\.0\.0\.1:{port}"):
            await holdfast.connect(f"127.0.0.1:{port}", timeout_s=0.1)
        mute.close()

    holdfast.run(story())


def test_the_wrong_cluster_is_refused_with_both_names():
    async def story():
        async with broker_here(cluster="blue") as broker:
            with pytest.raises(holdfast.Refused, match="belongs to cluster 'blue', not 'red'"):
                await holdfast.connect(address_of(broker), cluster="red")

    holdfast.run(story())


def test_a_client_without_a_name_gets_one_of_its_own():
    async def story():
        async with (
            broker_here() as broker,
            holdfast.connect(address_of(broker)) as one,
            holdfast.connect(address_of(broker)) as two,
        ):
            assert one.name != two.name

    holdfast.run(story())


# ------------------------------------------------------------------------------------------------------- publishing


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"topic": "a/+"}, holdfast.TopicError, "wildcard"),
        ({"topic": 7}, holdfast.TopicError, "not int"),
        ({"topic": "~narada/x"}, holdfast.TopicError, "begins with '~'.*Nothing was published"),
        ({"payload": "text"}, holdfast.MessageError, "a payload is bytes, not str; encode the text first"),
        ({"payload": b"x" * ((1 << 20) + 1)}, holdfast.MessageError, "over the limit of 1048576"),
        ({"guarantee": "strong"}, holdfast.GuaranteeError, "choose one of eventual, fifo, causal, total"),
        ({"keys": "PT50"}, holdfast.MessageError, "keys are a list of strings"),
        ({"keys": [1]}, holdfast.MessageError, "a key is a string, not 1"),
        ({"keys": [str(number) for number in range(65)]}, holdfast.MessageError, "at most 64 keys; this one has 65"),
        ({"keys": ["k" * 257]}, holdfast.MessageError, "257 bytes; at most 256"),
        ({"attributes": ["amount"]}, holdfast.MessageError, "attributes are a mapping"),
        ({"attributes": {"amount": None}}, holdfast.MessageError, "attribute 'amount' is a NoneType"),
        ({"attributes": {"amount": 1 << 64}}, holdfast.MessageError, "does not fit into 64 bits"),
        ({"attributes": {"name": "\ud800"}}, holdfast.MessageError, "half a surrogate pair"),
    ],
    ids=str,
)
def test_what_is_no_message_is_refused_before_anything_is_sent(
    arguments: dict[str, Any], error: type[Exception], sentence: str
):
    async def story(client: holdfast.Client) -> None:
        with pytest.raises(error, match=sentence.replace("(", r"\(")):
            await client.publish(**{"topic": "a", "payload": b"x", **arguments})
        assert client.next_seq == 1

    with_client(story)


def test_receipts_grow_from_sent_to_accepted_to_confirmed():
    async def story(client: holdfast.Client) -> None:
        receipt = await client.publish("a", b"x")
        levels = [receipt.level, (await receipt.accepted()).level, (await receipt.confirmed()).level]
        assert levels == ["sent", "accepted", "confirmed"]
        assert (receipt.publisher, receipt.seq) == ("alice", 1)
        assert repr(receipt) == "Receipt(alice#1 on 'a', confirmed)"

    with_client(story)


def test_publications_without_a_pause_leave_in_batches_and_a_lone_one_at_once():
    async def story(client: holdfast.Client) -> None:
        inbox = await client.subscribe("a")
        await client.publish_many("a", [b"%d" % number for number in range(500)])
        sizes = []
        async for batch in inbox.batches():
            sizes.append(len(batch))
            if sum(sizes) == 500:
                break
        assert len(sizes) == 1
        await client.publish("a", b"alone")
        assert (await inbox.get(5)).payload == b"alone"

    with_client(story)


@pytest.mark.parametrize("tolerance", [0, 1])
def test_a_publisher_waits_while_a_subscriber_does_not_read_and_memory_stays_bounded(tolerance: int):
    bound_bytes = 1 << 18

    async def story():
        async with (
            chain_here(2, link=SMALL_WINDOW, tolerance=tolerance) as brokers,
            holdfast.connect(address_of(brokers[0]), link=SMALL_WINDOW, backlog_bytes_max=bound_bytes) as alice,
            holdfast.connect(address_of(brokers[1]), link=SMALL_WINDOW) as bob,
        ):
            inbox = await bob.subscribe("a", slow="block")
            published = 0

            async def publish() -> None:
                nonlocal published
                for _ in range(5000):
                    await alice.publish("a", b"x" * 1000)
                    published += 1

            publishing = asyncio.ensure_future(publish())
            # The pressure travels back through both brokers: at some point nothing moves any more.
            await _until_still(lambda: published)
            assert published < 3000
            # What is published and not read lies in bounded places, and nowhere else.
            held_bytes = bound_bytes + 2 * SMALL_WINDOW.backlog_bytes_max + 3 * SMALL_WINDOW.window_bytes
            assert published * 1000 <= held_bytes + 4 * (1 << 16)
            # So does what brokers keep for a repair: nothing that a subscriber does not take piles up there.
            logs = [broker.node.log for broker in brokers if isinstance(broker.node, RepairingBroker)]
            assert len(logs) == (2 if tolerance else 0)
            assert all(log.bytes <= held_bytes + 4 * (1 << 16) for log in logs)
            numbers = [(await inbox.get(10)).seq for _ in range(5000)]
            await publishing
            assert numbers == list(range(1, 5001))

    async def _until_still(measure: Callable[[], int]) -> None:
        """Wait until a figure has not changed for as long as twice everything that could still be moving."""
        last, since = -1, 0.0
        loop = asyncio.get_running_loop()

        def still() -> bool:
            nonlocal last, since
            if measure() != last:
                last, since = measure(), loop.time()
            return last > 0 and loop.time() - since > 0.3

        await until(still, "the publisher waits")

    holdfast.run(story())


def test_a_publish_that_is_cancelled_while_it_waits_did_not_happen():
    async def story():
        async with (
            broker_here(link=SMALL_WINDOW) as broker,
            holdfast.connect(address_of(broker), link=SMALL_WINDOW, backlog_bytes_max=1 << 17) as alice,
            holdfast.connect(address_of(broker), link=SMALL_WINDOW) as bob,
        ):
            inbox = await bob.subscribe("a", slow="block")
            count = 0

            async def publish() -> None:
                nonlocal count
                while True:
                    await alice.publish("a", b"x" * 5000)
                    count += 1

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(publish(), 0.5)
            assert alice.next_seq == count + 1
            assert [(await inbox.get(5)).seq for _ in range(count)] == list(range(1, count + 1))
            await alice.publish("a", b"after")
            assert (await inbox.get(5)).payload == b"after"

    holdfast.run(story())


# ------------------------------------------------------------------------------------------------------ subscribing


def test_a_pattern_and_a_filter_are_checked_before_anybody_is_asked():
    async def story(client: holdfast.Client) -> None:
        with pytest.raises(holdfast.TopicError):
            client.subscribe("a/#/b")
        with pytest.raises(holdfast.FilterError) as wrong:
            client.subscribe("a", where="amount >")
        assert wrong.value.position == 8

    with_client(story)


def test_a_cancelled_iteration_has_taken_nothing_that_it_did_not_hand_out():
    async def story(client: holdfast.Client) -> None:
        inbox = await client.subscribe("a")
        seen: list[int] = []

        async def read() -> None:
            async for message in inbox:
                seen.append(message.seq)
                await asyncio.sleep(0)

        for number in range(50):
            reading = asyncio.ensure_future(read())
            await client.publish("a", b"1")
            for _ in range(number % 7):
                await asyncio.sleep(0)
            await client.publish("a", b"2")
            reading.cancel()
            await asyncio.wait({reading})
        while len(seen) < 100:
            seen.append((await inbox.get(5)).seq)
        assert seen == list(range(1, 101))

    with_client(story)


def test_waiting_for_a_message_ends_in_time_and_the_subscription_goes_on():
    async def story(client: holdfast.Client) -> None:
        inbox = await client.subscribe("a")
        with pytest.raises(TimeoutError, match=r"no message to the subscription to .* came within"):
            await inbox.get(0.01)
        await client.publish("a", b"x")
        assert (await inbox.get(5)).payload == b"x"

    with_client(story)


def test_tasks_that_iterate_together_share_the_messages():
    async def story(client: holdfast.Client) -> None:
        inbox = await client.subscribe("a")
        seen: list[int] = []

        async def read() -> None:
            async for message in inbox:
                seen.append(message.seq)
                if len(seen) == 300:
                    await inbox.unsubscribe()

        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(read())
            for _ in range(300):
                await client.publish("a", b"x")
                await asyncio.sleep(0)
        assert sorted(seen) == list(range(1, 301))

    with_client(story)


def test_every_matching_subscription_of_a_client_gets_a_message_once():
    async def story(client: holdfast.Client) -> None:
        all_of_it = await client.subscribe("a/#")
        some = await client.subscribe("a/+", where="amount > 10")
        again = await client.subscribe("a/#")
        for amount in (5, 15, 25):
            await client.publish("a/b", b"%d" % amount, attributes={"amount": amount})
        assert [(await all_of_it.get(5)).payload for _ in range(3)] == [b"5", b"15", b"25"]
        assert [(await again.get(5)).payload for _ in range(3)] == [b"5", b"15", b"25"]
        assert [(await some.get(5)).payload for _ in range(2)] == [b"15", b"25"]
        await again.unsubscribe()
        await client.publish("a/b", b"35", attributes={"amount": 35})
        assert ((await all_of_it.get(5)).payload, (await some.get(5)).payload) == (b"35", b"35")

    with_client(story)


def test_after_an_unsubscribe_what_had_arrived_can_be_read_and_then_it_ends():
    async def story(client: holdfast.Client) -> None:
        async with client.subscribe("a") as inbox:
            await client.publish_many("a", [b"1", b"2"])
            assert (await inbox.get(5)).payload == b"1"
        assert [message.payload async for message in inbox] == [b"2"]
        with pytest.raises(holdfast.ClientClosed, match="the subscription to 'a' has ended"):
            await inbox.get(5)
        await inbox.unsubscribe()

    with_client(story)


def test_a_subscribe_that_is_cancelled_leaves_no_subscription():
    async def story():
        async with broker_here() as broker, holdfast.connect(address_of(broker)) as client:
            opening = asyncio.ensure_future(client.subscribe("a").__aenter__())
            await asyncio.sleep(0)
            opening.cancel()
            await asyncio.wait({opening})
            await (await client.subscribe("b")).unsubscribe()
            assert broker.node.status()["subscriptions"] == 0

    holdfast.run(story())


# ----------------------------------------------------------------------------------------------------------- ending


def test_closing_flushes_what_was_published():
    async def story():
        async with broker_here() as broker, holdfast.connect(address_of(broker), name="bob") as bob:
            inbox = await bob.subscribe("a")
            async with holdfast.connect(address_of(broker), name="alice") as alice:
                for number in range(1000):
                    await alice.publish("a", b"%d" % number)
            assert [int((await inbox.get(5)).payload) for _ in range(1000)] == list(range(1000))
            with pytest.raises(holdfast.ClientClosed, match="client alice is closed"):
                await alice.publish("a", b"late")
            await alice.close()

    holdfast.run(story())


def test_iterations_of_a_client_that_is_closed_end():
    async def story():
        async with broker_here() as broker:
            client = await holdfast.connect(address_of(broker), link=QUICK)
            inbox = await client.subscribe("a")

            async def read() -> list[bytes]:
                return [message.payload async for message in inbox]

            reading = asyncio.ensure_future(read())
            await client.publish("a", b"1")
            await client.flush()
            await until(lambda: not inbox._arrived, "the message is read")
            await client.close()
            assert await asyncio.wait_for(reading, 5) == [b"1"]

    holdfast.run(story())


def test_an_error_in_the_application_is_not_hidden_by_what_closing_says():
    async def story():
        async with broker_here() as broker:
            with pytest.raises(ZeroDivisionError):
                await fail(address_of(broker))

    async def fail(address: str) -> None:
        async with holdfast.connect(address) as client:
            await client.publish("a", b"x")
            raise ZeroDivisionError

    holdfast.run(story())


def test_a_client_that_comes_back_under_its_name_goes_on_with_its_numbers():
    async def story():
        async with broker_here() as broker:
            for first in (1, 2):
                async with holdfast.connect(address_of(broker), name="alice") as alice:
                    receipt = await alice.publish("a", b"x")
                    assert receipt.seq == first

    holdfast.run(story())


@pytest.mark.parametrize("tolerance", [0, 1])
def test_a_name_that_comes_back_at_another_broker_goes_on_behind_its_last_number(tolerance: int):
    async def story() -> None:
        async with (
            chain_here(3, tolerance=tolerance) as (top, middle, edge),
            holdfast.connect(address_of(top)) as reader,
        ):
            messages = await reader.subscribe("t")
            for broker, payloads in ((edge, b"12"), (middle, b"345"), (edge, b"6")):
                async with holdfast.connect(address_of(broker), name="alice") as alice:
                    for payload in payloads:
                        await alice.publish("t", bytes([payload]))
            received = [await messages.get(10) for _ in range(6)]
            assert [(one.seq, one.payload) for one in received] == [(seq, b"%d" % seq) for seq in range(1, 7)]

    holdfast.run(story())


def test_a_batch_is_shared_by_the_tasks_that_wait_for_it_even_if_they_never_pause():
    async def story(client: holdfast.Client) -> None:
        inbox = await client.subscribe("a")
        shares: dict[str, list[int]] = {"one": [], "two": [], "three": []}

        async def read(share: list[int]) -> None:
            async for message in inbox:
                share.append(message.seq)
                if sum(map(len, shares.values())) == 9:
                    await inbox.unsubscribe()

        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            for share in shares.values():
                group.create_task(read(share))
            await until(lambda: len(inbox._waiters) == 3, "all three wait")
            await client.publish_many("a", [b"x"] * 9)
        assert sorted(map(len, shares.values())) == [3, 3, 3]

    with_client(story)


def test_a_client_that_is_used_from_another_event_loop_says_so_at_once():
    async def story(client: holdfast.Client) -> None:
        inbox = await client.subscribe("a")
        receipt = await client.publish("a", b"x")

        def elsewhere() -> None:
            calls: list[Callable[[], Any]] = [
                lambda: client.publish("a", b"x"),
                lambda: client.publish_many("a", [b"x"]),
                lambda: client.subscribe("a"),
                client.flush,
                client.close,
                receipt.accepted,
                receipt.confirmed,
                inbox.get,
                inbox.unsubscribe,
            ]
            for call in calls:

                async def foreign(call: Callable[[], Any] = call) -> None:
                    await call()

                with pytest.raises(holdfast.LocalMisuse, match="belongs to the event loop in which it was made"):
                    asyncio.run(foreign())

        await asyncio.to_thread(elsewhere)
        assert (await inbox.get(5)).payload == b"x"
        assert client.next_seq == 2

    with_client(story)


class Greeting(asyncio.Protocol):
    """A server of another protocol: says something when somebody connects, or when it has read a line, or never."""

    def __init__(self, greeting: bytes, answer: bytes, closes: bool = False) -> None:
        self._greeting, self._answer, self._closes = greeting, answer, closes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._read = cast("asyncio.Transport", transport), b""
        self._transport.write(self._greeting)

    def data_received(self, data: bytes) -> None:
        self._read += data
        if self._closes:
            self._transport.close()
        elif b"\r\n\r\n" in self._read:
            self._transport.write(self._answer)


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        ((b"SSH-2.0-OpenSSH_9.6\r\n", b""), "it is no broker: it says 'SSH-2.0-OpenSSH_9.6'"),
        ((b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"), "it is no broker: it says 'HTTP/1.1 400 Bad Request'"),
        ((b"\x15\x03\x01\x00\x02\x02\x46", b"", True), "it wants TLS: connect with ssl="),
        ((b"", b"", True), "it closed the connection without saying who it is"),
    ],
    ids=["greets", "answers", "tls", "closes"],
)
def test_a_port_that_speaks_something_else_is_named_as_such_before_patience_ends(
    server: Any, sentence: str, caplog: pytest.LogCaptureFixture
):
    async def story():
        other = await asyncio.get_running_loop().create_server(lambda: Greeting(*server), "127.0.0.1", 0)
        port = other.sockets[0].getsockname()[1]
        with pytest.raises(holdfast.ConnectionFailed) as failed:
            await holdfast.connect(f"127.0.0.1:{port}", timeout_s=60.0)
        assert f"127.0.0.1:{port} ({sentence}" in str(failed.value)
        assert caplog.messages == [], "the error says all that there is to say"
        other.close()

    holdfast.run(story())


def test_the_health_port_of_a_broker_is_named_as_such():
    async def story():
        async with broker_here(health_port=0) as broker:
            await until(lambda: broker.health_port != 0, "the health endpoint listens")
            with pytest.raises(holdfast.ConnectionFailed, match=r"it is no broker: it says 'HTTP/1.1 400 Bad Request'"):
                await holdfast.connect(f"127.0.0.1:{broker.health_port}", timeout_s=60.0)

    holdfast.run(story())
