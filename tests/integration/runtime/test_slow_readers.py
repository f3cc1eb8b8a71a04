"""Subscribers that do not keep up, as processes: the others count their messages meanwhile, and nothing goes unsaid."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast.cluster.status import health_of
from holdfast.model.slow_messages import Slow
from holdfast.protocols.config import LinkConfig
from tests.integration.support_brokers import PATIENCE_S, BrokerChild, address_of, serving_child, until

READER = Path(__file__).with_name("slow_subscriber.py")
WINDOW_BYTES = 1 << 16
LINK = LinkConfig(window_bytes=WINDOW_BYTES, backlog_bytes_max=1 << 18, heartbeat_s=0.5, silence_s=60.0, redial_s=0.005)
SESSION_BYTES = 1 << 20
SLOW_BYTES = 1 << 18
COUNT, PAYLOAD = 4000, b"x" * 1000
"""Four times as much as is kept for a client, wherever it is kept."""
NOT_BLOCKING: tuple[Slow, ...] = ("drop-oldest", "drop-newest", "disconnect")
tolerances = pytest.mark.parametrize("tolerance", [0, 1])


class Reader:
    """The slow subscriber's process and what it has said."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.lines: list[str] = []
        self._following = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.lines.append(line.decode().rstrip())

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def hurry(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"hurry\n")

    async def waits_to_say(self, word: str) -> None:
        await until(lambda: any(line.startswith(word) for line in self.lines), f"the subscriber says {word}")

    def figures(self, word: str) -> list[int]:
        return [int(line.split()[1]) for line in self.lines if line.startswith(f"{word} ")]

    async def ends(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._following

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._following


@asynccontextmanager
async def reader_of(broker: BrokerChild, slow: Slow) -> AsyncIterator[Reader]:
    words = [str(READER), address_of(broker), slow, str(SLOW_BYTES), str(WINDOW_BYTES)]
    pipe = asyncio.subprocess.PIPE
    reader = Reader(await asyncio.create_subprocess_exec(sys.executable, *words, stdin=pipe, stdout=pipe))
    try:
        await reader.waits_to_say("begun")
        yield reader
    finally:
        await reader.kill()


@asynccontextmanager
async def stage(directory: Path, tolerance: int) -> AsyncIterator[tuple[BrokerChild, holdfast.Client, holdfast.Client]]:
    """A broker in a process of its own, and two clients of it that keep up."""
    settings = {"link": LINK, "tolerance": tolerance, "session_bytes_max": SESSION_BYTES}
    async with (
        serving_child(directory, **settings) as broker,
        holdfast.connect(address_of(broker), name="alice", link=LINK) as alice,
        holdfast.connect(address_of(broker), name="carol", link=LINK) as carol,
    ):
        yield broker, alice, carol


async def read(inbox: holdfast.Subscription, count: int) -> list[int]:
    return [(await inbox.get(PATIENCE_S)).seq for _ in range(count)]


async def publish(alice: holdfast.Client) -> None:
    for _ in range(COUNT):
        await alice.publish("t", PAYLOAD)


async def everybody_else_gets_everything(alice: holdfast.Client, inbox: holdfast.Subscription) -> None:
    """Nobody waits: all of it is accepted, and delivered to whoever reads, while the slow one stands there."""
    async with asyncio.timeout(2 * PATIENCE_S):
        _, seqs = await asyncio.gather(publish(alice), read(inbox, COUNT))
        assert seqs == list(range(1, COUNT + 1))
        await alice.flush()


async def tells_all(reader: Reader, alice: holdfast.Client, slow: Slow) -> None:
    """Whatever the slow subscriber did not get, it was told of, in its place."""
    if slow == "disconnect":
        await reader.ends()
        seqs = reader.figures("seq")
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) < COUNT
        assert reader.lines[-1].startswith("over ")
        return
    await reader.waits_to_say("drained")
    await alice.publish("t", b"end")
    await reader.ends()
    seqs, gaps = reader.figures("seq"), reader.figures("gap")
    assert seqs == sorted(set(seqs))
    assert len(gaps) >= 1
    assert len(seqs) + sum(gaps) == COUNT + 1
    assert (COUNT in seqs) is (slow == "drop-oldest")


