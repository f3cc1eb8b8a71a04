"""The bank's balances at every replica, from the operations that were delivered to it: do the replicas agree?

A replica's recording holds what was delivered to it, in its order, payloads included. Each is given to the same machine
that the replica itself is (`services.bank`), in a task of its own; what is compared afterwards is compared natively.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls them

from holdfast.model.batches import Message
from holdfast.model.errors import ConfigError
from holdfast.model.guarantees import Guarantee
from holdfast.services.bank import ACCOUNTS, OPENING_CENTS, Bank, account_numbers
from holdfast.storage.recordings import is_recording

BALANCES = "replica string, topic string, account string, cents bigint, applied bigint, refused bigint"


def read_replicas(spark: SparkSession, directory: Path | str) -> DataFrame:
    """What was delivered to each replica: a directory of recordings, each named after its replica, or a single one.

    Columns: those of a recording, and `replica`.
    """
    frames = [
        spark.read.format("holdfast").load(str(path.absolute())).withColumn("replica", F.lit(path.name))
        for path in find_recordings(Path(directory))
    ]
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.union(frame)
    return whole


def find_recordings(directory: Path) -> list[Path]:
    """The recording that a directory is, or those that are in it, by name."""
    if is_recording(directory):
        return [directory]
    found = sorted(path for path in directory.iterdir() if is_recording(path)) if directory.is_dir() else []
    if not found:
        raise ConfigError(
            f"there is no recording in {directory}; name a directory that `holdfast demo` or `holdfast sub --record` "
            "wrote, or one that holds several, each named after its replica."
        )
    return found


def balances(
    messages: DataFrame, accounts: Sequence[str] | None = None, opening_cents: int = OPENING_CENTS
) -> DataFrame:
    """The balance of every account at every replica of every bank (a topic) after all that was delivered there.

    Columns: `replica, topic, account, cents`, and of the replica `applied, refused` (operations). `accounts` are those
    of the demonstration if not given.
    """
    known = tuple(accounts) if accounts is not None else account_numbers(ACCOUNTS)

    def applied(delivered: pa.Table) -> pa.Table:
        return _applied(delivered, known, opening_cents)

    return messages.groupBy("replica", "topic").applyInArrow(applied, BALANCES)


def _applied(delivered: pa.Table, accounts: Sequence[str], opening_cents: int) -> pa.Table:
    rows = delivered.sort_by("position").select(["publisher", "seq", "guarantee", "keys", "payload"])
    replica, topic = delivered.column("replica")[0].as_py(), delivered.column("topic")[0].as_py()
    bank = Bank(accounts, opening_cents)
    for batch in rows.to_batches():
        for publisher, seq, guarantee, keys, payload in zip(*(one.to_pylist() for one in batch.columns), strict=True):
            bank.apply(Message(topic, payload, publisher, seq, Guarantee(guarantee), tuple(keys)))
    size = len(bank.balances)
    return pa.table(
        {
            "replica": [replica] * size,
            "topic": [topic] * size,
            "account": list(bank.balances),
            "cents": pa.array(bank.balances.values(), pa.int64()),
            "applied": pa.array([bank.applied] * size, pa.int64()),
            "refused": pa.array([bank.refused] * size, pa.int64()),
        }
    )


def replicas(state: DataFrame) -> DataFrame:
    """One row for each replica of `balances`: `topic, replica, applied, refused, accounts, cents` (in all)."""
    return (
        state.groupBy("topic", "replica")
        .agg(
            F.first("applied").alias("applied"),
            F.first("refused").alias("refused"),
            F.count("*").alias("accounts"),
            F.sum("cents").alias("cents"),
        )
        .orderBy("topic", "replica")
    )


def divergences(state: DataFrame) -> DataFrame:
    """Accounts whose balance is not the same at all replicas of their bank.

    Columns: `topic, account, lowest_cents, highest_cents, replicas` (a map from each replica to its cents).
    """
    return (
        state.groupBy("topic", "account")
        .agg(
            F.min("cents").alias("lowest_cents"),
            F.max("cents").alias("highest_cents"),
            F.map_from_entries(F.array_sort(F.collect_list(F.struct("replica", "cents")))).alias("replicas"),
        )
        .where(F.col("lowest_cents") != F.col("highest_cents"))
        .orderBy("topic", "account")
    )


def negatives(state: DataFrame) -> DataFrame:
    """Balances below zero: `topic, account, replica, cents`."""
    return (
        state.where(F.col("cents") < 0)
        .select("topic", "account", "replica", "cents")
        .orderBy("topic", "account", "replica")
    )
