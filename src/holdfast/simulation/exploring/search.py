"""The search through all states of a small world, depth first, with the orders left out that need not be tried.

States that are the same are visited once. Of steps that may be exchanged one order is tried, by *sleep sets*: a step
that was explored from a state sleeps below the steps explored after it there, until one comes that it depends on. A
state that is met again with fewer steps asleep is explored for these alone. Where a host or a group of hosts may go
first (`reduction`), the steps of the others are not tried from that state at all. Whether it may depends on what the
others can still do, which is learned on the way (`foresight`): the search is made again until it has learned nothing
that it did not take for granted. If one broker may crash, a search is
made for each of them, in which no other one may: more clients may go first then, and what is behind the crash is common
to all.

A state is final when nothing can happen but time, nobody waits for anything, and it has been so for `CALM_S`: there the
judges look at the histories of all clients. A machine that raises or whose invariants do not hold is a finding, too.

What never ends is found in three ways. A world that makes no progress for `PATIENCE_S` of its time does not come to
rest, whether its machines wait or talk. Neither does one that makes none in `STANDSTILL_STEPS` steps in which no time
passes. And a state that comes again behind itself is a circle in which nothing but waiting happens, since a history
never gets shorter: unless some step was possible all the time and not taken, which any fair order would have taken;
then the other steps are tried as well.

Names that play the same part may be exchanged for each other (`Bounds.symmetric`): of the worlds that differ in them
alone one is visited. Sleep sets are left out then, since a step that sleeps has names, too.

The story of a finding is the shortest of all: once the search has found something, all shorter stories are tried,
breadth first, as far as `SHORTEST_STATES_MAX` allows.
"""

import resource
from collections import deque
from collections.abc import Callable, Iterable
from hashlib import blake2b
from time import monotonic

import msgspec
from msgspec import Struct

from holdfast.simulation.exploring.judging import CALM_S, PATIENCE_S, Judge
from holdfast.simulation.exploring.machines import Broken
from holdfast.simulation.exploring.mirrors import Mirror
from holdfast.simulation.exploring.reduction import Seen, independent, may_precede, persistent
from holdfast.simulation.exploring.worlds import LOCAL, Delivered, Move, Stage, World

HELD_S = 15.0
"""Virtual time without progress after which a freeze or a cut ends: longer than links bear silence."""
STANDSTILL_STEPS = 1_000
"""Steps without any progress, in which no time passed either, after which a world will make none."""
KEY_BYTES = 16
PROGRESS_STEPS = 4096
LEARN_STEPS = 256
LEARN_GROWTH = 1.2
"""What hosts may do is looked at anew when so many times as many steps of machines are known."""
SHORTEST_STATES_MAX = 300_000
"""So many states are looked at for a shorter story."""

Sleep = frozenset[Seen]
"""Steps that need not be taken."""
NOTHING: Sleep = frozenset()


class Bounds(Struct, frozen=True):
    """How far a search goes."""

    depth_max: int = 100_000
    states_max: int = 100_000_000
    seconds_max: float = 0.0
    """0: as long as it takes."""
    memory_mb_max: int = 8192
    reduced: bool = True
    """Whether orders are left out that need not be tried."""
    shortest: bool = True
    """Whether the shortest story of a finding is sought, or the first one told."""
    symmetric: bool = False
    """Whether worlds that differ in names alone are one."""


class Finding(Struct, frozen=True):
    """Something that must not be, and the steps that lead there."""

    what: str
    story: tuple[Move, ...]
    endless: bool = False
    """Whether the story goes on like that for ever: no shorter one is sought then."""


class Result(Struct):
    """What a search has seen."""

    states: int = 0
    steps: int = 0
    finals: int = 0
    histories: int = 0
    """Different histories among the final states."""
    repeats: int = 0
    """How often a known state was met again."""
    depth: int = 0
    machine_states: int = 0
    machine_steps: int = 0
    memory_mb: int = 0
    stopped_by: str = ""
    """Which bound ended it before it was complete."""
    finding: Finding | None = None
    seconds: float = 0.0
    runs: int = 1
    """How often the search was made, each time with what had been learned before."""

    @property
    def complete(self) -> bool:
        """Whether there is nothing left to search."""
        return not self.stopped_by and self.finding is None


