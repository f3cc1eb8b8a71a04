"""Worlds that differ in names alone.

Two clients of one broker that ask for the same things, or two brokers at the same place of the tree with such clients,
play the same part: what may happen to one may happen to the other. A *symmetry* of a plan is a way to exchange names
that leaves the plan as it is. The mirror image of a world under a symmetry is never made; it is written down, from the
digests of its machines, frames and rows with the names exchanged (`canonical.Renaming`), and the least of these texts
is what all images of a world have in common.

This takes for granted that machines do not care for names. A machine that decides by name (which of two brokers is
asked first) is not symmetric in that, and what only the other name would do is not tried: so a search is made this way
only when it is asked for.
"""

from collections.abc import Iterator, Mapping
from itertools import permutations

import msgspec

from holdfast.simulation.exploring.canonical import AS_IT_IS, Renaming, digest_of
from holdfast.simulation.exploring.machines import ScriptCommand
from holdfast.simulation.exploring.worlds import Stage, World
from holdfast.simulation.faults import Publish
from holdfast.simulation.trees import Parents

SYMMETRIES_MAX = 24
"""Each of them costs a digest of every state of a machine."""
NAMES_MAX = 6
"""Names of clients, and of brokers, of which all orders are tried; of more names none are exchanged."""

Names = Mapping[str | bytes, str | bytes]
Script = tuple[ScriptCommand, ...]
Scripts = Mapping[str, Script]


class Mirror:
    """Writes down worlds so that all images of a world have one text."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._images = [_Image(stage, AS_IT_IS), *(_Image(stage, Renaming(names)) for names in stage.symmetries)]

    def text(self, world: World) -> bytes:
        """The least of the texts of its images."""
        return min(image.text(world) for image in self._images)


class _Image:
    """The images of worlds under one symmetry."""

    def __init__(self, stage: Stage, renaming: Renaming) -> None:
        self._stage, self._renaming = stage, renaming
        self._places = [stage.places[self._name(name)] for name in stage.machines]
        self._states: dict[tuple[str, int], bytes] = {}
        self._frames: dict[int, bytes] = {}

    def text(self, world: World) -> bytes:
        """The image of a world."""
        name, count = self._name, len(self._places)
        states, asked = [b""] * count, [0] * count
        for at, host in enumerate(self._stage.machines):
            states[self._places[at]], asked[self._places[at]] = self._state(host, world.states[at]), world.asked[at]
        wires = [
            (name(sender), name(receiver), number, [self._frame(frame) for frame in held])
            for (sender, receiver, number), held in world.wires.items()
        ]
        owed = sorted((name(client), name(publisher), seq) for client, publisher, seq in world.owed)
        budget = msgspec.structs.replace(world.budget, victims=tuple(sorted(map(name, world.budget.victims))))
        parts = (
            states,
            asked,
            sorted(wires),
            sorted((name(host), name(peer), number) for (host, peer), number in world.talks.items()),
            sorted(tuple(map(name, dial)) for dial in world.dials),
            owed,
            sorted(tuple(sorted(map(name, held))) for held in world.held),
            (world.now, world.busy_s, world.progress_s),
            sorted(digest_of(disk, self._renaming) for disk in world.disks),
            msgspec.structs.astuple(budget),
        )
        return msgspec.msgpack.encode(parts)

    def _name(self, name: str) -> str:
        return str(self._renaming.names.get(name, name))

    def _state(self, host: str, number: int) -> bytes:
        if number < 0:
            return b""
        key = (host, number)
        known = self._states.get(key)
        if known is None:
            known = self._states[key] = self._stage.machines[host].digest(number, self._renaming)
        return known

    def _frame(self, number: int) -> bytes:
        if number < 0:
            return b"%d" % number
        known = self._frames.get(number)
        if known is None:
            known = self._frames[number] = digest_of(self._stage.frames.frames[number], self._renaming)
        return known


# ---------------------------------------------------------------------------------------------------- which there are


def symmetries(parents: Parents, scripts: Scripts) -> tuple[Names, ...]:
    """All ways to exchange names that leave a tree and its clients as they are, but for the one that changes none."""
    found: list[Names] = []
    for brokers in _orders(list(parents)):
        if any(parents[brokers[name]] != _through(brokers, parent) for name, parent in parents.items()):
            continue
        for clients in _orders(list(scripts)):
            names = _names(brokers, clients, scripts)
            if names and len(found) < SYMMETRIES_MAX:
                found.append(names)
    return tuple(found)


def _orders(names: list[str]) -> Iterator[dict[str, str]]:
    if len(names) > NAMES_MAX:
        yield dict(zip(names, names, strict=True))
        return
    for order in permutations(names):
        yield dict(zip(names, order, strict=True))


def _through(names: Mapping[str, str], name: str | None) -> str | None:
    return None if name is None else names[name]


def _names(brokers: Mapping[str, str], clients: Mapping[str, str], scripts: Scripts) -> Names:
    """The names that are exchanged, if every client becomes one with the same script, at what its broker becomes."""
    found: dict[str | bytes, str | bytes] = {one: other for one, other in brokers.items() if one != other}
    for one, other in clients.items():
        (name, _, home), (new_name, _, new_home) = one.partition("@"), other.partition("@")
        if brokers[home] != new_home or _asks(scripts[one]) != _asks(scripts[other]):
            return {}
        if name != new_name:
            found[name] = new_name
            found.update(_payloads(scripts[one], scripts[other]))
    return found


def _payloads(script: Script, other: Script) -> Names:
    """Which payload becomes which."""
    pairs = zip(script, other, strict=True)
    published = ((one, two) for one, two in pairs if isinstance(one, Publish) and isinstance(two, Publish))
    return {one.payload: two.payload for one, two in published if one.payload != two.payload}


def _asks(script: Script) -> list[ScriptCommand]:
    """What a script asks for, whoever's it is and whatever its messages say."""
    return [
        msgspec.structs.replace(command, client="", payload=b"")
        if isinstance(command, Publish)
        else msgspec.structs.replace(command, client="")
        for command in script
    ]
