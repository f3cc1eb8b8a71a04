"""The states of single machines, each known by a number, and the steps between them, each computed once.

A machine is a pure function of its inputs. So a state need not be copied: it is remembered as the state before and the
input that led from there, and a machine that stands in it is made, when one is needed, by giving a fresh machine the
same inputs again. A step touches one machine, and in the many states of a whole world the same machine meets the same
input again and again: what comes of that is looked up here, and the search over worlds handles numbers.

States that have the same digest (`canonical`) are one. Part of a machine's state, beside the machine itself, are its
timers, its disk, how far its application has come, and the rows that a judge will read: a client with another history
is in another state, however alike the machines are.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.batches import Batch
from holdfast.model.errors import LocalMisuse
from holdfast.model.guarantees import RANKS
from holdfast.model.messages import Frame
from holdfast.protocols.node import (
    Attached,
    CancelTimer,
    Completed,
    Connect,
    Deliver,
    Disconnect,
    Effect,
    Effects,
    Ended,
    Failed,
    KeepsLog,
    Node,
    Persist,
    Report,
    Restart,
    Restorable,
    Send,
    SetTimer,
    Unconfirmed,
)
from holdfast.simulation.exploring.canonical import Renaming, digest_of
from holdfast.simulation.faults import Publish, Subscribe, Unsubscribe
from holdfast.simulation.hosts import CHANCE_BITS, TIMER_S_MIN

LIVE_MAX = 4096
"""So many machines stand by in some state; others are made again from their inputs."""

JUDGED = ("subscribe", "unsubscribe", "publish", "deliver", "crossed")
"""The rows of a trace that the judges of an explored world read."""

ScriptCommand = Publish | Subscribe | Unsubscribe


# --------------------------------------------------------------------------------------------------------- inputs


class Start(Struct, frozen=True):
    """A machine begins, in its n-th life, with what an earlier one persisted."""

    life: int
    pairs: tuple[tuple[str, bytes], ...] = ()
    parent: str | None = None


class Arrival(Struct, frozen=True):
    """A frame of that number has come."""

    peer: str
    frame: int


class Up(Struct, frozen=True):
    peer: str


class Down(Struct, frozen=True):
    peer: str


class Ring(Struct, frozen=True):
    """A timer fires."""

    name: str


class Order(Struct, frozen=True):
    """The application gives the next command of its script."""

    number: int


Input = Start | Arrival | Up | Down | Ring | Order
Timed = tuple[Input, float]


# -------------------------------------------------------------------------------------------------------- outcomes


class Sent(Struct, frozen=True):
    """A frame of that number leaves for that peer."""

    peer: str
    frame: int


class Dialled(Struct, frozen=True):
    peer: str
    address: str


class Closed(Struct, frozen=True):
    peer: str


class Reborn(Struct, frozen=True):
    """The machine was given up by the others and begins anew."""


class Gone(Struct, frozen=True):
    """The machine has stopped by itself."""


Outcome = Sent | Dialled | Closed | Reborn | Gone
Told = Send | Connect | Disconnect | Restart | Report
"""Effects that concern others than the machine itself; of reports, that it has stopped."""


class State(Struct, frozen=True):
    """What the search may know of a machine's state without having the machine."""

    number: int
    timers: tuple[tuple[float, str], ...] = ()
    """When which timer is due, the next first."""
    pairs: tuple[tuple[str, bytes], ...] = ()
    """What is on its disk."""
    rows: tuple[Report, ...] = ()
    """What a judge reads of it."""
    waits: tuple[str, ...] = ()
    ready: bool = False
    """A broker serves clients, or a client has a session."""
    answered: int = 0
    """How many requests of its application were answered."""
    failures: tuple[str, ...] = ()
    ended: bool = False
    life: int = 1


class Step(Struct, frozen=True):
    """What an input makes of a state."""

    state: int
    outcomes: tuple[Outcome, ...]
    rows: tuple[Report, ...]
    """Rows that were added."""


OnStep = Callable[[int, Input, Step], None]
"""Told of every step that is computed: the state before it, the input, and the step."""


class Broken(LocalMisuse):
    """A machine raised, or stands in a state that cannot be: the search has found something."""


class Cast(Struct, frozen=True):
    """One part to be played: how its machine is made, of its life and its parent, and what its application asks for."""

    name: str
    make: Callable[[int, str | None], Node]
    is_broker: bool
    script: tuple[ScriptCommand, ...] = ()


