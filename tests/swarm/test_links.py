"""Random workloads over links that break, hang, stand still or crawl: sessions lose nothing and everything drains."""

import pytest

from holdfast.simulation.workloads import FAULT_KINDS, FaultKind, Trouble
from tests.swarm.seeds import RUNS, chunks, complaints, name

# A tenth as many of each kind as there are runs without faults.
SOME = chunks(max(1, RUNS // 10))


@pytest.mark.parametrize("seeds", SOME, ids=name)
@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_random_workloads_keep_every_promise_over_bad_links(kind: FaultKind, seeds: range):
    assert "\n\n".join(complaints(seeds, Trouble((kind,)))) == ""


@pytest.mark.parametrize("seeds", SOME, ids=name)
def test_random_workloads_keep_every_promise_when_all_of_it_happens_at_once(seeds: range):
    assert "\n\n".join(complaints(seeds, Trouble(FAULT_KINDS))) == ""
