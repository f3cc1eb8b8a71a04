"""A broker with too many neighbours moves its children on, on real processes, under traffic of every guarantee."""

from pathlib import Path

import holdfast
from holdfast.cluster.status import cluster_status
from tests.integration.faults.support_faults import Stage, play

STAR: dict[str, str | None] = {"0": None, "1": "0", "2": "0", "3": "0", "4": "0", "5": "0"}
DEGREE_MAX = 3


async def degrees(stage: Stage) -> dict[str, int]:
    status = await cluster_status(stage.processes.cluster)
    return {one.name: one.status["degree"] for one in status.brokers if one.answers}


def test_children_are_moved_and_nobody_misses_a_message(tmp_path: Path):
    async def story(stage: Stage) -> None:
        await stage.said("0", "move_end")
        while max((await degrees(stage)).values()) > DEGREE_MAX:
            await stage.passes(20)
        await stage.flows_again()
        # Whoever the root has kept takes its place, with those that were moved below it.
        stage.processes.crash("0")
        await stage.flows_again()

    homes = ("1", "2", "3", "4", "5")
    verdict = holdfast.run(play(tmp_path, story, parents=STAR, homes=homes, rate=50, degree_max=DEGREE_MAX))
    assert verdict.ok, verdict.examples
