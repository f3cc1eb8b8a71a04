"""`holdfast explore`: all states of a small world."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from holdfast.cli.options import AsJson, ProtocolName
from holdfast.cli.output import Advance, note, print_json, print_line, progress
from holdfast.cli.sweeping import LOCAL_MASTER, Master, OnSpark, Sweep, on_spark, sweeping
from holdfast.cluster.exploration import explore_tasks
from holdfast.model.plurals import counted
from holdfast.simulation.exploring.plans import Plan, plan_of, small_plan
from holdfast.simulation.exploring.search import Bounds
from holdfast.simulation.exploring.tasks import Report, Task, joined, run_task
from holdfast.simulation.exploring.worlds import Budget
from holdfast.simulation.scenarios import load_scenario
from holdfast.simulation.sites import REPLICAS_USUALLY

STORY_LINES_MAX = 60


def explore(
    scenario: Annotated[
        Path | None,
        typer.Argument(help="A scenario whose commands and faults may come at any time; without it a world is made."),
    ] = None,
    protocol: ProtocolName = "ginger",
    brokers: Annotated[
        int, typer.Option("--brokers", help="How many brokers, or sites, in a tree with two children each.")
    ] = 2,
    clients: Annotated[int, typer.Option("--clients", help="How many clients, from the leaves of the tree on.")] = 2,
    messages: Annotated[int, typer.Option("--messages", help="How many messages, with all guarantees in turn.")] = 2,
    tolerance: Annotated[
        int, typer.Option("--tolerance", min=0, max=8, help="How many adjacent brokers the tree survives the loss of.")
    ] = 0,
    replicas: Annotated[
        int, typer.Option("--replicas", help="With sites (sesdad): how many brokers each has, 1, 3 or 5.")
    ] = REPLICAS_USUALLY,
    crashes: Annotated[
        int, typer.Option("--crashes", min=0, max=8, help="How many brokers may crash, at any time.")
    ] = 0,
    returns: Annotated[int, typer.Option("--returns", min=0, max=8, help="How many of them may come back.")] = 0,
    resets: Annotated[int, typer.Option("--resets", min=0, max=8, help="How many connections may break.")] = 0,
    freezes: Annotated[
        int, typer.Option("--freezes", min=0, max=8, help="How many brokers may freeze, and go on later.")
    ] = 0,
    cuts: Annotated[
        int, typer.Option("--cuts", min=0, max=8, help="How many neighbours may be cut off from each other for a time.")
    ] = 0,
    early: Annotated[
        int, typer.Option("--early", min=0, max=8, help="How many timers may fire while frames are under way.")
    ] = 0,
    idle: Annotated[
        bool, typer.Option("--idle", help="Acknowledgements and heartbeats arrive in any order, too.")
    ] = False,
    depth: Annotated[int, typer.Option("--depth", min=1, help="Steps from the beginning at most.")] = 100_000,
    states: Annotated[int, typer.Option("--states", min=1, help="States at most, in each process.")] = 100_000_000,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, help="Seconds at most, for each task of a search; 0: no bound.")
    ] = 0,
    memory: Annotated[int, typer.Option("--memory", min=64, help="MB of memory at most, in each process.")] = 8192,
    full: Annotated[
        bool, typer.Option("--full", help="Try all orders, also those that come to the same: to see what is saved.")
    ] = False,
    symmetric: Annotated[
        bool, typer.Option("--symmetric", help="Worlds that differ in the names of clients or brokers alone are one.")
    ] = False,
    workers: Annotated[int, typer.Option("--workers", min=1, max=256, help="How many processes.")] = 1,
    journal: Annotated[
        Path | None, typer.Option("--journal", help="Note there what is done; a search that was stopped resumes there.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the story of a violation there, for `holdfast simulate`.")
    ] = None,
    spark: OnSpark = False,
    master: Master = LOCAL_MASTER,
    as_json: AsJson = False,
) -> None:
    """Visit every state of a small world: every order in which frames can arrive, and every moment of a fault.

    Machines and judges are those of `simulate` and `campaign`. States that are the same are visited once, and orders
    that come to the same are not tried. Time passes when nothing else can happen; acknowledgements and heartbeats
    arrive at once, unless `--idle` is given. Exit code 1 if there is a violation; then its shortest story is told.

    \b
    Examples
      holdfast explore --brokers 2 --clients 2 --messages 2
      holdfast explore --protocol ginger-locks --brokers 3 --clients 2 --messages 2 --out story.toml
      holdfast simulate story.toml
      holdfast explore --brokers 2 --clients 2 --messages 1 --tolerance 1 --crashes 1
      holdfast explore --brokers 3 --clients 3 --messages 3 --workers 2 --journal three.journal
    """
    budget = Budget(crashes, returns, resets, early, freezes, cuts)
    if scenario is not None:
        plan = plan_of(load_scenario(scenario), protocol if protocol != "ginger" else None)
        plan = msgspec.structs.replace(plan, budget=msgspec.structs.replace(plan.budget, early=early))
    else:
        plan = small_plan(protocol, brokers, clients, messages, tolerance, budget, replicas)
    plan = msgspec.structs.replace(plan, idle_frames=idle)
    bounds = Bounds(depth, states, seconds, memory, not full, symmetric=symmetric)
    report = _explored(plan, bounds, workers, journal, master if on_spark(spark, master) else None)
    written = _write(plan, report, out)
    if as_json:
        print_json(_as_dict(plan, report, written))
    else:
        _say(plan, report, written)
    if not report.ok:
        raise typer.Exit(1)


def _explored(plan: Plan, bounds: Bounds, workers: int, journal: Path | None, master: str | None) -> Report:
    if workers == 1 and journal is None and master is None:
        with progress() as advance:
            return run_task(Task(plan, bounds), lambda result: advance("states", result.states, 0))
    with progress() as advance, sweeping(master) if master is not None else nullcontext() as swept:
        run_all = None if swept is None else lambda tasks, done: _as_tasks(swept, tasks, done)
        reports = explore_tasks(plan, bounds, workers, journal, _counting(advance), run_all)
    return joined(reports)


def _counting(advance: Advance) -> Any:
    return lambda done, total: advance("tasks", done, total)


def _as_tasks(swept: Sweep, tasks: list[Task], on_done: Any) -> None:
    swept(run_task, tasks, Report, lambda position, report: on_done(tasks[position], report))


def _write(plan: Plan, report: Report, out: Path | None) -> str:
    if out is None or report.ok:
        return ""
    out.write_text(plan.scenario(report.story).toml())
    return str(out)


def _as_dict(plan: Plan, report: Report, written: str) -> dict[str, Any]:
    figures = {name: getattr(report, name) for name in report.__struct_fields__}
    told = {"ok": report.ok, "complete": report.complete, "protocol": plan.protocol, "tolerance": plan.tolerance}
    return {**told, **figures, "verdict": report.verdict(), "written": written}


def _say(plan: Plan, report: Report, written: str) -> None:
    rate = report.states / report.seconds if report.seconds else 0.0
    print_line(
        f"{plan.protocol}, tolerance {plan.tolerance}: {counted(report.states, 'state')}, "
        f"{counted(report.steps, 'step')}, {report.finals:,} of the states at rest, "
        f"{counted(report.histories, 'history', 'histories')}, at most {counted(report.depth, 'step')} deep"
    )
    print_line(
        f"{counted(report.machine_states, 'state')} of single machines, {counted(report.machine_steps, 'step')} of "
        f"theirs computed; {report.seconds:.1f} s, {rate:,.0f} states a second, {report.memory_mb:,} MB"
    )
    print_line(report.verdict())
    for number, line in enumerate(report.words[:STORY_LINES_MAX], 1):
        print_line(f"{number:4} {line}")
    if len(report.words) > STORY_LINES_MAX:
        print_line(f"     ... and {len(report.words) - STORY_LINES_MAX} more")
    if written:
        note(f"the story is in {written}; `holdfast simulate {written}` plays it again")
