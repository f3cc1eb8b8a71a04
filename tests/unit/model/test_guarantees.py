"""The four guarantees: their order, their ranks on the wire, and what is refused."""

import pytest

from holdfast.model.errors import LocalMisuse
from holdfast.model.guarantees import (
    CAUSAL,
    EVENTUAL,
    FIFO,
    GUARANTEES,
    TOTAL,
    Guarantee,
    GuaranteeError,
    check_guarantee,
)


def test_guarantees_go_from_the_weakest_to_the_strongest():
    assert list(GUARANTEES) == ["eventual", "fifo", "causal", "total"]
    assert [guarantee.rank for guarantee in GUARANTEES] == [EVENTUAL, FIFO, CAUSAL, TOTAL] == [0, 1, 2, 3]


@pytest.mark.parametrize("rank", range(4))
def test_a_rank_and_a_name_stand_for_the_same_guarantee(rank: int):
    assert check_guarantee(GUARANTEES[rank].value).rank == rank
    assert check_guarantee(GUARANTEES[rank].value) is GUARANTEES[rank]


@pytest.mark.parametrize("text", ["", "Total", "total ", "exactly-once", "3"])
def test_an_unknown_guarantee_is_refused_with_the_legal_ones(text: str):
    with pytest.raises(GuaranteeError, match=r"choose one of eventual, fifo, causal, total") as refusal:
        check_guarantee(text)
    assert repr(text) in str(refusal.value)
    assert isinstance(refusal.value, LocalMisuse)


def test_a_guarantee_reads_as_its_name():
    assert f"{Guarantee.CAUSAL}" == "causal"
