"""Running the points of an experiment, here or over several processes.

`python -m holdfast.experiments.running JSON` is one of these processes: it reads one point a line and answers each with
its row. Rows come back in the order of their points, whoever ran them, so a report does not depend on the workers.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.cluster.workers import Worker, say, settings_of_this_process, share_out
from holdfast.experiments.experiment import Experiment
from holdfast.experiments.registry import find_experiment

MODULE = "holdfast.experiments.running"
POINT_S = 3600.0
"""How long one point may take on a busy machine."""

OnRow = Callable[[int, Any], None]
"""Called when a point is done: its position, and its row."""


class RunningSettings(Struct, frozen=True):
    """What a process is told when it is started."""

    experiment: str


def run_points(experiment: Experiment, points: Sequence[Any], workers: int, on_row: OnRow) -> list[Any]:
    """The rows of all points, in their order; `on_row` is called with each as soon as it is there."""
    rows: dict[int, Any] = {}

    def done(at: int, row: Any) -> None:
        rows[at] = row
        on_row(at, row)

    if workers == 1 or len(points) <= 1:
        for at, point in enumerate(points):
            done(at, experiment.run(point))
    else:
        asyncio.run(_run_over(experiment, points, min(workers, len(points)), done))
    return [rows[at] for at in range(len(points))]


async def _run_over(experiment: Experiment, points: Sequence[Any], workers: int, done: OnRow) -> None:
    # One iterator for all: whoever is done takes the next point.
    waiting = iter(enumerate(points))

    async def keep_busy(worker: Worker) -> None:
        for at, point in waiting:
            worker.tell(msgspec.json.encode(point).decode())
            said = await worker.report("row", POINT_S)
            done(at, msgspec.convert(said["row"], experiment.row_kind))

    await share_out(MODULE, RunningSettings(experiment.name), workers, keep_busy)


def main() -> None:
    experiment = find_experiment(settings_of_this_process(RunningSettings).experiment)
    for line in sys.stdin:
        point = msgspec.json.decode(line.encode(), type=experiment.point_kind)
        say("row", row=experiment.run(point))


if __name__ == "__main__":
    main()
