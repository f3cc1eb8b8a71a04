"""`holdfast simulate`, `campaign` and `protocols`: runs in virtual time."""

import os
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, get_args

import typer
from msgspec.structs import replace

from holdfast.cli.audits import print_verdict
from holdfast.cli.options import AsJson, ProtocolName, parse_seeds
from holdfast.cli.output import console, note, print_json, print_line, progress, table
from holdfast.cli.sweeping import LOCAL_MASTER, Master, OnSpark, Sweep, on_spark, sweeping
from holdfast.cluster.campaign import CampaignTally, Kind, OnResult, RunResult, run_campaign, run_seed
from holdfast.cluster.compiled import is_outdated
from holdfast.model.errors import ConfigError
from holdfast.model.guarantees import GUARANTEES
from holdfast.model.plurals import counted
from holdfast.model.verdicts import Verdict
from holdfast.protocols.registry import PROTOCOLS, find_protocol
from holdfast.simulation.checkers import check
from holdfast.simulation.exploring.stories import play
from holdfast.simulation.failures import FAILURE_CLASSES, MOVING, FailureClass, classes_for, tolerance_min
from holdfast.simulation.reliable.author import RELIABLE_CLASSES, ReliableClass
from holdfast.simulation.reliable.swarm import PROTOCOL as NARADA
from holdfast.simulation.scenarios import Scenario, load_scenario
from holdfast.simulation.workloads import FaultKind, Trouble
from holdfast.simulation.world import Simulation
from holdfast.storage.traces import write_trace

COMPLAINTS_SHOWN_MAX = 10
PERCENT_MAX = 100


