"""Thousands of light-weight clients in one process: the load of the bench of scale.

A light client speaks the wire by itself, without the machines of a real client: it says hello, subscribes, acknowledges
deliveries as late as a real client does, and asks its broker for a sign of life as often as a real client does. So what
a broker does for it is what a broker does for a real client, and thousands of light clients fit into one process.

Run as a worker. The worker obeys these words, one a line:

    open COUNT [PATTERN]     so many more clients; each subscribes to the pattern, in which `{n}` is its number
    subscribe COUNT PREFIX   so many patterns below the prefix, shared out among the clients
    spread COUNT TOPIC FANS  the first client publishes so many messages, each when all fans have the one before
    stream COUNT PREFIX      the first client publishes so many messages, each to a topic of its own below the prefix
"""

import asyncio
from collections.abc import Iterable
from functools import partial
from time import monotonic
from typing import cast

from msgspec import Struct

from holdfast.client.connecting import STEADY_LINK
from holdfast.cluster.workers import Orders, WorkerError, play, say
from holdfast.model.batches import Batch
from holdfast.model.guarantees import CAUSAL
from holdfast.model.messages import (
    LAP,
    WIRE_VERSION,
    Ack,
    Data,
    Frame,
    Goodbye,
    Hello,
    Ping,
    Pong,
    Publish,
    Refusal,
    SessionMessage,
    Subscribe,
    SubscribeAck,
    Welcome,
)
from holdfast.model.wire import FrameReader, encode
from holdfast.runtime.open_files import SPARE_FILES, allow_connections

LINK = STEADY_LINK
OPENING_MAX = 100
"""How many connections are opened at a time."""
UNANSWERED_MAX = 200
"""How many subscriptions, or publications, are under way at a time."""
PAYLOAD = bytes(32)


class ScaleLoadSettings(Struct, frozen=True):
    role: str
    host: str
    port: int
    cluster: str = "holdfast"


def check_connections(count: int) -> None:
    """See to it that this process may have so many connections; says what to do if it may not."""
    allowed = allow_connections(count)
    if allowed < count:
        raise WorkerError(
            f"{count:,} connections are too many: this process may have {allowed:,}. Raise the limit of open files to "
            f"{count + SPARE_FILES:,} (`ulimit -Hn` as root, LimitNOFILE in a systemd unit), or measure with --quick."
        )