class _Place:
    """One world on the way from the root to where the search stands."""

    __slots__ = ("key", "left", "move", "since", "sleep", "taken", "whole", "world")

    def __init__(self, world: World, move: Move | None, left: list[Move], sleep: set[Seen], key: bytes) -> None:
        self.world, self.move, self.left, self.sleep, self.key = world, move, left, sleep, key
        self.taken: set[Move] = set()
        self.since = 0
        """Steps before this one without progress, all at the same time."""
        self.whole = False
        """Whether all steps are tried from here, also those that others may go before."""


class Search:
    """A search from one world."""

    def __init__(
        self,
        stage: Stage,
        judge: Judge,
        bounds: Bounds | None = None,
        on_progress: Callable[[Result], None] | None = None,
    ) -> None:
        self.stage, self.judge, self.bounds = stage, judge, bounds or Bounds()
        self.result = Result()
        self._seen: dict[bytes, Sleep] = {}
        self._sleeps: dict[Sleep, Sleep] = {NOTHING: NOTHING}
        """Sets of steps that are asleep somewhere, each once."""
        self._stack: list[_Place] = []
        self._under_way: dict[bytes, int] = {}
        """The places of the stack, by the keys of their worlds."""
        self._mirror = Mirror(stage) if self.bounds.symmetric and stage.symmetries else None
        self._on_progress = on_progress
        self._began = 0.0
        self._learned_at = 0
        self._erred = False
        """Whether somebody was left out of account that can disturb those that went first."""

    def run(self, root: World) -> Result:
        """Search everything from there. The first finding ends the search; then its shortest story is sought."""
        self._began = monotonic()
        try:
            self._search(root)
            if self.bounds.shortest and self.result.finding is not None and not self.result.finding.endless:
                self.result.finding = self._shortest(root, self.result.finding)
        finally:
            self._count()
        return self.result

    # ---------------------------------------------------------------------------------------------------- depth first

    def _search(self, root: World) -> None:
        """Search, and again with what was learned, until nothing was taken for granted that is not so."""
        while True:
            for start in self.stage.starts(root) if self.bounds.reduced else (root,):
                self._descend(start)
            if (
                self.result.finding is not None
                or self.result.stopped_by
                or not (self._erred or self.stage.prospects.are_wrong())
            ):
                return
            self._begin_again()

    def _learn(self) -> None:
        """Go on with what is known by now, if somebody was left out of account who can disturb others.

        What this search has left out before may be needed, so it proves nothing; but it goes on learning.
        """
        computed = sum(machine.computed for machine in self.stage.machines.values())
        if computed < LEARN_GROWTH * self._learned_at:
            return
        self._learned_at = computed
        if self.stage.prospects.are_wrong():
            self._erred = True
            self.stage.prospects.learn()

    def _begin_again(self) -> None:
        self.stage.prospects.learn()
        self._seen.clear()
        self._sleeps = {NOTHING: NOTHING}
        self._erred = False
        self.result = Result(runs=self.result.runs + 1)

    def _descend(self, root: World) -> None:
        stack, result = self._stack, self.result
        if result.finding is not None or result.stopped_by:
            return
        self._visit(root, None, NOTHING)
        while stack and result.finding is None:
            if result.steps % PROGRESS_STEPS == 0 and self._is_spent():
                return
            if result.steps % LEARN_STEPS == 0:
                self._learn()
            place = stack[-1]
            if not place.left:
                stack.pop()
                del self._under_way[place.key]
                continue
            self._take(place, place.left.pop())

    def _take(self, place: _Place, move: Move) -> None:
        """Take one step from a place, and visit the world behind it."""
        result = self.result
        result.steps += 1
        place.taken.add(move)
        try:
            world, seen = self.stage.after(place.world, move)
        except Broken as broken:
            self._found(str(broken), move)
            return
        below = NOTHING
        if self.bounds.reduced and self._mirror is None and not place.whole:
            below = frozenset(one for one in place.sleep if independent(one, (move, seen)))
            place.sleep.add((move, seen))
        if complaint := self._complaint_so_far(world, move):
            self._found(complaint, move)
            return
        if len(self._stack) >= self.bounds.depth_max:
            result.stopped_by = f"a depth of {self.bounds.depth_max} steps"
            return
        self._visit(world, move, below)

    def _visit(self, world: World, move: Move | None, sleep: Sleep) -> None:
        """Come to a world: note what has to be tried from there."""
        result, key = self.result, key_of(world, self._mirror)
        if key in self._under_way:
            self._circle(self._under_way[key], move)
            return
        known = self._seen.get(key)
        if known is not None and known <= sleep:
            result.repeats += 1
            return
        asleep_here = sleep if known is None else known & sleep
        self._seen[key] = self._sleeps.setdefault(asleep_here, asleep_here)
        moves = moves_of(self.stage, world)
        if known is None:
            result.states += 1
            if not moves:
                self._judge(world, move)
                return
        moves = self._first(world, moves)
        # A world that was met before with more asleep is tried for those alone: the others were tried then.
        asleep = {one for one, _ in sleep}
        awake = set(moves) if known is None else {one for one, _ in known}
        left = [one for one in moves if one in awake and one not in asleep]
        self._push(_Place(world, move, left, set(sleep), key))

    def _push(self, place: _Place) -> None:
        stack, world = self._stack, place.world
        if stack:
            before = stack[-1].world
            is_still = (before.now, before.progress_s, before.asked) == (world.now, world.progress_s, world.asked)
            place.since = stack[-1].since + 1 if is_still and before.budget == world.budget else 0
        stack.append(place)
        self._under_way[place.key] = len(stack) - 1
        self.result.depth = max(self.result.depth, len(stack) - 1)
        if place.since >= STANDSTILL_STEPS:
            self._found(
                f"it does not come to rest: {place.since:,} steps at one moment bring nothing to anybody", None, True
            )

    def _circle(self, first: int, last: Move | None) -> None:
        """A state has come again behind itself."""
        round_about = self._stack[first:]
        taken = {place.move for place in round_about[1:]} | {last}
        always = set.intersection(*(set(self.stage.moves(place.world)) for place in round_about))
        if any(isinstance(move, LOCAL) and move not in taken for move in always):
            # No fair order goes round here for ever. But a circle must not hide what was to be tried behind it.
            self._try_all(self._stack[-1])
            return
        self._found(f"it does not come to rest: the same state comes again after {len(round_about)} steps", last, True)

    def _try_all(self, place: _Place) -> None:
        """Try every step from there, and let none sleep: what is asleep relies on what others try behind the circle."""
        if place.whole:
            return
        place.whole = True
        place.sleep.clear()
        self._seen[place.key] = NOTHING
        place.left = [move for move in moves_of(self.stage, place.world) if move not in place.taken]

    def _first(self, world: World, moves: list[Move]) -> list[Move]:
        """The steps of a host that may go first, if there is one; else all."""
        if not self.bounds.reduced or len(moves) == 1:
            return moves
        for own in persistent(self.stage, world, moves):
            if len(own) < len(moves) and not self._is_early(world, own):
                return [*own]
        return moves

    def _is_early(self, world: World, own: list[Move]) -> bool:
        """Whether a judge could see that these steps came before those of other hosts."""
        group = {move.host for move in own}
        return any(
            (seen := self._seen_of(world, move)) and may_precede(self.stage, world, move.host, seen, group)
            for move in own
        )

    def _seen_of(self, world: World, move: Move) -> int:
        try:
            return self.stage.after(world, move)[1]
        except Broken:
            return 0  # Whoever takes this step will find it.

    def _complaint_so_far(self, world: World, move: Move) -> str:
        """What is wrong already, if the step may have brought a message to a client."""
        if isinstance(move, Delivered) and move.host in self.stage.clients:
            return self.judge.complaint_so_far(self.stage, world)
        return ""

    def _judge(self, world: World, move: Move | None) -> None:
        """Nothing will happen here any more."""
        self.result.finals += 1
        complaint = self.judge.complaint(self.stage, world)
        if complaint:
            self._found(complaint, move)

    def _found(self, what: str, last: Move | None, endless: bool = False) -> None:
        story = [place.move for place in self._stack if place.move is not None]
        self.result.finding = Finding(what, (*story, *([last] if last is not None else [])), endless)

    # -------------------------------------------------------------------------------------------------- breadth first

    def _shortest(self, root: World, found: Finding) -> Finding:
        """The shortest story that ends badly, if it is found in time; else the story that is known."""
        seen = {key_of(root, self._mirror)}
        queue: deque[tuple[World, tuple[Move, ...]]] = deque([(root, ())])
        while queue and len(seen) < SHORTEST_STATES_MAX:
            world, story = queue.popleft()
            if len(story) + 1 >= len(found.story):
                break
            for move in self._first(world, moves_of(self.stage, world)):
                try:
                    after, _ = self.stage.after(world, move)
                except Broken as broken:
                    return Finding(str(broken), (*story, move))
                if complaint := self._complaint_so_far(after, move) or self._final_complaint(after):
                    return Finding(complaint, (*story, move))
                key = key_of(after, self._mirror)
                if key not in seen:
                    seen.add(key)
                    queue.append((after, (*story, move)))
        return found

    def _final_complaint(self, world: World) -> str:
        return self.judge.complaint(self.stage, world) if not moves_of(self.stage, world) else ""

    # --------------------------------------------------------------------------------------------------------- bounds

    def _is_spent(self) -> bool:
        result, bounds = self.result, self.bounds
        self._count()
        if self._on_progress is not None:
            self._on_progress(result)
        if result.states >= bounds.states_max:
            result.stopped_by = f"{bounds.states_max:,} states"
        elif bounds.seconds_max and result.seconds >= bounds.seconds_max:
            result.stopped_by = f"{bounds.seconds_max:g} s"
        elif result.memory_mb >= bounds.memory_mb_max:
            result.stopped_by = f"{bounds.memory_mb_max:,} MB of memory"
        else:
            return False
        return True

    def _count(self) -> None:
        result, machines = self.result, self.stage.machines.values()
        result.machine_states = sum(len(machine.states) for machine in machines)
        result.machine_steps = sum(machine.computed for machine in machines)
        result.histories = self.judge.histories
        result.memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        result.seconds = monotonic() - self._began


