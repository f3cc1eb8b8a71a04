"""Random workloads without faults: every promise is kept, and everything comes to rest."""

import pytest

from tests.swarm.seeds import RUNS, chunks, complaints, name


@pytest.mark.parametrize("seeds", chunks(RUNS), ids=name)
def test_random_workloads_keep_every_promise(seeds: range):
    assert "\n\n".join(complaints(seeds)) == ""
