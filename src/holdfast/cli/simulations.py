"""`holdfast simulate`, `campaign`, `audit` and `protocols`: runs in virtual time, and the judgement of any run."""

import os
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, get_args

import typer

from holdfast.cli.options import AsJson, ProtocolName, parse_seeds
from holdfast.cli.output import console, note, print_json, print_line, progress, table
from holdfast.cluster.campaign import Kind, Result, run_campaign
from holdfast.model.errors import ConfigError
from holdfast.model.guarantees import GUARANTEES
from holdfast.protocols.registry import PROTOCOLS, find_protocol
from holdfast.simulation.checkers import Verdict, check
from holdfast.simulation.scenarios import load_scenario
from holdfast.simulation.workloads import FaultKind
from holdfast.simulation.world import Simulation
from holdfast.storage.traces import read_trace, write_trace

COMPLAINTS_SHOWN_MAX = 10


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


def _print_run(sim: Simulation, name: str, verdict: Verdict, complaints: list[str], written: str) -> None:
    print_line(
        f"{name}: {sim.protocol}, seed {sim.seed}, {len(sim.tree)} brokers, {len(sim.clients)} clients; "
        f"{sim.now:.3f} s of virtual time, {sim.kernel.events:,} events in {sim.wall_s:.2f} s"
    )
    _print_verdict(verdict)
    for complaint in complaints:
        print_line(f"not as expected: {complaint}")
    if written:
        note(f"the trace is in {written}")


def _print_verdict(verdict: Verdict) -> None:
    rows = table("What was promised", "", "found")
    rows.add_row("deliveries", f"{verdict.deliveries:,}")
    for kind, count in verdict.faults.items():
        rows.add_row(kind, f"{count:,}", style="red" if count else "")
    console.print(rows)
    for example in verdict.examples:
        print_line(f"  {example}")


def audit(
    trace: Annotated[Path, typer.Argument(help="A trace: a .jsonl file, or a directory of them.")],
    as_json: AsJson = False,
) -> None:
    """Judge a trace, of real processes or of a simulation: was anything lost, repeated, made up or out of order?

    Exit code 1 if a promise was broken.

    \b
    Examples
      holdfast audit report/trace
      holdfast audit traces/chain --json | jq .ok
    """
    verdict = check(read_trace(trace))
    if as_json:
        print_json(verdict.as_dict())
    else:
        _print_verdict(verdict)
    if not verdict.ok:
        raise typer.Exit(1)


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
        typer.Option("--fault", help=f"A kind of fault: {', '.join(get_args(FaultKind))}. Repeatable."),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, max=256, help="How many processes.")] = os.cpu_count()
    or 1,
    as_json: AsJson = False,
) -> None:
    """Make random runs in virtual time, one for each seed, and judge each.

    A run is a random tree, clients, topics, keys, guarantees and subscriptions that come and go, and random faults if
    kinds of them are named. For every run that broke a promise the command that repeats it is printed. Exit code 1 if
    there is any.

    \b
    Examples
      holdfast campaign --seeds 1..2000
      holdfast campaign --protocol ginger --seeds 42 --fault reset
    """
    find_protocol(protocol)
    kind, numbers = Kind(protocol, _fault_kinds(faults or [])), parse_seeds(seeds)
    began = monotonic()
    broken: list[Result] = []
    totals = {"runs": 0, "messages": 0, "deliveries": 0, "events": 0}
    with progress() as advance:

        def on_result(result: Result) -> None:
            totals["runs"] += 1
            totals["messages"] += result.messages
            totals["deliveries"] += result.deliveries
            totals["events"] += result.events
            if not result.ok:
                broken.append(result)
            advance("runs", totals["runs"], len(numbers))
            advance("broken", len(broken), len(numbers))

        run_campaign(kind, numbers, workers, on_result)
    _say_campaign(protocol, sorted(broken, key=lambda one: one.seed), totals, monotonic() - began, as_json=as_json)
    if broken:
        raise typer.Exit(1)


def _fault_kinds(names: list[str]) -> tuple[FaultKind, ...]:
    legal: tuple[FaultKind, ...] = get_args(FaultKind)
    for name in names:
        if name not in legal:
            raise ConfigError(f"--fault {name!r} is no kind of fault; choose among {', '.join(legal)}.")
    return tuple(kind for kind in legal if kind in names)


def _say_campaign(
    protocol: str, broken: list[Result], totals: dict[str, int], seconds: float, *, as_json: bool
) -> None:
    if as_json:
        violations = [{"seed": one.seed, "complaint": one.complaint, "replay": one.replay} for one in broken]
        result: dict[str, Any] = {"ok": not broken, "protocol": protocol, **totals, "seconds": round(seconds, 3)}
        print_json({**result, "violations": violations})
        return
    for one in broken[:COMPLAINTS_SHOWN_MAX]:
        print_line(f"seed {one.seed}: {one.complaint}")
    if len(broken) > COMPLAINTS_SHOWN_MAX:
        print_line(f"... and {len(broken) - COMPLAINTS_SHOWN_MAX} more")
    print_line(
        f"{protocol}: {totals['runs']:,} runs, {totals['messages']:,} publications, "
        f"{totals['deliveries']:,} deliveries, {totals['events']:,} events in {seconds:.1f} s: {len(broken)} broken"
    )
