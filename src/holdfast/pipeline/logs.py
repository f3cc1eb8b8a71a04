"""What `format("holdfast")` reads from: a log, which is lanes of rows under positions that never change their meaning.

Everything that can be read again by position fits: a recording is one lane of messages, a trace one lane a file, a
reliable topic one lane for each life of each publisher. Spark asks where a log begins and ends, how far to go from
there, and how to cut what lies between into ranges; each range is then read by some worker, in any process, maybe
twice, and gives the same rows again. That is all that exactly-once needs of a source.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import Filter, InputPartition
from pyspark.sql.types import StructType

from holdfast.model.errors import LocalMisuse

START, END = "startPosition", "endPosition"
"""The options that say where to read."""

Positions = dict[str, int]
"""For each lane, a position in it: that of the next row. A lane that is not named has not begun."""


class LogError(LocalMisuse, ValueError):
    """Raised when a log cannot give what was asked of it: it says which, and what would have been legal."""


@dataclass(frozen=True)
class Range(InputPartition):
    """The rows first..end-1 of a lane."""

    lane: str
    first: int
    end: int


@dataclass(frozen=True)
class Ranges(InputPartition):
    """Several ranges, for one task: many lanes may have a few rows each."""

    ranges: tuple[Range, ...]


def evenly(lane: str, first: int, end: int, rows: int) -> list[Range]:
    """The rows first..end-1 in pieces of at most so many, all alike, so that no straggler reads a rest."""
    pieces = max(-(-(end - first) // rows), 0)
    edges = [first + (end - first) * at // pieces for at in range(pieces + 1)] if pieces else []
    return [Range(lane, edges[at], edges[at + 1]) for at in range(pieces)]


def packed(ranges: Iterable[Range], rows: int) -> list[Ranges]:
    """Ranges in their order, as many together as have at most so many rows; one that has more is by itself."""
    made: list[Ranges] = []
    group: list[Range] = []
    size = 0
    for one in ranges:
        if group and size + one.end - one.first > rows:
            made.append(Ranges(tuple(group)))
            group, size = [], 0
        group.append(one)
        size += one.end - one.first
    return [*made, Ranges(tuple(group))] if group else made


class Log(ABC):
    """Rows that are read by position. An instance holds nothing open: it is made in every process anew."""

    schema: StructType
    """The columns of every row."""

    @abstractmethod
    def first(self) -> Positions:
        """Where the oldest rows are that are still there."""

    @abstractmethod
    def end(self) -> Positions:
        """Where the next rows will be: everything before that can be read now, and for ever."""

    @abstractmethod
    def advance(self, start: Positions, end: Positions, rows_max: int) -> Positions:
        """How far at most `rows_max` rows reach from `start`, or `end` if that is nearer; some row if there is any."""

    @abstractmethod
    def ranges(self, start: Positions, end: Positions, rows: int) -> Sequence[Range | Ranges]:
        """What lies between, cut into pieces of about so many rows."""

    @abstractmethod
    def read(self, part: Range, filters: Sequence[Filter]) -> Iterator[pa.RecordBatch]:
        """The rows of a range; those that the filters refuse may be left out, and need not be."""

    def check_reached(self, start: Positions, end: Positions) -> None:
        """Raise `LogError` if a reader has been further than the log reaches: somebody put another one in its place."""
        for lane, position in start.items():
            if position > end.get(lane, 0):
                raise LogError(
                    f"{self} ends at {end.get(lane, 0)} in {lane}, and up to {position} was read from it before: this "
                    "is another log, or it lost its end. Begin a new query, with a new checkpoint."
                )

    def onward(self, start: Positions, end: Positions) -> Positions:  # noqa: ARG002
        """Where a reader who is at `start` goes to get to `end`."""
        return end

    def position_of(self, text: str, is_end: bool) -> Positions | None:  # noqa: ARG002
        """What a text means that only this kind of log understands, as a beginning or an end; None if it does not."""
        return None

    def narrowed(self, start: Positions, end: Positions, filters: Sequence[Filter]) -> tuple[Positions, Positions]:  # noqa: ARG002
        """A part of start..end outside of which the filters refuse every row."""
        return start, end


def parse_positions(text: str, log: Log, name: str) -> Positions:
    """`earliest`, `latest`, a position if the log has one lane, or a JSON object with a position for each lane."""
    if text == "earliest":
        return log.first()
    if text == "latest":
        return log.end()
    found = log.position_of(text, is_end=name == END)
    if found is not None:
        return found
    lanes = log.end()
    try:
        given = msgspec.json.decode(text)
    except msgspec.DecodeError:
        given = None
    if type(given) is int and given >= 0 and len(lanes) == 1:
        return dict.fromkeys(lanes, given)
    if isinstance(given, dict) and all(isinstance(each, int) and each >= 0 for each in given.values()):
        return {str(lane): position for lane, position in given.items()}
    shape = "a position" if len(lanes) == 1 else 'a JSON object such as {"' + (min(lanes, default="lane")) + '": 0}'
    raise LogError(f"the option {name} is {text!r}; it is 'earliest', 'latest' or {shape}.")


def local_path(text: str, what: str) -> Path:
    """The path in a path or a `file:` URI: workers and driver must see the same files."""
    parts = urlsplit(text)
    if parts.scheme in ("", "file"):
        return Path(unquote(parts.path) if parts.scheme else text)
    raise LogError(f"{text} is no path: {what} lies on this machine, or where all workers have mounted it.")
