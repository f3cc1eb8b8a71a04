"""A campaign: one random run in virtual time for every seed, over several processes, each run judged.

`python -m holdfast.cluster.campaign JSON` is one of these processes: it reads `FIRST LAST` and makes the runs of these
seeds, reporting each.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable

import msgspec
from msgspec import Struct

from holdfast.cluster.compiled import environment_with, find_build
from holdfast.cluster.workers import Worker, say, settings_of_this_process, share_out
from holdfast.simulation.reliable.author import ReliableClass
from holdfast.simulation.reliable.swarm import run_reliable
from holdfast.simulation.workloads import CALM, Trouble, run_one

MODULE = "holdfast.cluster.campaign"
CHUNK = 4
CHUNK_S = 600.0
ALONE_MAX = 8
"""So few runs are made in this process: starting others would take longer."""


class Kind(Struct, frozen=True):
    """What kind of runs: of which protocol, with which kinds of faults."""

    protocol: str
    trouble: Trouble = CALM
    reliable: ReliableClass | None = None
    """If it is not a broker protocol that is tried, but reliable topics: what befalls their participants."""

    @property
    def name(self) -> str:
        """The class of failures, if there is one."""
        return self.reliable or self.trouble.failure or ""


class RunResult(Struct, frozen=True):
    """What one run came to; `complaint` and `replay` matter if it is not `ok`."""

    seed: int
    ok: bool
    what: str
    """What kind of fault, in a word or two: `lost`, `causal`, or that of the error that ended the run."""
    complaint: str
    replay: str
    messages: int
    deliveries: int
    events: int


class CampaignTally:
    """What the runs of one kind came to, together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs = self.messages = self.deliveries = self.events = 0
        self.seconds = 0.0
        self.broken: list[RunResult] = []

    def add(self, result: RunResult) -> None:
        self.runs += 1
        self.messages += result.messages
        self.deliveries += result.deliveries
        self.events += result.events
        if not result.ok:
            self.broken.append(result)

    def kinds(self) -> dict[str, int]:
        """How many runs went wrong in which way, most first."""
        return dict(Counter(one.what for one in self.broken).most_common())

    def as_dict(self) -> dict[str, object]:
        """The figures, for JSON."""
        return {
            "runs": self.runs,
            "messages": self.messages,
            "deliveries": self.deliveries,
            "broken": len(self.broken),
            "kinds": self.kinds(),
            "seconds": round(self.seconds, 3),
        }


OnResult = Callable[[RunResult], None]


def run_seed(kind: Kind, seed: int) -> RunResult:
    """Make the run of that seed and judge it."""
    if kind.reliable is not None:
        return _run_reliable(kind.reliable, seed)
    outcome = run_one(seed, kind.protocol, kind.trouble)
    return RunResult(
        seed,
        outcome.ok,
        outcome.what(),
        "" if outcome.ok else outcome.complaint(),
        outcome.replay,
        outcome.messages,
        outcome.verdict.deliveries if outcome.verdict else 0,
        outcome.events,
    )


def _run_reliable(failure: ReliableClass, seed: int) -> RunResult:
    outcome = run_reliable(seed, failure)
    return RunResult(
        seed,
        outcome.ok,
        outcome.what(),
        "" if outcome.ok else outcome.complaint(),
        outcome.replay,
        outcome.messages,
        outcome.judgement.releases if outcome.judgement else 0,
        outcome.events,
    )


def run_campaign(kind: Kind, seeds: range, workers: int, on_result: OnResult) -> None:
    """Make all runs, in no particular order; `on_result` is called with each.

    Other processes use the compiled build if there is one; so a few runs, as in a replay, are those of the sources.
    """
    build = find_build()
    if len(seeds) <= ALONE_MAX or (workers == 1 and build is None):
        for seed in seeds:
            on_result(run_seed(kind, seed))
        return
    asyncio.run(_run_over(kind, seeds, min(workers, len(seeds)), on_result, environment_with(build)))


async def _run_over(
    kind: Kind, seeds: range, workers: int, on_result: OnResult, environment: dict[str, str] | None
) -> None:
    # One iterator for all: whoever is done takes the next seeds.
    chunks = iter(seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK))

    async def keep_busy(worker: Worker) -> None:
        for chunk in chunks:
            worker.tell(f"{chunk[0]} {chunk[-1]}")
            await worker.report("idle", CHUNK_S, lambda said: on_result(msgspec.convert(said["result"], RunResult)))

    await share_out(MODULE, kind, workers, keep_busy, environment)


def main() -> None:
    kind = settings_of_this_process(Kind)
    for line in sys.stdin:
        first, last = map(int, line.split())
        for seed in range(first, last + 1):
            say("result", result=run_seed(kind, seed))
        say("idle")


if __name__ == "__main__":
    main()
