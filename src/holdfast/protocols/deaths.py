"""The brokers that a node knows to be dead, each in the epoch in which it died, and what it has told of them to whom.

Why a death has to be remembered, and by everybody around (docs/repair.md, trap 10): a coordinator that does not know
that one of those whom it expects is dead would wait for it, and for those behind it look in the wrong place; an orphan
would turn to a dead contact; and one that was given up, and was merely frozen, has to hear so when it comes back, in
that epoch, before it accuses those who have given it up.

Why not for ever, and not of everybody:
- Clients are not in the list at all. Nobody turns to a client, and nobody is behind it. That its session is over
  matters to its broker alone, which tells it so if it comes back (`farewells`). A coordinator that expects a client
  which is gone, since its broker died before it could say so, waits for it no longer than for one that is busy.
- Of a broker there is one entry, whatever the number of its lives: an epoch that is dead makes all earlier ones so.
- Brokers may come and go under ever new names. Beyond `GONE_MAX` of them the one that died first is forgotten. An entry
  is needed by repairs that are under way, and by views that still name the dead one; both have changed with each of the
  deaths since. What is given up is the word to a broker that returns after so many others have died: it is a stranger
  then, whose session nobody knows, and repairs its own loss of them as the tolerance allows.

What travels: `Join` and `Open` begin a link, and bring the whole list, which is bounded. A `View` brings news alone:
deaths that its receiver was not told of on this link. Links lose nothing, so it is enough to remember how far that is.
"""

from holdfast.model.messages import Dead

GONE_MAX = 1000


class Deaths:
    """The dead that one node knows of, the latest last."""

    def __init__(self, gone_max: int = GONE_MAX) -> None:
        self._gone_max = gone_max
        self._gone: dict[str, tuple[int, int]] = {}
        """By name: the epoch, and how many deaths were heard of up to this one."""
        self._heard = 0
        self._told: dict[str, int] = {}
        """By neighbour: how many of the deaths that were heard of it was told."""

    def __len__(self) -> int:
        return len(self._gone)

    def __contains__(self, name: object) -> bool:
        return name in self._gone

    def epoch_of(self, name: str) -> int | None:
        """The last epoch of that broker that is dead."""
        return self._gone[name][0] if name in self._gone else None

    def covers(self, name: str, epoch: int) -> bool:
        return name in self._gone and epoch <= self._gone[name][0]

    def add(self, name: str, epoch: int) -> None:
        if self.covers(name, epoch):
            return
        self._gone.pop(name, None)
        self._heard += 1
        self._gone[name] = (epoch, self._heard)
        if len(self._gone) > self._gone_max:
            del self._gone[next(iter(self._gone))]

    def discard(self, name: str) -> None:
        """It was not dead after all."""
        self._gone.pop(name, None)

    def all(self) -> Dead:
        return tuple(sorted((name, epoch) for name, (epoch, _) in self._gone.items()))

    # ------------------------------------------------------------------------------------------------- telling

    def news_for(self, peer: str) -> Dead:
        """What that neighbour was not told yet; from now on it was."""
        told, self._told[peer] = self._told.get(peer, 0), self._heard
        if told == self._heard:
            return ()
        return tuple(sorted((name, epoch) for name, (epoch, heard) in self._gone.items() if heard > told))

    def all_for(self, peer: str) -> Dead:
        """Everything, for a neighbour whose link begins."""
        self._told[peer] = self._heard
        return self.all()

    def told_nothing(self, peer: str) -> None:
        """What that neighbour was told lately did not reach it, or it is no neighbour any more."""
        self._told.pop(peer, None)
