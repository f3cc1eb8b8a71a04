"""The client without asyncio: the same, blocking, from any thread."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

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
