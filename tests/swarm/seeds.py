"""How many random runs a swarm test makes, and which: SWARM_RUNS and SWARM_FIRST say otherwise."""

import os
from collections.abc import Iterator

from holdfast.simulation.workloads import CALM, Trouble, run_one

RUNS = int(os.environ.get("SWARM_RUNS") or 1000)
"""What the suite makes at every landing. Each rule has a scenario of its own; `make swarm` and `make night` look for
what is rarer than one in a thousand."""
FIRST = int(os.environ.get("SWARM_FIRST") or 1)
CHUNK = 25
CHECKED_EVERY = 3
"""Checking every invariant behind every event nearly doubles the time of a run: one run of three does."""


def chunks(runs: int) -> list[range]:
    """The seeds in portions that can be spread over workers."""
    end = FIRST + runs
    return [range(start, min(start + CHUNK, end)) for start in range(FIRST, end, CHUNK)]


def name(seeds: range) -> str:
    return f"{seeds.start}..{seeds.stop - 1}"


def complaints(seeds: range, trouble: Trouble = CALM, protocol: str = "ginger", checked: bool = True) -> Iterator[str]:
    """What went wrong in each run that did, with the one command that repeats it. `checked`: invariants, too."""
    for seed in seeds:
        invariants = checked and (len(seeds) == 1 or seed % CHECKED_EVERY == 0)
        outcome = run_one(seed, protocol, trouble, check_invariants=invariants)
        if not outcome.ok:
            yield f"seed {seed}: {outcome.complaint()}"
