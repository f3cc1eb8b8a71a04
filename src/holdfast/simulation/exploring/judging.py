"""The judges of an explored world: the checkers of every simulated run, asked once for each different history.

What the checkers read follows from two things: the rows of each client, in their order, and the order of those rows of
different clients whose times the checkers compare (`ledger.VISIBLE`). Worlds that agree in both have one verdict.
"""

from holdfast.model.trace import Event, Recorder
from holdfast.simulation.checkers import Verdict, check
from holdfast.simulation.exploring.ledger import VISIBLE
from holdfast.simulation.exploring.worlds import Stage, World

CALM_S = 1.0
"""Virtual time without any business after which a world is at rest."""
PATIENCE_S = 90.0
"""Virtual time without any progress after which a world will make none: no client got anything, nobody commanded."""
STEP_NS = 1_000_000
"""Rows that follow each other are so far apart in the trace of an explored world."""


class Judge:
    """Remembers what it said of each history."""

    def __init__(self) -> None:
        self._said: dict[tuple[object, ...], Verdict] = {}

    @property
    def histories(self) -> int:
        """How many different histories were judged."""
        return len(self._said)

    def complaint(self, stage: Stage, world: World) -> str:
        """What is wrong with a world that is at rest; empty if nothing is."""
        waits = stage.waits(world)
        if waits:
            return f"it does not come to rest: {'; '.join(waits)}"
        if world.now - world.progress_s >= PATIENCE_S:
            return "it does not come to rest: frames go round, though nobody waits for anything"
        verdict = self._verdict(stage, world)
        return _words(verdict) or "; ".join(self._failures(stage, world))

    def complaint_so_far(self, stage: Stage, world: World) -> str:
        """What can never be right again, whatever comes.

        A message that is missing may still arrive, and the subscription of one that nobody seems to want may still be
        confirmed.
        """
        verdict = self._verdict(stage, world)
        final = any(count for kind, count in verdict.faults.items() if kind not in ("lost", "created"))
        return _words(verdict) if final else ""

    def _verdict(self, stage: Stage, world: World) -> Verdict:
        key = (world.owed, *(stage.row_numbers(world, name) for name in stage.clients))
        said = self._said.get(key)
        if said is None:
            said = self._said[key] = check(events_of(stage, world))
        return said

    def _failures(self, stage: Stage, world: World) -> list[str]:
        states = [stage.state(world, name) for name in stage.clients]
        return [failure for state in states if state is not None for failure in state.failures]


def _words(verdict: Verdict) -> str:
    faults = ", ".join(f"{count} {kind}" for kind, count in verdict.faults.items() if count)
    return f"{faults}: {'; '.join(verdict.examples)}" if faults else ""


def events_of(stage: Stage, world: World) -> list[Event]:
    """The trace of a world. Times are places in the order of the visible rows."""
    visible: dict[str, list[int]] = {}
    crossed: list[Event] = []
    for place, (host, number) in enumerate(world.order, 1):
        row = stage.ledger.rows[number]
        if host in stage.clients:
            visible.setdefault(host, []).append(place)
        else:
            crossed += Recorder("explored", host).record(place * STEP_NS, row.event, row.batch)
    events: list[Event] = []
    for name in stage.clients:
        state = stage.state(world, name)
        if state is None:
            continue
        recorder, places, now = Recorder("explored", name), iter(visible.get(name, ())), 0
        for row in state.rows:
            if row.event in VISIBLE:
                now = next(places) * STEP_NS
            events += recorder.record(
                now, row.event, row.batch, row.pattern, row.where, row.peer, row.detail, row.overhead, row.seq
            )
    return events + crossed
