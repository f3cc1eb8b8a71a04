"""A reliable topic as a log: one lane for each life of each publisher, read from any repository of its bundle.

Sequence numbers are each repository's own, so they cannot be offsets that outlive a repository. A lane's numbers can:
they name the same messages everywhere. A query plans only what every repository has that answers and has caught up:
when one of them dies the others have all that was planned. That a lane is shorter at one of them delays what is new,
and takes nothing back: an offset never shrinks, and no lane of it is dropped.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import pyarrow as pa
from pyspark.sql.datasource import EqualTo, Filter, In
from pyspark.sql.types import StructType

from holdfast.model.lanes import Block, Holdings, Lane, lane_name, parse_lane
from holdfast.model.reliable import Entry
from holdfast.pipeline.bundles import PATIENCE_S, Bundle
from holdfast.pipeline.filters import TopicMatches
from holdfast.pipeline.logs import Log, LogError, Positions, Range, Ranges, evenly, packed
from holdfast.pipeline.message_columns import (
    BATCH_BYTES,
    BATCH_ROWS,
    GAPS_SCHEMA,
    SCHEMA,
    entries_batch,
    gap_batch,
    sliced,
    with_gap_column,
)
from holdfast.protocols.narada.events import catenation

SCHEME = "reliable:"
GAPS = ("fail", "note")
FIRST = 1
"""The number of a lane's first message."""


