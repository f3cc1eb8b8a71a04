"""What every publisher and subscriber of the bench has in common: how they pace, stamp, count and sum up.

All clocks are `time.monotonic_ns`, which is one clock for all processes of a machine. A rate counts from the moment the
publisher starts to the moment the last message is in the application's hands. A latency is the time between the
`publish` call and the application's hands.
"""

import asyncio
import time
from collections.abc import Sequence
from statistics import median
from struct import Struct as Layout

from msgspec import Struct

from holdfast.cluster.workers import say

STAMP = Layout(">Q")
RATE_PER_S = 1000
WARM_UP_SHARE = 0.1
clock_ns = time.monotonic_ns


class PublishedSample(Struct, frozen=True):
    """What a publisher reports: how many, and when it began."""

    count: int
    started_ns: int


class ReceivedSample(Struct, frozen=True):
    """What a subscriber reports: how many, when the last came, and latencies if the messages were stamped."""

    count: int
    ended_ns: int
    latencies_us: Sequence[float] = ()


def stamped(size_bytes: int) -> bytes:
    """A payload of that size that says when it was made."""
    return STAMP.pack(clock_ns()) + bytes(max(0, size_bytes - STAMP.size))


def age_us(payload: bytes) -> float:
    return float(clock_ns() - STAMP.unpack_from(payload)[0]) / 1000


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def warmed_up(latencies_us: Sequence[float]) -> Sequence[float]:
    """Without the first ones, which pay for imports, caches and new connections."""
    return latencies_us[int(len(latencies_us) * WARM_UP_SHARE) :]


def middle(values: Sequence[float]) -> float:
    return median(values) if values else float("nan")


class SamplePace:
    """A steady rate: `due` says how many messages should have left since it was last asked."""

    def __init__(self, rate_per_s: int = RATE_PER_S) -> None:
        self._interval_ns = 1_000_000_000 // rate_per_s
        self._next_ns = clock_ns()

    async def due(self) -> int:
        wait_ns = self._next_ns - clock_ns()
        if wait_ns > 0:
            await asyncio.sleep(wait_ns / 1e9)
        count = max(1, (clock_ns() - self._next_ns) // self._interval_ns + 1)
        self._next_ns += count * self._interval_ns
        return count


class SampleTally:
    """What a subscriber has seen; `wait_for` returns when that many have come."""

    __slots__ = ("_arrived", "_expected", "count", "ended_ns", "latencies_us")

    def __init__(self) -> None:
        self.count = 0
        self.ended_ns = 0
        self.latencies_us: list[float] = []
        self._expected = 1 << 62
        self._arrived = asyncio.Event()

    def take(self, seq: int, payload: bytes) -> None:  # noqa: ARG002
        """What the application does with a message: count it. There is one publisher, so its number is the count."""
        self.count += 1
        if seq != self.count:
            say("failed", reason=f"message #{seq} came after #{self.count - 1}")

    def take_stamped(self, seq: int, payload: bytes) -> None:
        """And note how long it was under way."""
        self.latencies_us.append(age_us(payload))
        self.take(seq, payload)

    def look(self) -> None:
        """Called after every handful of messages that was counted."""
        self.ended_ns = clock_ns()
        if self.count >= self._expected:
            self._arrived.set()

    async def wait_for(self, expected: int) -> ReceivedSample:
        self._expected = expected
        if self.count < expected:
            await self._arrived.wait()
        return ReceivedSample(self.count, self.ended_ns, self.latencies_us)
