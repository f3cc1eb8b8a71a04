"""`holdfast experiment`: the experiments of the papers, repeated, as tables and drawings."""

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from holdfast.cli.options import AsJson
from holdfast.cli.output import console, note, print_json, print_line, progress, table
from holdfast.cli.sweeping import LOCAL_MASTER, Master, OnSpark, Sweep, on_spark, sweeping
from holdfast.experiments.experiment import Experiment, ExperimentReport, ReportTable
from holdfast.experiments.registry import EXPERIMENTS, find_experiment
from holdfast.experiments.reports import PAGE, RowLog, cell_text, goal_word, write_report
from holdfast.experiments.running import OnRow, run_points
from holdfast.model.errors import ConfigError

COMPLAINTS_SHOWN_MAX = 10

Runner = Callable[[Experiment, Sequence[Any], OnRow], list[Any]]


def experiment(
    name: Annotated[str, typer.Argument(help=f"Which one: {', '.join(EXPERIMENTS)}.")],
    quick: Annotated[bool, typer.Option("--quick", help="A first impression: few and short runs of each.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write tables (CSV), drawings (SVG), rows and a page into it.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, max=256, help="How many processes.")] = os.cpu_count()
    or 1,
    spark: OnSpark = False,
    master: Master = LOCAL_MASTER,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the rows that an interrupted run left in the directory.")
    ] = False,
    point: Annotated[str, typer.Option("--point", help="Run this point alone, given as JSON, and print its row.")] = "",
    as_json: AsJson = False,
) -> None:
    """Repeat an experiment of the papers, and say where our curves differ from theirs.

    In virtual time (ginger) every run is judged by the checkers; one that broke a promise is left out of the figures,
    and the command that repeats it is printed. The same points give the same rows, whatever the machine. On processes
    of this machine (narada) points run one after the other, and the figures are those of this machine as it is now.
    Exit code 1 if a run broke a promise, or failed.

    \b
    Examples
      holdfast experiment narada --quick
      holdfast experiment ginger --quick
      holdfast experiment ginger --out experiments/ginger --resume
      holdfast experiment ginger --master spark://host:7077
      holdfast experiment ginger --point '{"keys":1,"victims":["1","2"],"seed":3}'
      holdfast experiment locamu --spark --out experiments/locamu
    """
    chosen = find_experiment(name)
    if point:
        _run_one(chosen, point)
        return
    if resume and out is None:
        raise ConfigError("--resume goes on with the rows in a directory; say which with --out.")
    tasks = on_spark(spark, master)
    if tasks and chosen.timed:
        raise ConfigError(f"{name} measures this machine, so its points run here; leave out --spark and --master.")
    with sweeping(master) if tasks else nullcontext() as swept:
        run = _runner(swept, 1 if chosen.timed else workers)
        rows = _all_rows(chosen, chosen.points(quick), out, run, resume=resume)
    report = chosen.report(rows)
    if out is not None:
        write_report(out, report, rows)
    if as_json:
        print_json(_as_dict(chosen, report, len(rows)))
    else:
        _print_report(report)
    if out is not None:
        note(f"everything is in {out}; {out / PAGE} shows it")
    if report.broken:
        raise typer.Exit(1)


def _runner(swept: Sweep | None, workers: int) -> Runner:
    """What runs points: processes, or the tasks of a sweep."""
    if swept is None:
        return lambda chosen, points, on_row: run_points(chosen, points, workers, on_row)

    def run(chosen: Experiment, points: Sequence[Any], on_row: OnRow) -> list[Any]:
        rows: list[Any] = []

        def done(at: int, row: Any) -> None:
            rows.append(row)
            on_row(at, row)

        # Results come in the order of their points.
        swept(chosen.run, points, chosen.row_kind, done)
        return rows

    return run


def _all_rows(chosen: Experiment, points: Sequence[Any], out: Path | None, run: Runner, *, resume: bool) -> list[Any]:
    """The rows of all points in their order, those that are known already and those that are made now."""
    log = RowLog(out, chosen.row_kind, resume) if out is not None else None
    known = {chosen.point_of(row): row for row in log.rows} if log is not None else {}
    left = [point for point in points if point not in known]
    done = [len(points) - len(left)]
    with progress() as advance:

        def on_row(_: int, row: Any) -> None:
            if log is not None:
                log.add(row)
            done[0] += 1
            advance("runs", done[0], len(points))

        made = run(chosen, left, on_row)
    known |= {chosen.point_of(row): row for row in made}
    return [known[point] for point in points]


def _run_one(chosen: Experiment, text: str) -> None:
    try:
        point = msgspec.json.decode(text.encode(), type=chosen.point_kind)
    except msgspec.DecodeError as error:
        raise ConfigError(f"--point {text!r} is no point of {chosen.name}: {error}.") from None
    row = chosen.run(point)
    print_json(row)
    if getattr(row, "complaint", ""):
        raise typer.Exit(1)


def _as_dict(chosen: Experiment, report: ExperimentReport, points: int) -> dict[str, Any]:
    return {
        "ok": not report.broken,
        "experiment": chosen.name,
        "points": points,
        "tables": {one.name: [dict(zip(one.columns, row, strict=True)) for row in one.rows] for one in report.tables},
        "goals": report.goals,
        "claims": report.claims,
        "broken": report.broken,
    }


def _print_report(report: ExperimentReport) -> None:
    for shown in report.tables:
        if shown.rows and not shown.detail:
            console.print(_shown(shown))
    if report.goals:
        goals = table("Goals", "", "wanted", "here", "")
        for one in report.goals:
            goals.add_row(one.title, one.wanted, one.ours, goal_word(one.met))
        console.print(goals)
    if report.remark:
        print_line(report.remark)
    source = report.source
    for claim in report.claims:
        print_line(f"{claim.figure}: {f'as in the {source}' if claim.agrees else f'DIFFERS from the {source}'}")
        print_line(f"  it says: {claim.says}\n  here:    {claim.ours}")
        if claim.why and not claim.agrees:
            print_line(f"  why:     {claim.why}")
    for complaint in report.broken[:COMPLAINTS_SHOWN_MAX]:
        print_line(f"broken: {complaint}")
    if len(report.broken) > COMPLAINTS_SHOWN_MAX:
        print_line(f"... and {len(report.broken) - COMPLAINTS_SHOWN_MAX} more")


def _shown(one: ReportTable) -> Any:
    rows = table(one.title, *one.columns)
    for row in one.rows:
        rows.add_row(*map(cell_text, row))
    return rows
