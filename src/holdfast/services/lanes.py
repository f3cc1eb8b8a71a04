"""How a repository answers readers who count by catenation numbers: `GET /lanes`, `/messages` and `/locate`.

Where a lane ends is known to the machine, what lies in it to the store. The store is read in its own thread, a bounded
block at a time, so that commits wait for no more than one block. Answers are MessagePack (`holdfast.model.lanes`).
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from holdfast.model import lanes
from holdfast.model.errors import LocalMisuse, Refused
from holdfast.model.lanes import Block, Holdings, Lane, Located
from holdfast.model.ranges import Range, joined, without
from holdfast.model.reliable import Entry
from holdfast.model.topics import check_pattern, matches
from holdfast.protocols.narada.events import LIFE_MAX, NUMBER_MAX, catenation, number_of
from holdfast.protocols.narada.publisher_lives import Settled
from holdfast.protocols.narada.stream_state import RepositoryStream
from holdfast.services.repository import RepositoryService
from holdfast.storage.stores import Store

BLOCK_BYTES_MAX = 1 << 20
BLOCK_MESSAGES_MAX = 1 << 14
"""A block ends with the entry whose payloads bring it to so many bytes, or with so many messages."""
ANONYMOUS = "anonymous"
LOST = "forgotten it by retention, or it is damaged there: `holdfast store verify` tells"

Query = dict[str, str]
Question = Callable[[Query], Awaitable[bytes]]


class LaneReading:
    """The questions of readers, for one repository."""

    def __init__(self, service: RepositoryService) -> None:
        self._service = service

    def table(self) -> dict[str, Question]:
        return {"/lanes": self.lanes, "/messages": self.messages, "/locate": self.locate}

    async def lanes(self, query: Query) -> bytes:
        """`?stream=S`: which lanes there are, and how far each goes."""
        stream_state = self._asked_stream(query)
        name, level = self._service.settings.name, str(self._service.settings.level)
        return lanes.encode(Holdings(name, level, stream_state.serving, tuple(lanes_of(stream_state))))

    async def messages(self, query: Query) -> bytes:
        """`?stream=S&publisher=P&life=L&first=N&last=M`: messages of a lane, and with `topic` only those."""
        stream_state = self._asked_stream(query)
        publisher, life = asked_text(query, "publisher"), asked_number(query, "life", 0, LIFE_MAX)
        first = asked_number(query, "first", 1, NUMBER_MAX)
        last = asked_number(query, "last", first, NUMBER_MAX)
        topic = check_pattern(query.get("topic", "#"))
        settled = stream_state.settled_of(publisher, life)
        block = await self._service.in_store(
            lambda store: read_block(store, stream_state, publisher, life, settled, (first, last), topic)
        )
        return lanes.encode(block)

    async def locate(self, query: Query) -> bytes:
        """`?stream=S&sequence=N` or `&time_ns=T`: for each lane, the first number stored there or later."""
        stream_state = self._asked_stream(query)
        stream = stream_state.stream
        if "time_ns" in query:
            time_ns = asked_number(query, "time_ns", 0, (1 << 63) - 1)
            sequence = await self._service.in_store(lambda store: store.at_time(stream, time_ns))
        else:
            sequence = asked_number(query, "sequence", 1, (1 << 53) - 1)
        # One after the other, so that commits get their turn between them.
        found = [
            await self._service.in_store(partial(cut_at, stream=stream, lane=lane, sequence=sequence))
            for lane in lanes_of(stream_state)
        ]
        return lanes.encode(Located(self._service.settings.name, tuple(found)))

    # -------------------------------------------------------------------------------------------------------- helpers

    def _asked_stream(self, query: Query) -> RepositoryStream:
        stream = asked_text(query, "stream")
        managed = self._service.machine.streams.get(stream)
        name = self._service.settings.name
        if managed is None:
            kept = ", ".join(self._service.settings.streams)
            raise LocalMisuse(f"{name} does not keep the stream {stream}; it keeps {kept}.")
        refusal = managed.stream_state.refusal(query.get("subscriber", ANONYMOUS), "subscribe")
        if refusal:
            raise Refused(f"{refusal}; nothing was read.")
        return managed.stream_state


def lanes_of(stream_state: RepositoryStream) -> list[Lane]:
    """The lanes of which there is anything, and what of each there is."""
    return [
        Lane(publisher, life, known.first, known.upto + 1)
        for publisher, life, known in stream_state.settled()
        if known.upto >= known.first
    ]


# ----------------------------------------------------------------------------------------------------- in the thread


def read_block(
    store: Store,
    stream_state: RepositoryStream,
    publisher: str,
    life: int,
    settled: Settled,
    wanted: Range,
    topic: str = "#",
) -> Block:
    """What a store has of the numbers `wanted` of a lane, from the first on, up to about the bounds of a block."""
    first, end = wanted[0], settled.upto + 1
    last = min(wanted[1], settled.upto, first + BLOCK_MESSAGES_MAX - 1)
    if last < first:
        return Block(stream_state.name, first, first, (), (), end)
    cats = catenation(life, first), catenation(life, last)
    entries = store.by_identity(stream_state.stream, publisher, *cats, BLOCK_BYTES_MAX)
    if sum(len(entry.batch.payloads) for entry in entries) >= BLOCK_BYTES_MAX:
        last = number_of(entries[-1].cat_last)
    gaps, upto = _gaps(entries, first, last, settled.given)
    told = (entry for entry in entries if number_of(entry.cat) < upto)
    matching = tuple(entry for entry in told if topic == "#" or matches(topic, entry.batch.topic))
    return Block(stream_state.name, first, upto, matching, tuple(gaps), end, LOST if upto <= last else "")


def _gaps(entries: Sequence[Entry], first: int, last: int, given: Iterable[Range]) -> tuple[list[Range], int]:
    """What of first..last was given up and is not there, and the first number of which neither is true, if any."""
    stored = [(number_of(entry.cat), number_of(entry.cat_last)) for entry in entries]
    given = joined(given)
    gaps: list[Range] = []
    for low, high in without((first, last), stored):
        unknown = without((low, high), given)
        if unknown:
            hole = unknown[0][0]
            return gaps + [(low, hole - 1)] * (hole > low), hole
        gaps.append((low, high))
    return gaps, last + 1


def cut_at(store: Store, stream: str, lane: Lane, sequence: int) -> Lane:
    """The part of a lane that lies at or behind a sequence number: within a lane they grow as numbers do."""

    def is_behind(number: int) -> bool:
        found = _oldest(store, stream, lane.publisher, lane.life, number, lane.end - 1)
        return found is None or found.first >= sequence

    numbers = range(lane.first, lane.end)
    if not numbers or is_behind(lane.first):
        return lane
    # Most lanes are long over, or have just begun: one look, and nothing is searched.
    first = bisect_left(numbers, True, key=is_behind) if is_behind(lane.end - 1) else len(numbers)
    return Lane(lane.publisher, lane.life, lane.first + first, lane.end)


def _oldest(store: Store, stream: str, publisher: str, life: int, first: int, last: int) -> Entry | None:
    """The entry of the lowest number first..last that is stored, cut so that it begins with it."""
    if last < first:
        return None
    found = store.by_identity(stream, publisher, catenation(life, first), catenation(life, last), 0)
    return found[0] if found else None


# ----------------------------------------------------------------------------------------------------------- queries


def asked_text(query: Query, name: str) -> str:
    value = query.get(name, "")
    if not value:
        raise LocalMisuse(f"the question has no {name}; write ?{name}=... behind the path.")
    return value


def asked_number(query: Query, name: str, low: int, high: int) -> int:
    text = asked_text(query, name)
    if not text.isdecimal() or not low <= int(text) <= high:
        raise LocalMisuse(f"the question has {name}={text}; it is a number from {low} to {high}.")
    return int(text)
