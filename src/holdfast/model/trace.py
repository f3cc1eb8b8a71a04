"""The trace: what happened at every node, one row a message, as lines of JSON.

A run of the simulator and a run of real processes leave the same rows, and whoever judges a run reads nothing else.
`node` and `index` give each node's own history, in which order is certain; `time` compares nodes. Columns that are
empty are left out of a line. This module turns reports into rows and rows into lines; files are `storage.traces`.
"""

import re
from math import isfinite
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.model.batches import Batch, unpack_lengths
from holdfast.model.errors import LocalMisuse
from holdfast.model.filters import Value
from holdfast.model.guarantees import GUARANTEES, RANKS
from holdfast.model.wire import header_bytes

NotNegative = Annotated[int, Meta(ge=0)]
CROSSED = "crossed"
"""The event that says of a message that it takes no part in the total order of its keys, and the `detail` of a row
`deliver` that brought it with that word."""


class TraceError(LocalMisuse, ValueError):
    """Raised when a trace cannot be read or written: it says where and what would have been legal."""


class Event(Struct, frozen=True, omit_defaults=True, gc=False):
    """One row of a trace. `topic` is the pattern and `where` the filter when the row is about a subscription."""

    run: str
    node: str
    index: NotNegative
    """Position in this node's own history, from 0."""
    time: int
    """Nanoseconds on a clock that all nodes of the run share as well as they can."""
    event: str
    """`publish`, `deliver`, `subscribe`, `unsubscribe`, or a word of the protocol."""
    publisher: str = ""
    seq: NotNegative = 0
    """From 1 in each publisher's order of publication; 0 where the row concerns no message."""
    topic: str = ""
    where: str = ""
    attributes: dict[str, Value] = {}
    guarantee: str = ""
    keys: list[str] = []
    size: NotNegative = 0
    """Payload bytes."""
    overhead: NotNegative = 0
    """Bytes beyond topic, payload, keys and attributes that the message cost on a link: its share of its batch's frame.

    What a total order says besides, once for a batch on each link, is not in it: `benchmarks/headers.py` counts that.
    """
    past: dict[str, NotNegative] | None = None
    """The causal past as {publisher: highest seq}, if the writer knows it; else it follows from the histories."""
    peer: str = ""
    detail: str = ""


# ---------------------------------------------------------------------------------------------------------- lines

_MESSAGE_COLUMNS = ("node", "publisher", "seq", "topic", "guarantee")
_SUBSCRIPTION_COLUMNS = ("node", "topic")
REQUIRED_COLUMNS = {
    "publish": _MESSAGE_COLUMNS,
    "deliver": _MESSAGE_COLUMNS,
    "subscribe": _SUBSCRIPTION_COLUMNS,
    "unsubscribe": _SUBSCRIPTION_COLUMNS,
}
"""Columns that must not be empty in the rows that carry a promise; other rows need run, node, index, time and event."""


class NotFinite(Struct, frozen=True, gc=False):
    """A number that JSON cannot write, in its stead: `{"float": "inf"}`. A filter treats it unlike an absent one."""

    float: Literal["nan", "inf", "-inf"]


class _OddEvent(Event, frozen=True, gc=False):
    attributes: dict[str, Value | NotFinite] = {}  # type: ignore[assignment]  # what the line holds, not what it means


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Event)
_odd_decoder = msgspec.json.Decoder(_OddEvent)
_COLUMN_AT_FAULT = re.compile(r" - at `\$\.(\w+).*`$")
_COLUMN_MISSING = re.compile(r"missing required field `(\w+)`")


def encode_line(event: Event) -> bytes:
    """The row as one line of JSON, its newline included."""
    if event.attributes and not all(map(_is_plain, event.attributes.values())):
        odd = {name: value if _is_plain(value) else _not_finite(value) for name, value in event.attributes.items()}
        fields = msgspec.structs.asdict(event) | {"attributes": odd}
        return _encoder.encode(_OddEvent(**fields)) + b"\n"
    return _encoder.encode(event) + b"\n"


def decode_line(line: bytes | str, line_number: int, source: str = "") -> Event:
    """The row that a line holds, or a `TraceError` that names the line (of the file `source`) and the column."""
    place = f"{source}:{line_number}" if source else f"line {line_number}"
    try:
        event = _decoded(line)
    except msgspec.ValidationError as error:
        raise TraceError(f"{place}: {_column_sentence(str(error))}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(
            f"{place}: a line of a trace is one JSON object, and this is not: {error}. "
            "If the writer was killed in the middle of its last line, remove that line."
        ) from None
    check_event(event, place)
    return event


