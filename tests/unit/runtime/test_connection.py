"""A connection of the event loop that an application brings along: asyncio's own, which says more than uvloop does."""

import asyncio
import socket
import struct

import pytest

from holdfast.runtime.connection import Connection, ConnectionLimits
from holdfast.runtime.process import new_event_loop
from holdfast.runtime.reading import ReadBuffer

RESET = struct.pack("ii", 1, 0)
"""Of `SO_LINGER`: closing sends a reset."""
LIMIT_S = 20.0


class Owner:
    """Whoever has a connection, and is told that it has ended."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def connection_opened(self, connection: Connection) -> None: ...

    def connection_ended(self, connection: Connection, reason: str) -> None:  # noqa: ARG002
        self.ended.set()


async def close_after_a_reset() -> None:
    owner = Owner()
    made = Connection(owner, "b0", ConnectionLimits(), ReadBuffer(1 << 16))  # type: ignore[arg-type]
    with socket.create_server(("127.0.0.1", 0)) as server:
        await asyncio.get_running_loop().create_connection(lambda: made, *server.getsockname())
        peer, _ = server.accept()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        peer.close()
        made.close()  # before the loop has looked at the socket
        async with asyncio.timeout(LIMIT_S):
            await owner.ended.wait()
        assert made.closed


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, new_event_loop], ids=["asyncio", "uvloop"])
def test_a_connection_that_the_peer_has_reset_can_be_closed(loop):
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(close_after_a_reset())
