"""Orders that need not be tried: steps that may be exchanged, and hosts that may go first.

Two steps at different hosts touch different machines, and each appends to wires that the other one only takes the first
frame from: they come to the same in either order. Only a judge could tell them apart, and it looks at one thing: which
subscriptions were confirmed before a message was published.

Terms are those of Godefroid, *Partial-Order Methods for the Verification of Concurrent Systems* (1996): steps that may
be exchanged are *independent*; a *persistent* set is a set of steps that nothing outside of it can disturb.
"""

from collections.abc import Iterator

from holdfast.simulation.exploring.worlds import LOCAL, MARKED, PUBLISHED, LocalMove, Move, World

Seen = tuple[Move, int]
"""A step, and what a judge sees of when it happens."""


def independent(one: Seen, other: Seen) -> bool:
    """Whether two steps come to the same in either order, and no judge sees which order it was."""
    (move, seen), (other_move, other_seen) = one, other
    if (seen & PUBLISHED and other_seen & MARKED) or (seen & MARKED and other_seen & PUBLISHED):
        return False
    return isinstance(move, LOCAL) and isinstance(other_move, LOCAL) and move.host != other_move.host


def persistent(world: World, moves: list[Move]) -> Iterator[list[LocalMove]]:
    """Hosts that may go first, those with the fewest steps first: for each of them all its steps.

    A step elsewhere can disturb the steps of a host in one way only: by sending to it on a wire that is empty now.
    (A frame that is appended to a wire with frames on it changes nothing for the next one.) So a host may go first if
    from every part of the network beyond it in which anything can happen a frame is on its way to it already.

    That holds as long as nobody dials: for worlds without faults, once everybody is connected.
    """
    by_host: dict[str, list[LocalMove]] = {}
    for move in moves:
        if not isinstance(move, LOCAL):
            return
        by_host.setdefault(move.host, []).append(move)
    near: dict[str, set[str]] = {}
    for sender, receiver, _ in world.wires:
        near.setdefault(sender, set()).add(receiver)
    loaded = {wire[:2] for wire, held in world.wires.items() if held}
    for host, own in sorted(by_host.items(), key=lambda entry: (len(entry[1]), entry[0])):
        if _may_go_first(host, by_host.keys() - {host}, near, loaded):
            yield own


def _may_go_first(host: str, active: set[str], near: dict[str, set[str]], loaded: set[tuple[str, str]]) -> bool:
    seen = {host}
    for neighbour in sorted(near.get(host, ())):
        if neighbour in seen:
            continue
        part = _part(neighbour, host, near)
        seen |= part
        if not part.isdisjoint(active) and any((one, host) not in loaded for one in part & near[host]):
            return False
    return True


def _part(start: str, without: str, near: dict[str, set[str]]) -> set[str]:
    """All hosts that are reached from there without passing through that one."""
    found, ring = {start}, [start]
    while ring:
        further = near[ring.pop()] - found - {without}
        found |= further
        ring += further
    return found
