"""The last number of each publisher that a node has processed, and how it tells them to whoever takes it in.

Publishers may be many, and most of them silent for long: beyond `PUBLISHERS_MAX` names the one that was silent for the
longest is forgotten. They do not fit into one frame, so all but the last `NUMBERS_MAX` go ahead of the `Join`.
"""

from collections.abc import Iterable
from itertools import islice

from holdfast.model.messages import NUMBERS_MAX, Interests, Numbers, Unstable

PUBLISHERS_MAX = 100_000
Ahead = Unstable | Numbers | Interests
"""What goes ahead of a `Join`."""


def note_number(numbers: dict[str, int], publisher: str, seq: int) -> None:
    """The latest publisher stands last; those that were silent for longest are forgotten first."""
    numbers[publisher] = max(seq, numbers.pop(publisher, 0))
    if len(numbers) > PUBLISHERS_MAX:
        del numbers[next(iter(numbers))]


def in_parts(numbers: dict[str, int]) -> tuple[list[Numbers], dict[str, int]]:
    """What goes ahead of a `Join`, and what the `Join` itself says."""
    if len(numbers) <= NUMBERS_MAX:
        return [], dict(numbers)
    rest = iter(numbers.items())
    parts = []
    while part := dict(islice(rest, NUMBERS_MAX)):
        parts.append(part)
    return [Numbers(part) for part in parts[:-1]], parts[-1]


def put_together(ahead: Iterable[Ahead], last: dict[str, int]) -> tuple[list[Unstable], dict[str, int]]:
    """The records and the numbers that came ahead of a `Join`, and what it says itself."""
    records, numbers = [], {}
    for one in ahead:
        if isinstance(one, Unstable):
            records.append(one)
        elif isinstance(one, Numbers):
            numbers.update(one.processed)
    return records, {**numbers, **last} if numbers else last
