"""Was what came what was published? The trace has no payloads, so this looks at the batches that clients reported."""

from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.model.batches import Message
from holdfast.protocols.node import Report

Told = tuple[float, str, Report]
"""When a node reported something, which node, and what."""
SHOWN_BYTES = 40


def alterations(reports: Iterable[Told]) -> list[str]:
    """A sentence for every delivery whose message is not, to the byte, the one published under its identity.

    That is the publisher's, not its name: a session that took a name over may use a number that never left the other.
    """
    rows = [(name, report.event, report.batch) for _, name, report in reports if report.batch is not None]
    published: dict[tuple[str, int], Message] = {}
    for _, event, batch in rows:
        if event == "publish":
            published |= {(batch.publisher, one.seq): one for one in batch.messages()}
    return [
        _sentence(name, came, published.get((batch.publisher, came.seq)))
        for name, event, batch in rows
        if event == "deliver"
        for came in batch.messages()
        if not _same(came, published.get((batch.publisher, came.seq)))
    ]


def _same(came: Message, wanted: Message | None) -> bool:
    if wanted is None:
        return False
    # What has crossed a total message on its way says so when it comes, and nothing else of it may be another.
    # 1, 1.0 and True are equal, and a filter tells them apart.
    same = replace(came, crossed=False) == replace(wanted, crossed=False)
    return same and repr(came.attributes) == repr(wanted.attributes)


def _sentence(name: str, came: Message, wanted: Message | None) -> str:
    what = f"{name} was given {came.publisher}#{came.seq}"
    if wanted is None:
        return f"altered: {what}, which nobody published"
    fields = [one for one in Message.__struct_fields__ if repr(getattr(came, one)) != repr(getattr(wanted, one))]
    first = fields[0]
    shown = [repr(getattr(one, first))[:SHOWN_BYTES] for one in (came, wanted)]
    return f"altered: {what} with another {' and '.join(fields)}: {first} {shown[0]} instead of {shown[1]}"
