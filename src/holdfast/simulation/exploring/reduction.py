"""Orders that need not be tried: steps that may be exchanged, and hosts that may go first.

Two steps at different hosts touch different machines, and each appends to wires that the other one only takes the first
frame from: they come to the same in either order. So do a crash and a step elsewhere. Only a judge could tell them
apart, and it looks at one thing: which subscriptions were confirmed before a message was published.

Terms are those of Godefroid, *Partial-Order Methods for the Verification of Concurrent Systems* (1996): steps that may
be exchanged are *independent*; a *persistent* set is a set of steps that nothing outside of it can disturb.
"""

from collections.abc import Iterator

from holdfast.simulation.exploring.worlds import (
    BROKEN,
    LOCAL,
    MARKED,
    PUBLISHED,
    Crashed,
    Knocked,
    LocalMove,
    Move,
    Stage,
    World,
)

Seen = tuple[Move, int]
"""A step, and what a judge sees of when it happens."""
Steps = dict[str, list[LocalMove]]
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


def persistent(stage: Stage, world: World, moves: list[Move]) -> Iterator[list[LocalMove]]:
    """Sets of steps that nothing else can disturb, the smallest first.

    A step elsewhere can disturb the steps of a host in one way only: by sending to it on a wire that is empty now.
    (A frame that is appended to a wire with frames on it changes nothing for the next one.)
    """
    by_host: Steps = {}
    is_calm = stage.is_faultless
    for move in moves:
        if isinstance(move, LOCAL):
            by_host.setdefault(move.host, []).append(move)
        else:
            is_calm = False
    return iter(_hosts_first(world, by_host) if is_calm else _clients_first(stage, world, by_host))


def _loaded(world: World) -> tuple[dict[str, set[str]], set[tuple[str, str]]]:
    """By host, whom it has a connection with; and the pairs of which every wire has a frame on it."""
    near: dict[str, set[str]] = {}
    loaded, empty = set[tuple[str, str]](), set[tuple[str, str]]()
    for (sender, receiver, _), held in world.wires.items():
        near.setdefault(sender, set()).add(receiver)
        near.setdefault(receiver, set()).add(sender)
        (loaded if held else empty).add((sender, receiver))
    return near, loaded - empty


# ---------------------------------------------------------------------------------------------- where nothing fails


def _hosts_first(world: World, by_host: Steps) -> list[list[LocalMove]]:
    """Groups of hosts that may go first: every host beyond from which a frame could come has one under way already.

    That holds as long as nobody dials: for worlds without faults, once everybody is connected.
    """
    near, loaded = _loaded(world)
    groups: dict[frozenset[str], list[LocalMove]] = {}
    for host in by_host:
        group = _group(host, by_host, near, loaded)
        groups[group] = [move for one in sorted(group) for move in by_host.get(one, ())]
    return sorted(groups.values(), key=lambda own: (len(own), own[0].host))


def _group(host: str, by_host: Steps, near: dict[str, set[str]], loaded: set[tuple[str, str]]) -> frozenset[str]:
    """The smallest group with that host that nobody outside of it can disturb."""
    group, ring = {host}, [host]
    while ring:
        member = ring.pop()
        for neighbour in sorted(near.get(member, ())):
            if neighbour in group or (neighbour, member) in loaded:
                continue
            if not _part(neighbour, group, near).isdisjoint(by_host):
                group.add(neighbour)
                ring.append(neighbour)
    return frozenset(group)


def _part(start: str, without: set[str], near: dict[str, set[str]]) -> set[str]:
    """All hosts that are reached from there without passing through those."""
    found, ring = {start}, [start]
    while ring:
        further = near[ring.pop()] - found - without
        found |= further
        ring += further
    return found


# ------------------------------------------------------------------------------------------------- where faults come


def _clients_first(stage: Stage, world: World, by_host: Steps) -> list[list[LocalMove]]:
    """Clients that may go first. Nobody connects to a client, so only its brokers can disturb it.

    A client that is connecting meets a broker or does not, and a frame that may still be lost with its connection
    may not be taken for granted: neither goes first.
    """
    budget = world.budget
    if budget.resets or budget.early:
        return []
    mortal = stage.mortal(world) if budget.crashes else ()
    found = []
    for name in stage.clients:
        own = by_host.get(name)
        if not own or any(isinstance(move, Knocked) for move in own):
            continue
        wires = [(wire, held) for wire, held in world.wires.items() if wire[1] == name]
        if all(held and (held[-1] == BROKEN or wire[0] not in mortal) for wire, held in wires):
            found.append(own)
    return sorted(found, key=lambda own: (len(own), own[0].host))
