"""Random interleavings of real brokers and clients: every promise is kept, and everything comes to rest.

SWARM_RUNS and SWARM_FIRST choose other seeds. A failure names its seed; `blow(seed)` repeats it.
"""

import os

import pytest

from tests.support.storms import Storm, blow
from tests.swarm.seeds import FIRST, name

RUNS = int(os.environ.get("SWARM_RUNS") or 500)
CHUNK = 50
PORTIONS = [range(start, min(start + CHUNK, FIRST + RUNS)) for start in range(FIRST, FIRST + RUNS, CHUNK)]


@pytest.mark.parametrize("seeds", PORTIONS, ids=name)
def test_random_interleavings_keep_every_promise_and_come_to_rest(seeds: range):
    for seed in seeds:
        complaints = blow(seed)
        assert not complaints, f"tests.support.storms.blow({seed}):\n" + "\n".join(complaints)


def test_one_seed_makes_one_run():
    for seed in range(20):
        runs = [Storm(seed), Storm(seed)]
        for storm in runs:
            storm.blow()
        assert runs[0].world.events == runs[1].world.events
        assert runs[0].world.moves == runs[1].world.moves


def test_storms_show_what_they_are_for():
    """A storm that stayed calm would prove nothing: somewhere in these seeds all of it happens."""
    seen: set[str] = set()
    for seed in range(200):
        storm = Storm(seed)
        storm.blow()
        seen |= {report.event for _, report in storm.world.reports}
        seen |= {f"guarantee {row.guarantee}" for row in storm.world.events if row.event == "deliver"}
        seen |= {"confirmed"} if storm.world.confirmed else set()
    expected = {"congested", "relieved", "resume", "detach", "end", "leaving", "stopped", "unsubscribe", "confirmed"}
    expected |= {f"guarantee {guarantee}" for guarantee in ("eventual", "fifo", "causal", "total")}
    assert expected <= seen
    # Nobody in a storm breaks the rules.
    assert "violation" not in seen
