"""`holdfast audit`: the judgement of any run, in memory or on Spark."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.options import AsJson
from holdfast.cli.output import console, note, print_json, print_line, progress, table
from holdfast.model.errors import ConfigError
from holdfast.model.plurals import counted
from holdfast.model.trace import Event
from holdfast.model.verdicts import KINDS, Verdict
from holdfast.simulation.checkers import check
from holdfast.storage.traces import count_lines, read_trace

IN_MEMORY_EVENTS_MAX = 200_000
"""Below this a trace is judged before Spark would have started."""
QUICK_EVENTS_MAX = 12_000_000
"""Below this Java has no time to win back what it spends on compiling well."""
RUNS_SHOWN_MAX = 20
LOCAL_MASTER = "local[*]"


class Engine(StrEnum):
    """Where a trace is judged."""

    AUTO = "auto"
    MEMORY = "memory"
    SPARK = "spark"


def audit(
    trace: Annotated[
        str,
        typer.Argument(help="A trace: a .jsonl or .parquet file, a directory of them, or a URI of Parquet."),
    ],
    engine: Annotated[
        Engine,
        typer.Option("--engine", help=f"auto: in memory below {IN_MEMORY_EVENTS_MAX:,} events, else on Spark."),
    ] = Engine.AUTO,
    master: Annotated[
        str, typer.Option("--master", help="Where Spark runs: local[*] is this machine, spark://host:7077 a cluster.")
    ] = LOCAL_MASTER,
    as_json: AsJson = False,
) -> None:
    """Judge a trace, of real processes or of a simulation: was anything lost, repeated, made up or out of order?

    A trace may hold any number of runs; each is judged by itself. Both engines give the same verdict. Spark takes some
    seconds to start, and any number of events. Exit code 1 if a promise was broken.

    \b
    Examples
      holdfast audit report/trace
      holdfast audit traces/chain --json | jq .ok
      holdfast audit s3a://traces/2026 --engine spark --master spark://host:7077
    """
    verdict, runs = _judged(trace, engine, master)
    several = runs if len(runs) > 1 else {}
    if as_json:
        extra = {"runs": {run: _numbers(one) for run, one in several.items()}} if several else {}
        print_json({**verdict.as_dict(), **extra})
    else:
        print_verdict(verdict)
        _print_runs(several)
    if not verdict.ok:
        raise typer.Exit(1)


def _judged(trace: str, engine: Engine, master: str) -> tuple[Verdict, dict[str, Verdict]]:
    if engine is Engine.MEMORY or (engine is Engine.AUTO and _is_small(trace)):
        return judged_in_memory(_read(trace))
    from holdfast.pipeline.audit import audit as audit_on_spark  # noqa: PLC0415
    from holdfast.pipeline.errors import spoken_plainly  # noqa: PLC0415
    from holdfast.pipeline.session import spark_session  # noqa: PLC0415

    note(f"judging {trace} on Spark ({master})")
    with progress() as advance, spoken_plainly(), spark_session(master, quick=_is_quick(trace)) as spark:
        found = audit_on_spark(spark, trace if "://" in trace else Path(trace), progress=advance)
    return found.verdict, found.runs


def _is_small(trace: str) -> bool:
    return _has_fewer(trace, IN_MEMORY_EVENTS_MAX)


def _is_quick(trace: str) -> bool:
    """Whether a Java that compiles less is through sooner."""
    return _has_fewer(trace, QUICK_EVENTS_MAX)


def _has_fewer(trace: str, limit: int) -> bool:
    """Whether a trace has fewer rows; what lies elsewhere is taken for large."""
    if "://" in trace:
        return False
    if not _is_parquet(trace):
        return count_lines(trace, limit) < limit
    from holdfast.pipeline.trace_frames import count_events  # noqa: PLC0415

    return count_events(trace, limit) < limit


def _read(trace: str) -> list[Event]:
    if "://" in trace:
        raise ConfigError(f"{trace} can only be read by Spark; leave out --engine memory.")
    if not _is_parquet(trace):
        return read_trace(trace)
    from holdfast.pipeline.trace_frames import read_in_memory  # noqa: PLC0415

    return read_in_memory(trace)


def _is_parquet(trace: str) -> bool:
    """Asked here too, because Spark and Arrow take a while to import and lines need neither."""
    path = Path(trace)
    return path.suffix == ".parquet" or (path.is_dir() and any(path.rglob("*.parquet")))


def judged_in_memory(events: list[Event]) -> tuple[Verdict, dict[str, Verdict]]:
    """The verdict over everything, and that of each run."""
    by_run: dict[str, list[Event]] = {}
    for event in events:
        by_run.setdefault(event.run, []).append(event)
    runs = {run: check(rows) for run, rows in sorted(by_run.items())} if len(by_run) > 1 else {}
    return check(events), runs


def _numbers(verdict: Verdict) -> dict[str, Any]:
    return {name: value for name, value in verdict.as_dict().items() if name != "examples"}


def print_verdict(verdict: Verdict) -> None:
    """What was found, as a table, and sentences about some of it."""
    rows = table("What was promised", "", "found")
    rows.add_row("deliveries", f"{verdict.deliveries:,}")
    for kind, count in verdict.faults.items():
        rows.add_row(kind, f"{count:,}", style="red" if count else "")
    console.print(rows)
    for example in verdict.examples:
        print_line(f"  {example}")


def _print_runs(runs: dict[str, Verdict]) -> None:
    if not runs:
        return
    broken = {run: verdict for run, verdict in runs.items() if not verdict.ok}
    print_line(f"{counted(len(runs), 'run')}, {len(broken):,} of them broken")
    if not broken:
        return
    rows = table("Broken runs", "run", "deliveries", *KINDS)
    for run, verdict in list(broken.items())[:RUNS_SHOWN_MAX]:
        rows.add_row(run, f"{verdict.deliveries:,}", *[f"{count:,}" for count in verdict.faults.values()])
    console.print(rows)
    if len(broken) > RUNS_SHOWN_MAX:
        print_line(f"... and {len(broken) - RUNS_SHOWN_MAX:,} more; --json lists all")
