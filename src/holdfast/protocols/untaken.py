"""Batches that a client has handed over and its application has yet to take, and the questions that wait for that.

A batch that is taken concerns the questions about its own messages, and no others: a publisher may ask about thousands
of messages at once, and the application take one message at a time.
"""

from bisect import bisect_left, bisect_right

from holdfast.model.batches import Batch
from holdfast.model.messages import Confirm


class Untaken:
    """Ranges of numbers by publisher; a question waits at the range in which the number is that it asks about."""

    def __init__(self) -> None:
        self._firsts: dict[str, list[int]] = {}
        """The first number of each batch, in order, by publisher; in `_lasts` the last one, at the same place."""
        self._lasts: dict[str, list[int]] = {}
        self._waiting: dict[tuple[str, int], list[Confirm]] = {}
        """Questions by publisher and first number of the batch that is not taken."""
        self._ready: list[Confirm] = []
        self.questions = 0
        """How many there are, ready ones included."""

    def add(self, batch: Batch) -> None:
        firsts = self._firsts.setdefault(batch.publisher, [])
        lasts = self._lasts.setdefault(batch.publisher, [])
        place = bisect_left(firsts, batch.first)
        if firsts[place : place + 1] == [batch.first]:
            lasts[place] = batch.last
        else:
            firsts.insert(place, batch.first)
            lasts.insert(place, batch.last)

    def take(self, batch: Batch) -> None:
        """The application has taken all of the batch."""
        publisher = batch.publisher
        firsts = self._firsts.get(publisher, [])
        place = bisect_left(firsts, batch.first)
        if firsts[place : place + 1] == [batch.first]:
            del firsts[place], self._lasts[publisher][place]
            if not firsts:
                del self._firsts[publisher], self._lasts[publisher]
            self._ready += self._waiting.pop((publisher, batch.first), ())

    def look_again(self, batch: Batch) -> None:
        """Something else has become of messages of the batch: questions about it are looked at again."""
        first = self._first_of(batch.publisher, batch.first)
        if first is not None:
            self._ready += self._waiting.pop((batch.publisher, first), ())

    def has(self, publisher: str, seq: int) -> bool:
        """Whether the application has yet to take that message."""
        return self._first_of(publisher, seq) is not None

    def wait(self, asked: Confirm) -> None:
        """Keep a question about a message that is here until it is taken."""
        first = self._first_of(asked.publisher, asked.seq)
        assert first is not None, "a question waits for a message that the application has yet to take"
        self._waiting.setdefault((asked.publisher, first), []).append(asked)
        self.questions += 1

    @property
    def is_ready(self) -> bool:
        return bool(self._ready)

    def ready(self) -> list[Confirm]:
        """Questions that no longer wait, once."""
        ready, self._ready = self._ready, []
        self.questions -= len(ready)
        return ready

    def forget_questions(self) -> None:
        self._waiting.clear()
        self._ready.clear()
        self.questions = 0

    def _first_of(self, publisher: str, seq: int) -> int | None:
        """The first number of the batch that has this one."""
        firsts = self._firsts.get(publisher)
        if firsts is None:
            return None
        place = bisect_right(firsts, seq) - 1
        return firsts[place] if place >= 0 and self._lasts[publisher][place] >= seq else None
