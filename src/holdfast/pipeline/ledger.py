"""What a streaming sink remembers: which numbers each of its publishers used for its last micro-batch.

The brokers remember up to which number they have taken a publisher's messages; the ledger says with which number a
micro-batch begins. Together they tell a task that repeats a micro-batch how many of its rows are out already. The story
that goes wrong without it:
1. The task of partition 0 publishes rows 1..50 of batch 7 as numbers 301..350, and is killed.
2. Spark starts again and repeats batch 7. The broker says that 350 messages were taken.
3. Whether these were 50 rows of batch 7 or all rows of a longer batch 6, nobody knows.
"""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.pipeline.logs import LogError

FILE_NAME = "ledger.json"


class LedgerEntry(Struct, frozen=True):
    """A publisher's last micro-batch: its rows have the numbers after `before`, up to `last`."""

    batch: int
    before: int
    last: int


class Ledger(Struct, frozen=True):
    """One query's publishers, by partition."""

    query: str = ""
    entries: dict[str, LedgerEntry] = {}

    def before(self, query: str, partition: int, batch: int) -> int:
        """After which number the rows of this partition of this micro-batch are numbered."""
        if self.query not in ("", query):
            raise LogError(
                f"the ledger belongs to the query {self.query}, and this is {query}: a query that has a new checkpoint "
                "needs a new ledger, since it begins anew."
            )
        entry = self.entries.get(str(partition))
        if entry is None:
            return 0
        if entry.batch < batch:
            return entry.last
        if entry.batch == batch:
            # The sink was told that the batch is complete, and Spark was killed before it wrote that down itself.
            return entry.before
        raise LogError(
            f"micro-batch {batch} of the query {query} was published long ago: batch {entry.batch} was the last. Its "
            "checkpoint is older than its ledger; put the right one back, or begin a new query."
        )

    def with_batch(self, query: str, entries: dict[str, LedgerEntry]) -> "Ledger":
        return Ledger(query, {**self.entries, **entries})


def load(directory: Path) -> Ledger:
    """The ledger in this directory; an empty one if there is none."""
    file = directory / FILE_NAME
    try:
        return msgspec.json.decode(file.read_bytes(), type=Ledger)
    except FileNotFoundError:
        return Ledger()
    except (msgspec.DecodeError, OSError) as error:
        raise LogError(f"the ledger {file} cannot be read: {error}; put back the one that the query wrote.") from None


def save(directory: Path, ledger: Ledger) -> None:
    """Put the ledger in the place of the old one, at once or not at all."""
    directory.mkdir(parents=True, exist_ok=True)
    draft = directory / f".{FILE_NAME}.{os.getpid()}"
    with draft.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(ledger), indent=1))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(directory / FILE_NAME)
