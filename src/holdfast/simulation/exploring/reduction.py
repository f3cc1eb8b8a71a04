"""Orders that need not be tried: steps that may be exchanged, and hosts that may go first.

Two steps at different hosts touch different machines, and each appends to wires that the other one only takes the first
frame from: they come to the same in either order. So do a crash and a step elsewhere. Only a judge could tell them
apart, and it looks at one thing: which subscriptions were confirmed before a message was published.

A group of hosts may go first if nobody outside of it can disturb its next steps. Outside of it a host can act that has
a step of its own, or that such a host may send something to. It disturbs the group if it may send to a member on a
connection on which nothing is under way (a frame behind another one changes nothing for the next step), or connect to
one, or crash while it has a connection with one. What a host may do from here on, `foresight` knows.

Terms are those of Godefroid, *Partial-Order Methods for the Verification of Concurrent Systems* (1996): steps that may
be exchanged are *independent*; a *persistent* set is a set of steps that nothing outside of it can disturb.
"""

from collections.abc import Iterable, Iterator

from holdfast.simulation.exploring.foresight import EVERYBODY, NOBODY, Prospect
from holdfast.simulation.exploring.ledger import MARKED, PUBLISHED
from holdfast.simulation.exploring.machines import Broken
from holdfast.simulation.exploring.worlds import (
    BROKEN,
    LOCAL,
    Crashed,
    Knocked,
    LocalMove,
    Move,
    Returned,
    Stage,
    World,
)
from holdfast.simulation.faults import Publish, Subscribe, Unsubscribe

Seen = tuple[Move, int]
"""A step, and what a judge sees of when it happens."""
Steps = dict[str, list[Move]]
"""The steps of each host."""


def independent(one: Seen, other: Seen) -> bool:
    """Whether two steps come to the same in either order, and no judge sees which order it was."""
    (move, seen), (other_move, other_seen) = one, other
    if (seen & PUBLISHED and other_seen & MARKED) or (seen & MARKED and other_seen & PUBLISHED):
        return False
    if not (isinstance(move, LOCAL) or isinstance(other_move, LOCAL)):
        return False
    if not (isinstance(move, TOUCHING_ONE) and isinstance(other_move, TOUCHING_ONE)):
        return False
    return move.host not in (other_move.host, _target(other_move)) and _target(move) != other_move.host


TOUCHING_ONE = (*LOCAL, Crashed)
"""Steps that touch one host, and of another one at most whether it is there. Two crashes are taken from one budget."""


def _target(move: Move) -> str:
    """The host that an attempt to connect finds there, or not."""
    return (move.address or move.peer) if isinstance(move, Knocked) else ""


def may_precede(stage: Stage, world: World, host: str, seen: int, group: Iterable[str]) -> bool:
    """Whether some host outside of a group may come first with a row of the other kind than what is seen of a host."""
    watchers = stage.ledger.watchers
    if seen & PUBLISHED and any(_may_subscribe(stage, world, one) for one in watchers[host].difference(group)):
        return True
    return bool(seen & MARKED) and any(
        host in watching and name not in group and _may_publish(stage, world, name)
        for name, watching in watchers.items()
    )


def _may_publish(stage: Stage, world: World, name: str) -> bool:
    given = world.asked[stage.places[name]]
    return any(isinstance(command, Publish) for command in stage.machines[name].cast.script[given:])


def _may_subscribe(stage: Stage, world: World, name: str) -> bool:
    """Whether a subscription of that client may still be confirmed."""
    script, state = stage.machines[name].cast.script, stage.state(world, name)
    requests = sum(isinstance(command, Subscribe | Unsubscribe) for command in script)
    return state is not None and state.answered < requests


def persistent(stage: Stage, world: World, moves: list[Move]) -> Iterator[list[Move]]:
    """Sets of steps that nothing else can disturb, the smallest first."""
    by_host: Steps = {}
    for move in moves:
        if isinstance(move, FORESEEN):
            by_host.setdefault(move.host, []).append(move)
    budget = world.budget
    if budget.resets or budget.early:
        return iter(())
    if world.held or len(moves) > sum(map(len, by_host.values())) or stage.rules.idle_frames:
        return iter(_clients_first(stage, world, by_host))
    return iter(_Outlook(stage, world, by_host).groups())


FORESEEN = (*LOCAL, Crashed, Returned)
"""Steps of which it is known whom they touch; what freezes and cuts touch depends on what is held."""


# -------------------------------------------------------------------------------------------- what others may do first


