"""What a task of the audit is sent: rows of several kinds in one stream, taken apart into arrays.

Names of nodes, publishers and topics travel as 64-bit hashes, together with their run; the rows of kind `NAME` and
`TOPIC` say what they stand for. A delivery is six numbers. Everything else is rare in comparison.
"""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

DELIVER, SUBSCRIBE, UNSUBSCRIBE, NAME, TOPIC, CLOCK, SUSPECT = range(7)
PUBLISH = 8
"""And the rank of the guarantee: 8 to 11."""

SCHEMA = (
    "kind tinyint, node bigint, index bigint, publisher bigint, seq bigint, content bigint, time bigint, "
    "topic bigint, keys array<bigint>, past array<bigint>, clock binary, text string, more string"
)
NUMBERS = ("kind", "node", "index", "publisher", "seq", "content", "time", "topic")
WORDS = ("keys", "past", "clock", "text", "more")
COLUMNS = (*NUMBERS, *WORDS)

_WANTED: dict[int, tuple[str, ...]] = {
    DELIVER: ("node", "index", "publisher", "seq", "content"),
    SUBSCRIBE: ("node", "index", "time", "text", "more"),
    UNSUBSCRIBE: ("node", "index", "time", "text", "more"),
    NAME: ("node", "text", "more"),
    TOPIC: ("topic", "text", "more"),
    CLOCK: ("publisher", "seq", "clock"),
    SUSPECT: ("topic",),
}
_WANTED_OF_PUBLISH = ("node", "index", "publisher", "seq", "content", "time", "topic", "keys", "past", "text")

_WORD_TYPES: dict[str, Any] = {"keys": pa.list_(pa.int64()), "past": pa.list_(pa.int64()), "clock": pa.binary()}

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


class Inbox:
    """The rows of one partition, by kind. Arrays of numbers, and Arrow arrays of everything else."""

    def __init__(self, batches: Iterable[pa.RecordBatch], without: Collection[tuple[int, str]] = ()) -> None:
        """`without` names columns of a kind that nobody will ask for."""
        self._parts: dict[int, dict[str, list[Any]]] = {}
        self._without = frozenset(without)
        for batch in batches:
            self._take(batch)

    def _take(self, batch: pa.RecordBatch) -> None:
        kinds = batch.column("kind").to_numpy()
        for kind in np.unique(kinds).tolist():
            rows = np.flatnonzero(kinds == kind)
            all_of_it = len(rows) == len(kinds)
            part = self._parts.setdefault(kind, {})
            for name in wanted(kind):
                if (kind, name) in self._without:
                    continue
                column = batch.column(name)
                if name in NUMBERS:
                    numbers = column.to_numpy()
                    # A copy in either case: what Arrow owns is gone when the next batch comes.
                    part.setdefault(name, []).append(numbers.copy() if all_of_it else numbers[rows])
                else:
                    part.setdefault(name, []).append(column if all_of_it else column.take(pa.array(rows)))

    def numbers(self, kind: int, name: str) -> Longs:
        """One column of numbers of a kind; what was sent is forgotten, to spare memory."""
        parts = self._parts.get(kind, {}).pop(name, [])
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def words(self, kind: int, name: str) -> pa.Array:
        """One column of a kind that holds no plain numbers, likewise."""
        parts = self._parts.get(kind, {}).pop(name, [])
        if parts:
            return pa.concat_arrays(parts)
        return pa.array([], _WORD_TYPES.get(name, pa.string()))

    def count(self, kind: int) -> int:
        return sum(map(len, self._parts.get(kind, {}).get(wanted(kind)[0], ())))


def wanted(kind: int) -> tuple[str, ...]:
    """The columns that rows of this kind have."""
    return _WANTED_OF_PUBLISH if kind >= PUBLISH else _WANTED[kind]
