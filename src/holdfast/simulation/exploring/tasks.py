"""A search divided: everything behind the first few steps is a task of its own, for other processes and machines.

Tasks know nothing of each other: a state that is reached in two of them is visited in both. In return each of them is a
plain value whose result is a plain value, so that a search can be spread, stopped, and resumed with the tasks that are
left.
"""

from collections.abc import Callable

from msgspec import Struct

from holdfast.model.plurals import counted
from holdfast.simulation.exploring.judging import Judge
from holdfast.simulation.exploring.machines import Broken
from holdfast.simulation.exploring.plans import BrokerFactory, Plan, staged
from holdfast.simulation.exploring.search import Bounds, Result, Search, key_of, moves_of, walk
from holdfast.simulation.exploring.stories import read_step, step_text, told
from holdfast.simulation.exploring.worlds import Move, Stage, World

OnProgress = Callable[[Result], None]


class Task(Struct, frozen=True):
    """A search from the world behind some steps."""

    plan: Plan
    bounds: Bounds = Bounds()
    steps: tuple[str, ...] = ()


class Report(Struct, frozen=True):
    """What a search has seen, as plain values."""

    states: int = 0
    steps: int = 0
    finals: int = 0
    histories: int = 0
    repeats: int = 0
    depth: int = 0
    machine_states: int = 0
    machine_steps: int = 0
    memory_mb: int = 0
    seconds: float = 0.0
    stopped_by: str = ""
    finding: str = ""
    story: tuple[str, ...] = ()
    """The steps that lead to the finding."""
    words: tuple[str, ...] = ()
    """The same, to be read."""
    runs: int = 1
    """How often the search was made, each time with what had been learned before."""

    @property
    def ok(self) -> bool:
        return not self.finding

    @property
    def complete(self) -> bool:
        return not self.stopped_by and not self.finding

    def verdict(self) -> str:
        """How far it went, in words."""
        if self.finding:
            return f"a violation after {counted(len(self.story), 'step')}: {self.finding}"
        if self.stopped_by:
            return f"no violation, but not complete: stopped by {self.stopped_by}"
        return "all states, no violation"


def run_task(task: Task, on_progress: OnProgress | None = None) -> Report:
    """Make the search of a task."""
    return search(task.plan, task.bounds, task.steps, on_progress=on_progress)


def search(
    plan: Plan,
    bounds: Bounds | None = None,
    steps: tuple[str, ...] = (),
    make: BrokerFactory | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Search everything behind these steps of a plan; `make` makes other brokers than the protocol's own."""
    stage, root = staged(plan, make)
    moves, world = _replayed(stage, root, steps)
    result = Search(stage, Judge(), bounds, on_progress).run(world)
    return _report(plan, stage, root, moves, result)


def _replayed(stage: Stage, root: World, steps: tuple[str, ...]) -> tuple[list[Move], World]:
    moves: list[Move] = []
    world = root
    for text in steps:
        moves.append(read_step(stage, world, text))
        world = walk(stage, world, moves[-1:])
    return moves, world


def _report(plan: Plan, stage: Stage, root: World, prefix: list[Move], result: Result) -> Report:
    found = result.finding
    story = [*prefix, *found.story] if found is not None else []
    return Report(
        result.states,
        result.steps,
        result.finals,
        result.histories,
        result.repeats,
        result.depth + len(prefix),
        result.machine_states,
        result.machine_steps,
        result.memory_mb,
        result.seconds,
        result.stopped_by,
        found.what if found is not None else "",
        tuple(map(step_text, story)),
        tuple(told(plan, stage, root, story)),
        result.runs,
    )


def divided(plan: Plan, bounds: Bounds, count: int) -> list[Task]:
    """At least so many tasks that together are the search of a plan, or as many as there can be; breadth first."""
    stage, root = staged(plan)
    seen = {key_of(root)}
    rest: list[_Beginning] = []
    ring: list[_Beginning] = [(root, ())]
    widest = [*ring]
    while ring and len(widest) < count:
        following: list[_Beginning] = []
        for world, steps in ring:
            ways = _ways(stage, world, steps)
            if not ways:
                rest.append((world, steps))
            for after, longer in ways:
                if (key := key_of(after)) not in seen:
                    seen.add(key)
                    following.append((after, longer))
        ring = following
        if len(rest) + len(ring) > len(widest):
            widest = [*rest, *ring]
    return [Task(plan, bounds, steps) for _, steps in widest]


_Beginning = tuple[World, tuple[str, ...]]
"""Where a task begins: a world, and the steps that lead there."""


def _ways(stage: Stage, world: World, steps: tuple[str, ...]) -> list[_Beginning]:
    """What may come next; nothing if the world is at rest, or if a machine breaks: a task from there will tell it."""
    try:
        return [(walk(stage, world, [move]), (*steps, step_text(move))) for move in moves_of(stage, world)]
    except Broken:
        return []


def joined(reports: list[Report]) -> Report:
    """What several searches have seen together. A state that several have visited counts in each."""
    bad = sorted((one for one in reports if one.finding), key=lambda one: len(one.story))
    stopped = [one.stopped_by for one in reports if one.stopped_by]
    worst = bad[0] if bad else Report()
    return Report(
        sum(one.states for one in reports),
        sum(one.steps for one in reports),
        sum(one.finals for one in reports),
        max((one.histories for one in reports), default=0),
        sum(one.repeats for one in reports),
        max((one.depth for one in reports), default=0),
        max((one.machine_states for one in reports), default=0),
        sum(one.machine_steps for one in reports),
        max((one.memory_mb for one in reports), default=0),
        sum(one.seconds for one in reports),
        stopped[0] if stopped else "",
        worst.finding,
        worst.story,
        worst.words,
        max((one.runs for one in reports), default=1),
    )
