"""The client without asyncio: the same, blocking, from any thread."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from tests.integration.support_brokers import PATIENCE_S, broker_here


@pytest.fixture
def address() -> Iterator[str]:
    """A broker that runs in a thread of its own for the time of a test."""
    ready = threading.Event()
    said: list[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]] = []

    async def serve() -> None:
        async with broker_here() as broker:
            over = asyncio.Event()
            said.append((asyncio.get_running_loop(), over, broker.port))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: holdfast.run(serve()))
    thread.start()
    assert ready.wait(PATIENCE_S)
    loop, over, port = said[0]
    yield f"holdfast://127.0.0.1:{port}"
    loop.call_soon_threadsafe(over.set)
    thread.join()


def test_publish_and_subscribe_without_asyncio(address: str):
    with holdfast.connect_sync(address, name="alice") as client:
        with client.subscribe("a/+", where="n >= 1") as inbox:
            receipts = [client.publish(f"a/{n}", b"x", "total", keys=["k"], attributes={"n": n}) for n in range(3)]
            assert [message.seq for message in (inbox.get(5), inbox.get(5))] == [2, 3]
            assert receipts[2].accepted(5).level == "accepted"
            assert receipts[2].confirmed(5).level == "confirmed"
            assert repr(receipts[2]) == "SyncReceipt(alice#3 on 'a/2', confirmed)"
        assert list(inbox) == []


def test_a_lot_is_published_in_order_and_read_by_iterating(address: str):
    with holdfast.connect_sync(address, name="alice") as client, client.subscribe("a") as inbox:
        publishing = threading.Thread(target=client.publish_many, args=("a", [b"%d" % n for n in range(20_000)]))
        publishing.start()
        read = []
        for message in inbox:
            read.append(int(message.payload))
            if len(read) == 20_000:
                break
        publishing.join()
        client.flush(5)
        assert read == list(range(20_000))


def test_threads_share_a_client_and_a_subscription(address: str):
    with holdfast.connect_sync(address) as client:
        inbox = client.subscribe("a")
        seen: list[int] = []

        def publish() -> None:
            for _ in range(500):
                client.publish("a", b"x")

        def read() -> None:
            for message in inbox:
                seen.append(message.seq)
                if len(seen) >= 2000:
                    inbox.unsubscribe()

        threads = [threading.Thread(target=work) for work in (publish, read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert sorted(seen) == list(range(1, 2001))


def test_waiting_ends_in_time_and_takes_nothing(address: str):
    with holdfast.connect_sync(address) as client:
        inbox = client.subscribe("a")
        with pytest.raises(TimeoutError, match=r"no message to the subscription to 'a' came within 0.01 s") as raised:
            inbox.get(0.01)
        assert raised.value.__context__ is None or raised.value.__suppress_context__, "nothing else went wrong"
        client.publish("a", b"x")
        assert inbox.get(5).payload == b"x"


def test_wrong_calls_are_said_where_they_are_made(address: str):
    with pytest.raises(holdfast.ConnectionFailed, match="nobody is listening there"):
        holdfast.connect_sync("holdfast://127.0.0.1:1")
    with pytest.raises(holdfast.AddressError):
        holdfast.connect_sync("http://127.0.0.1:1")
    with holdfast.connect_sync(address) as client:
        with pytest.raises(holdfast.TopicError):
            client.publish("a/+", b"x")
        with pytest.raises(holdfast.FilterError):
            client.subscribe("a", where="(")
    with pytest.raises(holdfast.ClientClosed):
        client.publish("a", b"x")
    client.close()


def test_an_interrupt_ends_a_blocking_iteration_and_the_client_closes(address: str, tmp_path: Path):
    program = textwrap.dedent(
        f"""
        import signal
        import holdfast
        # Whoever runs the tests in the background may have left interrupts ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with holdfast.connect_sync({address!r}, name="carol") as client:
                inbox = client.subscribe("a")
                client.publish("a", b"1")
                for message in inbox:
                    print(message.payload.decode(), flush=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "1\n"
    os.kill(child.pid, signal.SIGINT)
    assert child.communicate(timeout=PATIENCE_S)[0] == "interrupted\n"
    assert child.returncode == 0


def test_a_batch_is_shared_by_the_threads_that_wait_for_it(address: str):
    with holdfast.connect_sync(address) as client:
        inbox = client.subscribe("a")
        all_have_one = threading.Barrier(3)
        seen: list[int] = []

        def read() -> None:
            seen.append(inbox.get(PATIENCE_S).seq)
            all_have_one.wait(PATIENCE_S)  # One thread with all of the batch would wait for the others in vain.

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        deadline = threading.Event()
        while inbox._waiting < 3:
            deadline.wait(0.001)
        client.publish_many("a", [b"x"] * 3)
        for thread in threads:
            thread.join(PATIENCE_S)
        assert sorted(seen) == [1, 2, 3]
        assert not all_have_one.broken


def test_a_client_in_a_forked_child_says_so_at_once(address: str):
    with holdfast.connect_sync(address, name="alice") as client:
        inbox = client.subscribe("a")
        child = os.fork()
        if not child:
            refused = 0
            for call in (
                lambda: client.publish("a", b"x"),
                lambda: client.flush(1),
                lambda: inbox.get(1),
                client.close,
            ):
                try:
                    call()
                except holdfast.LocalMisuse as misuse:
                    refused += "used in a forked child: connect again in the child" in str(misuse)
            os._exit(refused)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 4
        client.publish("a", b"y")
        assert inbox.get(PATIENCE_S).payload == b"y"


def test_what_a_program_has_published_arrives_though_it_never_closes_its_client(address: str):
    program = textwrap.dedent(
        f"""
        import holdfast
        client = holdfast.connect_sync({address!r}, name="careless")
        client.publish_many("a", [b"%d" % number for number in range(5000)])
        """
    )
    with holdfast.connect_sync(address) as client, client.subscribe("a") as inbox:
        ended = subprocess.run(
            [sys.executable, "-W", "default", "-c", program], capture_output=True, text=True, check=True
        )
        assert [int(inbox.get(PATIENCE_S).payload) for _ in range(5000)] == list(range(5000))
    assert "client careless was never closed, and is closed now that the program ends" in ended.stderr


def test_a_client_that_nobody_closed_is_left_alone_by_a_forked_child(address: str):
    program = textwrap.dedent(
        f"""
        import os, sys
        import holdfast
        client = holdfast.connect_sync({address!r}, name="parent")
        if (child := os.fork()) == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        print(client.publish("a", b"x").confirmed({PATIENCE_S}).level)
        """
    )
    ended = subprocess.run(
        [sys.executable, "-W", "default::ResourceWarning", "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "confirmed\n"
    assert ended.stderr.count("client parent was never closed") == 1


def test_a_wait_that_was_too_short_says_what_it_waited_for(address: str):
    with holdfast.connect_sync(address, name="alice") as client:
        receipt = client.publish("a", b"x")
        with pytest.raises(TimeoutError, match=r"alice#1 on 'a' was not confirmed within -1 s; it may be later"):
            receipt.confirmed(-1)
        with pytest.raises(TimeoutError, match=r"has not accepted everything that was published within -1 s; flush"):
            client.flush(-1)
        receipt.confirmed(PATIENCE_S)


def test_a_subscription_that_ended_with_its_client_can_be_ended_again(address: str):
    with holdfast.connect_sync(address) as client:
        inbox = client.subscribe("a")
    inbox.unsubscribe()


WRONG: tuple[Any, ...] = (None, True, 0, -1, 1 << 70, 0.5, float("nan"), b"", b"x", "", " ", "a", "\ud800", "\0", "#")
WRONG += ("~x", "e" * 5000, [], [1], [[]], {}, {"": None}, {1: 2}, object(), len, {1, 2}, 3j, ..., range(2))
CALLS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "publish": (
        {"topic": "a", "payload": b"x"},
        ("topic", "payload", "guarantee", "keys", "attributes"),
    ),
    "publish_many": ({"topic": "a", "payloads": [b"x"]}, ("topic", "payloads", "guarantee", "keys", "attributes")),
    "subscribe": (
        {"pattern": "b"},
        ("pattern", "where", "slow", "slow_s", "slow_bytes", "start", "ack", "redeliver", "unacked_max"),
    ),
    "flush": ({}, ("timeout_s",)),
    "receipt.accepted": ({}, ("timeout_s",)),
    "receipt.held": ({}, ("timeout_s",)),
    "receipt.confirmed": ({}, ("timeout_s", "by")),
    "inbox.get": ({}, ("timeout_s",)),
}


def outcome(call: Callable[[], object]) -> object:
    """What a call returns, or the error that it raises: one of ours, or a time-out, with a sentence."""
    try:
        return call()
    except Exception as error:
        if not isinstance(error, holdfast.HoldfastError | TimeoutError) or " " not in str(error):
            raise
        return error


@pytest.mark.parametrize("called", CALLS)
def test_whatever_is_passed_without_asyncio_works_or_is_refused_with_a_sentence(address: str, called: str):
    right, names = CALLS[called]
    with holdfast.connect_sync(address, name="alice") as client, client.subscribe("a") as inbox:
        receipt = client.publish("a", b"x").confirmed(PATIENCE_S)
        owner = {"receipt": receipt, "inbox": inbox}.get(called.partition(".")[0], client)
        call = getattr(owner, called.rpartition(".")[2])
        for name in names:
            for value in WRONG:
                if called == "inbox.get":
                    client.publish("a", b"x").confirmed(PATIENCE_S)
                result = outcome(lambda: call(**{**right, name: value}))  # noqa: B023 - called at once
                if isinstance(result, holdfast.SyncSubscription):
                    result.unsubscribe()
        client.publish("still/works", b"yes").confirmed(PATIENCE_S)
