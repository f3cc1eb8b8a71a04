"""Random failures of brokers, by class: who dies, freezes, is cut off, comes back, joins or leaves, and when.

A class says what the tree has to survive, and with which tolerance. Moments are drawn around the traffic; half of the
crashes wait for the n-th message of some kind that the broker sends, so that they fall in the middle of a fan-out, of a
cut, or of a repair.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import ClassVar, Literal, get_args

from holdfast.model.guarantees import GUARANTEES
from holdfast.protocols.registry import find_protocol
from holdfast.simulation.delta_failures import DELTA_CLASSES
from holdfast.simulation.faults import (
    Attach,
    Command,
    Crash,
    Cut,
    Fault,
    Freeze,
    Heal,
    Join,
    Leave,
    Part,
    Publish,
    Recover,
    Stop,
    Subscribe,
    Thaw,
    When,
)
from holdfast.simulation.scenarios import Timed
from holdfast.simulation.trees import Parents

FailureClass = Literal[
    "crash",
    "root",
    "two",
    "adjacent",
    "during",
    "recover",
    "freeze",
    "cut",
    "partition",
    "join",
    "leave",
    "storm",
    "absent",
    "away",
    "move",
    "moves",
    "flap",
    "remerge",
    "names",
    "late",
    "designated",
    "chosen",
    "majority",
    "chain",
    "scatter",
    "oscillate",
    "joining",
    "subscribing",
    "recovering",
    "returning",
    "clients",
    "stay",
    "beyond",
]
NAMES: FailureClass = "names"
"""Clients share names, whatever else happens: see `simulation.namesakes`. It is for every protocol."""
RETURNING_CLASSES: tuple[FailureClass, ...] = ("absent", "away")
"""What befalls trees in which whoever is lost comes back and goes on: see `simulation.absences`."""
SITE_CLASSES: tuple[FailureClass, ...] = ("designated", "chosen", "majority")
"""What befalls brokers of sites alone: see `simulation.site_failures`."""
DELTA: tuple[FailureClass, ...] = tuple(one for one in get_args(FailureClass) if one in DELTA_CLASSES)
"""What befalls a delta-fault-tolerant tree: see `simulation.delta_failures`."""
FAILURE_CLASSES: tuple[FailureClass, ...] = tuple(
    one for one in get_args(FailureClass) if one not in (*RETURNING_CLASSES, *SITE_CLASSES, *DELTA_CLASSES)
)
"""What befalls trees that repair themselves."""
MOVING: tuple[FailureClass, ...] = ("move", "moves")
"""Classes that make no sense where nobody is moved."""
TOLERANCE_MIN: dict[str, int] = {"adjacent": 2, "during": 2, "moves": 2, "names": 0}
"""What a class needs, if it is more than 1."""
BROKERS_MIN: dict[str, int] = {"two": 4, "adjacent": 4, "during": 4, "storm": 5, "move": 6, "moves": 6, "flap": 4}
"""Below that a class makes no sense; 3 if nothing is said."""

FLAPPING: tuple[FailureClass, ...] = ("flap", "remerge")
"""Classes in which links come and go while the tree is repaired or its parts come together."""
SILENT: tuple[FailureClass, ...] = (
    *("majority", "freeze", "cut", "partition", "storm"),
    *(*FLAPPING, *RETURNING_CLASSES, *DELTA),
)
"""Classes in which connections stay open and bring nothing."""
SILENCE_S = 1.5
"""After so much of it the brokers of these runs give a connection up."""
SILENCE_SHORT_S = 0.75
"""Where taking somebody for absent who is there does no harm, it may happen after so much."""
SILENCES_S = (2.0, 4.0, 8.0)
PARTED: tuple[FailureClass, ...] = ("cut", "partition", *FLAPPING)
"""Classes in which two parts of the tree may live on side by side: total messages need a majority."""
PARTINGS_S = (2.0, 4.0, 8.0, 15.0, 30.0)
FLAPS_MAX = 5
FLAP_CUTS_S = (0.1, 0.6, 1.6, 2.5, 4.0, 8.0)
FLAP_GAPS_S = (0.0, 0.05, 0.3, 1.0, 2.0, 5.0)
FLAP_S = 20.0
"""How long the traffic lasts while links flap."""
FLAP_KILLS = 0.3
"""In so many of these runs a broker is killed among the cuts."""
MERGE_S = 3.0
"""How long after a heal the parts may take to begin to come together."""
MERGE_WORDS = ("Seek", "Found", "Join", "Join", "Unstable", "Open", "Open", "Publish", "Merged", "ViewAck")
"""Messages of a merge; a second fault befalls the broker that sends one."""
LATE_S = (0.5, 3.0, 6.0, 12.0, 20.0)
"""How long a client is busy while its broker dies."""
LATE_MIDST_S = 0.5
LATE_SPAN_S = 15.0
"""How long the traffic lasts there."""
NEWCOMER_BELOW_NEWCOMER = 0.4
VISITS_S = (0.2, 1.0, 3.0)
STORM_GAP_S = 8.0
STORM_EVENTS_MAX = 4
STORM_S = STORM_GAP_S * STORM_EVENTS_MAX
MIDST = ("Publish", "Publish", "Publish", "Climb", "Climb", "Turned", "Turned", "Levels")
"""What a broker may be in the midst of sending when it dies."""


def tolerance_min(protocol: str, failure: FailureClass) -> int:
    """The tolerance that failures of that class take; a site's tolerance is in the number of its brokers."""
    return 0 if find_protocol(protocol).sited else TOLERANCE_MIN.get(failure, 1)


