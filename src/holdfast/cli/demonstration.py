"""`holdfast demo`: the bank workload on real processes, and the proof that nothing went wrong."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson
from holdfast.cli.output import Advance, console, note, print_json, print_line, progress, table
from holdfast.cluster.config import load_cluster
from holdfast.cluster.demo import INTERVAL_MS, OPERATIONS, PAGE, DemoPlan, DemoSummary, run_demo
from holdfast.cluster.evaluation import KILLS, default_cluster
from holdfast.model.errors import ConfigError
from holdfast.model.plurals import counted

LOCAL_MASTER = "local[*]"


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
    calm: Annotated[bool, typer.Option("--calm", help="Kill no broker.")] = False,
    report: Annotated[Path, typer.Option("--report", "-r", help="Where everything goes that it leaves.")] = Path(
        "report"
    ),
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Whether Spark judges too and writes report.html. It needs Java.")
    ] = True,
    master: Annotated[
        str, typer.Option("--master", help="Where Spark runs: local[*] is this machine, spark://host:7077 a cluster.")
    ] = LOCAL_MASTER,
    as_json: AsJson = False,
) -> None:
    """The bank of the Ginger thesis on a tree of real broker processes, and the proof that nothing went wrong.

    Every client is a replica of a bank. It publishes 40 % getBalance (eventual), 30 % deposit (causal) and 30 %
    withdraw, transfer and applyInterest (total). When everybody has everything, the trace is checked, and the replicas
    of each bank must have equal balances. Exit code 1 if anything was lost, repeated, made up or out of order.

    On the way two brokers get a SIGKILL, one in the middle of the tree and then the root (of a cluster file, those that
    --kill names): the others repair the tree, and a table says how long the broken paths stood still. The proof is the
    same.

    The trace is judged twice, by checkers in memory and by the audit on Spark, which also draws report.html: a page to
    open afterwards. Without Java, --no-spark leaves the second judge and the page out.

    \b
    Examples
      holdfast demo
      holdfast demo --kill 6 --kill 2
      holdfast demo --calm --no-spark
      holdfast demo --operations 2000 --interval-ms 2 --seed 7
      holdfast audit report/trace
    """
    cluster = load_cluster(file) if file else default_cluster()
    if calm and kill:
        raise ConfigError("--calm kills nobody, and --kill somebody: choose one of them.")
    victims = () if calm else tuple(kill or (() if file else KILLS))
    plan = DemoPlan(cluster, report, operations, interval_ms, seed=seed, kills=victims)
    if spark:
        _look_for_java()
    with progress() as advance:
        summary = asyncio.run(run_demo(plan, advance))
        if spark:
            summary = _proved_on_spark(summary, report, master, advance)
    if as_json:
        print_json(summary)
    else:
        _print_summary(summary, report)
        if left := plan.kills[len(summary.kills) :]:
            note(f"all was delivered before these could be killed: {', '.join(left)}; give it more --operations")
    if not summary.ok:
        raise typer.Exit(1)


def _look_for_java() -> None:
    """Said before anything runs rather than after."""
    try:
        from holdfast.pipeline.java import find_java  # noqa: PLC0415

        find_java()
    except ConfigError as error:
        raise ConfigError(f"{error} Or leave Spark and the page out with --no-spark.") from None


def _proved_on_spark(summary: DemoSummary, report: Path, master: str, advance: Advance) -> DemoSummary:
    from holdfast.pipeline.report import prove  # noqa: PLC0415

    return prove(summary, report, master, advance).summary


def _print_summary(summary: DemoSummary, report: Path) -> None:
    console.print(_latency_table(summary))
    if summary.repairs:
        console.print(_repair_table(summary))
    judges = ["found", "by Spark"] if summary.audit else ["found"]
    verdict = table("What was promised", "", *judges)
    for title, found, expected in (
        ("messages", summary.messages, summary.messages_expected),
        ("deliveries", summary.deliveries, summary.deliveries_expected),
    ):
        missing = "" if found == expected else f" of {expected:,}"
        by_spark = f"{int(summary.audit['deliveries']):,}" if summary.audit and title == "deliveries" else ""
        verdict.add_row(
            title, f"{found:,}{missing}", *[by_spark][: len(judges) - 1], style="bold red" if missing else ""
        )
    for kind, title in (
        ("lost", "lost"),
        ("duplicated", "duplicated"),
        ("created", "created"),
        ("fifo", "out of order: fifo"),
        ("causal", "out of order: causal"),
        ("total", "out of order: total"),
    ):
        counts = [int(judge[kind]) for judge in (summary.verdict, summary.audit) if judge]
        verdict.add_row(title, *[f"{count:,}" for count in counts], style="bold red" if any(counts) else "")
    equal = "yes" if summary.replicas_equal else "NO"
    verdict.add_row("replicas equal", equal, style="" if summary.replicas_equal else "bold red")
    console.print(verdict)
    for example in summary.verdict["examples"] or (summary.audit or {}).get("examples", ()):
        print_line(f"  {example}")
    note(
        f"{counted(summary.brokers, 'broker')}, {counted(summary.clients, 'client')}, {summary.seconds:.1f} s; "
        f"the summary, the trace, the recordings and the logs are in {report}/"
    )
    if summary.audit:
        print_line(f"open {report / PAGE}")


def _repair_table(summary: DemoSummary) -> object:
    rows = table("From kill -9 to the next delivery", "broker", "role", "broken paths", "first ms", "all ms")
    for one in summary.repairs:
        rows.add_row(one.broker, one.role, str(one.paths), f"{one.first_ms:.0f}", f"{one.all_ms:.0f}")
    return rows


def _latency_table(summary: DemoSummary) -> object:
    rows = table("From publish to delivery", "guarantee", "messages", "deliveries", "p50 ms", "p99 ms")
    for one in summary.latencies:
        rows.add_row(
            one.guarantee, f"{one.messages:,}", f"{one.deliveries:,}", f"{one.p50_ms:.2f}", f"{one.p99_ms:.2f}"
        )
    return rows
