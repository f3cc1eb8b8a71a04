"""Random runs of reliable topics: one number makes a bundle, its clients, what they publish, and what befalls them.

A class says what befalls them beside a bus that loses, repeats, delays and reorders whatever is said on it. By the end
of a run everything is healed and everybody is back who means to come back; then all must drain, and be judged.
"""

from time import perf_counter

from msgspec import Struct

from holdfast.model.errors import HoldfastError
from holdfast.simulation.reliable.author import Author, ReliableClass, WorldFactory
from holdfast.simulation.reliable.checkers import Judgement
from holdfast.simulation.reliable.world import ReliableWorld

PROTOCOL = "narada"
LIMIT_S, ROUNDS_S = 120.0, 1.0


class ReliableOutcome(Struct, frozen=True):
    """What one random run came to, and how to see it again."""

    seed: int
    failure: ReliableClass
    judgement: Judgement | None
    error: str
    replay: str
    messages: int
    events: int
    virtual_s: float
    wall_s: float

    @property
    def ok(self) -> bool:
        return not self.error and self.judgement is not None and self.judgement.ok

    def what(self) -> str:
        if self.error:
            return self.error.split(":")[0][:40]
        return ",".join(self.judgement.faults) if self.judgement else ""

    def complaint(self) -> str:
        return f"{self.error or self.judgement}\nto see it again: {self.replay}"


def replay_command(seed: int, failure: ReliableClass) -> str:
    return f"holdfast campaign --protocol {PROTOCOL} --seeds {seed}..{seed} --faults {failure}"


def run_reliable(
    seed: int, failure: ReliableClass, check_invariants: bool = False, make: WorldFactory = ReliableWorld
) -> ReliableOutcome:
    """Make the random run of that number and judge it."""
    began = perf_counter()
    author = Author(seed, failure, check_invariants, make)
    world, judgement, error = author.world, None, ""
    try:
        author.write()
        world.run_until_drained(LIMIT_S)
        if "away" in author.parts:
            world.bring_back(*sorted(author.away))
            world.run_until_drained(world.kernel.now + LIMIT_S)
        if "retention" in author.parts:
            # What is read a moment ago goes with the next rounds.
            world.run(world.kernel.now + ROUNDS_S)
        judgement = world.check()
    except (HoldfastError, AssertionError, LookupError, TypeError, ValueError, AttributeError) as broken:
        error = f"{type(broken).__name__}: {broken}"
    return ReliableOutcome(
        seed,
        failure,
        judgement,
        error,
        replay_command(seed, failure),
        len(world.history.publications),
        world.kernel.events,
        world.kernel.now,
        perf_counter() - began,
    )
