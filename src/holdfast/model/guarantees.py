"""The four delivery guarantees and how they compare."""

from enum import StrEnum
from typing import Literal

from holdfast.model.errors import LocalMisuse


class Guarantee(StrEnum):
    """What one message is promised. A stronger guarantee includes every weaker one."""

    EVENTUAL = "eventual"
    FIFO = "fifo"
    CAUSAL = "causal"
    TOTAL = "total"

    @property
    def rank(self) -> int:
        """0 for the weakest to 3 for the strongest: what travels on the wire."""
        return RANKS[self]


GuaranteeName = Literal["eventual", "fifo", "causal", "total"]
"""A guarantee as an application writes it; a member of `Guarantee` will do as well."""

GUARANTEES: tuple[Guarantee, ...] = tuple(Guarantee)
RANKS: dict[str, int] = {guarantee: rank for rank, guarantee in enumerate(GUARANTEES)}

EVENTUAL, FIFO, CAUSAL, TOTAL = range(4)


class GuaranteeError(LocalMisuse, ValueError):
    """A guarantee that does not exist, or that the protocol in use does not give."""


def check_guarantee(text: str) -> Guarantee:
    """The guarantee of that name, or a sentence that lists the legal ones."""
    try:
        return Guarantee(text)
    except ValueError:
        legal = ", ".join(GUARANTEES)
        raise GuaranteeError(f"unknown guarantee {text!r}: choose one of {legal}") from None
