"""What of a publisher's lives can be read: also of those that are over, of which a repository takes nothing any more.

A life before the last few of its publisher is over. How to go on with it is forgotten; where it ended stays known, and
written down, for as long as something of it is kept: its messages could not be found otherwise.
"""

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.protocols.narada.chains import Chain
from holdfast.protocols.trackers import Range


class Settled(NamedTuple):
    """What of one life of a publisher is stored, or was given up, without anything missing between."""

    first: int
    """What lies below was forgotten by retention."""
    upto: int
    given: tuple[Range, ...]
    """What was given up. Some of it may have come late, and is stored all the same."""


NOTHING = Settled(1, 0, ())


def settled(chain: Chain) -> Settled:
    return Settled(chain.forgotten + 1, chain.settled.prefix, tuple(chain.given))


class EndedLives:
    """The lives that are over."""

    def __init__(self) -> None:
        self._lives: dict[tuple[str, int], Settled] = {}

    def add(self, chain: Chain) -> None:
        """This life is over. What it took is stored with the next commit, if it is not yet."""
        ended = Settled(chain.forgotten + 1, chain.taken_or_given(), tuple(chain.given))
        if ended.upto >= ended.first:
            self._lives[chain.publisher, chain.life] = ended

    def get(self, publisher: str, life: int) -> Settled:
        return self._lives.get((publisher, life), NOTHING)

    def all(self) -> Iterator[tuple[str, int, Settled]]:
        return ((publisher, life, ended) for (publisher, life), ended in self._lives.items())

    def forget(self, publisher: str, life: int, number: int) -> bytes | None:
        """Everything up to that number was forgotten: what is to be stored of it now, `None` for what is there."""
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
