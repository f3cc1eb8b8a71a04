"""One TCP connection: bytes in, frames to its owner; frames out, one write a turn of the loop.

A connection knows nothing of sessions. It cuts the stream into frames, collects what is to be sent until its owner
flushes it, closes without losing what was written, and gives up a peer that does not take it.
"""

import asyncio
import socket
from typing import Protocol, cast

from msgspec import Struct

from holdfast.model.errors import PeerViolation
from holdfast.model.messages import Frame
from holdfast.model.wire import WireError
from holdfast.runtime.reading import FrameStream, ReadBuffer

HELLO_BYTES_MAX = 4096
"""How long the first frame may be, of somebody who has not said who it is and of whoever answers that."""


class ConnectionLimits(Struct, frozen=True):
    """What a process gives to connections before it gives them up."""

    connect_s: float = 5.0
    """How long an attempt to connect may take."""
    hello_s: float = 5.0
    """How long whoever connects may take to say who it is."""
    half_open_max: int = 4096
    """How many may be connected without having said it; one more closes the oldest of them. More than `ACCEPT_BACKLOG`:
    so many may connect within one turn of the loop, before anybody has read what they say."""
    close_s: float = 2.0
    """How long a closed connection may take to hand over what was sent."""
    write_buffer_bytes_max: int = 32 << 20
    """What may lie unsent for a peer that does not read; beyond it the connection is cut, the session goes on."""


class ConnectionOwner(Protocol):
    """Whoever a connection belongs to. Nothing is called after `connection_ended`."""

    def connection_opened(self, connection: "Connection") -> None: ...

    def frames_arrived(self, connection: "Connection", frames: list[Frame]) -> None: ...

    def peer_violated(self, connection: "Connection", violation: PeerViolation) -> None: ...

    def connection_ended(self, connection: "Connection", reason: str) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """`peer` is the name at the other end: known from the start if we dialled, else from the first frame, a `Hello`."""

    __slots__ = (
        "_closing",
        "_limits",
        "_muted",
        "_owner",
        "_stream",
        "_transport",
        "address",
        "closed",
        "heard",
        "out",
        "peer",
    )

    def __init__(self, owner: ConnectionOwner, peer: str | None, limits: ConnectionLimits, buffer: ReadBuffer) -> None:
        self._owner, self.peer, self._limits = owner, peer, limits
        self._stream = FrameStream(buffer)
        self._transport: asyncio.Transport | None = None
        self._closing: asyncio.TimerHandle | None = None
        self.address = ""
        self.closed = False
        self.heard = False
        """Whether a frame came."""
        self._muted = False
        self.out: list[bytes] = []

    # -------------------------------------------------------------------------------------- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.address = _shown(transport.get_extra_info("peername"))
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes_max)
        self._owner.connection_opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._stream.room()

    def buffer_updated(self, nbytes: int) -> None:
        if self.closed:
            return
        frames = self._stream.advance(nbytes)
        if frames:
            self.heard = True
            self._owner.frames_arrived(self, frames)
        if self._stream.failure is not None:
            if not self.closed:
                self._owner.peer_violated(self, self._stream.failure)
        elif not self.heard and self._stream.announced_bytes > HELLO_BYTES_MAX:
            size = self._stream.announced_bytes
            excess = WireError(
                f"the first frame was announced with {size} bytes; a Hello has at most {HELLO_BYTES_MAX}"
            )
            self._owner.peer_violated(self, excess)

    def first_bytes(self) -> bytes:
        """The beginning of what came and is no frame."""
        return self._stream.rest

    def pause_writing(self) -> None:
        # The loop says so when more than the limit lies unsent.
        self.abort()

    def resume_writing(self) -> None:
        """Nothing is resumed after an abort."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._closing is not None:
            self._closing.cancel()
        self._owner.connection_ended(self, str(exc) if exc else "the other end closed it")

    # ------------------------------------------------------------------------------------- called by the owner

    def flush(self) -> None:
        """Write what was collected, all at once."""
        if self._muted:
            return
        out, self.out = self.out, []
        transport = self._transport
        if transport is None or self.closed or not out:
            return
        if len(out) == 1:
            transport.write(out[0])
        else:
            transport.writelines(out)

    def be_strict(self) -> None:
        """The peer is a client, and may be written by anybody: take publications only in the form that ours have."""
        self._stream.strict = True

    def mute(self, muted: bool) -> None:
        """Read and write nothing until further notice, and let nobody see it: that is how a broken network behaves."""
        transport = self._transport
        if transport is None or self.closed or muted is self._muted:
            return
        self._muted = muted
        if muted:
            transport.pause_reading()
        else:
            transport.resume_reading()
            self.flush()

    def close(self) -> None:
        """Take nothing more, hand over what was sent, then close.

        Closing while bytes of the peer lie unread makes TCP reset the connection, and our last words may die with it.
        So we only say that we are done, and go on reading into nothing until the peer is done too, or time is up.
        """
        transport = self._transport
        if self.closed or transport is None or self._muted:
            self.abort()
            return
        self.flush()
        self.closed = True
        self._closing = asyncio.get_running_loop().call_later(self._limits.close_s, transport.abort)
        if transport.is_closing():
            return
        try:
            if transport.can_write_eof():
                transport.write_eof()
            else:
                transport.close()
        except OSError:
            # The peer has reset the connection, and asyncio's own loop has not heard of it yet: uvloop says nothing.
            transport.abort()

    def abort(self) -> None:
        """Close at once; what was not written yet is dropped."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()


def _shown(peername: object) -> str:
    if isinstance(peername, tuple) and len(peername) >= 2:
        host, port = peername[0], peername[1]
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
    return str(peername)
