"""What a client can say about a publication that somebody asks about: evidence, not the absence of complaints.

A subscriber's client is the only one who knows what it has handed to its application. Asked about a publication, its
witness says that it has it, that it is not owed it, or that it lacks it. Not owed is a message that no subscription
matches, or that was published before every matching one was confirmed: the question says how long ago that was, by the
publisher's clock, and durations need no common clock. On its way the question only gets older, so a subscription that
seems younger than the message surely is.

Bounds: `RUNS_MAX` runs of consecutive numbers are remembered, over all publishers; of what is older the witness says
that it does not remember. A publisher remembers `TIMES_MAX` moments of publishing; what is older counts as that old.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection

from holdfast.model.batches import Attributes, Batch
from holdfast.model.filters import parse_filter
from holdfast.model.messages import Confirm, ConfirmAck, Interest
from holdfast.model.receipt_messages import CLEAN, UNKNOWN_AGE_S, Finding
from holdfast.model.topics import matches
from holdfast.model.trace import CROSSED
from holdfast.protocols.node import Completed, Effects, Report, Unconfirmed
from holdfast.protocols.untaken import Untaken

RUNS_MAX = 8192
FLOORS_MAX = 8192
TIMES_MAX = 4096
ASKED_MAX = 4096
"""So many questions wait for the application to take what they ask about; the next is not waited for."""


class Received:
    """Which numbers of each publisher came, as runs `[first, last]` in the order in which they came."""

    def __init__(self) -> None:
        self._runs: dict[str, deque[list[int]]] = {}
        self._count = 0
        self._floors: dict[str, int] = {}
        """Of each publisher the highest number that was forgotten."""

    def add(self, batch: Batch) -> None:
        runs = self._runs.get(batch.publisher)
        if runs is not None and runs[-1][1] + 1 == batch.first:
            runs[-1][1] = batch.last
            return
        # Whoever was heard of last stands last, and is forgotten last.
        runs = self._runs.pop(batch.publisher, None) or deque()
        self._runs[batch.publisher] = runs
        runs.append([batch.first, batch.last])
        self._count += 1
        if self._count > RUNS_MAX:
            self._forget(next(iter(self._runs)))

    def _forget(self, publisher: str) -> None:
        runs = self._runs[publisher]
        _, last = runs.popleft()
        self._count -= 1
        self._floors[publisher] = max(last, self._floors.pop(publisher, 0))
        if not runs:
            del self._runs[publisher]
        if len(self._floors) > FLOORS_MAX:
            del self._floors[next(iter(self._floors))]

    def has(self, publisher: str, seq: int) -> bool | None:
        """Whether that message came; `None` if it may have, too long ago."""
        # Mostly it is asked about what came last.
        if any(first <= seq <= last for first, last in reversed(self._runs.get(publisher, ()))):
            return True
        return None if seq <= self._floors.get(publisher, 0) else False


class Witness:
    """What one client has, wants, and was asked about."""

    def __init__(self, name: str, answer: Callable[[ConfirmAck], None]) -> None:
        self._name, self._answer = name, answer
        self._received, self._dropped = Received(), Received()
        self._untaken = Untaken()
        self._confirmed_at: dict[Interest, float] = {}

    def handed_over(self, batch: Batch) -> None:
        """The client has the messages; the application can take them."""
        self._received.add(batch)
        self._untaken.add(batch)

    def dropped(self, batch: Batch) -> None:
        """The client had the messages, and some subscription of it has dropped them unread."""
        self._dropped.add(batch)
        self._untaken.look_again(batch)

    def subscribed(self, interest: Interest, now: float) -> None:
        """A subscription is confirmed: from now on it is owed what is published."""
        self._confirmed_at.setdefault(interest, now)

    def unsubscribed(self, interest: Interest) -> None:
        self._confirmed_at.pop(interest, None)

    def on_confirm(self, asked: Confirm, now: float, spilling: Collection[Interest]) -> None:
        """Answer a question, now or when the application has taken what it asks about."""
        finding = self.judge(asked, now, spilling)
        if finding is not None:
            self._answer(ConfirmAck(asked.token, finding))

    def judge(self, asked: Confirm, now: float, spilling: Collection[Interest]) -> Finding | None:
        """What is to be answered; `None` if the application has yet to take it: then `taken` says when.

        For what spills somebody else stands in: it is not owed here.
        """
        has = self._has(asked)
        if has:
            return self._when_taken(asked) if asked.taken else CLEAN
        if not self._is_owed(asked, now, spilling):
            return CLEAN
        if has is None:
            return Finding(broken=f"{self._name} does not remember what it got so long ago")
        return Finding(lacking=1, lack=(self._name,))

    def _has(self, asked: Confirm) -> bool | None:
        """Whether the application has that message, or can have it; `None` if that is forgotten."""
        dropped = self._dropped.has(asked.publisher, asked.seq)
        if dropped is False:
            return self._received.has(asked.publisher, asked.seq)
        return False if dropped else None

    def _is_owed(self, asked: Confirm, now: float, spilling: Collection[Interest]) -> bool:
        for interest, confirmed_at in self._confirmed_at.items():
            pattern, where = interest
            # Every subscription is younger than a message of unknown age.
            if now - confirmed_at < asked.age_s or interest in spilling or not matches(pattern, asked.topic):
                continue
            if not where or parse_filter(where).matches(asked.attributes):
                return True
        return False

    def _when_taken(self, asked: Confirm) -> Finding | None:
        if not self._untaken.has(asked.publisher, asked.seq):
            return CLEAN
        if self._untaken.questions >= ASKED_MAX:
            return Finding(broken=f"the application of {self._name} has not taken {ASKED_MAX} others either")
        self._untaken.wait(asked)
        return None

    def taken(self, batch: Batch) -> None:
        """The application has taken these messages: with the next `settle` questions about them are answered."""
        self._untaken.take(batch)

    @property
    def is_asked(self) -> bool:
        """Whether questions wait for the next `settle`."""
        return self._untaken.is_ready

    def settle(self) -> None:
        """The broker that has asked is there: answer what can be answered."""
        if not self._untaken.is_ready:
            return
        for one in self._untaken.ready():
            has = self._has(one)
            if has and self._untaken.has(one.publisher, one.seq):
                self._untaken.wait(one)
            else:
                # What was dropped while the question waited, the application will never take.
                finding = CLEAN if has else Finding(lacking=1, lack=(self._name,))
                self._answer(ConfirmAck(one.token, finding))

    def moved(self) -> None:
        """The session goes on at another broker, which asks again."""
        self._untaken.forget_questions()


class PublishTimes:
    """When a client's publications left it: `age_s` is never more than their true age."""

    def __init__(self) -> None:
        self._lasts: list[int] = []
        self._times: list[float] = []

    def note(self, last: int, now: float) -> None:
        """Publications up to this number have been published by now."""
        if self._times and self._times[-1] == now:
            self._lasts[-1] = last
            return
        self._lasts.append(last)
        self._times.append(now)
        if len(self._lasts) > TIMES_MAX:
            del self._lasts[: TIMES_MAX // 2], self._times[: TIMES_MAX // 2]

    def question(
        self, token: int, topic: str, publisher: str, seq: int, now: float, attributes: Attributes | None, taken: bool
    ) -> Confirm:
        """The question whether everybody has that publication. Without its attributes everybody is asked."""
        age_s = UNKNOWN_AGE_S if attributes is None else self.age_s(seq, now)
        return Confirm(token, topic, publisher, seq, attributes or {}, age_s, taken)

    def age_s(self, seq: int, now: float) -> float:
        place = bisect_left(self._lasts, seq)
        return max(0.0, now - self._times[place]) if place < len(self._times) else 0.0


def answered(token: int, topic: str, seq: int, finding: Finding) -> Effects:
    """What a publisher's client does with the answer to its question."""
    if finding.clean:
        crossed = [Report(CROSSED, pattern=topic, seq=seq)] if finding.crossed else []
        return [*crossed, Report("confirmed", pattern=topic, seq=seq), Completed(token, finding.crossed)]
    return [Report("unconfirmed", pattern=topic, seq=seq, detail=str(finding)), Unconfirmed(token, seq, finding)]
