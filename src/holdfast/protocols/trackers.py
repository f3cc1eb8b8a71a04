"""Which numbers of a publisher were seen: how brokers tell a repeat from a new message and notice a gap.

Publishers number their messages from 1 and resend under the same number. A tracker remembers the contiguous prefix as
one number and whatever was seen above it as ranges, so a publisher whose messages come in order costs one integer,
however many there were.

Bound: `ranges_max` separate ranges above the prefix. What would need one more is refused with `WindowFull` and not
recorded; the caller decides whether to make the sender wait, to drop it, or to give the gap up by adding it.

Invariants: ranges are sorted; between two of them, and between the prefix and the first of them, at least one number is
missing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from holdfast.model.errors import LocalMisuse, PeerViolation
from holdfast.model.ranges import Range

RANGES_MAX = 64


class WindowFull(PeerViolation):
    """Raised when a publisher leaves more separate gaps than a tracker remembers. Nothing was recorded."""


class RangeTracker:
    """Which of a publisher's numbers (from 1) were seen; contiguous prefix + a bounded set of ranges above it."""

    __slots__ = ("_firsts", "_lasts", "prefix", "ranges_max")

    def __init__(self, ranges_max: int = RANGES_MAX, start: int = 0) -> None:
        if ranges_max < 0 or start < 0:
            raise LocalMisuse(
                f"A tracker was asked for with ranges_max={ranges_max} and start={start}; both are 0 or more. "
                "It was not made."
            )
        self.ranges_max = ranges_max
        self.prefix = start
        """Everything 1..prefix was seen, or given up."""
        # Two columns instead of a list of pairs: each is searched by itself.
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def __repr__(self) -> str:
        return f"RangeTracker(prefix={self.prefix}, ranges={self.ranges()})"

    @property
    def highest(self) -> int:
        """The highest number seen; the prefix when nothing lies above it."""
        return self._lasts[-1] if self._lasts else self.prefix

    def ranges(self) -> list[Range]:
        """What was seen above the prefix."""
        return list(zip(self._firsts, self._lasts, strict=True))

    def gaps(self) -> list[Range]:
        """What is missing below the highest number seen."""
        befores = [self.prefix, *self._lasts]
        return [(before + 1, first - 1) for before, first in zip(befores, self._firsts, strict=False)]

    def contains(self, number: int) -> bool:
        """Whether the number was seen. There is no number below 1."""
        if number <= self.prefix:
            return number >= 1
        index = bisect_left(self._lasts, number)
        return index < len(self._firsts) and self._firsts[index] <= number

    def meets(self, first: int, last: int) -> bool:
        """Whether some number of first..last was seen."""
        if first <= self.prefix:
            return True
        index = bisect_right(self._firsts, last)
        return index > 0 and self._lasts[index - 1] >= first

    def new_part(self, first: int, last: int) -> list[Range]:
        """The parts of first..last that were not seen yet, sorted; records nothing."""
        _check_range(first, last)
        first = max(first, self.prefix + 1)
        parts: list[Range] = []
        for index in range(bisect_left(self._lasts, first), bisect_right(self._firsts, last)):
            if first < self._firsts[index]:
                parts.append((first, self._firsts[index] - 1))
            first = self._lasts[index] + 1
        if first <= last:
            parts.append((first, last))
        return parts

    def add(self, first: int, last: int) -> list[Range]:
        """Records first..last and returns the parts that are new, sorted; raises `WindowFull` at the bound."""
        if first == self.prefix + 1 and not self._firsts and first <= last:
            # In order and nothing above: nearly always.
            self.prefix = last
            return [(first, last)]
        parts = self.new_part(first, last)
        if parts:
            self._record(first, last)
        return parts

    def _record(self, first: int, last: int) -> None:
        # Ranges from low to high (exclusive) overlap first..last or touch it: all of them become one.
        low = bisect_left(self._lasts, first - 1)
        high = bisect_right(self._firsts, last + 1)
        if low < high:
            first, last = min(first, self._firsts[low]), max(last, self._lasts[high - 1])
        if first <= self.prefix + 1:
            # The prefix grows, and swallows every range it reached; low is 0, since ranges lie above the prefix.
            self.prefix = last
            del self._firsts[:high], self._lasts[:high]
            return
        if len(self._firsts) - (high - low) + 1 > self.ranges_max:
            raise WindowFull(
                f"The publisher sent {first}..{last} while {self.prefix + 1} and more are missing: that leaves more "
                f"than {self.ranges_max} separate ranges above {self.prefix}. It may go on below or next to what was "
                "seen; nothing was recorded."
            )
        self._firsts[low:high] = [first]
        self._lasts[low:high] = [last]


def _check_range(first: int, last: int) -> None:
    if not 1 <= first <= last:
        raise LocalMisuse(
            f"A tracker was asked about {first}..{last}; numbers start at 1 and a range's last is not below its first. "
            "Nothing was recorded."
        )