def check_event(event: Event, place: str) -> None:
    """Raise `TraceError` if the row lacks what its kind of event must have; `place` says where the row stands."""
    required = REQUIRED_COLUMNS.get(event.event)
    if required is None:
        return
    for column in required:
        if not getattr(event, column):
            raise TraceError(
                f"{place}: column {column!r} is missing; a row of {event.event!r} has {', '.join(required)}."
            )
    if event.guarantee not in RANKS and required is _MESSAGE_COLUMNS:
        legal = ", ".join(GUARANTEES)
        raise TraceError(f"{place}: column 'guarantee' holds {event.guarantee!r}; it is one of {legal}.")


def _decoded(line: bytes | str) -> Event:
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError as error:
        try:
            odd = _odd_decoder.decode(line)
        except msgspec.ValidationError:
            raise error from None
        attributes = {
            name: float(value.float) if isinstance(value, NotFinite) else value
            for name, value in odd.attributes.items()
        }
        return Event(**(msgspec.structs.asdict(odd) | {"attributes": attributes}))


def _is_plain(value: Value) -> bool:
    return not isinstance(value, float) or isfinite(value)


def _not_finite(value: Value) -> NotFinite:
    return msgspec.convert({"float": str(value)}, NotFinite)


def _column_sentence(error: str) -> str:
    if missing := _COLUMN_MISSING.search(error):
        return f"column {missing[1]!r} is missing; every row has run, node, index, time and event."
    if fault := _COLUMN_AT_FAULT.search(error):
        reason = error[: fault.start()]
        return f"column {fault[1]!r} holds what it cannot: {reason[0].lower()}{reason[1:]}."
    return f"a line of a trace is one JSON object: {error[0].lower()}{error[1:]}."


# -------------------------------------------------------------------------------------------------------- recorder


class Recorder:
    """Turns what one node reports into rows and numbers them: the node's history."""

    __slots__ = ("index", "node", "run")

    def __init__(self, run: str, node: str, index: int = 0) -> None:
        """`index` is the number of the next row: not 0 only for a node that goes on with an earlier history."""
        self.run = run
        self.node = node
        self.index = index

    def record(
        self,
        time_ns: int,
        event: str,
        batch: Batch | None = None,
        pattern: str = "",
        where: str = "",
        peer: str = "",
        detail: str = "",
        overhead: int = 0,
        seq: int = 0,
    ) -> list[Event]:
        """The rows of one report: one for each message if it concerns messages, else one.

        `overhead` is what each message cost on its link, if whoever reports it has counted more than its batch shows.
        `seq` is the number of a publication of this node that the row is about.
        """
        if batch is not None:
            return self._record_batch(time_ns, event, batch, peer, detail, overhead or overhead_bytes(batch))
        publisher = self.node if seq else ""
        row = Event(
            self.run, self.node, self.index, time_ns, event, publisher, seq, pattern, where, peer=peer, detail=detail
        )
        self.index += 1
        return [row]

    def _record_batch(
        self, time_ns: int, event: str, batch: Batch, peer: str, detail: str, overhead: int
    ) -> list[Event]:
        run, node, index, first = self.run, self.node, self.index, batch.first
        publisher, topic, guarantee = batch.publisher, batch.topic, GUARANTEES[batch.guarantee].value
        self.index += batch.count
        return [
            Event(
                run,
                node,
                index + at,
                time_ns,
                event,
                publisher,
                first + at,
                topic,
                "",
                batch.attributes_of(at),
                guarantee,
                list(batch.keys_of(at)),
                size,
                overhead,
                None,
                peer,
                detail or (CROSSED if batch.has_crossed(at) else ""),
            )
            for at, size in enumerate(_payload_sizes(batch))
        ]


def overhead_bytes(batch: Batch) -> int:
    """What one message of the batch costs beyond topic, payload, keys and attributes: its share of the header."""
    # The number that a link gives the frame is not known here; it counts as the shortest.
    return -(-header_bytes(batch) // batch.count)


def _payload_sizes(batch: Batch) -> list[int]:
    if batch.lengths:
        return list(unpack_lengths(batch.lengths))
    return [len(batch.payloads) // batch.count] * batch.count
