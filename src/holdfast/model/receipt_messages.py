"""What may be known against a confirmation: who lacks a message, or was given up, and why there may be others."""

from math import inf
from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.batches import Name
from holdfast.model.terms import Counter

NAMES_MAX = 8
"""So many of those who lack a message, or were given up, are named; all are counted."""
REASON_CHARACTERS_MAX = 1024
FindingReason = Annotated[str, Meta(max_length=REASON_CHARACTERS_MAX)]
Names = Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)]
Age = Annotated[float, Meta(ge=0)]
UNKNOWN_AGE_S = inf


class Finding(Struct, frozen=True, array_like=True):
    """What is known against a confirmation; nothing, if it is `clean`."""

    lacking: Counter = 0
    """Subscribers that are owed the message and do not have it, though it should have come before the question."""
    lack: Names = ()
    given_up: Counter = 0
    """Subscribers whose sessions were given up since the message was published."""
    gone: Names = ()
    broken: FindingReason = ""
    """Why there may be others: a hole, or a part of the network that was given up."""
    crossed: bool = False
    """Whether the message takes no part in the total order of its keys; that is nothing against its confirmation."""

    @property
    def clean(self) -> bool:
        return not (self.lacking or self.given_up or self.broken)

    def joined(self, other: "Finding") -> "Finding":
        """What both know."""
        if other == CLEAN:
            return self
        if self == CLEAN:
            return other
        lack, gone = (*self.lack, *other.lack)[:NAMES_MAX], (*self.gone, *other.gone)[:NAMES_MAX]
        return Finding(
            self.lacking + other.lacking,
            lack,
            self.given_up + other.given_up,
            gone,
            self.broken or other.broken,
            self.crossed or other.crossed,
        )

    def __str__(self) -> str:
        found = []
        if self.lacking:
            found.append(f"{_named(self.lacking, self.lack)} {_have(self.lacking)} not got it")
        if self.given_up:
            found.append(f"{_named(self.given_up, self.gone)} {_have(self.given_up)} been given up since")
        if self.broken:
            found.append(f"something may be missing: {self.broken}")
        return "; ".join(found) or "everybody has it"


CLEAN = Finding()


def _named(count: int, names: Names) -> str:
    more = count - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _have(count: int) -> str:
    return "has" if count == 1 else "have"