class LightClient(asyncio.Protocol):
    """One connection and its session, from the client's side."""

    __slots__ = ("_frames", "_name", "_pattern", "_received", "_received_bytes", "_transport", "load", "ready", "sent")

    def __init__(self, load: "ScaleLoad", name: str, pattern: str) -> None:
        self.load, self._name, self._pattern = load, name, pattern
        self._frames = FrameReader()
        self._received = self._received_bytes = self.sent = 0
        self._transport: asyncio.Transport | None = None
        self.ready: asyncio.Future[None] = load.loop.create_future()

    # -------------------------------------------------------------------------------------- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        session = int(monotonic() * 1e9)
        self.write(Hello(WIRE_VERSION, self._name, "client", self.load.cluster, session, False, 0, LINK.window_bytes))

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            self._on_frame(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self.load.failed(f"the broker closed the connection of {self._name}: {exc or 'no reason given'}")

    # ---------------------------------------------------------------------------------------------- the session

    def write(self, frame: Frame) -> None:
        if self._transport is not None:
            self._transport.write(encode(frame))

    def say(self, message: SessionMessage) -> None:
        self.sent += 1
        self.write(Data(self.sent % LAP, message))

    def acknowledge(self) -> None:
        self.write(Ack(self._received, self._received_bytes + LINK.window_bytes))

    def ask(self) -> None:
        """Whether the broker is there, as a real client does it."""
        self.write(Ping(0))
        self.load.loop.call_later(LINK.heartbeat_s, self.ask)

    def _on_frame(self, frame: Frame) -> None:
        if isinstance(frame, Data):
            self._on_message(frame.message)
        elif isinstance(frame, Ping):
            self.write(Pong(frame.number))
        elif isinstance(frame, Ack):
            self.load.acknowledged(self, frame.received)
        elif isinstance(frame, Welcome):
            self.load.loop.call_later(LINK.heartbeat_s, self.ask)
            if self._pattern:
                self.say(Subscribe(0, self._pattern, ""))
            else:
                self.ready.set_result(None)
        elif isinstance(frame, Refusal | Goodbye):
            self.load.failed(f"the broker turned {self._name} away: {frame.reason}")

    def _on_message(self, message: SessionMessage) -> None:
        self._received += 1
        self.load.owes(self)
        if isinstance(message, Publish):
            self._received_bytes += message.batch.cost_bytes
            self.load.delivered(message.batch.count)
        elif isinstance(message, SubscribeAck):
            if not self.ready.done():
                self.ready.set_result(None)
            self.load.answered()


def _same(client: LightClient) -> LightClient:
    return client


class ScaleLoad:
    """All light clients of this process."""

    def __init__(self, settings: ScaleLoadSettings) -> None:
        self.loop = asyncio.get_running_loop()
        self.cluster = settings.cluster
        self._place = (settings.host, settings.port)
        self._clients: list[LightClient] = []
        self._owing: dict[LightClient, None] = {}
        self._awaited = 0
        self._arrived = asyncio.Event()
        self._sent = self._published = 0
        self._failure = ""

    def __len__(self) -> int:
        return len(self._clients)

    # ------------------------------------------------------------------------------------------ what clients say

    def failed(self, reason: str) -> None:
        if not self._failure:
            self._failure = reason
            self._arrived.set()
            say("failed", reason=reason)

    def owes(self, client: LightClient) -> None:
        """That client acknowledges what came within the time that a real client takes."""
        if not self._owing:
            self.loop.call_later(LINK.ack_delay_s, self._acknowledge)
        self._owing[client] = None

    def _acknowledge(self) -> None:
        owing, self._owing = self._owing, {}
        for client in owing:
            client.acknowledge()

    def delivered(self, count: int) -> None:
        self._count(count)

    def answered(self) -> None:
        self._count(1)

    def acknowledged(self, client: LightClient, received: int) -> None:
        if client is self._clients[0] and self._sent and received >= self._sent:
            self._arrived.set()

    def _count(self, count: int) -> None:
        if self._awaited:
            self._awaited -= count
            if self._awaited <= 0:
                self._arrived.set()

    # -------------------------------------------------------------------------------------------------- commands

    async def open(self, count: int, pattern: str) -> None:
        """Open so many more sessions, some at a time; each is subscribed when this returns."""
        started = monotonic()
        numbers = iter(range(len(self._clients), len(self._clients) + count))
        await asyncio.gather(*(self._open_each(numbers, pattern) for _ in range(min(OPENING_MAX, count))))
        say("opened", count=len(self._clients), seconds=monotonic() - started)

    async def _open_each(self, numbers: Iterable[int], pattern: str) -> None:
        for number in numbers:
            client = LightClient(self, f"light-{number}", pattern.replace("{n}", str(number)))
            self._clients.append(client)
            await self.loop.create_connection(partial(_same, client), *self._place)
            await client.ready

    async def subscribe(self, count: int, prefix: str) -> None:
        """Some subscriptions at a time, since their answers are awaited."""
        for at in range(0, count, UNANSWERED_MAX):
            here = range(at, min(at + UNANSWERED_MAX, count))
            self._expect(len(here))
            for number in here:
                client = self._clients[number % len(self._clients)]
                client.say(Subscribe(number + 1, f"{prefix}/{number}", ""))
            await self._arrived.wait()
        say("subscribed", count=count)

    async def spread(self, count: int, topic: str, fans: int) -> None:
        """One message at a time, to so many subscribers."""
        for _ in range(count):
            self._expect(fans)
            self._publish(topic)
            await self._arrived.wait()
        await asyncio.sleep(2 * LINK.ack_delay_s)
        say("spread", count=count)

    async def stream(self, count: int, prefix: str) -> None:
        """As fast as the broker takes them, each in a frame of its own."""
        first = self._clients[0]
        for at in range(0, count, UNANSWERED_MAX):
            for number in range(at, min(at + UNANSWERED_MAX, count)):
                self._publish(f"{prefix}/{number}")
            self._arrived.clear()
            self._sent = first.sent
            first.write(Ping(0))
            await self._arrived.wait()
        self._sent = 0
        say("streamed", count=count)

    def _expect(self, count: int) -> None:
        self._awaited = count
        self._arrived.clear()

    def _publish(self, topic: str) -> None:
        self._published += 1
        self._clients[0].say(Publish(Batch("light-0", self._published, topic, CAUSAL, PAYLOAD)))


async def load(settings: ScaleLoadSettings, orders: Orders) -> None:
    clients = ScaleLoad(settings)
    say("ready")
    while True:
        word, *rest = (await orders.next()).split()
        if word == "open":
            check_connections(len(clients) + int(rest[0]))
            await clients.open(int(rest[0]), rest[1] if len(rest) > 1 else "")
        elif word == "subscribe":
            await clients.subscribe(int(rest[0]), rest[1])
        elif word == "spread":
            await clients.spread(int(rest[0]), rest[1], int(rest[2]))
        elif word == "stream":
            await clients.stream(int(rest[0]), rest[1])


if __name__ == "__main__":
    play(ScaleLoadSettings, {"load": load})
