"""`holdfast bench`: how fast Holdfast is on this machine, beside a bare relay and NATS."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from holdfast.cli.options import AsJson
from holdfast.cli.output import console, note, print_json, progress, table
from holdfast.cluster.bench.durable_plan import DurableResult, run_durable_bench
from holdfast.cluster.bench.goals import Reached
from holdfast.cluster.bench.plan import QUICK, BenchPlan, BenchResult, CellResult, run_bench
from holdfast.cluster.bench.scale import ScaleRow, run_scale


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="A first impression: one short repetition of each.")] = False,
    seconds: Annotated[float | None, typer.Option("--seconds", min=0.01, max=600, help="Of each measurement.")] = None,
    repetitions: Annotated[
        int | None, typer.Option("--repetitions", min=1, max=100, help="Of each, interleaved.")
    ] = None,
    only: Annotated[str, typer.Option("--only", help="Those with this text in their title, or 'memory'.")] = "",
    durable: Annotated[
        bool, typer.Option("--durable", help="What is kept: receipts beside bare loops, Redis and JetStream.")
    ] = False,
    scale: Annotated[
        bool, typer.Option("--scale", help="What thousands of connections, subscriptions and filters cost.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure Holdfast beside a bare relay (the floor) and NATS core, all in one run, and say which goals are met.

    A rate counts messages in the application's hands, from the start of the publisher to the last delivery; publisher,
    brokers and subscribers are processes of their own. Latency is measured at a thousand messages a second. Compare
    ratios, not figures: machines have moods. NATS is measured if nats-server and nats-py are installed (make bench).

    With --durable: how many messages a second repositories acknowledge, in memory, written and fsynced, beside a bare
    loop that writes as much in commits of the same size with the same syncs; and beside Redis Streams and JetStream
    with fsync, and JetStream with three replicas, as far as they are installed.

    With --scale: what thousands of connections, subscriptions and content filters cost a broker and a client, each
    figure with its goal. Ten thousand connections need as many file descriptors: see "Scale and limits" in
    docs/operations.md. --only takes the name of a part: connections or filters.

    \b
    Examples
      holdfast bench --quick
      holdfast bench --durable --only fsynced
      holdfast bench --scale --quick
      holdfast bench --json > bench.json
      holdfast bench --only "1 KiB" --seconds 5
    """
    if scale:
        _bench_scale(quick, only, as_json=as_json)
        return
    plan = msgspec.structs.replace(QUICK if quick else BenchPlan(), only=only)
    if seconds is not None:
        plan = msgspec.structs.replace(plan, seconds=seconds)
    if repetitions is not None:
        plan = msgspec.structs.replace(plan, repetitions=repetitions)
    if durable:
        _bench_durable(plan, as_json=as_json)
        return
    with progress() as advance:
        result = asyncio.run(run_bench(plan, advance))
    if as_json:
        print_json(result)
    else:
        _print_result(result)


def _bench_durable(plan: BenchPlan, *, as_json: bool) -> None:
    with progress() as advance:
        result = asyncio.run(run_durable_bench(plan, advance))
    if as_json:
        print_json(result)
        return
    rates = table("Messages kept a second", "", "msg/s", "a commit", "bare loop", "of bare")
    for one in result.cells:
        beside = (f"{one.commit_messages:,.0f}", f"{one.bare_per_s:,.0f}") if one.bare_per_s else ("", "")
        rates.add_row(one.title, f"{one.per_s:,.0f}", *beside, _shown(one.of_bare))
    console.print(rates)
    _print_goals(result.goals)
    for sentence in result.notes:
        note(sentence)
    note(f"medians of {_times(result.cells)}; Python {result.python}, {result.cores} cores")


def _bench_scale(quick: bool, only: str, *, as_json: bool) -> None:
    with progress() as advance:
        result = run_scale(quick, only, advance, lambda row: note(f"{row.label}: {row.figure:,g} {row.unit}"))
    if as_json:
        print_json(result)
        return
    rows = table("Scale", "", "measured", "unit", "goal", "")
    for row in result.rows:
        rows.add_row(row.label, f"{row.figure:,g}", row.unit, row.goal, _verdict(row))
    console.print(rows)
    note(f"{'short measurements; ' if quick else ''}Python {result.python}, {result.cores} cores")


def _verdict(row: ScaleRow) -> str:
    return "" if row.met is None else "[green]met[/]" if row.met else "[red]missed[/]"


def _print_result(result: BenchResult) -> None:
    rates = table("Delivered messages a second", "", "msg/s", "of floor", "of NATS")
    latencies = table("Latency at 1,000 messages a second", "", "p50 ms", "p99 ms", "of floor", "of NATS")
    for one in result.cells:
        ratios = (_shown(one.of_floor), _shown(one.of_nats))
        if one.cell.paced:
            latencies.add_row(one.title, _ms(one.median.p50_us), _ms(one.median.p99_us), *ratios)
        else:
            rates.add_row(one.title, f"{one.median.delivered_per_s:,.0f}", *ratios)
    for rows in (rates, latencies):
        if rows.row_count:
            console.print(rows)
    _print_goals(result.goals)
    for sentence in result.notes:
        note(sentence)
    note(f"medians of {_times(result.cells)}; Python {result.python}, {result.cores} cores")


def _print_goals(reached: list[Reached]) -> None:
    goals = table("Goals", "", "wanted", "ratio", "")
    for one in reached:
        if one.met is not None:
            goals.add_row(one.title, one.wanted, _shown(one.ratio), "[green]met[/]" if one.met else "[red]missed[/]")
    if goals.row_count:
        console.print(goals)


def _times(cells: Sequence[CellResult | DurableResult]) -> str:
    repetitions = max((len(one.samples) for one in cells), default=1)
    return "one repetition" if repetitions == 1 else f"{repetitions} interleaved repetitions"


def _shown(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _ms(micros: float) -> str:
    return f"{micros / 1000:.2f}"