def moves_of(stage: Stage, world: World) -> list[Move]:
    """What has to be tried from a world; nothing if it is at rest. Time passes when nothing else can happen."""
    is_held = bool(world.held) or stage.awaits_return(world)
    if world.now - world.progress_s >= PATIENCE_S and not is_held:
        return []
    moves = stage.moves(world)
    if any(isinstance(move, LOCAL) for move in moves):
        return moves
    waited_s = world.now - world.busy_s
    if is_held:
        return _while_held(stage, world, moves, waited_s)
    if waited_s >= CALM_S and not stage.waits(world):
        return []
    tick = stage.tick(world)
    returns = [move for move in stage.returns(world) if move not in moves] if waited_s < CALM_S else []
    return [*moves, *returns, *([tick] if tick is not None else [])]


def _while_held(stage: Stage, world: World, moves: list[Move], waited_s: float) -> list[Move]:
    """As long as somebody is frozen, cut off or waited for: time passes, until everybody must have noticed."""
    tick = stage.tick(world)
    releases: list[Move] = [*stage.releases(world)] or stage.returns(world)
    # Whoever dials a frozen broker again and again is busy; that is no reason to wait longer.
    if tick is None or world.now - world.progress_s >= HELD_S:
        return [*releases]
    if waited_s >= CALM_S:
        return [tick]
    returns = stage.returns(world)
    return [*dict.fromkeys((*moves, *returns, *releases, tick))]


def key_of(world: World, mirror: Mirror | None = None) -> bytes:
    """What a world is remembered by."""
    text = msgspec.msgpack.encode(world.key()) if mirror is None else mirror.text(world)
    return blake2b(text, digest_size=KEY_BYTES).digest()


def walk(stage: Stage, world: World, moves: Iterable[Move]) -> World:
    """The world behind these steps."""
    for move in moves:
        world, _ = stage.after(world, move)
    return world
