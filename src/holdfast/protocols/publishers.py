"""What a broker takes from others: publications under numbers that are due, and requests that can be.

Whatever comes over a link is checked where it arrives, so that nothing behind that point meets an illegal topic.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from holdfast.model.batches import NAME_CHARACTERS_MAX, Batch, BatchError
from holdfast.model.direct_messages import Barred, Cast, Copied, Flushed, Passed, Roster
from holdfast.model.errors import LocalMisuse, PeerViolation
from holdfast.model.filters import parse_filter
from holdfast.model.identities import name_of
from holdfast.model.messages import (
    Climb,
    Confirm,
    Interest,
    Interests,
    Join,
    Move,
    Open,
    Publish,
    SessionMessage,
    Subscribe,
    TotalMarker,
    TotalProcessed,
    TotalRequest,
    Unstable,
    Unsubscribe,
)
from holdfast.model.relay_messages import Relay
from holdfast.model.site_messages import Announce, Establish, Forward, Owed, Replicate, SiteRequest, SiteState
from holdfast.model.topics import check_pattern, check_topic
from holdfast.protocols.trackers import RangeTracker, WindowFull

PUBLISHERS_MAX = 100_000
DURABLE_MAX = 10_000
"""How many publishers' numbers survive a restart."""
NUMBERS_AHEAD = 1 << 16
"""How many numbers are reserved at once where they are written down: a write for so many messages of a publisher."""


class PublicationRefused(PeerViolation, ValueError):  # noqa: N818 - it says what happened
    """A publication that surely will not be passed on, and why."""


class PublisherMemory:
    """The numbers of each publisher, so that a repeat is recognised and a new session under an old name goes on.

    Bounded: beyond `publishers_max` names the one that was silent the longest is forgotten.
    """

    def __init__(self, publishers_max: int = PUBLISHERS_MAX, durable: bool = False) -> None:
        self._publishers_max = min(publishers_max, DURABLE_MAX) if durable else publishers_max
        self._durable = durable
        self._seen: dict[str, RangeTracker] = {}
        self._reserved: dict[str, int] = {}
        self.due: dict[str, int] = {}
        """What is to be written down before anything else happens: up to where numbers are reserved; 0 forgets."""
        self.uncertain: set[str] = set()
        """Those of whom it is known up to where they may have numbered, and not how far they have."""

    def last(self, name: str) -> int:
        """The highest number that was published under this name."""
        tracker = self._seen.get(name)
        return 0 if tracker is None else tracker.prefix

    def numbers(self) -> dict[str, int]:
        """The highest number of everybody, the longest silent first: `resume` with each makes the same memory."""
        return {name: tracker.prefix for name, tracker in self._seen.items()}

    def restore(self, numbered: Mapping[str, tuple[int, bool]]) -> None:
        """Go on with what an earlier life has written down."""
        for name, (last, exact) in numbered.items():
            self._reserved[name] = last
            self._remember(name, RangeTracker(ranges_max=0, start=last))
            if not exact:
                self.uncertain.add(name)
            # Nobody goes on with a session of an earlier life: what counts is how far the name has got.
            self.retire(name)

    def exact(self) -> dict[str, int]:
        """How far each has numbered, of those of whom it is known."""
        return {name: seen.prefix for name, seen in self._seen.items() if name not in self.uncertain}

    def resume(self, name: str, last: int) -> None:
        """A publisher comes from another broker: everything up to `last` was taken there."""
        self._seen.pop(name, None)
        self.uncertain.discard(name)
        self._remember(name, RangeTracker(ranges_max=0, start=last))

    def note(self, name: str, last: int) -> None:
        """Somebody else knows that everything up to `last` was published under this name."""
        if last > self.last(name):
            self.resume(name, last)

    def retire(self, identity: str) -> None:
        """That session is over: the next one under its name goes on behind its numbers."""
        name = name_of(identity)
        tracker = self._seen.pop(identity, None) if name != identity else None
        if tracker is None:
            return
        inexact = identity in self.uncertain
        self.uncertain.discard(identity)
        if self._reserved.pop(identity, 0):
            self.due[identity] = 0
        if tracker.prefix > self.last(name):
            self.resume(name, tracker.prefix)
            if inexact:
                self.uncertain.add(name)

    def take(self, name: str, first: int, last: int) -> tuple[int, int] | None:
        """Use the numbers first..last; which of them are new, or `None`. Numbers may not be skipped: `WindowFull`."""
        tracker = self._seen.pop(name, None) or RangeTracker(ranges_max=0)
        if self.uncertain:
            # It goes on behind what was reserved, so from here on it is known.
            self.uncertain.discard(name)
        try:
            new = tracker.add(first, last)
        finally:
            self._remember(name, tracker)
        return new[0] if new else None

    def _remember(self, name: str, tracker: RangeTracker) -> None:
        if tracker.prefix:
            self._seen[name] = tracker
        if self._durable and tracker.prefix > self._reserved.get(name, 0):
            self._reserved[name] = self.due[name] = tracker.prefix + NUMBERS_AHEAD
        if len(self._seen) > self._publishers_max:
            self._forget(next(iter(self._seen)))

    def _forget(self, name: str) -> None:
        del self._seen[name]
        self.uncertain.discard(name)
        if self._reserved.pop(name, 0):
            self.due[name] = 0


