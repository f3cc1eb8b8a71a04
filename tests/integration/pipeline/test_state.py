"""Balances from what was delivered: equal at replicas that agree on the order, different at one that does not."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.model.batches import Message
from holdfast.model.errors import ConfigError
from holdfast.pipeline.state import balances, divergences, find_recordings, negatives, read_replicas, replicas
from holdfast.services.bank import ApplyInterest, Bank, Deposit, Operation, Withdraw, encode, guarantee_of, keys_of
from holdfast.storage.recordings import RecordingWriter

TOPIC, ACCOUNTS = "bank/lisbon", ("PT50-1", "PT50-2")


def message(seq: int, operation: Operation) -> Message:
    return Message(TOPIC, encode(operation), "ann", seq, guarantee_of(operation), keys_of(operation))


def record(directory: Path, replica: str, messages: list[Message]) -> None:
    with RecordingWriter(directory / replica) as writer:
        writer.append(messages, 1)


def test_replicas_that_disagree_are_found_by_account(spark: SparkSession, tmp_path: Path):
    operations: list[Operation] = [
        Deposit("PT50-1", 50_00),
        Withdraw("PT50-1", 120_00),
        ApplyInterest("PT50-1"),
        Deposit("PT50-2", 1),
        Withdraw("PT50-2", 500_00),
    ]
    told = [message(seq, operation) for seq, operation in enumerate(operations, 1)]
    record(tmp_path, "c0", told)
    record(tmp_path, "c1", told)
    # Without the deposit the withdrawal is refused: everything depends on which came first.
    record(tmp_path, "c2", [told[1], told[0], *told[2:]])
    found = balances(read_replicas(spark, tmp_path), ACCOUNTS).persist()
    bank = Bank(ACCOUNTS)
    for one in told:
        bank.apply(one)
    held = {(row["replica"], row["account"]): row["cents"] for row in found.collect()}
    assert {account: held["c1", account] for account in ACCOUNTS} == bank.balances
    [row] = divergences(found).collect()
    assert (row["topic"], row["account"]) == (TOPIC, "PT50-1")
    assert row["replicas"] == {"c0": 3007, "c1": 3007, "c2": held["c2", "PT50-1"]}
    assert row["highest_cents"] == held["c2", "PT50-1"] > row["lowest_cents"]
    summed = {row["replica"]: (row["applied"], row["refused"]) for row in replicas(found).collect()}
    assert summed == {"c0": (5, 1), "c1": (5, 1), "c2": (5, 2)}
    assert negatives(found).isEmpty()


def test_a_balance_below_zero_is_found(spark: SparkSession, tmp_path: Path):
    record(tmp_path, "c0", [message(1, Deposit("PT50-1", 5))])
    state = balances(read_replicas(spark, tmp_path), ACCOUNTS, opening_cents=-1)
    assert [row.asDict() for row in negatives(state).collect()] == [
        {"topic": TOPIC, "account": "PT50-2", "replica": "c0", "cents": -1}
    ]


def test_a_directory_without_recordings_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="there is no recording in"):
        find_recordings(tmp_path)
