"""Whoever connects and does not keep to the wire is closed, logged as the one at fault, and disturbs nobody else."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.model.batches import make_batch
from holdfast.model.checksums import crc32
from holdfast.model.messages import (
    LAP,
    WIRE_VERSION,
    Data,
    Frame,
    Hello,
    Join,
    Pong,
    Publish,
    Refusal,
    SessionMessage,
    Subscribe,
    TotalAck,
    Twig,
    Welcome,
)
from holdfast.model.wire import FRAME_BYTES_MIN, MARKS, FrameReader, encode, head
from holdfast.runtime.connection import ConnectionLimits
from tests.integration.support_brokers import address_of, broker_here, chain_here, fields_logged, until

HELLO = Hello(WIRE_VERSION, "mallory", "client", "holdfast", 7, False, 0, 1 << 20)


@asynccontextmanager
async def neighbours_at_work(**settings: Any) -> AsyncIterator[int]:
    """A broker with a publisher and a subscriber; at the end, everything they exchanged meanwhile has arrived."""
    async with (
        broker_here(**settings) as broker,
        holdfast.connect(address_of(broker), name="alice") as alice,
        holdfast.connect(address_of(broker), name="bob") as bob,
    ):
        inbox = await bob.subscribe("a")
        await alice.publish("a", b"before")
        yield broker.port
        await alice.publish("a", b"after")
        assert [(await inbox.get(5)).payload for _ in range(2)] == [b"before", b"after"]


async def say(port: int, data: bytes) -> bytes:
    """Send bytes; return what comes back until the other end closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 5)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def framed(body: bytes) -> bytes:
    return head(len(body), crc32(body)) + body


def frames(data: bytes) -> list[Frame]:
    return FrameReader().feed(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "the first frame was announced with"),
        (b"\xff" * FRAME_BYTES_MIN, "where the length of a frame should be"),
        (head(len(msgspec.msgpack.encode(HELLO)), 0) + msgspec.msgpack.encode(HELLO), "another version of the wire"),
        (encode(Pong(1)), "the first frame was a Pong"),
        (head(100_000, 0) + b"x" * 50_000, "a Hello has at most 4096"),
    ],
    ids=["http", "no length", "no checksum", "no hello", "endless hello"],
)
def test_bytes_that_are_no_hello_close_the_connection_and_nothing_else(
    data: bytes, reason: str, caplog: pytest.LogCaptureFixture
):
    async def story():
        async with neighbours_at_work() as port:
            assert await say(port, data) == b""

    with caplog.at_level(logging.WARNING, "holdfast"):
        holdfast.run(story())
    fields = fields_logged(caplog, "connection closed")
    assert len(fields) == 1
    assert fields[0]["fault"] == "peer"
    assert reason in fields[0]["reason"]


@pytest.mark.parametrize(
    "body", [b"\xc1\xc1\xc1\xc1\xc1", msgspec.msgpack.encode([99]), msgspec.msgpack.encode([1, 3, None])], ids=repr
)
def test_a_stranger_whose_frames_nobody_can_read_is_told_so(body: bytes, caplog: pytest.LogCaptureFixture):
    async def story():
        async with neighbours_at_work() as port:
            (refusal,) = frames(await say(port, framed(body)))
            assert isinstance(refusal, Refusal)
            assert refusal.code == "misuse"
            assert "no Holdfast frame" in refusal.reason

    with caplog.at_level(logging.WARNING, "holdfast"):
        holdfast.run(story())
    (fields,) = fields_logged(caplog, "connection closed")
    assert fields["fault"] == "peer"


def test_a_peer_that_sends_garbage_after_its_hello_is_closed(caplog: pytest.LogCaptureFixture):
    async def story():
        async with neighbours_at_work() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(encode(HELLO))
            (welcome,) = frames(await asyncio.wait_for(reader.read(4096), 5))
            assert isinstance(welcome, Welcome)
            writer.write(framed(b"\xc1\xc1"))
            (refusal,) = frames(await asyncio.wait_for(reader.read(), 5))
            assert isinstance(refusal, Refusal)
            assert "2 bytes that are no Holdfast frame" in refusal.reason
            writer.close()

    with caplog.at_level(logging.WARNING, "holdfast"):
        holdfast.run(story())
    (fields,) = fields_logged(caplog, "connection closed")
    assert (fields["peer"], fields["fault"]) == ("mallory", "peer")


def test_a_client_whose_batches_are_not_in_our_bytes_is_closed(caplog: pytest.LogCaptureFixture):
    """Its broker would pass them on in our bytes with the client's checksum, and the next broker would refuse them."""
    said = b"".join(make_batch("mallory", 300, "a", 0, [b"x"]).pieces()).replace(b"\xcd\x01\x2c", b"\xd1\x01\x2c")
    assert b"\xd1\x01\x2c" in said, "a signed number of 16 bits instead of an unsigned one"

    async def story():
        async with neighbours_at_work() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(encode(HELLO))
            frame = frames(await asyncio.wait_for(reader.read(4096), 5))[0]
            assert isinstance(frame, Welcome)
            writer.write(head(1 + len(said), crc32(said) ^ MARKS[1]) + b"\x01" + said)
            while await asyncio.wait_for(reader.read(4096), 5):
                pass
            writer.close()

    with caplog.at_level(logging.WARNING, "holdfast"):
        holdfast.run(story())
    (fields,) = fields_logged(caplog, "connection closed")
    assert fields["peer"].startswith("mallory")
    assert "other bytes than the shortest" in fields["reason"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"version": 99}, "version"),
        ({"cluster": "another"}, "cluster"),
        ({"node": "b0"}, "name"),
        ({"resume": True}, "unknown-session"),
        ({"node": "alice", "resume": True}, "unknown-session"),
    ],
    ids=str,
)
def test_a_hello_that_cannot_be_accepted_is_refused_with_a_reason(changes: dict[str, object], code: str):
    async def story():
        async with neighbours_at_work() as port:
            (refusal,) = frames(await say(port, encode(msgspec.structs.replace(HELLO, **changes))))
            assert isinstance(refusal, Refusal)
            assert refusal.code == code

    holdfast.run(story())