class _Live:
    """A machine that stands in some state, with what its driver keeps for it."""

    __slots__ = ("answered", "ended", "failures", "life", "node", "pairs", "ready", "rows", "timers")

    def __init__(self) -> None:
        self.node: Any = None
        self.timers: dict[str, float] = {}
        self.pairs: dict[str, bytes] = {}
        self.rows: list[Report] = []
        self.ready = self.ended = False
        self.answered, self.life = 0, 0
        self.failures: list[str] = []


class Frames:
    """Every frame that was ever said, known by a number; frames that say the same are one."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self.frames: list[Frame] = []

    def number_of(self, frame: Frame) -> int:
        key = digest_of(frame)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.frames)
            self.frames.append(frame)
        return number


class Machine:
    """All states of one part that were ever met."""

    def __init__(self, cast: Cast, frames: Frames, on_step: OnStep, *, check_invariants: bool = True) -> None:
        self.cast, self.name = cast, cast.name
        self._frames, self._on_step, self._checks = frames, on_step, check_invariants
        self.states: list[State] = []
        self._came_by: list[tuple[int, Timed]] = []
        """For each state, the state before it (-1: none) and the input in between."""
        self._numbers: dict[bytes, int] = {}
        self._steps: dict[tuple[int, Input, float], Step] = {}
        self._live: OrderedDict[int, _Live] = OrderedDict()
        self.computed = self.rebuilt = 0

    def begin(
        self, now: float, life: int = 1, pairs: tuple[tuple[str, bytes], ...] = (), parent: str | None = None
    ) -> Step:
        """The step into a life."""
        return self.step(-1, Start(life, pairs, parent), now)

    def step(self, state: int, given: Input, now: float) -> Step:
        """What comes of that input in that state."""
        key = (state, given, now)
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = self._compute(state, given, now)
            self._on_step(state, given, found)
        return found

    def story(self, state: int) -> list[Timed]:
        """Inputs that lead to that state from the beginning of its life."""
        found: list[Timed] = []
        while state >= 0:
            state, timed = self._came_by[state]
            found.append(timed)
        return found[::-1]

    def ask(self, state: int, question: Callable[[Any], Any]) -> Any:
        """The answer of a machine in that state to a question that changes nothing."""
        live = self._machine_in(state)
        self._keep(state, live)
        return question(live.node)

    def digest(self, state: int, renaming: Renaming) -> bytes:
        """The digest of a state with names exchanged."""
        live = self._machine_in(state)
        self._keep(state, live)
        return digest_of(self._parts(live), renaming)

    # ------------------------------------------------------------------------------------------------------- stepping

    def _compute(self, state: int, given: Input, now: float) -> Step:
        self.computed += 1
        live = _Live() if state < 0 else self._machine_in(state)
        had = len(live.rows)
        if isinstance(given, Start) and state >= 0:
            raise LocalMisuse(f"{self.name} is alive; a life begins from nothing.")
        try:
            outcomes = self._enter(live, given, now)
            if self._checks:
                live.node.check_invariants()
        except Exception as error:
            raise Broken(f"{self.name}: {type(error).__name__}: {error}") from error
        number = self._number_of(live, state, (given, now))
        self._keep(number, live)
        return Step(number, tuple(map(self._outcome, outcomes)), tuple(live.rows[had:]))

    def _machine_in(self, state: int) -> _Live:
        live = self._live.pop(state, None)
        if live is None:
            self.rebuilt += 1
            live = _Live()
            for given, now in self.story(state):
                self._enter(live, given, now)  # What came of it then is known: nobody asks for it again.
        return live

    def _keep(self, number: int, live: _Live) -> None:
        self._live[number] = live
        if len(self._live) > LIVE_MAX:
            self._live.popitem(last=False)

    def _number_of(self, live: _Live, before: int, by: Timed) -> int:
        digest = digest_of(self._parts(live))
        number = self._numbers.get(digest)
        if number is None:
            number = self._numbers[digest] = len(self.states)
            self._came_by.append((before, by))
            timers = tuple(sorted((due, name) for name, due in live.timers.items()))
            pairs, rows = tuple(sorted(live.pairs.items())), tuple(live.rows)
            self.states.append(
                State(
                    number,
                    timers,
                    pairs,
                    rows,
                    tuple(self._waits(live)),
                    self._is_ready(live),
                    live.answered,
                    tuple(live.failures),
                    live.ended,
                    live.life,
                )
            )
        return number

    def _parts(self, live: _Live) -> tuple[Any, ...]:
        """All that tells states apart."""
        kept = (live.node, live.timers, live.pairs, live.rows)
        return (*kept, live.ready, live.ended, live.answered, live.failures)

    def _is_ready(self, live: _Live) -> bool:
        return bool(live.node.ready()) if self.cast.is_broker else live.ready

    def _waits(self, live: _Live) -> list[str]:
        if live.ended:
            return []
        waits = list(live.node.waiting_for())
        if isinstance(live.node, KeepsLog) and len(live.node.log):
            waits.append(f"{len(live.node.log)} records to become stable")
        return waits

    # --------------------------------------------------------------------------------------------------- entry points

    def _enter(self, live: _Live, given: Input, now: float) -> list[Told]:
        """One entry point of the machine, and the end of its turn."""
        outcomes: list[Told] = []
        eaten: list[Batch] = []
        self._carry_out(live, self._call(live, given, now), now, outcomes, eaten)
        while True:
            for batch in eaten:
                live.node.consumed(batch)
                live.node.taken(batch)
            eaten = []
            self._carry_out(live, live.node.settle(now), now, outcomes, eaten)
            if not eaten:  # A client may deliver at the end of a turn; then there is another one.
                break
        return outcomes

    def _call(self, live: _Live, given: Input, now: float) -> Effects:
        match given:
            case Start(life, pairs, parent):
                return self._begin(live, life, pairs, parent, now)
            case Arrival(peer, frame):
                return live.node.receive(peer, self._frames.frames[frame], now)  # type: ignore[no-any-return]
            case Up(peer):
                return live.node.peer_up(peer, now)  # type: ignore[no-any-return]
            case Down(peer):
                return live.node.peer_down(peer, now)  # type: ignore[no-any-return]
            case Ring(name):
                live.timers.pop(name, None)
                return live.node.timer(name, now)  # type: ignore[no-any-return]
            case Order(number):
                return self._command(live, self.cast.script[number], now)

    def _begin(
        self, live: _Live, life: int, pairs: tuple[tuple[str, bytes], ...], parent: str | None, now: float
    ) -> Effects:
        live.life = life
        node = live.node = self.cast.make((life << CHANCE_BITS) | life, parent)
        live.pairs = dict(pairs)
        if pairs and isinstance(node, Restorable):
            node.restore(dict(pairs))
        return node.start(now)

    def _command(self, live: _Live, command: ScriptCommand, now: float) -> Effects:
        node = live.node
        if isinstance(command, Publish):
            node.publish(command.topic, command.payload, RANKS[command.guarantee], command.keys, command.attributes)
            return []
        ask = node.subscribe if isinstance(command, Subscribe) else node.unsubscribe
        _, effects = ask(command.pattern, command.where, now)
        return effects  # type: ignore[no-any-return]

    # -------------------------------------------------------------------------------------------------------- effects

    def _carry_out(self, live: _Live, effects: Effects, now: float, outcomes: list[Told], eaten: list[Batch]) -> None:
        for effect in effects:
            if isinstance(effect, Send | Connect | Disconnect | Restart):
                outcomes.append(effect)
            elif isinstance(effect, Deliver):
                eaten.append(effect.batch)
            elif isinstance(effect, Report):
                self._note(live, effect, outcomes)
            elif isinstance(effect, SetTimer | CancelTimer | Persist):
                _keep_for(live, effect, now)
            else:
                _tell_application(live, self.name, effect)

    def _outcome(self, effect: Told) -> Outcome:
        match effect:
            case Send(peer, frame):
                return Sent(peer, self._frames.number_of(frame))
            case Connect(peer, address):
                return Dialled(peer, address)
            case Disconnect(peer, _):
                return Closed(peer)
            case Restart():
                return Reborn()
            case Report():
                return Gone()

    def _note(self, live: _Live, report: Report, outcomes: list[Told]) -> None:
        if report.event == "stopped":
            outcomes.append(report)
        if report.event in JUDGED and (not self.cast.is_broker or report.event == "crossed"):
            # What a message cost on its link is no part of what was promised, and depends on what it travelled with.
            live.rows.append(replace(report, overhead=0))


def _keep_for(live: _Live, effect: SetTimer | CancelTimer | Persist, now: float) -> None:
    """A timer or a pair on the disk."""
    match effect:
        case SetTimer(name, after_s):
            live.timers[name] = now + max(after_s, TIMER_S_MIN)
        case CancelTimer(name):
            live.timers.pop(name, None)
        case Persist(key, value):
            live.pairs[key] = value


def _tell_application(live: _Live, name: str, effect: Effect) -> None:
    """What a client's application is told beside messages; acceptance and gaps change nothing that it does."""
    match effect:
        case Attached():
            live.ready = True
        case Completed() | Unconfirmed():
            live.answered += 1
        case Failed(_, first, last, reason):
            live.answered += 1
            live.failures.append(f"{name}: {first}..{last}: {reason}")
        case Ended(clean, reason):
            live.ready, live.ended = False, True
            if not clean:
                live.failures.append(f"session of {name}: {reason}")
        case _:
            pass
