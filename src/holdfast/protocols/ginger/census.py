"""How many of the configured brokers are in this part of the tree, and whether that is a majority.

A total order has to be one order. Where the network is parted, only the part that holds a majority of the configured
brokers may go on with it, so every broker has to know on which side it is. Sizes are added up towards the root; the
root's verdict comes back down, and answers for the census that asked. A broker whose neighbourhood has changed does not
rely on an older verdict: it waits for the answer that has its loss counted.

Brokers that joined a running cluster without being configured have no vote: if they had, both parts could have a
majority.
"""

from collections.abc import Callable, Iterable

from holdfast.model.messages import Census, Counted, SessionMessage


class CensusTaker:
    """The census at one broker; `brokers` is 0 as long as nobody has said how many there should be."""

    def __init__(self, brokers: int, send: Callable[[str, SessionMessage], None]) -> None:
        self.brokers = brokers
        self._vote = int(brokers > 0)
        self._send = send
        self.below: dict[str, int] = {}
        self._version = self._answered = 0
        self._majority = True
        self._waiting: list[tuple[int, str, int]] = []
        """Censuses from below, each with the version of our own that includes it."""

    @property
    def size(self) -> int:
        return self._vote + sum(self.below.values())

    @property
    def is_answered(self) -> bool:
        """Whether the verdict has everything counted that we have told."""
        return not self.brokers or self._answered == self._version

    @property
    def majority(self) -> bool:
        """Whether this part may order total batches, as far as is known now."""
        return not self.brokers or (self._majority and self.is_answered)

    @property
    def minority(self) -> bool:
        """Whether it certainly may not."""
        return bool(self.brokers) and not self._majority and self.is_answered

    def recount(self, parent: str | None, children: Iterable[str]) -> None:
        """Something has changed here or below, or there is a new parent: ask anew. A root decides."""
        self._version += 1
        if parent is None:
            self._decide(2 * self.size > self.brokers, self._version, children)
        else:
            self._send(parent, Census(self._version, self.size))

    def lose(self, child: str) -> None:
        self.below.pop(child, None)
        self._waiting = [one for one in self._waiting if one[1] != child]

    def on_census(self, child: str, census: Census, parent: str | None, children: Iterable[str]) -> None:
        self.below[child] = census.size
        self._waiting.append((self._version + 1, child, census.version))
        self.recount(parent, children)

    def on_counted(self, counted: Counted, children: Iterable[str]) -> None:
        self.brokers = counted.brokers or self.brokers
        self._decide(counted.majority, counted.version, children)

    def _decide(self, majority: bool, version: int, children: Iterable[str]) -> None:
        changed = majority is not self._majority
        self._majority, self._answered = majority, max(self._answered, version)
        if changed:
            for child in children:
                self._send(child, Counted(0, majority, self.brokers))
        answered = [one for one in self._waiting if one[0] <= version]
        self._waiting = [one for one in self._waiting if one[0] > version]
        for _, child, asked in answered:
            self._send(child, Counted(asked, majority, self.brokers))
