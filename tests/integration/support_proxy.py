"""TCP proxies that break connections, or alter what they pass on: at random places in the stream, from one seed."""

import asyncio
import socket
import struct
from random import Random
from typing import Self, cast

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class BreakingProxy:
    """Passes bytes on to `port`. Every connection is cut after a random number of bytes, often inside a frame.

    Half of the cuts are resets, half are ends of the stream that look orderly; what was read and not passed on is lost
    in both. After `breaks_max` cuts it behaves.
    """

    def __init__(self, port: int, seed: int, mean_bytes: int = 20_000, breaks_max: int = 1_000_000) -> None:
        self._target_port = port
        self._random = Random(seed)
        self._mean_bytes, self._breaks_max = mean_bytes, breaks_max
        self._pairs: set[_Pair] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.breaks = 0

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Side(_Pair(self), "near"), "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *exit_info: object) -> None:
        if self._server is not None:
            self._server.close()
        for pair in list(self._pairs):
            pair.abort()

    @property
    def target_port(self) -> int:
        return self._target_port

    def opened(self, pair: "_Pair") -> None:
        self._pairs.add(pair)
        pair.bytes_left = 1 + int(self._random.expovariate(1 / self._mean_bytes))

    def ended(self, pair: "_Pair") -> None:
        self._pairs.discard(pair)

    def may_break(self) -> bool:
        return self.breaks < self._breaks_max

    def break_now(self, pair: "_Pair") -> None:
        self.breaks += 1
        pair.abort() if self._random.random() < 0.5 else pair.finish()

    def altered(self, data: bytes) -> bytes:
        """What becomes of bytes that pass."""
        return data

    def break_all(self) -> None:
        """Cut every connection that is open now."""
        for pair in list(self._pairs):
            self.break_now(pair)


class FlippingProxy(BreakingProxy):
    """Passes all bytes on, in both directions, but not all as they were: at random places it flips bits.

    Mostly one bit, sometimes several within a few bytes, as a bad cable or a bad memory does. After `flips_max` it
    behaves.
    """

    def __init__(self, port: int, seed: int, mean_bytes: int = 20_000, flips_max: int = 1_000_000) -> None:
        super().__init__(port, seed, breaks_max=0)
        self._mean_bytes, self._flips_max = mean_bytes, flips_max
        self._bytes_left = self._distance()
        self.flips = 0

    def _distance(self) -> int:
        return int(self._random.expovariate(1 / self._mean_bytes))

    def altered(self, data: bytes) -> bytes:
        if self.flips >= self._flips_max:
            return data
        changed = bytearray(data)
        while self._bytes_left < len(changed) and self.flips < self._flips_max:
            for _ in range(self._random.choice((1, 1, 1, 2, 5))):
                at = min(len(changed) - 1, self._bytes_left + self._random.randrange(4))
                changed[at] ^= 1 << self._random.randrange(8)
            self._bytes_left += 1 + self._distance()
            self.flips += 1
        self._bytes_left = max(0, self._bytes_left - len(changed))
        return bytes(changed)


class _Pair:
    """The two connections of one passage."""

    def __init__(self, proxy: BreakingProxy) -> None:
        self.proxy = proxy
        self.bytes_left = 0
        self.sides: dict[str, _Side] = {}
        self.early = b""
        self.over = False

    def passed(self, count: int) -> int:
        """How many of these bytes get through."""
        if not self.proxy.may_break():
            return count
        through = min(count, self.bytes_left)
        self.bytes_left -= through
        return through

    def abort(self) -> None:
        self._end()
        for side in self.sides.values():
            side.reset()

    def finish(self) -> None:
        self._end()
        for side in self.sides.values():
            side.transport.close()

    def _end(self) -> None:
        self.over = True
        self.proxy.ended(self)


class _Side(asyncio.Protocol):
    def __init__(self, pair: _Pair, name: str) -> None:
        self.pair, self.name = pair, name

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.pair.sides[self.name] = self
        if self.name == "near":
            self.pair.proxy.opened(self.pair)
            self._dialling = asyncio.ensure_future(self._dial())
        elif self.pair.over:
            self.transport.abort()
        elif self.pair.early:
            self.transport.write(self.pair.early)

    async def _dial(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: _Side(self.pair, "far"), "127.0.0.1", self.pair.proxy.target_port)
        except OSError:
            self.pair.abort()

    def data_received(self, data: bytes) -> None:
        pair = self.pair
        if pair.over:
            return
        data = pair.proxy.altered(data)
        through = pair.passed(len(data))
        other = pair.sides.get("far" if self.name == "near" else "near")
        if other is None:
            pair.early += data[:through]
        else:
            other.transport.write(data[:through])
        if through < len(data):
            pair.proxy.break_now(pair)

    def reset(self) -> None:
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.fileno() != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if not self.pair.over:
            self.pair.finish()
