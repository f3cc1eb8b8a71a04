"""`holdfast pub` and `holdfast sub`: messages from and to the terminal."""

import asyncio
import base64
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import msgspec
import typer

from holdfast.cli.options import (
    ADDRESS_VARIABLE,
    DEFAULT_ADDRESS,
    Address,
    AsJson,
    ClusterName,
    Name,
    parse_attributes,
)
from holdfast.cli.output import note, print_json, print_line
from holdfast.client import Client, Gap, Receipt, Subscription, connect
from holdfast.client.arguments import subscription_name
from holdfast.client.durable_publishers import DurableReceipt
from holdfast.client.names import random_name
from holdfast.client.recording import record
from holdfast.client.slow import checked_slow
from holdfast.cluster.config import CLUSTER_NAME, load_cluster
from holdfast.model.batches import PAYLOAD_BYTES_MAX, Message
from holdfast.model.errors import ConfigError, HoldfastError, LocalMisuse, Refused
from holdfast.model.filters import parse_filter
from holdfast.model.guarantees import check_guarantee
from holdfast.model.plurals import counted
from holdfast.model.slow_messages import Slow
from holdfast.model.topics import check_pattern, check_unreserved
from holdfast.runtime.process import run
from holdfast.storage.recordings import RecordingWriter

T = TypeVar("T")