def accept_publication(client: str, batch: Batch, memory: PublisherMemory) -> Batch | None:
    """What is new of a batch that this client published, or `None` if all of it came before.

    A client that is not sure sends again under the same numbers, maybe in other batches: only what is new goes on.
    Raises `PublicationRefused` for what cannot be; if it is not for its numbers, they count as used.
    """
    if batch.publisher != client:
        raise PublicationRefused(f"client {client} may publish under its own name only, not as {batch.publisher}")
    try:
        new = memory.take(client, batch.first, batch.last)
    except WindowFull:
        due = memory.last(client) + 1
        raise PublicationRefused(f"client {client} published #{batch.first}, but #{due} is next") from None
    problem = topic_problem(batch.topic)
    if problem:
        raise PublicationRefused(problem)
    try:
        batch.check()
    except BatchError as error:
        raise PublicationRefused(str(error)) from None
    return None if new is None else batch.part(*new)


@lru_cache(maxsize=4096)
def topic_problem(topic: str) -> str:
    """Why nobody can publish on that topic; empty if one can."""
    try:
        check_topic(topic)
    except LocalMisuse as error:
        return str(error)
    return ""


CARRIERS = (Publish, Cast, Barred, Passed, Climb, TotalRequest, Unstable, Forward, Replicate, Owed)


def request_problem(message: SessionMessage) -> str:
    """What is wrong with the batch, topic or interests of a message that came over a link; empty if nothing is."""
    if type(message) is Publish or isinstance(message, CARRIERS):
        return _columns_problem(message.batch)
    if isinstance(message, Copied):
        return _columns_problem(message.cast.batch)
    if isinstance(message, Confirm | TotalMarker):
        return topic_problem(message.topic)
    if isinstance(message, Subscribe | Unsubscribe):
        return interest_problem(message.pattern, message.where)
    if isinstance(message, TotalProcessed) and message.batch is not None:
        return _columns_problem(message.batch)
    if isinstance(message, Interests):
        return interests_problem(message.entries)
    if isinstance(message, Join) and (problem := interests_problem(message.doubtful)):
        return problem
    if isinstance(message, Join | Open | Move):
        return interests_problem(message.interests)
    if isinstance(message, Roster):
        return interests_problem((pattern, "") for patterns in message.patterns for pattern in patterns)
    if isinstance(message, Flushed):
        return interests_problem((pattern, "") for pattern in message.patterns)
    return _site_problem(message)


def _site_problem(message: SessionMessage) -> str:
    """What is wrong with what a broker of a site says of patterns and filters."""
    if isinstance(message, SiteRequest | Establish):
        changes = message.changes if isinstance(message, Establish) else (message.change,)
        return interests_problem((one.pattern, one.where) for one in changes if one.pattern)
    if isinstance(message, Announce):
        return interests_problem((*message.wanted, *message.unwanted))
    if isinstance(message, SiteState):
        return interests_problem((pattern, where) for _, pattern, where in message.table)
    return ""


def relay_problem(relay: Relay) -> str:
    """What is wrong with the content of a copy from another broker; a copy without any tells of identifiers alone."""
    notice = relay.notice
    if notice is None:
        return _batch_problem(relay.batch) if relay.batch is not None else ""
    if relay.batch is not None:
        return "a copy is of a batch or of a notice, not of both"
    if notice.what == "c":
        return topic_problem(notice.pattern)
    if notice.what in ("s", "u"):
        return interest_problem(notice.pattern, notice.where)
    if len(notice.pattern) > NAME_CHARACTERS_MAX:
        return f"a broker's name has at most {NAME_CHARACTERS_MAX} characters, not {len(notice.pattern)}"
    return ""


def _columns_problem(batch: Batch) -> str:
    """Of a batch that another broker has taken, and should have looked at."""
    if batch.count > 1 or batch.lengths or batch.keys or batch.attributes:
        try:
            batch.check_columns()
        except BatchError as error:
            return str(error)
    return topic_problem(batch.topic)


def _batch_problem(batch: Batch) -> str:
    try:
        batch.check()
    except BatchError as error:
        return str(error)
    return topic_problem(batch.topic)


def interests_problem(interests: Iterable[Interest]) -> str:
    """What is wrong with the first of them that cannot be; empty if nothing is."""
    return next(filter(None, (interest_problem(pattern, where) for pattern, where in interests)), "")


def interest_problem(pattern: str, where: str) -> str:
    """Why nobody can subscribe to that; empty if one can."""
    try:
        check_pattern(pattern)
        if where:
            parse_filter(where)
    except LocalMisuse as error:
        return str(error)
    return ""
