"""A search through a small world, divided over several processes; a journal of what is done lets it be resumed.

`python -m holdfast.cluster.exploration JSON` is one of these processes: it reads tasks, one a line, and reports each.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.cluster.workers import Worker, say, share_out
from holdfast.model.errors import ConfigError
from holdfast.simulation.exploring.plans import Plan
from holdfast.simulation.exploring.search import Bounds
from holdfast.simulation.exploring.tasks import Report, Task, divided, run_task

MODULE = "holdfast.cluster.exploration"
TASKS_PER_WORKER = 16
"""More than one, since tasks are not equally large; few, since a state that two of them reach is visited twice."""
TASK_S_MAX = 7 * 24 * 3600.0

OnReport = Callable[[int, int], None]
"""Called with the number of tasks that are done, and of all."""


class Entry(Struct, frozen=True):
    """A line of the journal: the steps before the search of a task, and what it has seen."""

    plan: Plan
    steps: tuple[str, ...]
    report: Report


def explore_tasks(
    plan: Plan,
    bounds: Bounds,
    workers: int,
    journal: Path | None,
    on_report: OnReport,
    run_all: "Callable[[list[Task], Callable[[Task, Report], None]], None] | None" = None,
) -> list[Report]:
    """Search a plan in tasks, over so many processes or as `run_all` runs them, but for those of the journal."""
    known = {entry.steps: entry.report for entry in read_journal(journal, plan)} if journal is not None else {}
    tasks = divided(plan, bounds, TASKS_PER_WORKER * workers)
    reports = [known[task.steps] for task in tasks if task.steps in known]
    left = [task for task in tasks if task.steps not in known]

    def on_done(task: Task, report: Report) -> None:
        reports.append(report)
        if journal is not None and (report.complete or report.finding):
            # A search that a bound stopped is made again, perhaps with another bound.
            with journal.open("ab") as lines:
                lines.write(msgspec.json.encode(Entry(plan, task.steps, report)) + b"\n")
        on_report(len(reports), len(tasks))

    if journal is not None and journal.exists() and not journal.read_bytes().endswith(b"\n"):
        # The line that was being written when the search was stopped.
        with journal.open("ab") as lines:
            lines.write(b"\n")
    on_report(len(reports), len(tasks))
    if left:
        (run_all or _over(workers))(left, on_done)
    return reports


def read_journal(journal: Path, plan: Plan) -> list[Entry]:
    """What is done, if there is a journal; it must be of the same plan. A last line that was cut off is passed over."""
    if not journal.exists():
        return []
    entries = []
    for line in journal.read_bytes().splitlines():
        try:
            entry = msgspec.json.decode(line, type=Entry)
        except msgspec.DecodeError:
            continue
        if entry.plan != plan:
            raise ConfigError(f"the journal {journal} is of another world; name another file, or remove it.")
        entries.append(entry)
    return entries


def _over(workers: int) -> Callable[[list[Task], Callable[[Task, Report], None]], None]:
    def run_all(tasks: list[Task], on_done: Callable[[Task, Report], None]) -> None:
        asyncio.run(_share(tasks, min(workers, len(tasks)), on_done))

    return run_all


async def _share(tasks: list[Task], workers: int, on_done: Callable[[Task, Report], None]) -> None:
    waiting = iter(tasks)

    async def keep_busy(worker: Worker) -> None:
        for task in waiting:
            worker.tell(msgspec.json.encode(task).decode())
            said = await worker.report("done", TASK_S_MAX)
            on_done(task, msgspec.convert(said["report"], Report))

    await share_out(MODULE, {}, workers, keep_busy)


def main() -> None:
    for line in sys.stdin:
        say("done", report=run_task(msgspec.json.decode(line, type=Task)))


if __name__ == "__main__":
    main()