LINES_WAITING_MAX = 256
READ_BYTES = 1 << 16
FORGET_S = 5.0
"""How long the end of `sub --from-start` waits for a repository to say that it keeps nothing for it."""
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def pub(
    topic: Annotated[str, typer.Argument(help="Where to publish, such as bank/lisbon.")],
    payloads: Annotated[
        list[str] | None, typer.Argument(metavar="PAYLOAD", help="One message each; without any, lines of stdin.")
    ] = None,
    guarantee: Annotated[str, typer.Option("--guarantee", "-g", help="eventual, fifo, causal or total.")] = "causal",
    keys: Annotated[
        list[str] | None, typer.Option("--key", "-k", help="A key; total order is per topic and key. Repeatable.")
    ] = None,
    attributes: Annotated[
        list[str] | None, typer.Option("--attr", help="name=value for subscribers to filter on. Repeatable.")
    ] = None,
    count: Annotated[int, typer.Option("--count", "-c", min=1, help="Publish every payload that many times.")] = 1,
    confirm: Annotated[bool, typer.Option("--confirm", help="Wait until every subscriber has the last one.")] = False,
    durable: Annotated[
        bool, typer.Option("--durable", help="Have it stored by the topic's repositories, and wait until it is.")
    ] = False,
    address: Address = DEFAULT_ADDRESS,
    cluster: ClusterName = CLUSTER_NAME,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="A cluster file: its name, its brokers, its reliable topics.")
    ] = None,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Publish messages.

    It ends when the broker has accepted all of them, or, with --confirm, when all subscribers have them.

    Repositories store messages that are published with --durable, or on a reliable topic of the cluster file of --file,
    and no others. The command then ends when the last message is stored.

    \b
    Examples
      holdfast pub bank/lisbon "hello"
      holdfast pub bank/lisbon 120 -g total -k PT50-1 --attr amount=120 --confirm
      seq 1000 | holdfast pub numbers
      holdfast pub bank/orders "keep this" --durable
      holdfast pub bank/orders "keep this" --file kept.toml
    """
    check_unreserved(topic)
    promised = check_guarantee(guarantee)
    described = parse_attributes(attributes or [])
    reliable: tuple[str, ...] = ()
    if file is not None:
        found = load_cluster(file)
        reliable = found.streams
        cluster = found.name if cluster == CLUSTER_NAME else cluster
        if address in (DEFAULT_ADDRESS, os.environ.get(ADDRESS_VARIABLE)):
            address = ",".join(broker.address for broker in found.brokers)

    async def publish() -> tuple[int, Receipt | None]:
        published, receipt = 0, None
        async with connect(address, name=name, cluster=cluster, reliable=reliable) as client:
            async for payload in _given(payloads) if payloads else _lines_of_stdin():
                for _ in range(count):
                    receipt = await client.publish(
                        topic, payload, promised, keys or (), described, durable=durable or None
                    )
                    published += 1
            if receipt is not None:
                if isinstance(receipt, DurableReceipt):
                    await receipt.stored()
                await (receipt.confirmed() if confirm else receipt.accepted())
        return published, receipt

    _say_gaps_here()
    _say_published(topic, *_run(publish()), as_json=as_json)


def _say_published(topic: str, published: int, receipt: Receipt | None, *, as_json: bool) -> None:
    if receipt is None:
        note("nothing was published: there was no payload and no line on stdin")
        return
    first, last = receipt.seq - published + 1, receipt.seq
    if as_json:
        print_json(
            {"topic": topic, "publisher": receipt.publisher, "first": first, "last": last, "level": receipt.level}
        )
        return
    which = f"{receipt.publisher}#{last}" if first == last else f"{receipt.publisher}#{first}..{last}"
    storage = f" ({receipt.storage})" if isinstance(receipt, DurableReceipt) else ""
    print_line(f"{which} on {topic}: {receipt.level}{storage}")


async def _given(payloads: list[str]) -> AsyncIterator[bytes]:
    for payload in payloads:
        # Arguments that are no UTF-8 arrive with surrogates in the place of their bytes.
        yield payload.encode(errors="surrogateescape")


async def _lines_of_stdin() -> AsyncIterator[bytes]:
    """The lines, read in a thread that nobody has to wait for: a read from a terminal cannot be interrupted."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(LINES_WAITING_MAX)

    def read() -> None:
        try:
            for line in lines_of(sys.stdin.fileno()):
                room.acquire()
                loop.call_soon_threadsafe(lines.put_nowait, line)
        except RuntimeError:
            return  # The loop has ended, and with it whoever wanted lines.

    if sys.stdin.isatty():
        note("each line is a message; Ctrl-D ends")
    threading.Thread(target=read, daemon=True).start()
    while line := await lines.get():
        room.release()
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def lines_of(fd: int) -> Iterator[bytes]:
    """Lines with their ends, and b"" when there are no more; a line over the limit for payloads comes in pieces.

    Read from the descriptor itself: a thread that is still inside of `sys.stdin.buffer` when the interpreter ends
    holds its lock, and Python then aborts.
    """
    rest = b""
    while piece := os.read(fd, READ_BYTES):
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in whole)
        while len(rest) > PAYLOAD_BYTES_MAX + 1:
            # The first piece is refused as a payload.
            yield rest[: PAYLOAD_BYTES_MAX + 2]
            rest = rest[PAYLOAD_BYTES_MAX + 2 :]
    if rest:
        yield rest
    yield b""


