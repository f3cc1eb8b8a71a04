"""What a host may still do before time passes, learned from what its machine was seen to do.

Which steps may go first depends on what the others could do meanwhile: a broker whose application has said everything
sends nothing more, and one that is connected dials nobody. No protocol is asked for that. Every step of a machine that
a search computes is remembered here as an edge from one of its states to another, with the hosts that it reached. What
a host may still reach, from the state in which it stands, is all that lies behind it in this graph. The graph is that
of one machine, so it has more ways than any world: that is on the safe side.

A search knows the graph only when it is over. So it begins with a guess (a state of which nothing is known reaches
nobody), notes of which states it made use, and is made again with what it has learned, as long as that reaches further
than what it took for granted. The last of these searches took nothing for granted that is not so: had a step that was
left out reached somebody whom the graph does not know of, then the first such step would have come after steps that the
search did try, in some order, and would be in the graph.

Timers are no edges, since time passes only when nothing else can happen.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

EVERYBODY = -1
"""As a set of hosts: a machine begins anew, or stops."""


class Reach(Struct, frozen=True):
    """Sets of hosts, as the bits of integers."""

    sends: int = 0
    """To whom it may send over a connection that it has."""
    dials: int = 0
    """Whom it may try to connect to."""

    def __or__(self, other: "Reach") -> "Reach":
        return Reach(self.sends | other.sends, self.dials | other.dials)

    def covers(self, other: "Reach") -> bool:
        """Whether the other one reaches nobody that this one does not."""
        return not (other.sends & ~self.sends or other.dials & ~self.dials)


NOBODY = Reach()


class Foresight:
    """What one host may do, by the state of its machine."""

    __slots__ = ("_edges", "_granted", "_reach", "_used")

    def __init__(self) -> None:
        self._edges: dict[int, dict[int, Reach]] = {}
        self._reach: dict[int, Reach] = {}
        """What this search takes for granted."""
        self._used: set[int] = set()

    def note(self, before: int, after: int, reach: Reach) -> None:
        """A step from one state to another reached these hosts."""
        ways = self._edges.setdefault(before, {})
        ways[after] = ways.get(after, NOBODY) | reach

    def of(self, state: int) -> Reach:
        """Whom the host may reach from that state on before time passes."""
        self._used.add(state)
        return self._reach.get(state, NOBODY)

    def is_wrong(self) -> bool:
        """Whether more is reached from some state than what was made use of."""
        known = _closed(self._edges)
        return any(not self._reach.get(state, NOBODY).covers(known.get(state, NOBODY)) for state in self._used)

    def learn(self) -> None:
        """From here on, take for granted what is known now."""
        self._reach = _closed(self._edges)
        self._used.clear()


def _closed(edges: Mapping[int, Mapping[int, Reach]]) -> dict[int, Reach]:
    """For every state, everything that is reached behind it."""
    found = {state: _joined(ways.values()) for state, ways in edges.items()}
    before: dict[int, set[int]] = {}
    for state, ways in edges.items():
        for after in ways:
            before.setdefault(after, set()).add(state)
    ring = list(found)
    while ring:
        state = ring.pop()
        for one in before.get(state, ()):
            more = found[one] | found[state]
            if more != found[one]:
                found[one] = more
                ring.append(one)
    return found


def _joined(reaches: Iterable[Reach]) -> Reach:
    found = NOBODY
    for reach in reaches:
        found |= reach
    return found
