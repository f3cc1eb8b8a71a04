"""Own numbers for each way out of a site: to each site next to it, and to each of its subscribers.

A way out (a lane) gets only what is wanted there, so the numbers of a stream that comes in would leave gaps. Each lane
numbers what it carries by itself, from 1 in each stream (report, section 4.1). The number is a function of what the
stream brought and of what was wanted when: every broker of the site comes to the same one, so that each can answer for
any other. `inbound` maps a number of the lane back to the number of the stream that came in (section 6.2).

Bound: what a destination has acknowledged is not kept; what it has not acknowledged is its publishers' window.
"""

from bisect import bisect_left
from collections import deque

from msgspec import Struct

from holdfast.model.batches import Batch


class Entry(Struct):
    """What a lane carries under one number, or several if it is a batch of several messages."""

    number: int
    batch: Batch
    chosen: str
    """The broker that answers for it."""
    inbound: int
    """The last number of the stream that came in which it stands for."""
    sent_to: str = ""
    """The broker or client to which we have sent it last; empty if we have not."""

    @property
    def last(self) -> int:
        return self.number + self.batch.count - 1


class Lane:
    """One stream on its way out to one destination."""

    __slots__ = ("acked", "destination", "kept", "next", "publisher", "source")

    def __init__(self, destination: str, source: str, publisher: str) -> None:
        self.destination, self.source, self.publisher = destination, source, publisher
        self.next = 1
        self.acked = 0
        self.kept: deque[Entry] = deque()

    def append(self, batch: Batch, chosen: str, inbound: int) -> Entry:
        """Number a batch. What the destination has already, from a broker that was faster, is not kept."""
        entry = Entry(self.next, batch, chosen, inbound)
        self.next = entry.last + 1
        if entry.last > self.acked:
            self.kept.append(entry)
        return entry

    def acknowledge(self, number: int) -> bool:
        """The destination has everything up to that number; whether that was news."""
        if number <= self.acked:
            return False
        self.acked = number
        while self.kept and self.kept[0].last <= number:
            self.kept.popleft()
        return True

    def between(self, first: int, last: int) -> list[Entry]:
        """What is kept under any of these numbers."""
        return [entry for entry in self.kept if entry.last >= first and entry.number <= last]

    def inbound(self, number: int) -> int:
        """The number of the stream that came in for a number of this lane; 0 if it is not kept any more."""
        lasts = [entry.last for entry in self.kept]
        at = bisect_left(lasts, number)
        return self.kept[at].inbound if at < len(lasts) else 0

    def restore(self, following: int, acked: int) -> None:
        """Others have numbered further than we have."""
        self.next = max(self.next, following)
        self.acknowledge(acked)

    def put_back(self, entry: Entry) -> None:
        """What another broker of the site keeps, and we do not."""
        if entry.last <= self.acked:
            return
        numbers = [one.number for one in self.kept]
        at = bisect_left(numbers, entry.number)
        if at == len(numbers) or numbers[at] != entry.number:
            self.kept.insert(at, entry)
            self.next = max(self.next, entry.last + 1)
