"""What every store can do: the interface between a repository and where it keeps things.

A store holds *streams* of entries, found by sequence number, by identity and by time, and small *pairs* of metadata.
It is synchronous and has one writer. `append`, `put`, `forget` and `mend` are buffered; `commit` carries them out in
one transaction, all of it or none of it, and only then reads show them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from msgspec import Struct

from holdfast.model.errors import HoldfastError, LocalMisuse
from holdfast.model.reliable import Entry, Level


class StoreError(LocalMisuse, ValueError):
    """Raised when a store is asked for something that it cannot do: it says which and what would have been legal."""


class StoreFailed(HoldfastError):  # noqa: N818 - it says what happened
    """Raised when the disk or the database refused.

    What was being committed may be stored or not, but not in part; what is stored can be asked for before it is
    appended again.
    """


class StoreAway(StoreFailed):
    """Raised when a store cannot be asked now, and may be asked again soon: that says nothing about what it holds."""


class Damage(Struct, frozen=True, kw_only=True):
    """Something that is not as it was stored. Reads leave it out; `mend` puts it right."""

    stream: str
    """Empty if it concerns no stream in particular."""
    first: int
    last: int
    """The messages concerned; both are 0 if none is."""
    what: str
    """A sentence."""
    publisher: str = ""
    cat: int = 0
    """The identity of the first message, as far as it could be made out: empty and 0 if not."""
    tail: bool = False
    """The youngest commits are lost, whatever they held."""


class StreamInfo(Struct, frozen=True):
    """What a store has of a stream."""

    kept: int
    """Everything below this sequence number was forgotten."""
    next: int
    """One behind the highest sequence number that was ever stored."""
    messages: int
    """How many are kept, up to the messages of one entry that was forgotten in part."""
    bytes: int
    """What their batches weigh, encoded."""


class Store(ABC):
    """Where a repository keeps its streams.

    ```python
    with open_store("sqlite:orders.db") as store:
        store.append("bank/orders", [Entry(first=1, cat=1, batch=batch, time_ns=time.time_ns())])
        store.commit(Level.FSYNCED)
        entries = store.read("bank/orders", 1, 100, bytes_max=1 << 20)
    ```
    """

    # ------------------------------------------------------------------------------------------------- to be buffered

    @abstractmethod
    def append(self, stream: str, entries: Sequence[Entry]) -> None:
        """Take these entries. A place that was set aside is filled by an entry with a lower `first`.

        Raises `StoreError` if a sequence number or an identity among them is taken. What lies below the sequence number
        that retention has reached is left out: it would be forgotten at once.
        """

    @abstractmethod
    def put(self, key: str, value: bytes) -> None:
        """Remember a pair; an empty value erases it."""

    @abstractmethod
    def forget(self, stream: str, before: int) -> None:
        """Retention: everything below this sequence number is no longer shown, and goes when it suits the store."""

    @abstractmethod
    def mend(self, stream: str, entries: Sequence[Entry]) -> None:
        """Put entries in the place of what is damaged or missing; of what is sound, nothing is touched.

        That the youngest commits were lost counts as settled with it.
        """

    @abstractmethod
    def commit(self, level: Level) -> None:
        """Carry out what was buffered, all or nothing, as safely as the level says.

        A commit at a level makes everything that was committed before at least as safe. With nothing buffered that is
        all it does.
        """

    def is_light(self, size_bytes: int) -> bool:  # noqa: ARG002 - others do ask
        """Whether a commit of about so much, as `written`, is surely over in an instant: the disk is not waited for.

        Then whoever has other things to do as well need not have somebody else do it.
        """
        return False

    # -------------------------------------------------------------------------------------------------------- to read

    @abstractmethod
    def read(self, stream: str, first: int, last: int, bytes_max: int) -> list[Entry]:
        """What is stored of first..last, cut to it, in the order of sequence numbers.

        It ends with the entry whose payloads bring the sum to `bytes_max`: there is at least one, if there is any.
        """

    @abstractmethod
    def by_identity(self, stream: str, publisher: str, cat_first: int, cat_last: int, bytes_max: int) -> list[Entry]:
        """The same for the catenation numbers cat_first..cat_last of a publisher, in their order."""

    @abstractmethod
    def at_time(self, stream: str, time_ns: int) -> int:
        """The lowest sequence number that was stored at or after that time; if there is none, the next to be stored."""

    @abstractmethod
    def info(self, stream: str) -> StreamInfo:
        """What there is of a stream; of one that nobody appended to, nothing."""

    def bounds(self, stream: str) -> tuple[int, int]:
        """The sequence number below which everything was forgotten, and the one behind the highest ever stored."""
        info = self.info(stream)
        return info.kept, info.next

    @abstractmethod
    def streams(self) -> list[str]:
        """The streams that anything was ever stored of, sorted."""

    @abstractmethod
    def items(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        """The pairs whose keys begin so, sorted by key."""

    # --------------------------------------------------------------------------------------------------- housekeeping

    def retain(self, stream: str, now_ns: int, age_ns: int | None = None, bytes_max: int | None = None) -> int:
        """Forget what is older than so long, and the oldest of what weighs more than so much; what is below went."""
        before = self.expired(stream, now_ns, age_ns, bytes_max)
        if before > self.bounds(stream)[0]:
            self.forget(stream, before)
        return before

    def expired(self, stream: str, now_ns: int, age_ns: int | None = None, bytes_max: int | None = None) -> int:
        """The sequence number below which everything is older than so long, or more than so much."""
        kept, following = self.bounds(stream)
        before = kept
        if age_ns is not None:
            before = max(before, min(self.at_time(stream, now_ns - age_ns), following))
        if bytes_max is not None:
            before = max(before, self._fitting(stream, bytes_max))
        return before

    def _fitting(self, stream: str, bytes_max: int) -> int:
        """The sequence number below which so much lies that the rest weighs at most `bytes_max`."""
        info = self.info(stream)
        excess = info.bytes - bytes_max
        if excess <= 0:
            return info.kept
        for last, size in self._oldest(stream):
            excess -= size
            if excess <= 0:
                return last + 1
        return info.next

    @abstractmethod
    def _oldest(self, stream: str) -> Iterator[tuple[int, int]]:
        """The last sequence number and the bytes of each entry that is there, from the oldest on."""

    @abstractmethod
    def compact(self) -> None:
        """Give back the space of what was forgotten."""

    @abstractmethod
    def verify(self) -> list[Damage]:
        """Look at everything, and say what is not as it was stored."""

    def lost(self) -> list[str]:
        """What had been stored and was found to be lost when the store was opened: its youngest commits, or pairs.

        In words: what they held is unknown here. `mend` settles it.
        """
        return []

    @abstractmethod
    def repair(self) -> None:
        """Put right what can be put right without anybody's help: indexes, and whatever is written twice.

        What is lost beyond that is missing afterwards, or still damaged: then its identity is known, for `mend`.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go. What was not committed is gone; closing again does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
