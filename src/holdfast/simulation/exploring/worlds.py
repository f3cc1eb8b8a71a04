"""States of a whole small world, as values, and the steps that can come next.

A world is the states of its machines (by number, see `machines`), the frames under way in each direction of each
connection, the attempts to connect, the time, and which faults are left. Nothing in it is changed: a step makes
another world.

What may happen next
- The next frame of any connection arrives, an attempt to connect succeeds or fails, the application of any client gives
  its next command: in any order.
- A fault, as long as some are left: a broker crashes, comes back, or a connection breaks. What was under way on a
  connection that broke may be lost from any place on: `Lost` cuts it off there.
- A broker freezes, or nothing passes between two brokers any more, and that ends at some later moment. What was sent
  meanwhile arrives afterwards; an attempt to connect across the cut fails.
- Time passes only when nothing else can happen: then the timer that is due next fires. So whatever is said takes no
  time, and nobody is suspected while frames are under way. (`early` timers are the exception: so many may fire before
  their time has come, while frames are under way. That is what a slow network looks like.)
- Acknowledgements of links and heartbeats (`Ack`, `Ping`, `Pong`) arrive as soon as they are sent, unless the world is
  told otherwise (`idle_frames`): they carry no message, and every order of them would be tried.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.messages import Ack, Frame, Hello, Ping, Pong
from holdfast.protocols.node import Doorkeeper
from holdfast.simulation.exploring.foresight import Prospects
from holdfast.simulation.exploring.ledger import VISIBLE, DebtLedger, Debts, Placed
from holdfast.simulation.exploring.machines import (
    Arrival,
    Cast,
    Closed,
    Dialled,
    Down,
    Frames,
    Gone,
    Input,
    Machine,
    Order,
    Reborn,
    Ring,
    Sent,
    State,
    Up,
)
from holdfast.simulation.faults import Subscribe, Unsubscribe

END: Final = -1
"""The sender has closed the connection behind what it said."""
BROKEN: Final = -2
"""The connection broke: what stands before this may be lost."""
IDLE: Final = (Ack, Ping, Pong)
Wire = tuple[str, str, int]
"""One direction of one connection: sender, receiver, and the number of the connection between the two."""


# ---------------------------------------------------------------------------------------------------------- steps


class Delivered(Struct, frozen=True, order=True):
    """The next frame, or the end, of a wire arrives."""

    wire: Wire

    @property
    def host(self) -> str:
        return self.wire[1]


class Lost(Struct, frozen=True, order=True):
    """All that is left on a wire that broke is lost."""

    wire: Wire

    @property
    def host(self) -> str:
        return self.wire[1]


class Knocked(Struct, frozen=True, order=True):
    """An attempt to connect is answered, or fails."""

    host: str
    peer: str
    address: str


class Commanded(Struct, frozen=True, order=True):
    """The application of a client gives its next command."""

    host: str


class Rang(Struct, frozen=True, order=True):
    """Time passes until a timer is due."""

    host: str
    name: str
    due_s: float
    early: bool = False
    """Whether other things could have happened first."""


class Crashed(Struct, frozen=True, order=True):
    host: str


class Returned(Struct, frozen=True, order=True):
    """A broker that crashed comes back."""

    host: str


class Reset(Struct, frozen=True, order=True):
    """The connection between two hosts breaks."""

    host: str
    peer: str


class Frozen(Struct, frozen=True, order=True):
    """A broker takes nothing in, and none of its timers fires."""

    host: str


class Thawed(Struct, frozen=True, order=True):
    """A broker that froze goes on."""

    host: str


class Parted(Struct, frozen=True, order=True):
    """From now on nothing passes between two brokers."""

    host: str
    peer: str


class Healed(Struct, frozen=True, order=True):
    """What is held between two brokers may pass."""

    host: str
    peer: str


LocalMove = Delivered | Lost | Knocked | Commanded
Release = Thawed | Healed
Move = LocalMove | Rang | Crashed | Returned | Reset | Frozen | Parted | Release
LOCAL: Final = (Delivered, Lost, Knocked, Commanded)
"""Steps that touch one host alone: two of them at different hosts may be exchanged."""


# ---------------------------------------------------------------------------------------------------------- values


class Budget(Struct, frozen=True):
    """Which faults are left."""

    crashes: int = 0
    returns: int = 0
    resets: int = 0
    early: int = 0
    freezes: int = 0
    cuts: int = 0
    victims: tuple[str, ...] = ()
    """Brokers that may crash here; none named: those of the rules."""


class World(Struct, frozen=True):
    """One state of everything. A host that is down has the state -1."""

    now: float
    states: tuple[int, ...]
    wires: Mapping[Wire, tuple[int, ...]]
    """What is under way, the next first; a wire is there as long as its receiver listens."""
    talks: Mapping[tuple[str, str], int]
    """By host and peer, the number of the connection that the host writes to."""
    dials: tuple[tuple[str, str, str], ...]
    """Attempts to connect: host, peer, address."""
    asked: tuple[int, ...]
    """How many commands of its script each host has given."""
    order: tuple[Placed, ...]
    """Visible rows in the order in which they came about."""
    owed: Debts
    """What a judge sees of that order, as long as it matters: what is owed to clients and has not come yet."""
    busy_s: float
    """When something happened last that was not a timer or an idle frame."""
    budget: Budget
    disks: tuple[tuple[str, int, tuple[tuple[str, bytes], ...]], ...] = ()
    """What hosts that are down left behind: name, life and disk."""
    held: tuple[tuple[str, ...], ...] = ()
    """Brokers that are frozen, and pairs of brokers between which nothing passes."""
    progress_s: float = 0.0
    """In which second a client got something, an application gave a command, or a fault befell somebody, last."""

    def key(self) -> tuple[object, ...]:
        """All of it that tells two states of the world apart."""
        return (
            self.now,
            self.states,
            tuple(sorted(self.wires.items())),
            tuple(sorted(self.talks.items())),
            self.dials,
            self.asked,
            self.owed,
            self.busy_s,
            self.budget.crashes,
            self.budget.returns,
            self.budget.resets,
            self.budget.early,
            self.budget.freezes,
            self.budget.cuts,
            self.budget.victims if self.budget.crashes else (),
            self.disks,
            self.held,
            self.progress_s,
        )


class Rules(Struct, frozen=True):
    """What the stage leaves open."""

    idle_frames: bool = False
    """Whether acknowledgements and heartbeats arrive in any order, too."""
    parents: Mapping[str, str | None] = {}
    """The tree as it was planted."""
    mortal: tuple[str, ...] = ()
    """Brokers that may crash."""
    freezable: tuple[str, ...] = ()
    """Brokers that may freeze."""
    cuttable: tuple[tuple[str, str], ...] = ()
    """Pairs of brokers that may be parted."""
    awaits: bool = False
    """Whether a broker that crashed comes back in any case."""


class Stage:
    """The machines of a world, and what every step makes of it."""

    def __init__(self, casts: tuple[Cast, ...], rules: Rules, *, check_invariants: bool = True) -> None:
        self.rules = rules
        self.frames = Frames()
        self.names = frozenset(one.name for one in casts)
        self.places = {one.name: at for at, one in enumerate(casts)}
        self.prospects = Prospects(self.places)
        self.machines = {
            one.name: Machine(
                one, self.frames, partial(self.prospects.note_step, one.name), check_invariants=check_invariants
            )
            for one in casts
        }
        self.brokers = tuple(one.name for one in casts if one.is_broker)
        self.clients = tuple(one.name for one in casts if not one.is_broker)
        self.symmetries: tuple[Mapping[str | bytes, str | bytes], ...] = ()
        """Names that may be exchanged for each other: by name, which other one each becomes."""
        self.ledger = DebtLedger(casts)
        self._histories: dict[tuple[str, int], tuple[int, ...]] = {}

    def opening(self, budget: Budget) -> World:
        """Everybody begins at once; nobody is connected yet."""
        count = len(self.machines)
        world = World(0.0, (-1,) * count, {}, {}, (), (0,) * count, (), (), 0.0, Budget())
        for name in self.machines:
            world, _ = self._begin(world, name, 1, (), self.rules.parents.get(name))
        return replace(world, budget=budget)

    def mortal(self, world: World) -> tuple[str, ...]:
        """Brokers that may crash, as long as crashes are left."""
        return world.budget.victims or self.rules.mortal

    def starts(self, world: World) -> list[World]:
        """Worlds that together are this one: one for each broker that may crash, if one may.

        Where it is known who will crash, the others need not be prepared for the loss of anybody else.
        """
        if world.budget.crashes != 1 or len(self.mortal(world)) < 2:
            return [world]
        return [replace(world, budget=replace(world.budget, victims=(name,))) for name in self.mortal(world)]

    def state(self, world: World, name: str) -> State | None:
        """The state of a host, if it is up."""
        number = world.states[self.places[name]]
        return self.machines[name].states[number] if number >= 0 else None

    def row_numbers(self, world: World, name: str) -> tuple[int, ...]:
        """The history of a host, by the numbers of its rows."""
        number = world.states[self.places[name]]
        if number < 0:
            return ()
        known = self._histories.get((name, number))
        if known is None:
            rows = self.machines[name].states[number].rows
            known = self._histories[name, number] = tuple(map(self.ledger.number_of, rows))
        return known

    def frame(self, world: World, wire: Wire) -> Frame | None:
        """The next frame of a wire, if it is not its end."""
        number = world.wires[wire][0]
        return self.frames.frames[number] if number >= 0 else None

    def _answers(self, world: World, host: str, peer: str) -> None:
        """A host ends an older connection with a peer, or turns it away, without any step of its machine."""
        self.prospects.note_answer(host, world.states[self.places[host]], peer)

    # ------------------------------------------------------------------------------------------------- what may happen

    def moves(self, world: World) -> list[Move]:
        """Everything that may happen next; empty when nothing will but time."""
        idle = self._idle_move(world)
        if idle is not None:
            return [idle]
        moves: list[Move] = []
        for wire in sorted(world.wires):
            held = world.wires[wire]
            if held and self._passes(world, wire[0], wire[1]):
                moves.append(Delivered(wire))
                if held[-1] == BROKEN and len(held) > 1:
                    moves.append(Lost(wire))
        moves += [Knocked(*dial) for dial in world.dials if (dial[0],) not in world.held]
        moves += [Commanded(name) for name in self.clients if self._may_command(world, name)]
        if moves and world.budget.early and (tick := self.tick(world)) is not None:
            moves.append(replace(tick, early=True))
        if self.rules.freezable and moves:
            moves += self._overdue(world)
        return [*moves, *self._faults(world)]

    def _passes(self, world: World, sender: str, receiver: str) -> bool:
        """Whether what is under way between the two may arrive."""
        held = world.held
        return not held or not ((receiver,) in held or (min(sender, receiver), max(sender, receiver)) in held)

    def _overdue(self, world: World) -> Iterator[Rang]:
        """Timers whose time passed while their broker was frozen: they may fire before it takes anything in."""
        for name in self.brokers:
            state = self.state(world, name)
            if state is not None and state.timers and state.timers[0][0] < world.now and (name,) not in world.held:
                yield Rang(name, state.timers[0][1], state.timers[0][0])

    def _idle_move(self, world: World) -> Move | None:
        if self.rules.idle_frames:
            return None
        for wire in sorted(world.wires):
            if world.wires[wire] and isinstance(self.frame(world, wire), IDLE):
                if world.held and not self._passes(world, wire[0], wire[1]):
                    continue
                return Delivered(wire)
        return None

    def _may_command(self, world: World, name: str) -> bool:
        state, given = self.state(world, name), world.asked[self.places[name]]
        script = self.machines[name].cast.script
        if state is None or not state.ready or given == len(script):
            return False
        requests = sum(isinstance(command, Subscribe | Unsubscribe) for command in script[:given])
        return state.answered >= requests

    def _faults(self, world: World) -> Iterator[Move]:
        budget = world.budget
        if world.now > world.busy_s:
            # Faults befall a world in which something is going on, or has just come to rest.
            return
        for name in self.brokers:
            up = world.states[self.places[name]] >= 0
            if budget.crashes and up and name in self.mortal(world):
                yield Crashed(name)
            if budget.returns and not up:
                yield Returned(name)
        if budget.resets:
            for (host, peer), number in sorted(world.talks.items()):
                if world.talks.get((peer, host)) == number and host < peer:
                    yield Reset(host, peer)
        if budget.freezes:
            yield from (Frozen(one) for one in self.rules.freezable if self._is_up(world, one))
        if budget.cuts:
            yield from (Parted(*pair) for pair in self.rules.cuttable if pair not in world.held)
        yield from self.releases(world)

    def _is_up(self, world: World, name: str) -> bool:
        return world.states[self.places[name]] >= 0 and (name,) not in world.held

    def awaits_return(self, world: World) -> bool:
        """Whether a broker is down that comes back in any case, since the others wait for it."""
        return self.rules.awaits and any(self.returns(world))

    def releases(self, world: World) -> list[Release]:
        """What may end: freezes and cuts."""
        return [Thawed(*one) if len(one) == 1 else Healed(*one) for one in world.held]

    def tick(self, world: World) -> Rang | None:
        """The timer that is due next, if any is."""
        due = [
            Rang(name, state.timers[0][1], state.timers[0][0])
            for name in self.machines
            if (state := self.state(world, name)) is not None and state.timers and (name,) not in world.held
        ]
        return min(due, key=lambda one: (one.due_s, one.host)) if due else None

    def returns(self, world: World) -> list[Move]:
        """Brokers that may come back when nothing else happens any more."""
        if not world.budget.returns:
            return []
        return [Returned(name) for name in self.brokers if world.states[self.places[name]] < 0]

    def waits(self, world: World) -> list[str]:
        """In words, who waits for what; empty when nobody does."""
        found = []
        for name in self.machines:
            state = self.state(world, name)
            if state is None:
                continue
            found += [f"{name} waits for {reason}" for reason in state.waits]
            left = len(self.machines[name].cast.script) - world.asked[self.places[name]]
            if left and not state.ended:
                found.append(f"{name} has {left} commands left to give")
        return found

    # --------------------------------------------------------------------------------------------------- what it makes

    def after(self, world: World, move: Move) -> tuple[World, int]:
        """The world after that, and what a judge sees of when it happened: `PUBLISHED`, `MARKED`, both or nothing."""
        match move:
            case Delivered(wire):
                return self._deliver(world, wire)
            case Lost(wire):
                return replace(world, wires={**world.wires, wire: (BROKEN,)}), 0
            case Knocked(host, peer, address):
                return self._knock(world, host, peer, address)
            case Commanded(host):
                return self._order(world, host)
            case Rang(host, name, due_s, early):
                budget = replace(world.budget, early=world.budget.early - early)
                return self._enter(replace(world, now=max(world.now, due_s), budget=budget), host, Ring(name))
            case Crashed(host):
                return self._crash(world, host), 0
            case Frozen() | Parted() | Thawed() | Healed():
                return self._hold(world, move), 0
            case Returned(host):
                return self._return(world, host)
            case Reset(host, peer):
                return self._reset(world, host, peer), 0

    def _deliver(self, world: World, wire: Wire) -> tuple[World, int]:
        sender, host, number = wire
        first, rest = world.wires[wire][0], world.wires[wire][1:]
        frame = self.frames.frames[first] if first >= 0 else None
        busy_s = world.busy_s if isinstance(frame, IDLE) else world.now
        world = replace(world, wires={**world.wires, wire: rest}, busy_s=busy_s)
        if frame is None:
            return self._end(world, wire)
        visible = 0
        if isinstance(frame, Hello) and world.talks.get((host, sender)) != number:
            turned_away = self._turn_away(world, host, frame)
            if turned_away is not None:
                self._answers(world, host, sender)
                return self._refuse(world, wire, turned_away), 0
            world, visible = self._adopt(world, host, sender, number)
        world, seen = self._enter(world, host, Arrival(sender, first))
        return world, visible | seen

    def _turn_away(self, world: World, host: str, hello: Hello) -> int | None:
        machine = self.machines[host]
        refusal = machine.ask(world.states[self.places[host]], lambda node: _refusal(node, hello))
        return None if refusal is None else self.frames.number_of(refusal)

    def _refuse(self, world: World, wire: Wire, refusal: int) -> World:
        sender, host, number = wire
        wires = {one: held for one, held in world.wires.items() if one != wire}
        back = (host, sender, number)
        if back in wires:
            wires[back] = (*wires[back], refusal, END)
        return replace(world, wires=wires)

    def _adopt(self, world: World, host: str, peer: str, number: int) -> tuple[World, int]:
        """A new connection takes the place of an older one, which is reported down first."""
        older = world.talks.get((host, peer))
        if older is not None:
            self._answers(world, host, peer)
            world = self._close(world, host, peer)
            world = replace(world, talks={**world.talks, (host, peer): number})
            return self._enter(world, host, Down(peer))
        return replace(world, talks={**world.talks, (host, peer): number}), 0

    def _end(self, world: World, wire: Wire) -> tuple[World, int]:
        """The end of a wire has come: the receiver's side of the connection is over."""
        sender, host, number = wire
        wires = {one: held for one, held in world.wires.items() if one != wire}
        world = replace(world, wires=wires)
        if world.talks.get((host, sender)) != number:
            return world, 0
        talks = {pair: one for pair, one in world.talks.items() if pair != (host, sender)}
        return self._enter(replace(world, talks=talks), host, Down(sender))

    def _close(self, world: World, host: str, peer: str) -> World:
        """The host writes no more to its connection with that peer, and takes nothing more from it."""
        number = world.talks.get((host, peer))
        if number is None:
            return world
        talks = {pair: one for pair, one in world.talks.items() if pair != (host, peer)}
        wires = {one: held for one, held in world.wires.items() if one != (peer, host, number)}
        outgoing = (host, peer, number)
        if outgoing in wires:
            wires[outgoing] = _ended(wires[outgoing], END)
        return replace(world, talks=talks, wires=wires)

    def _knock(self, world: World, host: str, peer: str, address: str) -> tuple[World, int]:
        world = replace(world, dials=tuple(one for one in world.dials if one != (host, peer, address)))
        target = address or peer
        is_parted = bool(world.held) and (min(host, target), max(host, target)) in world.held
        if is_parted or target not in self.places or world.states[self.places[target]] < 0:
            return self._enter(world, host, Down(peer))
        number = 1 + max((wire[2] for wire in self._numbers(world, host, target)), default=0)
        wires = {**world.wires, (host, target, number): (), (target, host, number): ()}
        world, _ = self._adopt(replace(world, wires=wires, busy_s=world.now), host, peer, number)
        return self._enter(world, host, Up(peer))

    def _numbers(self, world: World, host: str, peer: str) -> list[Wire]:
        talking = [(one, other, number) for (one, other), number in world.talks.items()]
        return [wire for wire in (*world.wires, *talking) if {wire[0], wire[1]} == {host, peer}]

    def _order(self, world: World, host: str) -> tuple[World, int]:
        at = self.places[host]
        number = world.asked[at]
        asked = (*world.asked[:at], number + 1, *world.asked[at + 1 :])
        world = replace(world, asked=asked, busy_s=world.now, progress_s=_second(world))
        return self._enter(world, host, Order(number))

    # ------------------------------------------------------------------------------------------------------- machines

    def _enter(self, world: World, host: str, given: Input) -> tuple[World, int]:
        at = self.places[host]
        step = self.machines[host].step(world.states[at], given, world.now)
        states = (*world.states[:at], step.state, *world.states[at + 1 :])
        world = replace(world, states=states, progress_s=_second(world) if step.rows else world.progress_s)
        visible = 0
        for row in step.rows:
            if row.event in VISIBLE:
                visible |= self.ledger.seen_of(host, row)
                owed = self.ledger.owed_after(world.owed, world.order, host, row)
                world = replace(world, order=(*world.order, (host, self.ledger.number_of(row))), owed=owed)
            elif row.event == "deliver" and world.owed:
                world = replace(world, owed=self.ledger.owed_after(world.owed, (), host, row))
        for outcome in step.outcomes:
            world = self._carry_out(world, host, outcome)
        return world, visible

    def _carry_out(self, world: World, host: str, outcome: object) -> World:
        match outcome:
            case Sent(peer, frame):
                number = world.talks.get((host, peer))
                wire = (host, peer, number or 0)
                held = world.wires.get(wire)
                if number is None or held is None or (held and held[-1] < 0):
                    return world  # What is written to a connection that has ended goes nowhere.
                return replace(world, wires={**world.wires, wire: (*held, frame)})
            case Dialled(peer, address):
                others = {one for one in world.dials if one[:2] != (host, peer)}
                return replace(world, dials=tuple(sorted(others | {(host, peer, address)})))
            case Closed(peer):
                dials = tuple(one for one in world.dials if one[:2] != (host, peer))
                return self._close(replace(world, dials=dials), host, peer)
            case Reborn():
                state = self.state(world, host)
                assert state is not None
                world, _ = self._begin(self._leave(world, host, END), host, state.life + 1, state.pairs, None)
                return world
            case Gone():
                return self._leave(world, host, END)
            case _:
                raise AssertionError(f"nobody carries out {outcome}")

    def _begin(
        self, world: World, host: str, life: int, pairs: tuple[tuple[str, bytes], ...], parent: str | None
    ) -> tuple[World, int]:
        step = self.machines[host].begin(world.now, life, pairs, parent)
        at = self.places[host]
        world = replace(world, states=(*world.states[:at], step.state, *world.states[at + 1 :]), busy_s=world.now)
        for outcome in step.outcomes:
            world = self._carry_out(world, host, outcome)
        return world, 0

    def _leave(self, world: World, host: str, end: int) -> World:
        """Take a host from the world: its connections end behind what it said."""
        wires = {wire: held for wire, held in world.wires.items() if wire[1] != host}
        for wire, held in wires.items():
            if wire[0] == host and world.talks.get((host, wire[1])) == wire[2]:
                wires[wire] = _ended(held, end)
        talks = {pair: number for pair, number in world.talks.items() if pair[0] != host}
        dials = tuple(one for one in world.dials if one[0] != host)
        at = self.places[host]
        states = (*world.states[:at], -1, *world.states[at + 1 :])
        return replace(world, wires=wires, talks=talks, dials=dials, states=states, held=_without(world.held, (host,)))

    # --------------------------------------------------------------------------------------------------------- faults

    def _crash(self, world: World, host: str) -> World:
        state = self.state(world, host)
        assert state is not None
        budget = replace(world.budget, crashes=world.budget.crashes - 1)
        disks = (*world.disks, (host, state.life, state.pairs))
        left = self._leave(world, host, BROKEN)
        return replace(left, budget=budget, disks=disks, busy_s=world.now, progress_s=_second(world))

    def _hold(self, world: World, move: Frozen | Parted | Release) -> World:
        """Freeze or part somebody, or let it go on."""
        what = (move.host,) if isinstance(move, Frozen | Thawed) else (move.host, move.peer)
        budget, held = world.budget, _without(world.held, what)
        if isinstance(move, Frozen | Parted):
            held = tuple(sorted({*held, what}))
            freezes = budget.freezes - isinstance(move, Frozen)
            budget = replace(budget, freezes=freezes, cuts=budget.cuts - isinstance(move, Parted))
        return replace(world, held=held, budget=budget, busy_s=world.now, progress_s=_second(world))

    def _return(self, world: World, host: str) -> tuple[World, int]:
        budget = replace(world.budget, returns=world.budget.returns - 1)
        _, life, pairs = next(one for one in world.disks if one[0] == host)
        disks = tuple(one for one in world.disks if one[0] != host)
        world = replace(world, budget=budget, disks=disks, progress_s=_second(world))
        return self._begin(world, host, life + 1, pairs, self._parent_for(world, host))

    def _parent_for(self, world: World, host: str) -> str | None:
        """Which broker one that comes back is told of: its parent if that serves, else the first broker that does."""
        serving = [name for name in self.brokers if (state := self.state(world, name)) is not None and state.ready]
        parent = self.rules.parents.get(host)
        return parent if parent in serving or not serving else serving[0]

    def _reset(self, world: World, host: str, peer: str) -> World:
        number = world.talks[host, peer]
        wires = dict(world.wires)
        for wire in ((host, peer, number), (peer, host, number)):
            if wire in wires:
                wires[wire] = _ended(wires[wire], BROKEN)
        budget = replace(world.budget, resets=world.budget.resets - 1)
        return replace(world, wires=wires, budget=budget, busy_s=world.now, progress_s=_second(world))


def _second(world: World) -> float:
    return float(int(world.now))


def _without(held: tuple[tuple[str, ...], ...], what: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(one for one in held if one != what) if held else held


def _ended(held: tuple[int, ...], end: int) -> tuple[int, ...]:
    return held if held and held[-1] in (END, BROKEN) else (*held, end)


def _refusal(node: object, hello: Hello) -> Frame | None:
    return node.turn_away(hello) if isinstance(node, Doorkeeper) else None
