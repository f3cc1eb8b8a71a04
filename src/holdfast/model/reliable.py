"""The nouns of reliable topics: what a repository keeps, and what its acknowledgement stands for.

A stored message has two names. Its *catenation number* counts the messages of its publisher on the stream, from 1
without gaps, and is the same at every repository: with the publisher's name it is the message's identity. Its *sequence
number* is its place in the order of one repository, from 1, and means nothing anywhere else.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.batches import Batch, Seq

Cat = Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
TimeNs = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class Level(StrEnum):
    """What an acknowledgement stands for. A stronger level includes every weaker one."""

    MEMORY = "memory"
    """The repository has it: a crash of its process may lose it."""
    WRITTEN = "written"
    """The operating system, or the database server, has it: a crash of the machine may lose it."""
    FSYNCED = "fsynced"
    """The disk has it."""

    @property
    def rank(self) -> int:
        """0 for the weakest to 2 for the strongest."""
        return LEVELS.index(self)


LEVELS: tuple[Level, ...] = tuple(Level)


INSPECT_S = 3600.0
"""So often a repository looks whether everything is as it was stored."""


class Retention(Struct, frozen=True):
    """How long a repository keeps what is stored of a stream; without a bound, for good."""

    keep_s: float | None = None
    """What was stored longer ago may go."""
    keep_bytes: int | None = None
    """The oldest of what weighs more may go."""
    keep_unread: bool = True
    """Nothing goes that a durable subscriber has not acknowledged. If false it goes, and the subscriber gets a gap."""

    @property
    def bounded(self) -> bool:
        return self.keep_s is not None or self.keep_bytes is not None


class Entry(Struct, frozen=True, array_like=True, gc=False):
    """Consecutive messages of one publisher, stored under consecutive sequence numbers."""

    first: Seq
    """Sequence number of the first message, at this repository."""
    cat: Cat
    """Catenation number of the first message."""
    batch: Batch
    """As published, or a part of it."""
    time_ns: TimeNs
    """When it was stored, by the wall clock of the repository; 0 at a subscriber that got it as it was published."""

    @property
    def count(self) -> int:
        return self.batch.count

    @property
    def last(self) -> int:
        """Sequence number of the last message."""
        return self.first + self.batch.count - 1

    @property
    def cat_last(self) -> int:
        """Catenation number of the last message."""
        return self.cat + self.batch.count - 1

    @property
    def publisher(self) -> str:
        return self.batch.publisher

    def part(self, first: int, last: int) -> "Entry":
        """What of it lies within these sequence numbers, at least one of which it must have."""
        first, last = max(first, self.first), min(last, self.last)
        if first == self.first and last == self.last:
            return self
        skipped = first - self.first
        start = self.batch.first + skipped
        return Entry(first, self.cat + skipped, self.batch.part(start, start + last - first), self.time_ns)

    def cat_part(self, cat_first: int, cat_last: int) -> "Entry":
        """What of it lies within these catenation numbers, at least one of which it must have."""
        shift = self.first - self.cat
        return self.part(cat_first + shift, cat_last + shift)

    def moved(self, first: int) -> "Entry":
        """The same messages under the sequence numbers of another repository."""
        return Entry(first, self.cat, self.batch, self.time_ns)
