"""Publications of a client that wait to become one batch."""

from typing import TypeVar

from holdfast.model.batches import BATCH_BYTES_MAX, BATCH_COUNT_MAX, Attributes, Keys
from holdfast.model.guarantees import TOTAL

T = TypeVar("T")
SHARE_BYTES = BATCH_BYTES_MAX // BATCH_COUNT_MAX
"""A message counts for this much at least, so that a bound on bytes is one on messages too."""

KEY_COST_BYTES = 16
"""What a key weighs besides its text."""

IMPLICIT_KEYS: Keys = ("",)
"""The keys of a total message that names none: all such messages of a topic are in one order."""


class Run:
    """Publications that will be one batch, which is full when the client has `full_at` pending bytes."""

    __slots__ = ("attributes", "first", "full_at", "guarantee", "keys", "payloads", "plain", "topic")

    def __init__(self, first: int, topic: str, guarantee: int, full_at: int) -> None:
        self.first, self.topic, self.guarantee, self.full_at = first, topic, guarantee, full_at
        self.payloads: list[bytes] = []
        self.keys: list[Keys] = []
        self.attributes: list[Attributes] = []
        self.plain = guarantee != TOTAL
        """Whether its messages have neither keys nor attributes."""


def column_bytes(keys: Keys, attributes: Attributes) -> int:
    """About what a message's keys and attributes weigh: they count towards a batch's size like payloads."""
    texts = [*keys, *attributes, *(value for value in attributes.values() if isinstance(value, str))]
    return KEY_COST_BYTES * (len(keys) + len(attributes)) + sum(map(len, texts))


def padded(column: list[T], count: int, blank: T) -> list[T]:
    return column + [blank] * (count - len(column)) if column else column