def problem_of(failure: FailureClass, tolerance: int, degree_max: int) -> str:
    """Why failures of that class make no sense under these settings; empty if they do."""
    needed = TOLERANCE_MIN.get(failure, 1)
    if tolerance < needed:
        return f"failures of class {failure!r} take a tolerance of {needed}, not {tolerance}: say --tolerance {needed}."
    if failure in ("partition", *FLAPPING) and degree_max:
        return "the sides of a partition are those of the tree as it was planted: leave --degree-max out."
    if failure in MOVING and not degree_max:
        return (
            f"failures of class {failure!r} happen in the midst of moves, and nobody is moved where brokers may have "
            "any number of neighbours: say --degree-max 3."
        )
    return ""


def classes_for(protocol: str) -> tuple[FailureClass, ...]:
    """The classes of failures that the fault model of a protocol includes."""
    survives = find_protocol(protocol).survives
    every = (*FAILURE_CLASSES, *RETURNING_CLASSES, *SITE_CLASSES, *DELTA)
    return FAILURE_CLASSES if survives is None else tuple(name for name in every if name in (*survives, NAMES))


class FailureAuthor:
    """Makes up the failures of one scenario."""

    def __init__(
        self,
        chance: Random,
        tree: Parents,
        clients: list[str],
        topics: list[str],
        begin_s: float,
        span_s: float,
        guarantees: tuple[str, ...] = tuple(GUARANTEES),
        midst: tuple[str, ...] = MIDST,
        grows: bool = False,
    ) -> None:
        """`grows`: brokers keep their places in the tree, and leaves alone come and leave."""
        self.chance, self.tree, self.clients, self.topics = chance, tree, clients, topics
        self.begin_s, self.span_s, self.guarantees, self.midst, self.grows = begin_s, span_s, guarantees, midst, grows
        self.children = {name: [child for child, above in tree.items() if above == name] for name in tree}
        [self.root] = [name for name, parent in tree.items() if parent is None]
        self._newcomers = 0
        self._came_s = 0.0

    def entries(self, failure: FailureClass) -> Iterator[Timed]:
        """What happens in a scenario of that class."""
        for time_s, command in self._classes[failure](self):
            yield Timed(round(max(0.0, time_s), 6), command)

    # ------------------------------------------------------------------------------------------------------- moments

    def _moment(self) -> float:
        """Mostly in the midst of the traffic, sometimes a little before or after it."""
        return self.begin_s + self.span_s * self.chance.uniform(-0.1, 1.1)

    def _any(self) -> str:
        return self.chance.choice(list(self.tree))

    def _end(self, node: str, time_s: float) -> tuple[float, Command]:
        """A crash at that time, or in the midst of what the broker sends from then on."""
        if self.chance.random() < 0.5:
            return time_s, Crash(node)
        return time_s - self.span_s / 2, When(
            node, self.chance.choice(self.midst), Crash(node), self.chance.randint(1, 12)
        )

    def _soon(self, time_s: float) -> float:
        """As good as at the same time."""
        return time_s + self.chance.choice((0.0, 0.0, 0.003, 0.02, 0.06)) * self.chance.random()

    # ------------------------------------------------------------------------------------------------------- classes

    def _crash(self) -> Iterator[tuple[float, Command]]:
        yield self._end(self._any(), self._moment())

    def _root(self) -> Iterator[tuple[float, Command]]:
        yield self._end(self.root, self._moment())

    def _two(self) -> Iterator[tuple[float, Command]]:
        """Two at once that are not neighbours."""
        first, time_s = self._any(), self._moment()
        near = {first, self.tree[first], *self.children[first]}
        others = [name for name in self.tree if name not in near]
        yield time_s, Crash(first)
        if others:
            yield self._soon(time_s), Crash(self.chance.choice(others))

    def _late(self) -> Iterator[tuple[float, Command]]:
        """A broker dies, and clients of it, or others, are busy just then."""
        homes = sorted({client.partition("@")[2] for client in self.clients})
        node, time_s = self.chance.choice(homes), self._moment()
        own = [client for client in self.clients if client.partition("@")[2] == node]
        others = [client for client in self.clients if client not in own]
        busy = self.chance.sample(own, self.chance.randint(1, min(3, len(own))))
        if others and self.chance.random() < 0.3:
            busy.append(self.chance.choice(others))
        if self.chance.random() < 0.5:
            yield time_s, Crash(node)
        else:
            kind, count = self.chance.choice(self.midst), self.chance.randint(1, 6)
            yield max(self.begin_s, time_s - LATE_MIDST_S), When(node, kind, Crash(node), count)
        for client in busy:
            since_s = time_s + self.chance.choice((-0.3, -0.05, -0.01, 0.0, 0.005, 0.05)) * self.chance.random()
            yield since_s, Freeze(client)
            until_s = since_s + self.chance.choice(LATE_S) * self.chance.uniform(0.7, 1.2)
            yield until_s, Thaw(client)

    def _adjacent(self) -> Iterator[tuple[float, Command]]:
        """Two neighbours at once."""
        child, time_s = self.chance.choice([name for name in self.tree if name != self.root]), self._moment()
        pair = [child, self.tree[child] or self.root]
        self.chance.shuffle(pair)
        yield self._end(pair[0], time_s) if self.chance.random() < 0.3 else (time_s, Crash(pair[0]))
        yield self._soon(time_s), Crash(pair[1])

    def _during(self) -> Iterator[tuple[float, Command]]:
        """A crash, and another one of somebody who takes part in its repair, in the midst of that."""
        first, time_s = self._any(), self._moment()
        above, below = self.tree[first], self.children[first]
        coordinator = above or (below[0] if below else None)
        joiners = [name for name in below if name != coordinator]
        yield time_s, Crash(first)
        if joiners and (coordinator is None or self.chance.random() < 0.4):
            kind, second = self.chance.choice(("Join", "Unstable", "Hello", "ViewAck")), self.chance.choice(joiners)
        elif coordinator is not None:
            kind, second = self.chance.choice(("Open", "Open", "View", "Publish", "Climb")), coordinator
        else:
            return
        yield time_s, When(second, kind, Crash(second), self.chance.randint(1, 4))

    def _recover(self) -> Iterator[tuple[float, Command]]:
        node, time_s = self._any(), self._moment()
        yield time_s, Crash(node)
        yield time_s + self.chance.choice((0.005, 0.03, 0.2, 1.0, 5.0)) * self.chance.uniform(0.5, 1.5), Recover(node)

    def _freeze(self) -> Iterator[tuple[float, Command]]:
        node, time_s = self._any(), self._moment()
        yield time_s, Freeze(node)
        yield time_s + self.chance.choice(SILENCES_S), Thaw(node)

    def _cut(self) -> Iterator[tuple[float, Command]]:
        pairs = [(parent, name) for name, parent in self.tree.items() if parent is not None]
        pairs += [(client.partition("@")[2], client) for client in self.clients]
        (one, other), time_s = self.chance.choice(pairs), self._moment()
        yield time_s, Cut(one, other)
        yield time_s + self.chance.choice(SILENCES_S), Heal(one, other)

    def _partition(self) -> Iterator[tuple[float, Command]]:
        """A link of the tree breaks, and with it every way between its two sides."""
        top, time_s = self.chance.choice([name for name in self.tree if name != self.root]), self._moment()
        yield time_s, Part(self._side_of(top))
        yield time_s + self.chance.choice(PARTINGS_S), Heal()

    def _side_of(self, top: str) -> tuple[str, ...]:
        """That broker and all brokers below it."""
        side = [top]
        for name in side:
            side += self.children[name]
        return tuple(side)

    def _flap(self) -> Iterator[tuple[float, Command]]:
        """Links, of the tree or not, and whole parts come and go, also while the loss before is under repair."""
        time_s, last_s = self._moment(), 0.0
        for _ in range(self.chance.randint(2, FLAPS_MAX)):
            end_s = time_s + self.chance.choice(FLAP_CUTS_S) * self.chance.uniform(0.7, 1.3)
            yield from self._flap_once(time_s, end_s)
            last_s = max(last_s, end_s)
            time_s = max(time_s, end_s + self.chance.choice((-1.0, 1.0, 1.0)) * self.chance.choice(FLAP_GAPS_S))
        if self.chance.random() < FLAP_KILLS:
            yield from self._kill_among(self._any(), self.begin_s, last_s)
        yield last_s, Heal()

    def _flap_once(self, time_s: float, end_s: float) -> Iterator[tuple[float, Command]]:
        top = self.chance.choice([name for name in self.tree if name != self.root])
        kind = self.chance.choice(("tree", "tree", "pair", "part"))
        if kind == "part":
            side = self._side_of(top)
            yield time_s, Part(side)
            yield end_s, Heal()
            return
        pair = (self.tree[top] or self.root, top)
        if kind == "pair":
            pair = tuple(self.chance.sample(list(self.tree), 2))  # type: ignore[assignment]  # two of them
        yield time_s, Cut(*pair)
        yield end_s, Heal(*pair)

    def _kill_among(self, node: str, since_s: float, until_s: float) -> Iterator[tuple[float, Command]]:
        time_s = self.chance.uniform(since_s, until_s)
        yield time_s, Crash(node)
        if self.chance.random() < 0.5:
            yield time_s + self.chance.choice((0.03, 0.5, 3.0)), Recover(node)

    def _remerge(self) -> Iterator[tuple[float, Command]]:
        """A part is cut off and comes back, and while the two come together a second fault befalls them, or several.

        Where no majority of the brokers may be left, total messages wait until those that were killed come back.
        """
        top, time_s = self.chance.choice([name for name in self.tree if name != self.root]), self._moment()
        side, border = self._side_of(top), self.tree[top] or self.root
        killed: set[str] = set()
        yield time_s, Part(side)
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            time_s += self.chance.choice(PARTINGS_S[:4]) * self.chance.uniform(0.8, 1.2)
            yield time_s, Heal()
            for moment_s, command in self._second_fault(time_s, top, border, side):
                fault = command.fault if isinstance(command, When) else command
                killed.update((fault.node,) if isinstance(fault, Crash) else ())
                yield moment_s, command
            time_s += MERGE_S
        time_s += self.chance.choice(FLAP_CUTS_S)
        yield time_s, Heal()
        if 2 * (len(self.tree) - len(killed)) <= len(self.tree):
            for node in sorted(killed):
                yield time_s, Recover(node)

    def _second_fault(
        self, time_s: float, top: str, border: str, side: tuple[str, ...]
    ) -> Iterator[tuple[float, Command]]:
        fault: Fault = self.chance.choice((Cut(border, top), Cut(border, top), Part(side)))
        if self.chance.random() < FLAP_KILLS:
            fault = Crash(self.chance.choice((top, border)))
        teller = self.chance.choice((top, border))
        if self.chance.random() < 0.5:
            yield time_s + self.chance.uniform(0.0, MERGE_S), fault
        else:
            words, count = self.chance.choice(MERGE_WORDS), self.chance.choice((1, 1, 2, 5))
            yield time_s, When(teller, words, fault, count, MERGE_S)

    def _join(self) -> Iterator[tuple[float, Command]]:
        for _ in range(self.chance.randint(1, 2)):
            yield from self._newcomer(self._moment())

    def _newcomer(self, time_s: float) -> Iterator[tuple[float, Command]]:
        """A broker joins, and clients come to it that take part."""
        self._newcomers += 1
        name, above = f"new{self._newcomers}", self._any()
        if self.grows and self._newcomers > 1 and self.chance.random() < NEWCOMER_BELOW_NEWCOMER:
            above, time_s = f"new{self._newcomers - 1}", max(time_s, self._came_s)
        self._came_s = time_s
        yield time_s, Join(name, above)
        for number in range(self.chance.randint(0, 2)):
            client = f"n{self._newcomers}.{number}@{name}"
            yield time_s, Attach(client)
            yield time_s, Subscribe(client, self.chance.choice((*self.topics, "#")))
            guarantee = self.chance.choice(self.guarantees)
            yield time_s, Publish(client, self.chance.choice(self.topics), b"", guarantee, ("k0",))

    def _leave(self) -> Iterator[tuple[float, Command]]:
        if not self.grows:
            yield self._moment(), Stop(self._any())
            return
        homes = {client.partition("@")[2] for client in self.clients}
        leaves = [name for name in self.tree if name != self.root and not self.children[name] and name not in homes]
        leaving = self.chance.sample(leaves, min(len(leaves), self.chance.randint(0, 2)))
        for name in leaving:
            yield self._moment(), Leave(name)
        yield from self._visitor(self._moment(), [name for name in self.tree if name not in leaving])

    def _visitor(self, time_s: float, hosts: list[str]) -> Iterator[tuple[float, Command]]:
        """A broker joins, and leaves after a while, if it was taken in by then."""
        self._newcomers += 1
        name = f"new{self._newcomers}"
        yield time_s, Join(name, self.chance.choice(hosts))
        yield time_s + self.chance.choice(VISITS_S) * self.chance.uniform(0.5, 1.5), Leave(name)

    def _storm(self) -> Iterator[tuple[float, Command]]:
        """One after another, each when the tree has had time to get over the one before."""
        left = list(self.tree)
        for number in range(self.chance.randint(2, STORM_EVENTS_MAX)):
            time_s = self.begin_s + number * STORM_GAP_S + self.chance.uniform(0.0, STORM_GAP_S / 3)
            kind = self.chance.choice(("crash", "crash", "recover", "freeze", "join", "leave"))
            node = self.chance.choice(left)
            if kind in ("crash", "leave"):
                left.remove(node)
                yield time_s, Crash(node) if kind == "crash" else Stop(node)
            elif kind == "recover":
                yield time_s, Crash(node)
                yield time_s + self.chance.choice((0.02, 0.5, 2.0)), Recover(node)
            elif kind == "freeze":
                yield time_s, Freeze(node)
                yield time_s + self.chance.choice((2.0, 3.0)), Thaw(node)
            else:
                self._newcomers += 1
                yield time_s, Join(f"new{self._newcomers}", self.chance.choice(left))

    def _move(self) -> Iterator[tuple[float, Command]]:
        """Somebody who takes part in a move, in the midst of it."""
        yield self._in_a_move(self._busiest())

    def _moves(self) -> Iterator[tuple[float, Command]]:
        """Two of them, next to each other."""
        top = self._busiest()
        yield self._in_a_move(top)
        yield self._in_a_move(self.chance.choice(self.children[top]))

    def _busiest(self) -> str:
        """One of those that have most children, who will have to move some."""
        ranked = sorted(self.tree, key=lambda name: (-len(self.children[name]), name))
        return self.chance.choice(ranked[:2]) if self.children[ranked[1]] else ranked[0]

    def _in_a_move(self, top: str) -> tuple[float, Command]:
        node = self.chance.choice([top, *self.children[top]])
        kind = self.chance.choice(("Move", "Move", "Move", "Open", "Publish", "Levels", "Ack"))
        since_s = 0.0 if kind == "Move" else self.begin_s
        return since_s, When(node, kind, Crash(node), self.chance.randint(1, 8))

    _classes: ClassVar[dict[FailureClass, Callable[["FailureAuthor"], Iterator[tuple[float, Command]]]]] = {
        "crash": _crash,
        "root": _root,
        "two": _two,
        "adjacent": _adjacent,
        "during": _during,
        "recover": _recover,
        "freeze": _freeze,
        "cut": _cut,
        "partition": _partition,
        "join": _join,
        "leave": _leave,
        "move": _move,
        "moves": _moves,
        "storm": _storm,
        "flap": _flap,
        "remerge": _remerge,
        "late": _late,
    }