class _Outlook:
    """What every host may do from one world on, before time passes."""

    def __init__(self, stage: Stage, world: World, by_host: Steps) -> None:
        self._stage, self._world, self._by_host = stage, world, by_host
        self._reach: dict[str, Prospect] = {}
        self._empty: set[tuple[str, str]] = set()
        """Pairs of hosts: the first may put a frame before the second that is its next one."""
        self._near: dict[str, set[str]] = {}
        for (sender, receiver, _), held in world.wires.items():
            if not held:
                self._empty.add((sender, receiver))
            if not held or held[-1] >= 0:
                self._near.setdefault(sender, set()).add(receiver)
        budget, self._mortal, self._absent = world.budget, frozenset[str](), frozenset[str]()
        if budget.crashes:
            self._mortal = frozenset(one for one in stage.mortal(world) if world.states[stage.places[one]] >= 0)
        if budget.returns:
            self._absent = frozenset(one for one in stage.brokers if world.states[stage.places[one]] < 0)
        self._awake = {*by_host, *self._mortal, *self._absent}

    def groups(self) -> list[list[Move]]:
        """The steps of the groups that may go first."""
        groups: dict[frozenset[str], list[Move]] = {}
        for host in self._by_host:
            group = self._group(host)
            if group not in groups and not group & self._absent and not self._may_crash_later(group):
                steps = [move for one in sorted(group) for move in self._by_host.get(one, ())]
                # A crash alone keeps no time from passing, and when time has passed it can no longer happen.
                if any(isinstance(move, LOCAL) for move in steps) and not self._may_be_asked(steps):
                    groups[group] = steps
        return sorted(groups.values(), key=lambda own: (len(own), own[0].host))

    def _may_crash_later(self, group: frozenset[str]) -> bool:
        """Whether a member may crash, but only when something has happened, which may be elsewhere."""
        own = [move for one in group & self._mortal for move in self._by_host.get(one, ())]
        return bool(group & self._mortal) and not any(isinstance(move, Crashed) for move in own)

    def _may_be_asked(self, steps: list[Move]) -> bool:
        """Whether a step changes who serves, while somebody may come back and ask for that."""
        if not self._world.budget.returns or not (self._absent or self._mortal):
            return False
        stage, world = self._stage, self._world
        return any(
            isinstance(move, LOCAL) and move.host in stage.brokers and _changes_service(stage, world, move)
            for move in steps
        )

    def _group(self, host: str) -> frozenset[str]:
        """The smallest group with that host that nobody outside of it can disturb."""
        group = {host}
        while True:
            if group & self._mortal:
                group |= self._mortal  # Their crashes are taken from one budget.
            disturbing = self._disturbing(group)
            if not disturbing:
                return frozenset(group)
            group |= disturbing

    def _disturbing(self, group: set[str]) -> set[str]:
        """Hosts outside of a group that may disturb it."""
        found = {
            _target(move)
            for one in group
            for move in self._by_host.get(one, ())
            if isinstance(move, Knocked) and _target(move) in self._stage.places
        }
        acting = self._awake - group
        ring = list(acting)
        disturbing = set[str]()
        while ring:
            host = ring.pop()
            touched, is_near = self._touched(host, group)
            if is_near:
                disturbing.add(host)
            new = touched - acting - group
            acting |= new
            ring += new
        return disturbing | (found & acting)

    def _touched(self, host: str, group: set[str]) -> tuple[frozenset[str], bool]:
        """Whom a host may reach, and whether that disturbs a group."""
        reach, near = self._of(host), self._near.get(host, set())
        sends, dials = self._stage.prospects.hosts_in(reach.sends), self._stage.prospects.hosts_in(reach.dials)
        if reach.sends == EVERYBODY or host in self._mortal:
            return sends | dials | near, not (dials | near).isdisjoint(group)
        return sends | dials, not dials.isdisjoint(group) or any((host, one) in self._empty for one in sends & group)

    def _of(self, host: str) -> Prospect:
        known = self._reach.get(host)
        if known is None:
            known = self._reach[host] = self._looked_up(host)
        return known

    def _looked_up(self, host: str) -> Prospect:
        stage, world = self._stage, self._world
        number = world.states[stage.places[host]]
        reach = stage.prospects.of(host, number) if number >= 0 or host in self._absent else NOBODY
        if host in self._mortal and world.budget.returns:
            reach |= stage.prospects.of(host, -1)
        pending = stage.prospects.bits_of(address or peer for one, peer, address in world.dials if one == host)
        return reach | Prospect(0, pending) if pending else reach


def _changes_service(stage: Stage, world: World, move: LocalMove) -> bool:
    """Whether a broker begins or ceases to serve by a step of its own."""
    before = stage.state(world, move.host)
    try:
        after = stage.state(stage.after(world, move)[0], move.host)
    except Broken:
        return True
    return before is None or after is None or before.ready != after.ready


# ------------------------------------------------------------------------------------------------- where faults come


def _clients_first(stage: Stage, world: World, by_host: Steps) -> list[list[Move]]:
    """Clients that may go first. Nobody connects to a client, so only its brokers can disturb it.

    A client that is connecting meets a broker or does not, and a frame that may still be lost with its connection
    may not be taken for granted: neither goes first.
    """
    mortal = stage.mortal(world) if world.budget.crashes else ()
    found = []
    for name in stage.clients:
        own = by_host.get(name)
        if not own or any(isinstance(move, Knocked) for move in own):
            continue
        wires = [(wire, held) for wire, held in world.wires.items() if wire[1] == name]
        if all(held and (held[-1] == BROKEN or wire[0] not in mortal) for wire, held in wires):
            found.append(own)
    return sorted(found, key=lambda own: (len(own), own[0].host))