class ReliableLog(Log):
    """The messages of a reliable topic. What the repositories have is asked once: an instance is one moment."""

    def __init__(self, bundle: Bundle, gaps: str = "fail") -> None:
        self._bundle, self._notes_gaps = bundle, gaps == "note"
        self.schema: StructType = GAPS_SCHEMA if self._notes_gaps else SCHEMA

    def __str__(self) -> str:
        return str(self._bundle)

    @cached_property
    def _asked(self) -> tuple[list[Holdings], dict[str, str]]:
        return self._bundle.holdings()

    @cached_property
    def _lanes(self) -> list[dict[str, Lane]]:
        """For each repository that counts, its lanes by their names."""
        return [{lane.name: lane for lane in one.lanes} for one in self._asked[0]]

    # ------------------------------------------------------------------------------------------------------- planning

    def first(self) -> Positions:
        names = set[str]().union(*self._lanes)
        return {name: max(each[name].first for each in self._lanes if name in each) for name in sorted(names)}

    def end(self) -> Positions:
        """How far every repository is: what one has more, the others may not have yet."""
        common = set.intersection(*(set(each) for each in self._lanes))
        return {name: min(each[name].end for each in self._lanes) for name in sorted(common)}

    def onward(self, start: Positions, end: Positions) -> Positions:
        return {lane: max(start.get(lane, 0), end.get(lane, 0)) for lane in sorted({*start, *end})}

    def advance(self, start: Positions, end: Positions, rows_max: int) -> Positions:
        """Every lane goes on as far as every other, if it has so much: none waits because another is long."""
        waiting = {lane: stop - _begin(start, lane) for lane, stop in end.items() if stop > _begin(start, lane)}
        reached, left = self.onward(start, {}), rows_max
        for index, (rows, lane) in enumerate(sorted((rows, lane) for lane, rows in waiting.items())):
            # The shorter ones leave something to the longer ones. With fewer rows than lanes the longest have them.
            taken = min(rows, left // (len(waiting) - index))
            if taken:
                reached[lane] = _begin(start, lane) + taken
            left -= taken
        # In one order always: Spark compares offsets as texts.
        return dict(sorted(reached.items()))

    def ranges(self, start: Positions, end: Positions, rows: int) -> list[Ranges]:
        pieces = [one for lane, stop in sorted(end.items()) for one in evenly(lane, _begin(start, lane), stop, rows)]
        return packed(pieces, rows)

    def check_reached(self, start: Positions, end: Positions) -> None:  # noqa: ARG002
        """One that is behind will catch up; if all are there and none has what was read, this is another topic."""
        if self._asked[1]:
            return
        for lane, position in start.items():
            reached = max((each[lane].end for each in self._lanes if lane in each), default=0)
            if position > max(reached, FIRST):
                raise LogError(
                    f"{self} ends at {reached} in {lane}, and up to {position} was read from it before: the "
                    "repositories lost what they had, or are others. Begin a new query, with a new checkpoint."
                )

    def narrowed(self, start: Positions, end: Positions, filters: Sequence[Filter]) -> tuple[Positions, Positions]:
        for one in filters:
            if getattr(one, "attribute", None) == ("publisher",) and isinstance(one, EqualTo | In):
                wanted = one.value if isinstance(one, In) else (one.value,)
                end = {lane: position for lane, position in end.items() if parse_lane(lane)[0] in wanted}
        return start, end

    def position_of(self, text: str, is_end: bool) -> Positions | None:
        """`time:2026-11-15T22:40:00Z`, or `sequence:r1:1000`, which is that number of the repository r1."""
        kind, _, rest = text.partition(":")
        if kind == "time":
            found = self._bundle.located(time_ns=_nanoseconds(rest))
        elif kind == "sequence":
            repository, _, number = rest.rpartition(":")
            if not repository or not number.isdecimal() or int(number) < 1:
                raise LogError(f"{text!r} is no sequence number of a repository; write it as in sequence:r1:1000.")
            found = self._bundle.located(repository, sequence=int(number))
        else:
            return None
        positions = {lane.name: lane.first for lane in sorted(found, key=lambda lane: lane.name)}
        if is_end:
            # The one that was asked may be ahead of the others.
            return {lane: min(positions[lane], reached) for lane, reached in self.end().items() if lane in positions}
        return positions

    # -------------------------------------------------------------------------------------------------------- reading

    def read(self, part: Range, filters: Sequence[Filter]) -> Iterator[pa.RecordBatch]:
        publisher, life = parse_lane(part.lane)
        topic = next((one.value for one in filters if isinstance(one, TopicMatches)), "")
        group: list[Entry] = []
        rows = size = 0
        for block in self._bundle.blocks(publisher, life, part.first, part.end, topic):
            group += block.entries
            rows += sum(entry.count for entry in block.entries)
            size += sum(len(entry.batch.payloads) for entry in block.entries)
            if rows >= BATCH_ROWS or size >= BATCH_BYTES or block.given_up:
                yield from self._batches(group)
                group, rows, size = [], 0, 0
            if block.given_up:
                yield self._gap(publisher, life, block)
        yield from self._batches(group)

    def _batches(self, entries: Sequence[Entry]) -> Iterator[pa.RecordBatch]:
        if entries:
            whole = entries_batch(entries)
            yield from sliced(with_gap_column(whole) if self._notes_gaps else whole)

    def _gap(self, publisher: str, life: int, block: Block) -> pa.RecordBatch:
        ((first, last),) = block.given_up
        if not self._notes_gaps:
            raise LogError(
                f"messages {first}..{last} of {lane_name(publisher, life)} on {self} were given up, and no repository "
                'has them. To go on without them, and have a row in their place, set the option gaps to "note".'
            )
        return gap_batch(publisher, catenation(life, first), last - first + 1)


def open_reliable(options: Mapping[str, str]) -> ReliableLog:
    """The reliable topic that the path names, at the repositories that the option names."""
    stream = options["path"].removeprefix(SCHEME)
    addresses = options.get("repositories", "")
    if not stream or not addresses.strip(", "):
        raise LogError(
            f"say which reliable topic to read and where its repositories are: load({SCHEME + 'bank/#'!r}) with the "
            'option repositories, their health endpoints, as in "127.0.0.1:7503,127.0.0.1:7504".'
        )
    gaps = options.get("gaps", GAPS[0])
    if gaps not in GAPS:
        raise LogError(f"the option gaps is {gaps!r}; it is one of {', '.join(GAPS)}.")
    return ReliableLog(Bundle(stream, addresses, options.get("subscriber", "spark"), _patience(options)), gaps)


def _patience(options: Mapping[str, str]) -> float:
    text = options.get("patience", str(PATIENCE_S))
    try:
        patience_s = float(text)
    except ValueError:
        patience_s = -1.0
    if not 0 <= patience_s < float("inf"):
        raise LogError(f"the option patience is {text!r}; it is a number of seconds, from 0 on.")
    return patience_s


def _begin(start: Positions, lane: str) -> int:
    return max(start.get(lane, 0), FIRST)


def _nanoseconds(text: str) -> int:
    try:
        # A time without a zone is local, as `holdfast sub --from-time` and `subscribe(start=...)` take it.
        when = dt.datetime.fromisoformat(text).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        raise LogError(f"{text!r} is no time; write it as in time:2026-11-15T22:40:00Z.") from None
    since = when - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return max((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds, 0) * 1000