async def broker_counts(broker: BrokerChild, figure: str) -> None:
    """Return when that figure of the broker is not 0."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            said = await health_of("127.0.0.1", broker.health_port)
            if said.get(figure):
                return
            await asyncio.sleep(0.05)


@tolerances
@pytest.mark.parametrize("slow", NOT_BLOCKING)
def test_nobody_else_notices_a_process_that_is_stopped(slow: Slow, tolerance: int, tmp_path: Path):
    async def story() -> None:
        async with stage(tmp_path, tolerance) as (broker, alice, carol), reader_of(broker, slow) as reader:
            inbox = await carol.subscribe("t", slow="block")
            reader.hurry()
            reader.send(signal.SIGSTOP)
            try:
                await everybody_else_gets_everything(alice, inbox)
                said = await health_of("127.0.0.1", broker.health_port)
                if slow != "disconnect":
                    assert said["slow"]["slow"]["policies"] == [slow]
                    assert said["slow"]["slow"]["dropped"] == said["dropped_messages"] > COUNT // 4
                else:
                    assert said["slow_ended"] == 1
                    assert "slow" not in said["clients"]
            finally:
                reader.send(signal.SIGCONT)
            await tells_all(reader, alice, slow)
            if slow == "disconnect":
                assert "did not take what it asked for" in reader.lines[-1]

    holdfast.run(story())


@tolerances
@pytest.mark.parametrize("slow", NOT_BLOCKING)
def test_nobody_else_notices_an_application_that_reads_two_messages_a_second(
    slow: Slow, tolerance: int, tmp_path: Path
):
    async def story() -> None:
        async with stage(tmp_path, tolerance) as (broker, alice, carol), reader_of(broker, slow) as reader:
            inbox = await carol.subscribe("t", slow="block")
            await everybody_else_gets_everything(alice, inbox)
            assert len(reader.figures("seq")) < COUNT // 10
            # The client tells its broker what it has dropped, and what it has ended, for people to see.
            figure = "slow_ended" if slow == "disconnect" else "dropped_messages"
            await broker_counts(broker, figure)
            reader.hurry()
            await tells_all(reader, alice, slow)
            if slow == "disconnect":
                assert "does not keep up" in reader.lines[-1]

    holdfast.run(story())


def test_receipts_name_a_subscriber_that_has_dropped_the_message(tmp_path: Path):
    async def story() -> None:
        async with stage(tmp_path, 0) as (_, alice, carol):
            inbox = await carol.subscribe("t", slow="drop-newest", slow_bytes=100)
            first = await alice.publish("t", PAYLOAD)
            await first.confirmed()
            second = await alice.publish("t", PAYLOAD)
            with pytest.raises(holdfast.NotConfirmed) as caught:
                await second.confirmed()
            assert caught.value.lack == ("carol",)
            assert (await inbox.get(PATIENCE_S)).seq == first.seq
            with pytest.raises(holdfast.Gap) as gap:
                await inbox.get(PATIENCE_S)
            assert gap.value.dropped == 1

    holdfast.run(story())


def test_a_receipt_that_waits_for_the_application_ends_when_the_message_is_dropped(tmp_path: Path):
    async def story() -> None:
        async with stage(tmp_path, 0) as (_, alice, carol):
            await carol.subscribe("t", slow="drop-oldest", slow_bytes=100)
            first = await alice.publish("t", PAYLOAD)
            await first.confirmed()
            taken = asyncio.ensure_future(first.confirmed(by="application"))
            await (await alice.publish("t", PAYLOAD)).confirmed()
            with pytest.raises(holdfast.NotConfirmed) as caught:
                async with asyncio.timeout(PATIENCE_S):
                    await taken
            assert caught.value.lack == ("carol",)

    holdfast.run(story())


def test_subscriptions_of_one_client_do_not_hold_each_other_up(tmp_path: Path):
    async def story() -> None:
        async with stage(tmp_path, 0) as (_, alice, carol):
            inbox = await carol.subscribe("t", slow="block")
            idle = await carol.subscribe("#", slow="drop-oldest", slow_bytes=SLOW_BYTES)
            await everybody_else_gets_everything(alice, inbox)
            with pytest.raises(holdfast.Gap) as caught:
                await idle.get(PATIENCE_S)
            assert await read(idle, COUNT - caught.value.dropped) == list(range(caught.value.dropped + 1, COUNT + 1))

    holdfast.run(story())


def test_the_command_line_writes_what_it_dropped_into_the_stream_of_json_lines(tmp_path: Path):
    async def story() -> None:
        async with stage(tmp_path, 0) as (broker, alice, _):
            options = ["--json", "--slow", "drop-oldest", "--address", address_of(broker), "--name", "printer"]
            pipe = asyncio.subprocess.PIPE
            command = [sys.executable, "-m", "holdfast", "sub", "t", *options]
            printer = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, limit=1 << 20)
            assert printer.stdout is not None
            assert printer.stderr is not None
            try:
                assert b"is subscribed" in await printer.stderr.readline()
                printer.send_signal(signal.SIGSTOP)
                await publish(alice)
                await alice.flush()
                printer.send_signal(signal.SIGCONT)
                async with asyncio.timeout(PATIENCE_S):
                    lines = [json.loads(await printer.stdout.readline())]
                    while lines[-1].get("seq") != COUNT:
                        lines.append(json.loads(await printer.stdout.readline()))
            finally:
                printer.kill()
                await printer.communicate()
            gaps = [line for line in lines if "gap" in line]
            assert sum(gap["dropped"] for gap in gaps) + len(lines) - len(gaps) == COUNT
            assert all("dropped here" in gap["gap"] for gap in gaps)
            assert gaps

    holdfast.run(story())


def test_metrics_of_a_broker_count_what_slow_readers_have_dropped(tmp_path: Path):
    async def story() -> None:
        async with stage(tmp_path, 0) as (broker, alice, _), reader_of(broker, "drop-newest") as reader:
            reader.send(signal.SIGSTOP)
            await publish(alice)
            await alice.flush()
            text = await _metrics(broker)
            reader.send(signal.SIGCONT)
            figures = dict(line.split(" ") for line in text.splitlines() if line and not line.startswith("#"))
            assert float(figures["holdfast_broker_slow_clients"]) == 1
            assert float(figures["holdfast_broker_dropped_messages_total"]) > COUNT // 4
            assert float(figures["holdfast_broker_slow_ended_total"]) == 0

    holdfast.run(story())


async def _metrics(broker: BrokerChild) -> str:
    source, sink = await asyncio.open_connection("127.0.0.1", broker.health_port)
    sink.write(b"GET /metrics HTTP/1.1\r\nHost: b0\r\nConnection: close\r\n\r\n")
    answer = (await source.read()).decode()
    sink.close()
    return answer.partition("\r\n\r\n")[2]