def test_who_connects_and_says_nothing_is_closed_after_a_while():
    async def story():
        async with neighbours_at_work(limits=ConnectionLimits(hello_s=0.05)) as port:
            assert await say(port, b"") == b""
            assert await say(port, encode(HELLO)[:10]) == b""

    holdfast.run(story())


def test_too_many_who_say_nothing_cost_the_oldest_its_place():
    async def story():
        async with neighbours_at_work(limits=ConnectionLimits(half_open_max=3)) as port:
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
            # The first is closed; somebody who says hello at once still gets in.
            assert await asyncio.wait_for(silent[0][0].read(), 5) == b""
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(encode(HELLO))
            (welcome,) = frames(await asyncio.wait_for(reader.read(4096), 5))
            assert isinstance(welcome, Welcome)
            for _, one in (*silent, (reader, writer)):
                one.close()

    holdfast.run(story())


def test_somebody_under_the_name_of_another_does_not_take_its_messages():
    async def story():
        async with neighbours_at_work() as port:
            # Bob's connection is replaced, bob resumes his session over a new one, and misses nothing.
            wrong = msgspec.structs.replace(HELLO, node="bob", resume=True)
            (refusal,) = frames(await say(port, encode(wrong)))
            assert isinstance(refusal, Refusal)

    holdfast.run(story())


@pytest.mark.parametrize("tolerance", [0, 1])
@pytest.mark.parametrize("name", ["b0", "b1"])
def test_a_client_under_the_name_of_a_broker_is_refused_and_touches_nobodys_connection(name: str, tolerance: int):
    async def story():
        async with chain_here(2, tolerance=tolerance) as brokers:
            events: list[str] = []
            for broker in brokers:
                broker.driver._sinks += (lambda report: events.append(report.event),)
            for broker in brokers:
                (refusal,) = frames(await say(broker.port, encode(msgspec.structs.replace(HELLO, node=name))))
                assert isinstance(refusal, Refusal)
                assert refusal.code == "name"
                assert "choose another" in refusal.reason
            assert "detach" not in events

    holdfast.run(story())


@pytest.mark.parametrize("tolerance", [0, 1])
def test_a_client_that_talks_like_a_broker_ends_alone_and_hears_why(tolerance: int, caplog: pytest.LogCaptureFixture):
    async def story():
        async with neighbours_at_work(tolerance=tolerance) as port:
            said = frames(await say(port, encode(HELLO) + encode(Data(1, TotalAck("bob", 1)))))
            assert isinstance(said[-1], Refusal)
            assert "mallory is a client" in said[-1].reason

    with caplog.at_level(logging.INFO, "holdfast"):
        holdfast.run(story())
    fields = fields_logged(caplog, "violation")
    assert [one["peer"] for one in fields] == ["mallory"]


@pytest.mark.parametrize("tolerance", [0, 1])
def test_a_client_that_ignores_its_credit_is_thrown_out_before_it_fills_the_broker(
    tolerance: int, caplog: pytest.LogCaptureFixture
):
    """Somebody takes nothing of what it publishes: from the full backlog on there is no credit, and it goes on."""

    async def story():
        async with broker_here(tolerance=tolerance) as broker:
            _, sink = await asyncio.open_connection("127.0.0.1", broker.port)
            sink.write(first_words("sink", tolerance, Subscribe(1, "flood", "")))
            await until(lambda: broker.status()["subscriptions"] == 1, "the sink is subscribed")
            reader, mallory = await asyncio.open_connection("127.0.0.1", broker.port)
            mallory.write(first_words("mallory", tolerance))
            pushed = 0
            while not mallory.is_closing() and pushed < 400:
                pushed += 1
                batch = make_batch("mallory", pushed, "flood", 1, [bytes(1 << 17)])
                mallory.write(encode(Data((pushed + bool(tolerance)) % LAP, Publish(batch))))
                try:
                    await asyncio.wait_for(mallory.drain(), 1)
                except (ConnectionError, TimeoutError):
                    break
            said = frames(await asyncio.wait_for(reader.read(1 << 20), 5))
            assert any(isinstance(one, Refusal) and "with credit for" in one.reason for one in said)
            link = broker.node.hub.links["sink"]  # type: ignore[attr-defined]
            assert link.backlog_bytes < 7 << 20
            sink.close()
            mallory.close()

    with caplog.at_level(logging.WARNING, "holdfast"):
        holdfast.run(story())
    said = fields_logged(caplog, "violation")
    assert ["with credit for" in one["detail"] for one in said] == [True]


def first_words(name: str, tolerance: int, *messages: SessionMessage) -> bytes:
    """A hello without any credit for the broker, the wish to be let in where that is needed, and then these."""
    join = (Join(Twig(name, "client", 7, ""), "", (), {}, (), 0, 0),) if tolerance else ()
    words = [Data(number, message) for number, message in enumerate((*join, *messages), 1)]
    hello = msgspec.structs.replace(HELLO, node=name, credit=0)
    return encode(hello) + b"".join(map(encode, words))
