"""Who has a total message on the wrong side of another: the arrays against the words."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from holdfast.pipeline.audit.disputes import judge_groups, longest_fits, wrong_sides
from holdfast.pipeline.audit.judging import arrivals, judge
from holdfast.pipeline.audit.pasts import find_clocks


def offenders(sequences: list[list[int]], total: list[bool]) -> set[tuple[int, int]]:
    """(client, total message), pair by pair."""
    found = set()
    for message, other in product(range(len(total)), repeat=2):
        if message == other or not total[message] or (total[other] and other > message):
            continue
        clients = [at for at, one in enumerate(sequences) if message in one and other in one]
        first = [sequences[at].index(other) < sequences[at].index(message) for at in clients]
        if not clients:
            continue
        right = first[0] if 2 * sum(first) == len(first) else 2 * sum(first) > len(first)
        found |= {(client, message) for client, before in zip(clients, first, strict=True) if before is not right}
    return found


def random_group(random: Random) -> tuple[list[list[int]], list[bool]]:
    members = list(range(random.randint(1, 9)))
    total = [random.random() < 0.5 for _ in members]
    sequences = []
    for _ in range(random.randint(1, 5)):
        held = [one for one in members if random.random() < 0.8] or members[:1]
        for _ in range(random.choice((0, 0, 1, 3))):
            one, two = random.randrange(len(held)), random.randrange(len(held))
            held[one], held[two] = held[two], held[one]
        sequences.append(held)
    return sequences, total


def test_offenders_are_those_that_the_words_name():
    agreed = disagreed = 0
    for seed in range(2_000):
        sequences, total = random_group(Random(seed))
        arrays, totals = [np.array(one) for one in sequences], np.array(total)
        expected = offenders(sequences, total)
        found = list(wrong_sides(arrays, totals))
        assert {(client, message) for client, message, *_ in found} == expected, seed
        for client, message, other, rightful, other_first in found:
            ours, theirs = sequences[client], sequences[rightful]
            assert (ours.index(other) < ours.index(message)) is not other_first
            assert (theirs.index(other) < theirs.index(message)) is other_first
        if longest_fits(arrays, totals):
            assert not expected, seed
            agreed += 1
        disagreed += bool(expected)
    # The short cut has to be taken often, and there has to be something to find.
    assert agreed > 500
    assert disagreed > 500


@pytest.mark.parametrize(
    "task", [find_clocks, partial(judge, examples_max=5, clock_bytes_max=1), arrivals, judge_groups]
)
def test_a_task_that_is_sent_nothing_finds_nothing(task: Callable[[list[pa.RecordBatch]], Iterator[pa.RecordBatch]]):
    assert sum(batch.num_rows for batch in task([])) == 0


def test_whoever_came_later_agrees_with_who_was_there_all_along():
    everything, late = np.array([3, 0, 1, 2]), np.array([2, 1])
    assert longest_fits([everything, np.array([1, 2])], np.array([True, False, False, True]))
    assert longest_fits([everything, late], np.array([True, False, False, True]))
    assert not longest_fits([everything, late], np.array([True, True, False, True]))
