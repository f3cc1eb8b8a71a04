"""The floor: the least that a Python process in the middle costs.

A relay that knows nothing but frames: it cuts what it reads into length-prefixed frames of up to 100 messages (64 KiB
at most), looks at the header of each, and writes the lot to every sink at once. No sessions, no acknowledgements, no
routing, no order beyond TCP's. The publisher hands over its messages one by one and the subscriber is called for each,
as in any application; what Holdfast does on top of that is measured against it.

Run as a worker: a relay, a publisher or a subscriber.
"""

import asyncio
from array import array
from struct import Struct as Layout
from typing import Literal, cast

from msgspec import Struct

from holdfast.cluster.bench.samples import PublishedSample, SamplePace, SampleTally, clock_ns, stamped
from holdfast.cluster.workers import Orders, say, settings_of_this_process, work

FRAME_MESSAGES = 100
FRAME_BYTES_MAX = 1 << 16
HIGH_WATER_BYTES = 1 << 20
HEADER = Layout(">IQH")
PUBLISHER, SUBSCRIBER = b"P", b"S"


class FloorSettings(Struct, frozen=True):
    role: Literal["relay", "publisher", "subscriber"]
    port: int = 0
    """Where to connect: the next relay, for a relay; 0 makes it the last one."""
    size_bytes: int = 32
    seconds: float = 1.0
    paced: bool = False


def frame(first: int, payloads: list[bytes]) -> bytes:
    """A header, a column of lengths, a column of payloads."""
    lengths = array("I", map(len, payloads)).tobytes()
    body = b"".join(payloads)
    return HEADER.pack(HEADER.size - 4 + len(lengths) + len(body), first, len(payloads)) + lengths + body


def payloads_of(view: bytes, at: int, count: int) -> list[bytes]:
    """The payloads of the frame at that place, one by one."""
    at += HEADER.size
    lengths = array("I", view[at : at + 4 * count])
    at += 4 * count
    pieces = []
    for length in lengths:
        pieces.append(view[at : at + length])
        at += length
    return pieces


class FrameProtocol(asyncio.Protocol):
    """Cuts the stream into frames; subclasses say what happens to those that are complete."""

    def __init__(self) -> None:
        self._rest = b""
        self.transport: asyncio.Transport
        self.writable = asyncio.Event()
        self.writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        starts = []
        while end - at >= HEADER.size:
            size, first, count = HEADER.unpack_from(data, at)
            if at + 4 + size > end:
                break
            starts.append((at, first, count))
            at += 4 + size
        self._rest = data[at:]
        if starts:
            self.frames_received(data, starts, at)

    def frames_received(self, data: bytes, starts: list[tuple[int, int, int]], end: int) -> None:
        raise NotImplementedError


class FloorRelay(FrameProtocol):
    """One connection to a relay: its first byte says whether it is a source or a sink."""

    def __init__(self, sinks: "list[FloorRelay]", sources: "list[FloorRelay]") -> None:
        super().__init__()
        self._sinks, self._sources = sinks, sources
        self._role = b""

    def data_received(self, data: bytes) -> None:
        if not self._role:
            self._role, data = data[:1], data[1:]
            (self._sinks if self._role == SUBSCRIBER else self._sources).append(self)
            if self._role == SUBSCRIBER:
                self.transport.write(frame(0, []))
        super().data_received(data)

    def frames_received(self, data: bytes, starts: list[tuple[int, int, int]], end: int) -> None:  # noqa: ARG002
        whole = data if end == len(data) else data[:end]
        for sink in self._sinks:
            sink.transport.write(whole)

    def pause_writing(self) -> None:
        for source in self._sources:
            source.transport.pause_reading()

    def resume_writing(self) -> None:
        for source in self._sources:
            source.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        if self in self._sinks:
            self._sinks.remove(self)


