"""Which streams there are: a client asks, and every repository says what it manages.

A client that is told to publish durably on a topic has to know the stream that covers it. It asks on one topic for the
whole network; the answers come to a topic of its own.
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from holdfast.model.batches import Name, TopicText
from holdfast.model.topics import matches
from holdfast.protocols.narada.topics import ROOT, level

ASKING_TOPIC = f"{ROOT}/streams"
STREAMS_MAX = 10_000


class AskStreams(Struct, frozen=True, array_like=True):
    """Who manages what?"""

    client: Name


class Streams(Struct, frozen=True, array_like=True):
    """What a repository manages, and, as JSON, how it is with each stream."""

    repository: Name
    streams: Annotated[tuple[TopicText, ...], Meta(max_length=STREAMS_MAX)]
    status: bytes = b""


_encoder = msgspec.msgpack.Encoder()
_questions = msgspec.msgpack.Decoder(AskStreams)
_answers = msgspec.msgpack.Decoder(Streams)


def answer_topic(client: str) -> str:
    return f"{ASKING_TOPIC}/{level(client)}"


def question(client: str) -> bytes:
    return _encoder.encode(AskStreams(client))


def answer(payload: bytes, repository: str, streams: Iterable[str], status: bytes = b"") -> tuple[str, bytes] | None:
    """The topic and the payload of the answer to a question; `None` for what is none."""
    try:
        asked = _questions.decode(payload)
    except msgspec.DecodeError:
        return None
    return answer_topic(asked.client), _encoder.encode(Streams(repository, tuple(streams), status))


def read_answer(payload: bytes) -> Streams | None:
    try:
        return _answers.decode(payload)
    except msgspec.DecodeError:
        return None


def covering(streams: Iterable[str], topic: str) -> str:
    """The stream that covers a topic, the longest name if several do; empty if none does."""
    return max((stream for stream in streams if matches(stream, topic)), key=lambda one: (len(one), one), default="")
