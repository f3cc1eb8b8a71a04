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

from holdfast.simulation.exploring.machines import Closed, Dialled, Gone, Input, Reborn, Ring, Sent, Step

EVERYBODY = -1
"""As a set of hosts: a machine begins anew, or stops."""


class Prospect(Struct, frozen=True):
    """Sets of hosts, as the bits of integers."""

    sends: int = 0
    """To whom it may send over a connection that it has."""
    dials: int = 0
    """Whom it may try to connect to."""

    def __or__(self, other: "Prospect") -> "Prospect":
        return Prospect(self.sends | other.sends, self.dials | other.dials)

    def covers(self, other: "Prospect") -> bool:
        """Whether the other one reaches nobody that this one does not."""
        return not (other.sends & ~self.sends or other.dials & ~self.dials)


NOBODY = Prospect()


class Foresight:
    """What one host may do, by the state of its machine."""

    __slots__ = ("_edges", "_granted", "_reach", "_used")

    def __init__(self) -> None:
        self._edges: dict[int, dict[int, Prospect]] = {}
        self._reach: dict[int, Prospect] = {}
        """What this search takes for granted."""
        self._used: set[int] = set()

    def note(self, before: int, after: int, reach: Prospect) -> None:
        """A step from one state to another reached these hosts."""
        ways = self._edges.setdefault(before, {})
        ways[after] = ways.get(after, NOBODY) | reach

    def of(self, state: int) -> Prospect:
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


class Prospects:
    """What all hosts may do."""

    def __init__(self, places: Mapping[str, int]) -> None:
        self._places = places
        self._foresight = {name: Foresight() for name in places}
        self._sets: dict[int, frozenset[str]] = {}

    def bits_of(self, names: Iterable[str]) -> int:
        """A set of hosts as the bits of an integer; of those that are here."""
        found = 0
        for name in names:
            if name in self._places:
                found |= 1 << self._places[name]
        return found

    def hosts_in(self, bits: int) -> frozenset[str]:
        """The set of hosts that an integer stands for."""
        known = self._sets.get(bits)
        if known is None:
            known = self._sets[bits] = frozenset(name for name, at in self._places.items() if bits >> at & 1)
        return known

    def of(self, host: str, state: int) -> Prospect:
        """Whom a host may reach from that state on."""
        return self._foresight[host].of(state)

    def note_step(self, host: str, state: int, given: Input, step: Step) -> None:
        """Remember whom a step of a machine has reached; timers fire only when nothing else can happen."""
        if isinstance(given, Ring):
            return
        foresight = self._foresight[host]
        sends = self.bits_of(one.peer for one in step.outcomes if isinstance(one, Sent | Closed))
        dials = self.bits_of(one.address or one.peer for one in step.outcomes if isinstance(one, Dialled))
        foresight.note(state, step.state, Prospect(sends, dials))
        if any(isinstance(one, Reborn | Gone) for one in step.outcomes):
            foresight.note(step.state, -1, Prospect(EVERYBODY, 0))

    def note_answer(self, host: str, state: int, peer: str) -> None:
        """A host ends an older connection with a peer, or turns it away, without any step of its machine."""
        self._foresight[host].note(state, state, Prospect(self.bits_of((peer,)), 0))

    def are_wrong(self) -> bool:
        """Whether some host reaches more than what was made use of."""
        return any(one.is_wrong() for one in self._foresight.values())

    def learn(self) -> None:
        """From here on, take for granted what is known now of all hosts."""
        for one in self._foresight.values():
            one.learn()


def _closed(edges: Mapping[int, Mapping[int, Prospect]]) -> dict[int, Prospect]:
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


def _joined(reaches: Iterable[Prospect]) -> Prospect:
    found = NOBODY
    for reach in reaches:
        found |= reach
    return found