class FloorSubscriber(FrameProtocol):
    """The end of the line: takes every payload out of its frame and calls the application with it."""

    def __init__(self, tally: SampleTally, *, paced: bool) -> None:
        super().__init__()
        self._tally, self._paced = tally, paced
        self.known = asyncio.Event()

    def frames_received(self, data: bytes, starts: list[tuple[int, int, int]], end: int) -> None:  # noqa: ARG002
        # The first frame is empty: the relay knows us.
        self.known.set()
        take = self._tally.take_stamped if self._paced else self._tally.take
        for at, first, count in starts:
            for seq, payload in enumerate(payloads_of(data, at, count), first):
                take(seq, payload)
        self._tally.look()


class FloorPublisher(FrameProtocol):
    """The beginning of the line: coalesces messages into frames."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        self._per_frame = max(1, min(FRAME_MESSAGES, FRAME_BYTES_MAX // size_bytes))
        self._waiting: list[bytes] = []
        self.count = 0

    def publish(self, payload: bytes) -> None:
        self.count += 1
        self._waiting.append(payload)
        if len(self._waiting) >= self._per_frame:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self.transport.write(frame(self.count - len(self._waiting) + 1, self._waiting))
            self._waiting = []

    def frames_received(self, data: bytes, starts: list[tuple[int, int, int]], end: int) -> None:
        raise NotImplementedError("a relay never writes to a publisher")


async def relay(settings: FloorSettings, orders: Orders) -> None:
    loop = asyncio.get_running_loop()
    sinks: list[FloorRelay] = []
    sources: list[FloorRelay] = []
    server = await loop.create_server(lambda: FloorRelay(sinks, sources), "127.0.0.1", 0)
    if settings.port:
        transport, onward = await loop.create_connection(lambda: FloorRelay(sinks, sources), "127.0.0.1", settings.port)
        transport.write(PUBLISHER)
        sinks.append(onward)
    say("ready", port=server.sockets[0].getsockname()[1])
    try:
        await orders.wait_for("stop")
    finally:
        server.close()
        for one in (*sinks, *sources):
            one.transport.close()


async def publisher(settings: FloorSettings, orders: Orders) -> None:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(
        lambda: FloorPublisher(settings.size_bytes), "127.0.0.1", settings.port
    )
    transport.write(PUBLISHER)
    say("ready")
    await orders.wait_for("go")
    publish = _publish_paced if settings.paced else _publish_fast
    started_ns = clock_ns()
    await publish(settings, protocol, started_ns + int(settings.seconds * 1e9))
    say("done", published=PublishedSample(protocol.count, started_ns))
    try:
        await orders.wait_for("stop")
    finally:
        transport.close()


async def _publish_fast(settings: FloorSettings, line: FloorPublisher, until_ns: int) -> None:
    payload = bytes(settings.size_bytes)
    publish = line.publish
    while clock_ns() < until_ns:
        for _ in range(FRAME_MESSAGES):
            publish(payload)
        if not line.writable.is_set():
            await line.writable.wait()
    line.flush()


async def _publish_paced(settings: FloorSettings, line: FloorPublisher, until_ns: int) -> None:
    pace = SamplePace()
    while clock_ns() < until_ns:
        for _ in range(await pace.due()):
            line.publish(stamped(settings.size_bytes))
            line.flush()


async def subscriber(settings: FloorSettings, orders: Orders) -> None:
    loop = asyncio.get_running_loop()
    tally = SampleTally()
    transport, protocol = await loop.create_connection(
        lambda: FloorSubscriber(tally, paced=settings.paced), "127.0.0.1", settings.port
    )
    transport.write(SUBSCRIBER)
    await protocol.known.wait()
    say("ready")
    try:
        say("done", received=await tally.wait_for(int(await orders.next())))
    finally:
        transport.close()


async def main() -> None:
    settings = settings_of_this_process(FloorSettings)
    orders = Orders()
    orders.listen()
    await {"relay": relay, "publisher": publisher, "subscriber": subscriber}[settings.role](settings, orders)


if __name__ == "__main__":
    work(main())
