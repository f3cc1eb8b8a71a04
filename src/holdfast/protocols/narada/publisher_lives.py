"""The lives of a publisher as readers see them, also lives from which a repository takes no messages any more.

A repository takes messages of the last few lives of a publisher. An older life has ended: the state that it takes to
continue it is dropped. The number at which it ended stays stored for as long as one of its messages is kept, since
readers could not find these messages otherwise.
"""

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.model.ranges import Range
from holdfast.protocols.narada.chains import Chain


class Settled(NamedTuple):
    """The range of one life's numbers that is stored or given up, without anything missing between."""

    first: int
    """Retention has forgotten the numbers below."""
    upto: int
    given: tuple[Range, ...]
    """Numbers that were given up. Some of their messages may have come late, and are stored."""


NOTHING = Settled(1, 0, ())


def settled(chain: Chain) -> Settled:
    return Settled(chain.forgotten + 1, chain.settled.prefix, tuple(chain.given))


class EndedLives:
    """The lives that have ended."""

    def __init__(self) -> None:
        self._lives: dict[tuple[str, int], Settled] = {}

    def add(self, chain: Chain) -> None:
        """End a life. The next commit stores its messages that are not stored yet."""
        ended = Settled(chain.forgotten + 1, chain.taken_or_given(), tuple(chain.given))
        if ended.upto >= ended.first:
            self._lives[chain.publisher, chain.life] = ended

    def get(self, publisher: str, life: int) -> Settled:
        return self._lives.get((publisher, life), NOTHING)

    def all(self) -> Iterator[tuple[str, int, Settled]]:
        return ((publisher, life, ended) for (publisher, life), ended in self._lives.items())

    def forget(self, publisher: str, life: int, number: int) -> bytes | None:
        """Retention has forgotten everything up to that number. The new form to store; `None` if unchanged."""
        ended = self._lives.get((publisher, life))
        if ended is None or number < ended.first:
            return None
        if number >= ended.upto:
            del self._lives[publisher, life]
            return b""
        self._lives[publisher, life] = ended._replace(first=number + 1)
        chain = Chain(publisher, life)
        chain.top, chain.given = ended.upto, list(ended.given)
        chain.forgotten = chain.expired = number
        chain.taken.add(1, ended.upto)
        return chain.save()
