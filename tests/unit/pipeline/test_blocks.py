"""Rows in blocks: whatever is packed comes out again, where it belongs."""

import numpy as np
import pyarrow as pa
import pytest

from holdfast.pipeline.audit import blocks
from holdfast.pipeline.audit.blocks import EVERYWHERE, pack, unpacked


def batch(rows: list[tuple[int, int, int]]) -> pa.RecordBatch:
    slots, homes, numbers = zip(*rows, strict=True)
    columns = [pa.array(np.array(slots, np.int32)), pa.array(np.array(homes, np.int32)), pa.array(numbers)]
    texts = pa.array([None if number % 3 == 0 else str(number) for number in numbers])
    return pa.record_batch([*columns, texts], names=["slot", "home", "number", "text"])


@pytest.mark.parametrize("rows_at_once", [1, 7, 1000])
def test_every_row_is_in_a_block_of_its_slot_and_home(monkeypatch: pytest.MonkeyPatch, rows_at_once: int):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", rows_at_once)
    rows = [(EVERYWHERE if number % 5 == 0 else number % 3, number % 2, number) for number in range(60)]
    packed = list(pack([batch(rows[at : at + 10]) for at in range(0, 60, 10)]))
    found = []
    for one in packed:
        for at in range(one.num_rows):
            place = (one.column("slot")[at].as_py(), one.column("home")[at].as_py())
            for inner in unpacked([one.slice(at, 1)]):
                assert inner.schema.names == ["number", "text"]
                found += [(*place, number) for number in inner.column("number").to_pylist()]
    assert sorted(found) == sorted(rows)


def test_nothing_makes_no_block():
    assert list(pack([])) == []
    assert list(pack([batch([(0, 0, 1)]).slice(0, 0)])) == []
