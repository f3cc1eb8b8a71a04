"""What a script expects, compared with the trace so far and with how the brokers are."""

from collections import Counter

from holdfast.cluster.play.stage import Stage
from holdfast.cluster.play.statements import (
    AuditMark,
    Expectation,
    ExpectAudit,
    ExpectDelivered,
    ExpectNode,
    ExpectOrder,
)
from holdfast.cluster.status import BrokerStatus
from holdfast.model.identities import name_of
from holdfast.model.topics import matches
from holdfast.model.trace import Event
from holdfast.model.verdicts import Verdict
from holdfast.simulation.checkers import check

FAULTS: dict[AuditMark, tuple[str, ...]] = {
    "noloss": ("lost",),
    "noduplicates": ("duplicated",),
    "fifo": ("fifo",),
    "causal": ("fifo", "causal"),
    "total": ("total",),
}
"""The faults of the audit that each word excludes; a causal order includes the order of each publisher."""
SHOWN_MAX = 5
QUESTIONS_MAX = 5
"""A broker that lives and does not answer in time, on a machine that is busy, is asked so often."""


async def complaint_about(expectation: Expectation, stage: Stage) -> str:
    """In which way it is not so; empty if it is."""
    if isinstance(expectation, ExpectNode):
        return await _about_node(expectation, stage)
    rows = await stage.rows()
    if isinstance(expectation, ExpectAudit):
        return about_verdict(expectation.mark, check(stage.judged(rows)))
    if isinstance(expectation, ExpectOrder):
        return about_order(expectation, rows)
    return about_count(expectation, rows)


async def _about_node(expectation: ExpectNode, stage: Stage) -> str:
    node, wanted = expectation.node, expectation.state
    broker, frozen = await _asked(node, stage), await stage.frozen(node)
    for _ in range(QUESTIONS_MAX - 1):
        if broker.answers or frozen or wanted == "down":
            break
        broker = await _asked(node, stage)
    if broker.ready:
        above = "the root" if broker.parent is None else f"below {broker.parent}"
        fits = wanted == "ready" or (wanted == "root" and broker.parent is None)
        return "" if fits else f"{node} is ready, {above}"
    found = "frozen" if frozen else "not ready yet" if broker.answers else "down"
    return "" if found == wanted else f"{node} is {found}"


async def _asked(node: str, stage: Stage) -> BrokerStatus:
    return next(one for one in (await stage.status()).brokers if one.name == node)


def about_verdict(mark: AuditMark, verdict: Verdict) -> str:
    """In which way the audit disagrees."""
    if mark == "broken":
        return "the audit finds every promise kept" if verdict.ok else ""
    faults = verdict.faults
    wrong = {kind: faults[kind] for kind in FAULTS.get(mark, tuple(faults)) if faults[kind]}
    if not wrong:
        return ""
    examples = "; ".join(verdict.examples[:SHOWN_MAX])
    return f"the audit finds {', '.join(f'{count} {kind}' for kind, count in wrong.items())}: {examples}"


def _deliveries(rows: list[Event], client: str) -> list[Event]:
    return [row for row in rows if row.event == "deliver" and client in ("", name_of(row.node))]


def about_count(expectation: ExpectDelivered, rows: list[Event]) -> str:
    """In which way the number of deliveries is another one."""
    found = [
        row
        for row in _deliveries(rows, expectation.client)
        if expectation.publisher in ("", name_of(row.publisher))
        and (not expectation.pattern or matches(expectation.pattern, row.topic))
    ]
    count, wanted = len(found), expectation.count
    fits = {"exactly": count == wanted, "at least": count >= wanted, "at most": count <= wanted}
    if fits[expectation.comparison]:
        return ""
    publishers = Counter(name_of(row.publisher) for row in found)
    of = f" ({', '.join(f'{number} of {name}' for name, number in sorted(publishers.items()))})" if count else ""
    who = expectation.client or "all clients together"
    return f"{who} got {count}{of}, and not {expectation.comparison} {wanted}"


def about_order(expectation: ExpectOrder, rows: list[Event]) -> str:
    """In which way the messages that came are others, or come in another order."""
    # Clients number what they publish from 1 in a script's words; the numbers of a session may begin elsewhere.
    first = _first_numbers(rows)
    found = [
        (name_of(row.publisher), row.seq - first.get(row.publisher, 1) + 1)
        for row in _deliveries(rows, expectation.client)
    ]
    wanted = [(run.publisher, number) for run in expectation.runs for number in range(run.first, run.last + 1)]
    for place, (one, other) in enumerate(zip(found, wanted, strict=False), 1):
        if one != other:
            return f"{expectation.client} got {_shown(one)} as its message {place}, and not {_shown(other)}"
    if len(found) == len(wanted):
        return ""
    if len(found) < len(wanted):
        return f"{expectation.client} got {len(found)} messages, and then not {_shown(wanted[len(found)])}"
    return f"{expectation.client} got {_shown(found[len(wanted)])}, too, as its message {len(wanted) + 1}"


def _first_numbers(rows: list[Event]) -> dict[str, int]:
    first: dict[str, int] = {}
    for row in rows:
        if row.event == "publish":
            first[row.publisher] = min(first.get(row.publisher, row.seq), row.seq)
    return first


def _shown(message: tuple[str, int]) -> str:
    return f"{message[0]}#{message[1]}"
