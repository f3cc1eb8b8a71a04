"""`holdfast night`: a campaign over everything, for hours."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.options import AsJson
from holdfast.cli.output import console, note, print_json, print_line, table
from holdfast.cli.sweeping import LOCAL_MASTER, Master, OnSpark, Sweep, on_spark, sweeping
from holdfast.cluster.campaign import Kind, RunResult, run_seed
from holdfast.cluster.compiled import is_outdated
from holdfast.cluster.nights import BLOCK, Night, NightRow, NightTable, commit_of, kinds, over_processes
from holdfast.model.plurals import counted


def night(
    hours: Annotated[float, typer.Option("--hours", min=0, help="How long; the runs under way are finished.")] = 8.0,
    protocols: Annotated[
        list[str] | None, typer.Option("--protocol", "-p", help="Only this protocol. Repeatable; all if none is named.")
    ] = None,
    directory: Annotated[
        Path, typer.Option("--dir", help="Where the table of nights is, and the scenarios of broken runs.")
    ] = Path("nights"),
    block: Annotated[int, typer.Option("--block", min=1, help="Runs of each kind in a round.")] = BLOCK,
    workers: Annotated[int, typer.Option("--workers", min=1, max=256, help="How many processes.")] = os.cpu_count()
    or 1,
    show: Annotated[bool, typer.Option("--show", help="Make no runs: print the table.")] = False,
    spark: OnSpark = False,
    master: Master = LOCAL_MASTER,
    as_json: AsJson = False,
) -> None:
    """Make random runs of every protocol, class of failures and tolerance in turn, for as many hours as there are.

    Seeds go on where the table of nights ends: no run is made twice, and a night that was interrupted goes on. The
    table says what was run on which commit. A broken run is made small and kept as a scenario. Exit code 1 if there
    was any.

    \b
    Examples
      holdfast night --hours 8
      holdfast night --protocol ginger --hours 1 --master spark://host:7077
      holdfast night --show
    """
    rows, every = NightTable(directory / "table.jsonl"), kinds(protocols or [])
    broken = 0
    if not show:
        if is_outdated():
            note("the compiled build is one of other sources, and is not used; `make fast` makes a new one")
        with sweeping(master) if on_spark(spark, master) else nullcontext() as swept:
            make_runs = over_processes(workers) if swept is None else partial(_as_tasks, swept)
            made = Night(rows, commit_of(Path.cwd()), directory / "found", make_runs, _say, block)
            broken = made.run(every, hours * 3600)
    _print(rows, as_json=as_json)
    if broken:
        raise typer.Exit(1)


def _as_tasks(swept: Sweep, kind: Kind, seeds: range, on_result: Callable[[RunResult], None]) -> None:
    swept(partial(run_seed, kind), seeds, RunResult, lambda _, result: on_result(result))


def _say(row: NightRow, kept: list[Path]) -> None:
    runs = f"{counted(row.runs, 'run')} from seed {row.first} on"
    note(f"{row.kind}: {runs}, {len(row.broken)} broken, {row.seconds:.0f} s")
    for path in kept:
        note(f"  {path} is how to see it again")


def _print(rows: NightTable, *, as_json: bool) -> None:
    summary = rows.summary()
    if as_json:
        names = ("commit", "kind", "runs", "deliveries", "broken")
        told: list[dict[str, Any]] = [dict(zip(names, one, strict=True)) for one in summary]
        print_json({"rows": told, "runs": sum(one[2] for one in summary), "broken": sum(one[4] for one in summary)})
        return
    shown = table("Nights", "commit and kind", "runs", "deliveries", "broken")
    for commit, kind, runs, deliveries, broken in summary:
        shown.add_row(f"{commit} {kind}", f"{runs:,}", f"{deliveries:,}", f"{broken:,}", style="red" if broken else "")
    console.print(shown)
    print_line(
        f"{counted(sum(one[2] for one in summary), 'run')} in all nights, {sum(one[4] for one in summary)} broken"
    )
