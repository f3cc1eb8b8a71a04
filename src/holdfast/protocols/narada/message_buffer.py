"""The buffer of messages that arrived before the order or the row that names them, at repositories and subscribers.

A message is found by the number under which it travels, and taken only if its fingerprint is the ordered one, since
a message of an earlier session may travel under the same number. Brokers may have split a batch, and a client may have
joined several, so a requested range is cut out of buffered batches, or assembled from them.

Bound: `bytes_max`. Beyond it the oldest batches are dropped; a participant that needs them requests them again.
"""

from bisect import bisect_left, bisect_right, insort

from holdfast.model.batches import Batch, merged
from holdfast.protocols.narada.fingerprints import fingerprint

PARTS_MAX = 64
SEARCHED_MAX = 256


class MessageBuffer:
    """Batches as they arrived, oldest first."""

    __slots__ = ("_batches", "_by_first", "_longest", "_next", "_sorted", "bytes", "bytes_max", "dropped")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = self.dropped = 0
        self._next = 0
        self._batches: dict[int, Batch] = {}
        self._by_first: dict[str, dict[int, list[int]]] = {}
        self._sorted: dict[str, list[int]] = {}
        """By publisher: the first numbers of its batches, in order."""
        self._longest = 0
        """The most messages of any batch: a batch that contains a number begins less than that before it."""

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, batch: Batch) -> None:
        """Keep a batch; the oldest give way to it."""
        firsts = self._by_first.setdefault(batch.publisher, {})
        there = firsts.get(batch.first)
        if there is None:
            there = firsts[batch.first] = []
            insort(self._sorted.setdefault(batch.publisher, []), batch.first)
        if any(self._batches[key] == batch for key in there):
            return
        self._next += 1
        there.append(self._next)
        self._batches[self._next] = batch
        self.bytes += batch.cost_bytes
        self._longest = max(self._longest, batch.count)
        while self.bytes > self.bytes_max and len(self._batches) > 1:
            self._remove(next(iter(self._batches)))
            self.dropped += 1

    def take(self, publisher: str, first: int, count: int, crc: int) -> Batch | None:
        """The messages first.. with that fingerprint, or `None`; they are in the buffer no longer."""
        for key in self._starting(publisher, first):
            batch = self._batches[key]
            if batch.count >= count:
                part = batch.part(first, first + count - 1)
                if fingerprint(part) == crc:
                    self._use(key, first, count)
                    return part
        return self._assembled(publisher, first, count, crc)

    def has(self, publisher: str, first: int) -> bool:
        """Whether some batch begins with that number; `take` says whether it is the ordered one."""
        return first in self._by_first.get(publisher, ())

    def discard(self, publisher: str, first: int, count: int, crc: int) -> None:
        """Drop these messages, if the buffer has them."""
        if publisher in self._by_first:
            self.take(publisher, first, count, crc)

    def _starting(self, publisher: str, first: int) -> list[int]:
        """The batches that begin with that number; else a batch that contains it, cut so that it begins there."""
        firsts = self._by_first.get(publisher)
        if not firsts:
            return []
        found = firsts.get(first)
        if found:
            return list(found)
        begins = self._sorted[publisher]
        stop = bisect_right(begins, first)
        for at in begins[max(bisect_left(begins, first - self._longest + 1), stop - SEARCHED_MAX) : stop]:
            for key in list(firsts[at]):
                batch = self._batches[key]
                if first <= batch.last:
                    self._remove(key)
                    self.add(batch.part(batch.first, first - 1))
                    self.add(batch.part(first, batch.last))
                    return list(self._by_first.get(publisher, {}).get(first, ()))
        return []

    def _use(self, key: int, first: int, count: int) -> None:
        batch = self._batches[key]
        self._remove(key)
        if batch.first < first:
            self.add(batch.part(batch.first, first - 1))
        if batch.last >= first + count:
            self.add(batch.part(first + count, batch.last))

    def _assembled(self, publisher: str, first: int, count: int, crc: int) -> Batch | None:
        """The same messages assembled from several batches, if that is possible in one way."""
        keys: list[int] = []
        parts: list[Batch] = []
        at, left = first, count
        while left and len(keys) < PARTS_MAX:
            found = self._starting(publisher, at)
            if not found:
                return None
            batch = self._batches[found[-1]]
            part = batch.part(at, min(batch.last, at + left - 1))
            head = parts[0] if parts else part
            if (part.topic, part.guarantee) != (head.topic, head.guarantee):
                return None
            keys.append(found[-1])
            parts.append(part)
            at, left = at + part.count, left - part.count
        whole = merged(parts) if not left and len(parts) > 1 else None
        if whole is None or fingerprint(whole) != crc:
            return None
        for key, part in zip(keys, parts, strict=True):
            if key in self._batches:
                self._use(key, part.first, part.count)
        return whole

    def _remove(self, key: int) -> None:
        batch = self._batches.pop(key)
        self.bytes -= batch.cost_bytes
        firsts = self._by_first[batch.publisher]
        there = firsts[batch.first]
        there.remove(key)
        if not there:
            del firsts[batch.first]
            begins = self._sorted[batch.publisher]
            del begins[bisect_left(begins, batch.first)]
            if not firsts:
                del self._by_first[batch.publisher], self._sorted[batch.publisher]
