"""The fast checkers and the slow ones that follow the words of the promises say the same of every trace."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.simulation.checkers import check
from tests.unit.simulation.reference import KINDS, judge_slowly
from tests.unit.simulation.stories import random_trace

SEEDS = range(3000)
CHUNK = 300


def assert_agreement(seed: int) -> dict[str, int]:
    events = random_trace(seed)
    verdict = check(events)
    expected = judge_slowly(events)
    assert {"deliveries": verdict.deliveries, **verdict.faults} == expected, f"random_trace({seed})"
    assert verdict.ok == (not any(expected[kind] for kind in KINDS))
    return expected


@pytest.mark.parametrize("start", SEEDS[::CHUNK])
def test_thousands_of_small_traces_are_judged_as_by_the_reference(start: int):
    seen: Counter[str] = Counter()
    for seed in range(start, start + CHUNK):
        expected = assert_agreement(seed)
        seen.update(kind for kind in KINDS if expected[kind])
        seen["clean"] += not any(expected[kind] for kind in KINDS)
    # A comparison in which some fault never occurs would compare nothing.
    assert all(seen[kind] >= CHUNK // 20 for kind in (*KINDS, "clean")), seen


@given(st.integers(min_value=len(SEEDS)))
def test_any_other_small_trace_too(seed: int):
    assert_agreement(seed)
