"""The ledger of a streaming sink: with which number a micro-batch begins, whatever was repeated."""

from pathlib import Path

import pytest

from holdfast.pipeline.ledger import FILE_NAME, Ledger, LedgerEntry, load, save
from holdfast.pipeline.logs import LogError

LEDGER = Ledger("q", {"0": LedgerEntry(batch=7, before=300, last=350), "1": LedgerEntry(batch=5, before=10, last=20)})


@pytest.mark.parametrize(
    ("partition", "batch", "before"),
    [
        (0, 8, 350),
        (0, 7, 300),
        (1, 8, 20),
        (2, 8, 0),
    ],
    ids=["the next", "repeated", "after a pause", "a new partition"],
)
def test_a_micro_batch_begins_after_the_last_or_where_it_began_before(partition: int, batch: int, before: int):
    assert LEDGER.before("q", partition, batch) == before


def test_a_batch_older_than_the_last_is_refused():
    with pytest.raises(LogError, match=r"micro-batch 6 .* batch 7 was the last"):
        LEDGER.before("q", 0, 6)


def test_another_query_is_refused_and_an_empty_ledger_is_anybodys():
    with pytest.raises(LogError, match="belongs to the query q, and this is r"):
        LEDGER.before("r", 0, 8)
    assert Ledger().before("r", 0, 0) == 0


def test_it_is_kept_with_all_partitions_of_earlier_batches(tmp_path: Path):
    assert load(tmp_path) == Ledger()
    save(tmp_path / "deep", LEDGER.with_batch("q", {"0": LedgerEntry(8, 350, 360)}))
    kept = load(tmp_path / "deep")
    assert kept.entries == {"0": LedgerEntry(8, 350, 360), "1": LedgerEntry(5, 10, 20)}
    assert [file.name for file in (tmp_path / "deep").iterdir()] == [FILE_NAME]


def test_a_damaged_ledger_is_never_an_empty_one(tmp_path: Path):
    (tmp_path / FILE_NAME).write_text("{")
    with pytest.raises(LogError, match="cannot be read"):
        load(tmp_path)