def sub(
    pattern: Annotated[str, typer.Argument(help="Topic or pattern: + is one level, # all that remain.")],
    where: Annotated[str, typer.Option("--where", "-w", help="A filter on attributes, such as 'amount > 100'.")] = "",
    count: Annotated[int, typer.Option("--count", "-c", min=0, help="End after that many messages; 0: never.")] = 0,
    address: Address = DEFAULT_ADDRESS,
    cluster: ClusterName = CLUSTER_NAME,
    name: Name = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print payloads alone, byte for byte.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each message as a line of JSON.")] = False,
    slow: Annotated[
        str | None,
        typer.Option(
            "--slow",
            metavar="POLICY",
            help="For messages that are not read in time: disconnect (default), block, drop-oldest or drop-newest.",
        ),
    ] = None,
    slow_s: Annotated[
        float | None,
        typer.Option(
            "--slow-s", metavar="S", help="Seconds that a subscription may be behind before it is disconnected: 30."
        ),
    ] = None,
    durable: Annotated[
        str | None,
        typer.Option("--durable", metavar="NAME", help="A durable subscription: continue where NAME stopped."),
    ] = None,
    from_start: Annotated[bool, typer.Option("--from-start", help="All stored messages, then new ones.")] = False,
    from_seq: Annotated[
        int | None,
        typer.Option("--from", metavar="SEQ", min=1, help="Stored messages from this sequence number on, from 1."),
    ] = None,
    from_time: Annotated[
        str,
        typer.Option(
            "--from-time", metavar="T", help="Messages stored since then: 2026-11-15T20:00, local time, or ...Z."
        ),
    ] = "",
    reconnect: Annotated[
        bool, typer.Option("--reconnect", help="Come back when the session is lost; a line says where a gap is.")
    ] = False,
    recording: Annotated[
        Path | None, typer.Option("--record", metavar="DIR", help="Write to this recording instead of printing.")
    ] = None,
) -> None:
    """Subscribe and print the arriving messages until Ctrl-C or --count; or record them for the data pipeline.

    To read the stored messages of a reliable topic, use --durable NAME, which continues where NAME stopped, or once
    --from-start, --from or --from-time: the repositories forget that reader when the command ends.

    A command that prints more slowly than others publish is disconnected when 16 MiB have waited for 30 s, with an
    error that says so. With --slow drop-oldest or drop-newest messages are dropped instead; a note on stderr, or with
    --json a line {"gap": ..., "dropped": N}, counts them in their place. With --slow block publishers wait.

    A session is lost when the broker of a cluster without a tolerance is restarted, or when no broker could be reached
    for too long. That ends the command. With --reconnect it begins another session, says where messages may be missing,
    and continues.

    \b
    Examples
      holdfast sub 'bank/#'
      holdfast sub bank/+ --where "amount > 100 and currency = 'EUR'" --json
      holdfast sub numbers --count 1000 --raw > numbers.txt
      holdfast sub 'bank/#' --record recordings/bank
      holdfast sub 'sensors/#' --slow drop-oldest --reconnect
      holdfast sub bank/orders --durable billing
      holdfast sub bank/orders --from-time 2026-11-15T20:00
    """
    check_pattern(pattern)
    if raw and as_json:
        raise ConfigError("--raw prints payloads alone, and --json everything: choose one of them.")
    if where:
        parse_filter(where)
    if durable is not None:
        subscription_name("sub", "--durable", durable)
    start = _start_of(from_start, from_seq, from_time)
    # It is checked before anybody is asked; what a client does not know is refused with what it knows.
    checked_slow(slow, slow_s, None, durable=bool(durable or start is not None))
    policy = cast("Slow | None", slow)
    once = "" if durable or start is None else f"once-{random_name()}"

    async def follow() -> None:
        async with connect(address, name=name, cluster=cluster, reconnect=reconnect) as client:
            opening = client.opening_of(pattern, where, durable or once, start, (policy, slow_s, None), {})
            if once:
                async with _forgotten(client, once, pattern), opening as messages:
                    await show(client, messages)
            else:
                await show(client, await opening)

    async def show(client: Client, messages: Subscription) -> None:
        note(f"{client.name} is subscribed to {pattern} at broker {client.broker}")
        if recording is not None:
            await _record(messages, recording, count)
        else:
            await _print_all(messages, count, raw=raw, as_json=as_json)

    _say_gaps_here()
    _run(follow())


@asynccontextmanager
async def _forgotten(client: Client, name: str, pattern: str) -> AsyncIterator[None]:
    """End the subscription that was made for the occasion with it, however that ends: repositories keep for it."""
    try:
        yield
    finally:
        try:
            # Who was refused, or found no repository, began nothing.
            if not isinstance(sys.exception(), LocalMisuse | Refused):
                async with asyncio.timeout(FORGET_S):
                    await client.forget_subscription(name, pattern)
        except (HoldfastError, TimeoutError):
            note(f"no repository said that {name} is over; end it with `holdfast topics forget {name} {pattern!r}`")


