"""The page of a report: one file that is whole by itself. Nothing is fetched and nothing runs."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from holdfast.cluster.demo import DemoSummary
from holdfast.model.verdicts import KINDS
from holdfast.pipeline.report_drawings import (
    LOAD_PARTS,
    PHASES,
    balances_drawing,
    diverged,
    euros,
    hops_drawing,
    in_order,
    latency_drawing,
    load_drawing,
    timeline_drawing,
)
from holdfast.pipeline.report_findings import ReplicaFindings, ReportFindings
from holdfast.pipeline.report_marks import COLORS
from holdfast.pipeline.report_tree import tree_drawing

STYLE = Path(__file__).with_name("report.css")
PROMISES = {
    "lost": "a message that a subscriber was owed and never got",
    "duplicated": "a message that was delivered again",
    "created": "a delivery that nobody published or nobody subscribed to",
    "fifo": "a message before an earlier one of its publisher",
    "causal": "a message before one that it may depend on",
    "total": "two messages on a key that subscribers saw in different orders",
}


def page(findings: ReportFindings, written: datetime | None = None) -> str:
    """The whole page; `written` is when."""
    at = (written or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC")
    sections = [
        _banner(findings),
        _trees(findings.summary),
        _verdict(findings),
        _latencies(findings),
        _ways(findings),
        _timeline(findings),
        _banks(findings),
        _footer(findings, at),
    ]
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Holdfast: {escape(findings.summary.run or 'a run')}</title>\n"
        f"<style>\n{STYLE.read_text(encoding='utf-8')}</style>\n</head>"
    )
    return "\n".join([head, "<body>\n<main>", *filter(None, sections), "</main>\n</body>\n</html>\n"])


# ------------------------------------------------------------------------------------------------------------ pieces


def _section(title: str, *parts: str, kind: str = "") -> str:
    heading = f"<h2>{escape(title)}</h2>" if title else ""
    return "\n".join([f'<section class="{kind}">', heading, *parts, "</section>"])


def _figure(drawing: str, caption: str = "", kind: str = "") -> str:
    said = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f'<figure class="{kind}">{drawing}{said}</figure>'


def _table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], faulty: Sequence[bool] = (), texts: Sequence[int] = (0,)
) -> str:
    """`faulty` rows stand out; the columns at the positions `texts` are words, all others figures."""
    kinds = [' class="text"' if at in texts else "" for at in range(len(columns))]
    head = "".join(f"<th{kind}>{escape(column)}</th>" for kind, column in zip(kinds, columns, strict=True))
    lines = []
    for number, row in enumerate(rows):
        fault = ' class="fault"' if number < len(faulty) and faulty[number] else ""
        cells = "".join(f"<td{kind}>{escape(str(cell))}</td>" for kind, cell in zip(kinds, row, strict=True))
        lines.append(f"<tr{fault}>{cells}</tr>")
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _facts(facts: dict[str, str]) -> str:
    inner = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(said)}</dd></div>" for name, said in facts.items())
    return f'<dl class="facts">{inner}</dl>'


def _key(color: str, said: str) -> str:
    return f'<span class="key"><span class="swatch" style="background:{color}"></span>{escape(said)}</span>'


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# ---------------------------------------------------------------------------------------------------------- sections


def _banner(findings: ReportFindings) -> str:
    summary = findings.summary
    kept = f"Every promise was kept: {findings.verdict.deliveries:,} deliveries, none lost, repeated or out of order"
    title = kept if findings.ok else "A promise was broken: the tables below say which"
    killed = f", while {_many(len(summary.kills), 'broker')} got a SIGKILL" if summary.kills else ""
    story = (
        f"{_many(summary.brokers, 'broker')} and {_many(summary.clients, 'bank replica')}, each a process of its own, "
        f"ran the bank workload over the protocol {summary.protocol or 'of the cluster'} "
        f"(tolerance {summary.tolerance})"
        f"{killed}. Afterwards Spark judged the trace."
    )
    facts = {
        "operations per client": f"{summary.operations:,}",
        "between two of them": f"{summary.interval_ms:g} ms",
        "messages": f"{summary.messages:,}",
        "deliveries": f"{summary.deliveries:,}",
        "brokers killed": f"{len(summary.kills)}",
        "duration": f"{summary.seconds:.1f} s",
    }
    kind = "banner" if findings.ok else "banner broken"
    return _section("", f"<h1>{escape(title)}</h1>", f"<p>{escape(story)}</p>", _facts(facts), kind=kind)


def _trees(summary: DemoSummary) -> str:
    if not summary.trees:
        return ""
    before, after = summary.trees[0], summary.trees[-1]
    if len(summary.trees) == 1:
        return _section("The tree", _figure(tree_drawing(before), "Circles are brokers, boxes their clients.", "tree"))
    first = "Circles are brokers, boxes their clients; ✕ says who was killed, and in which order."
    second = "Broken lines are links that the brokers made themselves to be one tree again."
    pair = (
        f"<div><h3>before the faults</h3>{_figure(tree_drawing(before, summary.kills), first, 'tree')}</div>"
        f"<div><h3>after the repairs</h3>{_figure(tree_drawing(after, summary.kills, before), second, 'tree')}</div>"
    )
    rows = [
        (one.broker, one.role, one.paths, f"{one.first_ms:,.0f} ms", f"{one.all_ms:,.0f} ms") for one in summary.repairs
    ]
    columns = ("killed broker", "role", "broken paths", "first works again", "all work again")
    return _section("The tree", f'<div class="pair">{pair}</div>', _table(columns, rows, texts=(0, 1)) if rows else "")


def _verdict(findings: ReportFindings) -> str:
    summary, spark = findings.summary, findings.verdict.faults
    rows: list[Sequence[object]] = []
    faulty = []
    published = sum(one.publications for one in findings.overheads)
    for name, by_spark, in_memory, expected in (
        ("publications", published, summary.messages, summary.messages_expected),
        ("deliveries", findings.verdict.deliveries, summary.deliveries, summary.deliveries_expected),
    ):
        rows.append((name, f"{by_spark:,}", f"{in_memory:,}", f"{expected:,} expected"))
        faulty.append({by_spark, in_memory} != {expected})
    for kind in KINDS:
        rows.append((kind, f"{spark[kind]:,}", f"{int(summary.verdict[kind]):,}", PROMISES[kind]))
        faulty.append(bool(spark[kind] or summary.verdict[kind]))
    columns = ("", "Spark audit", "checkers in memory", "what is counted")
    said = [*findings.verdict.examples] or [str(one) for one in summary.verdict["examples"]]
    examples = "".join(f"<li>{escape(one)}</li>" for one in said)
    return _section(
        "What was promised, and what happened",
        "<p>Two judges that share little but their words; neither knows anything of brokers, only what each client "
        "published and was given.</p>",
        _table(columns, rows, faulty, texts=(0, 3)),
        f"<ul>{examples}</ul>" if examples else "",
    )


def _latencies(findings: ReportFindings) -> str:
    if not findings.spreads:
        return ""
    rows = [
        (
            one.guarantee,
            PHASES.get(one.phase, one.phase),
            f"{one.deliveries:,}",
            *(f"{value:,.2f}" for value in (one.p50, one.p90, one.p99, one.highest)),
        )
        for one in in_order(findings.spreads)
    ]
    caption = (
        "Boxes hold the middle half of the deliveries, the stroke in them is the median; whiskers reach from the 1st "
        "to the 99th percentile, dots are the slowest. Broken boxes: messages that were under way during a repair."
    )
    columns = ("guarantee", "", "deliveries", "p50 ms", "p90 ms", "p99 ms", "slowest ms")
    headers = [
        (one.guarantee, f"{one.publications:,}", f"{one.payload_bytes:,}", f"{one.header_bytes_each:.1f}")
        for one in sorted(findings.overheads, key=lambda one: [*COLORS].index(one.guarantee))
    ]
    return _section(
        "How long a delivery took",
        _figure(latency_drawing(findings.spreads), caption),
        _table(columns, rows, texts=(0, 1)),
        "<h3>What ordering costs on a link</h3>",
        _table(("guarantee", "publications", "payload bytes", "header bytes each"), headers),
    )


def _ways(findings: ReportFindings) -> str:
    """How far deliveries had to go, and over whom."""
    parts = []
    known = sum(one.deliveries for one in findings.hops)
    if known:
        caption = (
            f"By the number of brokers on the way, in the tree as it was at that moment: {known:,} of "
            f"{findings.verdict.deliveries:,} deliveries. For the others the tree changed between publication and "
            "delivery, so nobody can say which way they took."
        )
        parts += ["<h3>How long, by how far</h3>", _figure(hops_drawing(findings.hops), caption)]
    if findings.loads:
        keys = "".join(_key(color, said) for said, color in LOAD_PARTS)
        carried = "Each delivery counts at every broker on its way, be it killed later on."
        parts += [
            "<h3>Who carried it</h3>",
            f'<p class="soft">{keys}</p>',
            _figure(load_drawing(findings.loads), carried),
        ]
    return _section("How far, and over whom", *parts) if parts else ""


def _timeline(findings: ReportFindings) -> str:
    if not findings.rates:
        return ""
    drawing = timeline_drawing(findings.rates, findings.every_s, findings.faults, findings.repairs)
    keys = _key(COLORS["eventual"], "deliveries per second") + _key("var(--ink)", "publications per second")
    if findings.faults:
        keys += _key("rgb(213 94 0 / 35%)", "a kill is felt") + _key("#E69F00", "a broker repairs")
    caption = f"Counted in intervals of {findings.every_s:g} s."
    if findings.faults:
        caption += " ✕: a broker gets a SIGKILL; beside it, how long until every path that this broke delivers again."
    return _section(
        "What happened when",
        f'<p class="soft">{keys}</p>',
        _figure(drawing, caption),
    )


def _banks(findings: ReportFindings) -> str:
    banks: dict[str, list[ReplicaFindings]] = {}
    for one in findings.replicas:
        banks.setdefault(one.topic, []).append(one)
    story = (
        "Every replica applied the operations that were delivered to it, and Spark applied them again from its "
        "recording. If the guarantees hold, the replicas of a bank end with equal balances."
    )
    parts = [f"<p>{story}</p>"]
    for topic, replicas in banks.items():
        different = diverged(replicas)
        said = (
            "the replicas are equal" if not different else f"the replicas differ on {_many(len(different), 'account')}"
        )
        rows = [
            (one.name, f"{one.applied:,}", f"{one.refused:,}", len(one.balances), euros(sum(one.balances.values())))
            for one in replicas
        ]
        columns = ("replica", "operations applied", "refused", "accounts", "in all")
        parts += [
            f"<h3>{escape(topic)}: {escape(said)} {'✓' if not different else '✕'}</h3>",
            _figure(balances_drawing(replicas)),
            _table(columns, rows, [bool(different)] * len(rows)),
        ]
    return _section("The banks", *parts) if banks else ""


def _footer(findings: ReportFindings, at: str) -> str:
    made = ", ".join(f"{name} {number}" for name, number in findings.versions.items())
    summary = findings.summary
    again = (
        f"holdfast demo --seed {summary.seed} --operations {summary.operations} --interval-ms {summary.interval_ms:g}"
    )
    beside = ", ".join(f"<code>{name}</code>" for name in ("summary.json", "trace/", "recordings/", "logs/"))
    commands = ", ".join(
        f"<code>holdfast {name}</code>"
        for name in ("audit trace", "pipeline metrics trace", "pipeline state recordings")
    )
    return (
        f'<p class="soft">Run {escape(summary.run)}, written {at} with {escape(made)}. Again: '
        f"<code>{escape(again)}</code>. Beside this file are {beside}; more is told there by {commands}.</p>"
    )
