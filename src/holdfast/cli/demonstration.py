"""`holdfast demo`: the bank workload on real processes, and the proof that nothing went wrong."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson
from holdfast.cli.output import console, note, print_json, print_line, progress, table
from holdfast.cluster.config import load_cluster
from holdfast.cluster.demo import INTERVAL_MS, OPERATIONS, DemoPlan, Summary, run_demo
from holdfast.cluster.evaluation import KILLS, default_cluster


def demo(
    file: Annotated[Path | None, typer.Argument(help="A cluster file; without it, the tree of the evaluation.")] = None,
    operations: Annotated[
        int, typer.Option("--operations", "-o", min=1, max=1_000_000, help="How many each client publishes.")
    ] = OPERATIONS,
    interval_ms: Annotated[
        float, typer.Option("--interval-ms", min=0, max=60_000, help="Between two of them at one client.")
    ] = INTERVAL_MS,
    seed: Annotated[int, typer.Option("--seed", "-s", help="Another workload.")] = 1,
    kill: Annotated[
        list[str] | None, typer.Option("--kill", "-k", help="Kill this broker on the way; may be given several times.")
    ] = None,
    calm: Annotated[bool, typer.Option("--calm", help="Kill nobody.")] = False,
    report: Annotated[Path, typer.Option("--report", "-r", help="Where summary, trace and logs go.")] = Path("report"),
    as_json: AsJson = False,
) -> None:
    """The bank of the Ginger thesis on a tree of real broker processes, and the proof that nothing went wrong.

    Every client is a replica of a bank. It publishes 40 % getBalance (eventual), 30 % deposit (causal) and 30 %
    withdraw, transfer and applyInterest (total). When everybody has everything, the trace is checked, and the replicas
    of each bank must have equal balances. Exit code 1 if anything was lost, repeated, made up or out of order.

    On the way two brokers get a SIGKILL, one in the middle of the tree and then the root (of a cluster file, those that
    --kill names): the others repair the tree, and a table says how long the broken paths stood still. The proof is the
    same.

    \b
    Examples
      holdfast demo
      holdfast demo --kill 6 --kill 2
      holdfast demo --calm
      holdfast demo --operations 2000 --interval-ms 2 --seed 7
      holdfast audit report/trace
    """
    cluster = load_cluster(file) if file else default_cluster()
    victims = () if calm else tuple(kill or (() if file else KILLS))
    plan = DemoPlan(cluster, report, operations, interval_ms, seed=seed, kills=victims)
    with progress() as advance:
        summary = asyncio.run(run_demo(plan, advance))
    if as_json:
        print_json(summary)
    else:
        _print_summary(summary, report)
        if left := plan.kills[len(summary.kills) :]:
            note(f"all was delivered before these could be killed: {', '.join(left)}; give it more --operations")
    if not summary.ok:
        raise typer.Exit(1)


def _print_summary(summary: Summary, report: Path) -> None:
    console.print(_latency_table(summary))
    if summary.repairs:
        console.print(_repair_table(summary))
    verdict = table("What was promised", "", "found")
    for title, found, expected in (
        ("messages", summary.messages, summary.messages_expected),
        ("deliveries", summary.deliveries, summary.deliveries_expected),
    ):
        missing = "" if found == expected else f" of {expected:,}"
        verdict.add_row(title, f"{found:,}{missing}", style="bold red" if missing else "")
    for kind, title in (
        ("lost", "lost"),
        ("duplicated", "duplicated"),
        ("created", "created"),
        ("fifo", "out of order: fifo"),
        ("causal", "out of order: causal"),
        ("total", "out of order: total"),
    ):
        count = int(summary.verdict[kind])
        verdict.add_row(title, f"{count:,}", style="bold red" if count else "")
    equal = "yes" if summary.replicas_equal else "NO"
    verdict.add_row("replicas equal", equal, style="" if summary.replicas_equal else "bold red")
    console.print(verdict)
    for example in summary.verdict["examples"]:
        print_line(f"  {example}")
    note(
        f"{summary.brokers} brokers, {summary.clients} clients, {summary.seconds:.1f} s; "
        f"the summary, the trace and the logs are in {report}/"
    )


def _repair_table(summary: Summary) -> object:
    rows = table("From kill -9 to the next delivery", "broker", "role", "broken paths", "first ms", "all ms")
    for one in summary.repairs:
        rows.add_row(one.broker, one.role, str(one.paths), f"{one.first_ms:.0f}", f"{one.all_ms:.0f}")
    return rows


def _latency_table(summary: Summary) -> object:
    rows = table("From publish to delivery", "guarantee", "messages", "deliveries", "p50 ms", "p99 ms")
    for one in summary.latencies:
        rows.add_row(
            one.guarantee, f"{one.messages:,}", f"{one.deliveries:,}", f"{one.p50_ms:.2f}", f"{one.p99_ms:.2f}"
        )
    return rows
