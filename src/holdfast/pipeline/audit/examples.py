"""Sentences about some of the faults: the rows that they are about are looked up again. (Tasks had numbers only.)"""

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls them

from holdfast.model.trace import Event
from holdfast.model.verdicts import (
    KINDS,
    before_own,
    before_past,
    differs,
    missing,
    name_of,
    repeated,
    unfounded,
    unwanted,
    wrong_side,
)
from holdfast.pipeline.audit.clients import UNSUBSCRIBED
from holdfast.pipeline.trace_frames import COLUMNS, MESSAGES, event_of_row

Identity = tuple[str, str, int]
"""Run, publisher, seq."""


def explained(events: DataFrame, examples: Sequence[Row], examples_max: int) -> list[tuple[str, str]]:
    """Run and sentence of the first few faults of each kind."""
    chosen = [one for kind in KINDS for one in _chosen(kind, examples, examples_max)]
    if not chosen:
        return []
    witnesses = Witnesses(events, chosen)
    return [(one["run"], _sentence(one, witnesses)) for one in chosen]


def _chosen(kind: str, examples: Sequence[Row], examples_max: int) -> list[Row]:
    found = [one for one in examples if one["kind"] == kind]
    by_message = ("run", "publisher", "seq", "node", "index")
    by_place = ("run", "node", "index", "publisher", "seq")
    order = by_message if kind in ("lost", "total") else by_place
    return sorted(found, key=lambda one: tuple((one[name] is not None, one[name]) for name in order))[:examples_max]


class Witnesses:
    """The publications and deliveries of the messages that the examples are about."""

    def __init__(self, events: DataFrame, examples: Sequence[Row]) -> None:
        messages, places = _identities(examples)
        # As numbers, so that a row is looked up in a table rather than compared with one example after the other.
        by_message = F.xxhash64("run", "publisher", "seq").isin(messages)
        by_place = F.xxhash64("run", "node", "index").isin(places)
        rows = events.where(F.col("event").isin(*MESSAGES) & (by_message | by_place)).select(*COLUMNS)
        self._published: dict[Identity, Event] = {}
        self._delivered: list[Event] = []
        # Bounded: a few messages, each with as many rows as there are clients.
        told = [_event(row.asDict()) for row in rows.collect()]
        for event in sorted(told, key=lambda event: (event.run, event.node, event.index)):
            if event.event == "publish":
                self._published.setdefault((event.run, event.publisher, event.seq), event)
            else:
                self._delivered.append(event)

    def publication(self, run: str, publisher: str, seq: int) -> Event | None:
        return self._published.get((run, publisher, seq))

    def delivery(self, run: str, node: str, index: int) -> Event:
        return next(one for one in self._delivered if (one.run, one.node, one.index) == (run, node, index))

    def heard(self, early: Event, late: Event) -> bool:
        """Whether the node that published the one had delivered (or published) the other before."""
        if late.node == early.node and late.index < early.index:
            return True
        return any(
            (one.run, one.node, one.publisher, one.seq) == (early.run, early.node, late.publisher, late.seq)
            and one.index < early.index
            for one in self._delivered
        )


def _identities(examples: Sequence[Row]) -> tuple[list[Column], list[Column]]:
    """Hashes of the messages of the examples (run, publisher, seq), and of their deliveries (run, node, index)."""
    messages = {
        (one["run"], one[publisher], one[seq])
        for one in examples
        for publisher, seq in (("publisher", "seq"), ("other_publisher", "other_seq"))
        if one[publisher] is not None
    }
    places = {(one["run"], one["node"], one["index"]) for one in examples}
    return _hashes(messages), _hashes(places)


def _hashes(identities: Iterable[Identity]) -> list[Column]:
    return [F.xxhash64(F.lit(run), F.lit(name), F.lit(number).cast("bigint")) for run, name, number in identities]


def _event(row: dict[str, Any]) -> Event:
    return event_of_row(row, f"run {row['run']!r}, node {row['node']!r}, index {row['index']}")


def _sentence(one: Row, witnesses: Witnesses) -> str:
    run, node = one["run"], one["node"]
    message = f"{one['publisher']}#{one['seq']}"
    published = witnesses.publication(run, one["publisher"], one["seq"])
    match one["kind"]:
        case "created":
            return _created(one, witnesses)
        case "duplicated":
            return repeated(node, name_of(witnesses.delivery(run, node, one["index"])))
        case "fifo":
            return before_own(node, message, f"{one['other_publisher']}#{one['other_seq']}", one["publisher"])
    assert published is not None, f"{message} was judged, so it was published"
    if one["kind"] == "lost":
        return missing(node, message, published.topic, one["detail"])
    other = witnesses.publication(run, one["other_publisher"], one["other_seq"])
    assert other is not None, "the same holds for the other"
    if one["kind"] == "causal":
        return before_past(node, published, name_of(other), witnesses.heard(published, other))
    first, second = (other, published) if one["other_first"] else (published, other)
    key = min({*published.keys} & {*other.keys})
    return wrong_side(node, name_of(first), name_of(second), one["rightful"], published, key)


def _created(one: Row, witnesses: Witnesses) -> str:
    delivered = witnesses.delivery(one["run"], one["node"], one["index"])
    published = witnesses.publication(one["run"], delivered.publisher, delivered.seq)
    reason = differs(delivered, published) or unwanted(delivered.topic, ended=one["detail"] == UNSUBSCRIBED)
    return unfounded(one["node"], name_of(delivered), reason)
