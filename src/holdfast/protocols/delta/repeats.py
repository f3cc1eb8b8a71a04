"""The numbers that have come by each hop nearby, by which a node tells repeats: the paper's `most_recent` (section 5).

A copy is a repeat if one of its last delta+1 hops gave it a number that has come before. The paper takes each number
that does not succeed the latest for a repeat. (As printed it compares for inequality, and takes every new message for
one.) That needs each hop to pass everything on in order, and it may not. 1. A message waits in a node that recovers,
for nobody knows yet who is behind that. 2. Later ones go through it: their guides know more. 3. The first goes on, too,
and its hops' numbers are old. So a node remembers which of the last `WINDOW` numbers of each hop nearby have come: one
bit each, in each of its last lives. What is older is a repeat. Brokers need no table of sources for that.
"""

from collections.abc import Iterable, Iterator

from holdfast.model.delta_messages import Visit

WINDOW = 4096
"""Of so many numbers of each hop a node knows which have come."""
GONE_MAX = 256
"""So many nodes that have left are remembered."""
LIVES_MAX = 4
"""So many lives of each hop are told apart."""
_ALL = (1 << WINDOW) - 1


class CopyNumbers:
    """What has come by each hop."""

    def __init__(self) -> None:
        self._lives: dict[str, dict[int, tuple[int, int]]] = {}
        """By node and life of it, the latest number that came by it, and which came before: bit n, n earlier."""
        self._gone: dict[str, None] = {}
        """Nodes that are not known any more, and whose numbers are."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._lives)

    def is_duplicate(self, visited: tuple[Visit, ...]) -> bool:
        """Whether a copy came before that had one of these numbers."""
        for name, life, number in visited:
            lives = self._lives.get(name) if number else None
            if lives is None:
                continue
            latest, bits = lives.get(life, (0, 0))
            if not latest and len(lives) == LIVES_MAX and life < min(lives):
                return True
            behind = latest - number
            if behind >= WINDOW or (behind >= 0 and bits >> behind & 1):
                return True
        return False

    def is_late(self, visit: Visit) -> bool:
        """Whether a later number of that hop has come."""
        name, life, number = visit
        return self.latest(name, life) > number

    def latest(self, name: str, life: int) -> int:
        return self._lives.get(name, {}).get(life, (0, 0))[0]

    def note(self, visited: tuple[Visit, ...]) -> None:
        """These numbers have come; copies that have one of them are repeats."""
        for name, life, number in visited:
            if not number:
                continue
            lives = self._lives.setdefault(name, {})
            self._gone.pop(name, None)
            latest, bits = lives.get(life, (0, 0))
            if number > latest:
                lives[life] = (number, (bits << min(number - latest, WINDOW) | 1) & _ALL)
            elif latest - number < WINDOW:
                lives[life] = (latest, bits | 1 << (latest - number))
            if len(lives) > LIVES_MAX:
                del lives[min(lives)]

    def is_outrun(self, visited: tuple[Visit, ...]) -> bool:
        """Whether so much came by one of these hops since that the number cannot be told from those that came."""
        return any(number and self.latest(name, life) - number > WINDOW // 2 for name, life, number in visited)

    def forget(self, names: Iterable[str]) -> None:
        """Forget the numbers of these, which are not known any more, but for the last few.

        1. A client publishes past its frozen broker, and leaves. 2. Its broker runs again, and has the first copy.
        3. The second comes there by another broker that had waited with it.
        """
        self._gone.update(dict.fromkeys(one for one in names if one in self._lives))
        while len(self._gone) > GONE_MAX:
            name = next(iter(self._gone))
            del self._gone[name]
            self._lives.pop(name, None)
