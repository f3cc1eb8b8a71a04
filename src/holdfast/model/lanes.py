"""What repositories tell readers who count by catenation numbers: lanes, and blocks of messages out of them.

A *lane* is one life of one publisher on a reliable topic. Its numbers count from 1 without gaps and mean the same
messages at every repository of the bundle, so whoever reads by them may go on at another repository at any number. How
far a lane goes is each repository's own: what one has, another may get a moment later.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from holdfast.model.reliable import Entry

Number = Annotated[int, Meta(ge=0, le=1 << 32)]


class Lane(Struct, frozen=True, array_like=True, gc=False):
    """The numbers first..end-1 of one life of a publisher: stored, or given up."""

    publisher: str
    life: int
    first: Number
    """The oldest that retention has kept."""
    end: Number

    @property
    def name(self) -> str:
        return lane_name(self.publisher, self.life)


class Holdings(Struct, frozen=True, array_like=True):
    """What a repository has of a stream."""

    repository: str
    level: str
    """How safely: `memory`, `written` or `fsynced`."""
    serving: bool
    """Whether it has caught up with its bundle."""
    lanes: tuple[Lane, ...]


class Block(Struct, frozen=True, array_like=True):
    """Messages of a lane, from the number that was asked for on."""

    repository: str
    first: Number
    upto: Number
    """Everything of first..upto-1 is told: among the entries, on other topics than were asked for, or given up."""
    entries: tuple[Entry, ...]
    given_up: tuple[tuple[Number, Number], ...]
    """From the first to the last of each range, in order."""
    end: Number
    """Where the lane ends at that repository now."""
    reason: str = ""
    """Why it is told no further, if the repository should have more and has not."""


class Located(Struct, frozen=True, array_like=True):
    """For each lane, the number from which on a sequence number or a time of one repository counts."""

    repository: str
    lanes: tuple[Lane, ...]


def lane_name(publisher: str, life: int) -> str:
    return f"{publisher}/{life}"


def parse_lane(name: str) -> tuple[str, int]:
    """The publisher and its life; raises `ValueError` if the name is none of a lane."""
    publisher, slash, life = name.rpartition("/")
    if not slash or not publisher or not life.isdecimal():
        raise ValueError(f"{name!r} is no lane; a lane is a publisher and its life, as in alice/208000000.")
    return publisher, int(life)


encode = msgspec.msgpack.Encoder().encode
decode_holdings = msgspec.msgpack.Decoder(Holdings).decode
decode_block = msgspec.msgpack.Decoder(Block).decode
decode_located = msgspec.msgpack.Decoder(Located).decode