def _run(main: Coroutine[Any, Any, T]) -> T:
    """Run it, and leave the broker on SIGTERM as on Ctrl-C: the session ends, and nothing is kept for it.

    What a durable subscription has read is acknowledged, and one that was made for the occasion is forgotten. SIGTERM
    does not take the way of SIGINT, which a process that a script has put into the background ignores.
    """
    told = asyncio.Event()

    async def in_order() -> T:
        task = asyncio.current_task()
        assert task is not None

        def leave() -> None:
            told.set()
            task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave)
        return await main

    try:
        return run(in_order())
    except asyncio.CancelledError:
        if told.is_set():
            raise KeyboardInterrupt from None
        raise


def _say_gaps_here() -> None:
    """These commands say themselves what went wrong: the client's log need not say it a second time."""
    logging.getLogger("holdfast.client").addHandler(logging.NullHandler())


def _start_of(from_start: bool, seq: int | None, time: str) -> str | int | datetime | None:
    """Where a subscription to what is stored begins; `None` if nothing was said of it."""
    if from_start + (seq is not None) + bool(time) > 1:
        raise ConfigError("a subscription has one beginning: choose one of --from-start, --from and --from-time.")
    if time:
        try:
            return datetime.fromisoformat(time)
        except ValueError:
            raise ConfigError(f"--from-time {time!r} is no time; write it as 2026-11-15T20:00:00.") from None
    return "start" if from_start else seq


async def _record(messages: Subscription, path: Path, count: int) -> None:
    with RecordingWriter(path) as writer:
        first = writer.next_position
        note(f"recording to {path} from position {first} on")

        def recorded() -> int:
            return writer.next_position + writer.pending - first

        try:
            await _in_spite_of_gaps(lambda: record(messages, writer, count and count - recorded()))
        finally:
            note(f"recorded {counted(recorded(), 'message')} to {path}")


async def _in_spite_of_gaps(read: Callable[[], Coroutine[Any, Any, object]], as_json: bool = False) -> None:
    """Read on behind a place where something may be missing, and say so: what follows is worth reading."""
    while True:
        try:
            await read()
        except Gap as gap:
            if not gap.goes_on:
                raise
            note(f"gap: {gap}")
            if as_json:
                print_line(msgspec.json.encode({"gap": str(gap), "dropped": gap.dropped}).decode())
        else:
            return


async def _print_all(messages: Subscription, count: int, *, raw: bool, as_json: bool) -> None:
    left = count

    async def read() -> None:
        nonlocal left
        async for message in messages:
            _print_message(message, raw=raw, as_json=as_json)
            left -= 1
            if left == 0:
                return

    await _in_spite_of_gaps(read, as_json)


def _print_message(message: Message, *, raw: bool, as_json: bool) -> None:
    if raw:
        sys.stdout.buffer.write(message.payload + b"\n")
        sys.stdout.buffer.flush()
    elif as_json:
        print_line(msgspec.json.encode(_as_dict(message)).decode())
    else:
        print_line(as_text(message))


def _as_dict(message: Message) -> dict[str, Any]:
    said: dict[str, Any] = {
        "topic": message.topic,
        "publisher": message.publisher,
        "seq": message.seq,
        "guarantee": message.guarantee,
        "keys": message.keys,
        "attributes": message.attributes,
    }
    if message.crossed:
        said["crossed"] = True
    try:
        said["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        said["payload_base64"] = base64.b64encode(message.payload).decode()
    return said


def as_text(message: Message) -> str:
    """A message on one line; what could command the terminal is escaped."""
    parts = [message.topic, f"{message.publisher}#{message.seq}", message.guarantee.value]
    parts += [f"key={key}" for key in message.keys]
    parts += [f"{name}={value}" for name, value in message.attributes.items()]
    parts += ["crossed"] if message.crossed else []
    head = "  ".join(parts)
    return _escaped(f"{head}  {message.payload.decode(errors='backslashreplace')}")


def _escaped(text: str) -> str:
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
