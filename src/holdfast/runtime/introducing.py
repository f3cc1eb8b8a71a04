"""Who is there? Somebody who has an address of a broker and nothing else asks that first.

A broker answers whoever connects and begins with a `Ping`, instead of saying hello, with the `Welcome` that it would
give to anybody: its name, its protocol, its tolerance. Then it says the port of its health endpoint, as the number of a
`Pong`, if it has one, and closes. No session begins, and the node is not told.
"""

import asyncio

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.batches import PAYLOAD_BYTES_MAX
from holdfast.model.messages import Frame, Ping, Pong, Welcome
from holdfast.model.wire import FrameReader, WireError, encode
from holdfast.protocols.registry import find_protocol

ANSWER_S = 2.0
READ_BYTES = 4096

QUESTION = Ping(0)


class Introduction(Struct, frozen=True):
    """A broker, as it says itself."""

    name: str
    protocol: str
    tolerance: int
    health_port: int = 0
    """Where its health endpoint is, at the same host; 0: it has none."""


def introduction_of(name: str, protocol: str, tolerance: int, health_port: int = 0) -> tuple[Frame, ...]:
    """What a broker says of itself to whoever asks."""
    welcome = Welcome(name, 0, 0, 0, protocol, find_protocol(protocol).guarantees, PAYLOAD_BYTES_MAX, tolerance)
    return (welcome, Pong(health_port)) if health_port else (welcome,)


async def who_is_there(host: str, port: int) -> Introduction:
    """Ask whoever listens there; raises `OSError` if nobody answers, or not as a broker would."""
    async with asyncio.timeout(ANSWER_S):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(encode(QUESTION))
            return await _answer(reader)
        finally:
            writer.close()


async def _answer(reader: asyncio.StreamReader) -> Introduction:
    frames, found = FrameReader(), None
    while data := await reader.read(READ_BYTES):
        try:
            answers = list(frames.feed(data))
        except WireError as error:
            raise OSError(f"what answers there is no broker: {error}") from None
        for frame in answers:
            if isinstance(frame, Welcome):
                found = Introduction(frame.node, frame.protocol, frame.tolerance)
            elif isinstance(frame, Pong) and found is not None:
                return replace(found, health_port=frame.number)
    if found is None:
        raise OSError("it closed the connection without saying who it is")
    return found