def simulate(
    scenario: Annotated[Path, typer.Argument(help="A TOML timetable of workload and faults.")],
    protocol: Annotated[
        str | None, typer.Option("--protocol", "-p", help="Another protocol than the scenario's own.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", "-s", help="Another seed than the scenario's own.")] = None,
    trace: Annotated[Path | None, typer.Option("--trace", "-t", help="Write the trace into this directory.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a scenario in virtual time and judge what came of it. One seed gives one run, to the byte.

    Exit code 1 if a promise was broken, or if the scenario's own protocol does not do what the scenario expects.

    \b
    Examples
      holdfast simulate examples/scenarios/chain.toml
      holdfast simulate examples/scenarios/chain.toml --seed 7 --trace traces/chain --json
    """
    if protocol is not None:
        find_protocol(protocol)
    timetable = load_scenario(scenario)
    if timetable.steps:
        _play(timetable, protocol, trace, as_json=as_json)
        return
    sim = timetable.build(protocol, seed)
    sim.run_until_quiet(timetable.limit_s)
    verdict = sim.check()
    complaints = timetable.complaints(sim, verdict) if protocol in (None, timetable.protocol) else []
    written = str(write_trace(trace, sim.events)) if trace is not None else ""
    result = {
        "scenario": timetable.name,
        "protocol": sim.protocol,
        "seed": sim.seed,
        "brokers": len(sim.tree),
        "virtual_s": round(sim.now, 6),
        "events": sim.kernel.events,
        **verdict.as_dict(),
        "complaints": complaints,
        "trace": written,
    }
    if as_json:
        print_json(result)
    else:
        _print_run(sim, timetable.name, verdict, complaints, written)
    if not verdict.ok or complaints:
        raise typer.Exit(1)


def _play(timetable: Scenario, protocol: str | None, trace: Path | None, *, as_json: bool) -> None:
    """Take the steps that `holdfast explore` wrote down."""
    played = play(timetable, protocol)
    verdict = check(played.events)
    written = str(write_trace(trace, played.events)) if trace is not None else ""
    if as_json:
        told = {"scenario": timetable.name, "protocol": protocol or timetable.protocol, "steps": played.steps}
        print_json(
            {**told, **verdict.as_dict(), "complaints": [played.complaint] * bool(played.complaint), "trace": written}
        )
    else:
        print_line(f"{timetable.name}: {protocol or timetable.protocol}, {counted(played.steps, 'step')}")
        print_verdict(verdict)
        if played.complaint:
            print_line(played.complaint)
        if written:
            note(f"the trace is in {written}")
    if played.complaint or not verdict.ok:
        raise typer.Exit(1)


def _print_run(sim: Simulation, name: str, verdict: Verdict, complaints: list[str], written: str) -> None:
    print_line(
        f"{name}: {sim.protocol}, seed {sim.seed}, {counted(len(sim.tree), 'broker')}, "
        f"{counted(len(sim.clients), 'client')}; "
        f"{sim.now:.3f} s of virtual time, {counted(sim.kernel.events, 'event')} in {sim.wall_s:.2f} s"
    )
    print_verdict(verdict)
    for complaint in complaints:
        print_line(f"not as expected: {complaint}")
    if written:
        note(f"the trace is in {written}")


def protocols(as_json: AsJson = False) -> None:
    """List the protocols: which guarantees each gives, and which faults it survives.

    \b
    Example
      holdfast protocols --json
    """
    if as_json:
        print_json(
            [
                {
                    "name": info.name,
                    "summary": info.summary,
                    "guarantees": [GUARANTEES[rank] for rank in info.guarantees],
                    "tolerance": info.tolerance,
                }
                for info in PROTOCOLS.values()
            ]
        )
        return
    rows = table("Protocols", "protocol", *GUARANTEES, "tolerates")
    for info in PROTOCOLS.values():
        marks = ["yes" if guarantee.rank in info.guarantees else "-" for guarantee in GUARANTEES]
        rows.add_row(info.name, *marks, info.tolerance)
    console.print(rows)
    for info in PROTOCOLS.values():
        print_line(f"{info.name}: {info.summary}")


# ------------------------------------------------------------------------------------------------------- campaigns


def campaign(
    protocol: ProtocolName = "ginger",
    seeds: Annotated[str, typer.Option("--seeds", "-s", help="One seed, or A..B for all from A to B.")] = "1..200",
    faults: Annotated[
        list[str] | None,
        typer.Option("--fault", help=f"What befalls links in each run: {', '.join(get_args(FaultKind))}. Repeatable."),
    ] = None,
    failures: Annotated[
        str,
        typer.Option(
            "--faults",
            help=f"Classes of broker failures, by commas: {', '.join(FAILURE_CLASSES)}, or all. With locamu: absent; "
            "with delta-neighbourhood: away; with sesdad also designated, chosen and majority.",
        ),
    ] = "",
    tolerance: Annotated[
        int,
        typer.Option("--tolerance", min=0, max=8, help="How many adjacent brokers the tree survives the loss of."),
    ] = 0,
    degree_max: Annotated[
        int,
        typer.Option("--degree-max", min=0, help="Neighbours that a broker keeps; it moves children beyond that."),
    ] = 0,
    totals: Annotated[
        str, typer.Option("--totals", help="Share of total messages in percent, A..B: each run draws its own from it.")
    ] = "",
    workers: Annotated[int, typer.Option("--workers", min=1, max=256, help="How many processes.")] = os.cpu_count()
    or 1,
    spark: OnSpark = False,
    master: Master = LOCAL_MASTER,
    as_json: AsJson = False,
) -> None:
    """Make random runs in virtual time, one for each seed, and judge each.

    A run is a random tree, clients, topics, keys, guarantees and subscriptions that come and go. With `--faults` every
    seed is run once for each class of failures, and the tree has to repair itself. For every run that broke a promise,
    or did not come to rest, the command that repeats it is printed. Exit code 1 if there is any.

    With `--protocol narada` it is the participants of reliable topics that are tried, on a bus that loses, repeats and
    reorders whatever is said; its classes of failures are its own.

    \b
    Examples
      holdfast campaign --seeds 1..2000
      holdfast campaign --protocol ginger --seeds 42 --fault reset
      holdfast campaign --faults crash,root,two --tolerance 1 --seeds 1..1000
      holdfast campaign --faults all --tolerance 2 --totals 5..70 --seeds 1..1000
      holdfast campaign --seeds 1..1000000 --master spark://host:7077
      holdfast campaign --protocol narada --faults all --seeds 1..100
    """
    kinds, numbers = _kinds(protocol, faults or [], failures, tolerance, degree_max), parse_seeds(seeds)
    if totals and protocol == NARADA:
        raise ConfigError(f"--protocol {NARADA} has no --totals: reliable topics know no total order.")
    if totals:
        kinds = [replace(kind, trouble=replace(kind.trouble, totals=_shares(totals))) for kind in kinds]
    tallies = []
    with progress() as advance, sweeping(master) if on_spark(spark, master) else nullcontext() as swept:
        if is_outdated():
            note("the compiled build is one of other sources, and is not used; `make fast` makes a new one")
        for kind in kinds:
            tally = CampaignTally(kind.name)
            tallies.append(tally)
            began = monotonic()

            def on_result(result: RunResult, tally: CampaignTally = tally) -> None:
                tally.add(result)
                done, broken = sum(one.runs for one in tallies), sum(len(one.broken) for one in tallies)
                advance("runs", done, len(numbers) * len(kinds))
                advance("broken", broken, len(numbers) * len(kinds))

            _make_runs(kind, numbers, swept or workers, on_result)
            tally.seconds = monotonic() - began
    _say_campaign(protocol, tallies, as_json=as_json)
    if any(tally.broken for tally in tallies):
        raise typer.Exit(1)


def _shares(text: str) -> tuple[int, int]:
    least, _, most = text.partition("..")
    if not (least.isdecimal() and most.isdecimal() and int(least) <= int(most) <= PERCENT_MAX):
        raise ConfigError(f"--totals takes two percentages, as in 5..70; got {text!r}.")
    return int(least), int(most)


def _make_runs(kind: Kind, seeds: range, how: Sweep | int, on_result: OnResult) -> None:
    """As tasks of a sweep, or over so many processes."""
    if isinstance(how, int):
        run_campaign(kind, seeds, how, on_result)
    else:
        how(partial(run_seed, kind), seeds, RunResult, lambda _, result: on_result(result))


def _kinds(protocol: str, faults: list[str], failures: str, tolerance: int, degree_max: int) -> list[Kind]:
    if protocol == NARADA:
        if faults or tolerance or degree_max:
            raise ConfigError(
                f"--protocol {NARADA} has no --fault, --tolerance or --degree-max: its bus always loses; say --faults."
            )
        return [Kind(protocol, reliable=failure) for failure in _reliable_classes(failures)]
    find_protocol(protocol)
    return [Kind(protocol, trouble) for trouble in _troubles(protocol, faults, failures, tolerance, degree_max)]


def _reliable_classes(text: str) -> list[ReliableClass]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in (*RELIABLE_CLASSES, "all"):
            raise ConfigError(f"--faults {name!r} is no class of {NARADA}; choose among {', '.join(RELIABLE_CLASSES)}.")
    return [name for name in RELIABLE_CLASSES if name in names or "all" in names or not names]


def _troubles(protocol: str, faults: list[str], failures: str, tolerance: int, degree_max: int) -> list[Trouble]:
    kinds = _fault_kinds(faults)
    classes = _failure_classes(protocol, failures, tolerance)
    if failures == "all" and not degree_max:
        classes = [name for name in classes if name not in MOVING]
    elif failures == "all":
        classes = [name for name in classes if name != "partition"]
    found = [Trouble(kinds, failure, tolerance, degree_max) for failure in classes]
    if find_protocol(protocol).sited:
        # Its tolerance is in the number of a site's brokers.
        return found or [Trouble(kinds)]
    for trouble in found:
        trouble.check()
    return found or [Trouble(kinds, None, tolerance, degree_max)]


def _failure_classes(protocol: str, text: str, tolerance: int) -> list[FailureClass]:
    legal = classes_for(protocol)
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["all"]:
        return [name for name in legal if tolerance_min(protocol, name) <= tolerance]
    for name in names:
        if name not in legal:
            raise ConfigError(
                f"--faults {name!r} is no class of failures for {protocol}; choose among {', '.join(legal) or 'none'}."
            )
    return [name for name in legal if name in names]


def _fault_kinds(names: list[str]) -> tuple[FaultKind, ...]:
    legal: tuple[FaultKind, ...] = get_args(FaultKind)
    for name in names:
        if name not in legal:
            raise ConfigError(f"--fault {name!r} is no kind of fault; choose among {', '.join(legal)}.")
    return tuple(kind for kind in legal if kind in names)


def _say_campaign(protocol: str, tallies: list[CampaignTally], *, as_json: bool) -> None:
    broken = [one for tally in tallies for one in sorted(tally.broken, key=lambda one: one.seed)]
    totals = {
        "runs": sum(tally.runs for tally in tallies),
        "messages": sum(tally.messages for tally in tallies),
        "deliveries": sum(tally.deliveries for tally in tallies),
        "events": sum(tally.events for tally in tallies),
    }
    seconds = sum(tally.seconds for tally in tallies)
    if as_json:
        violations = [{"seed": one.seed, "complaint": one.complaint, "replay": one.replay} for one in broken]
        result: dict[str, Any] = {"ok": not broken, "protocol": protocol, **totals, "seconds": round(seconds, 3)}
        classes = {tally.name: tally.as_dict() for tally in tallies if tally.name}
        print_json({**result, **({"classes": classes} if classes else {}), "violations": violations})
        return
    for one in broken[:COMPLAINTS_SHOWN_MAX]:
        print_line(f"seed {one.seed}: {one.complaint}")
    if len(broken) > COMPLAINTS_SHOWN_MAX:
        print_line(f"... and {len(broken) - COMPLAINTS_SHOWN_MAX} more")
    if any(tally.name for tally in tallies):
        _print_classes(tallies)
    print_line(
        f"{protocol}: {counted(totals['runs'], 'run')}, {counted(totals['messages'], 'publication')}, "
        f"{counted(totals['deliveries'], 'delivery', 'deliveries')}, {counted(totals['events'], 'event')} "
        f"in {seconds:.1f} s: {len(broken)} broken"
    )


def _print_classes(tallies: list[CampaignTally]) -> None:
    rows = table("By class of failures", "class", "runs", "publications", "deliveries", "broken", "of which")
    for tally in tallies:
        kinds = ", ".join(f"{what} {count}" for what, count in tally.kinds().items())
        rows.add_row(
            tally.name,
            f"{tally.runs:,}",
            f"{tally.messages:,}",
            f"{tally.deliveries:,}",
            f"{len(tally.broken):,}",
            kinds,
            style="red" if tally.broken else "",
        )
    console.print(rows)
