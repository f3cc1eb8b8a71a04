"""kill -9, on real processes, under traffic of every guarantee: nothing is lost, repeated or reordered."""

from pathlib import Path

import pytest

import holdfast
from tests.integration.faults.support_faults import HOMES, Stage, play


@pytest.mark.parametrize("victim", ["1", "3", "0"], ids=["inner", "edge", "root"])
def test_a_broker_that_is_killed_costs_nobody_a_message(tmp_path: Path, victim: str):
    async def story(stage: Stage) -> None:
        stage.processes.crash(victim)
        await stage.flows_again()
        homes = [player.client.broker for player in stage.players]
        assert victim not in homes
        assert all(now == then for now, then in zip(homes, HOMES, strict=True) if then != victim)

    verdict = holdfast.run(play(tmp_path, story))
    assert verdict.ok, verdict.examples


def test_brokers_that_are_killed_one_after_the_other_cost_nobody_a_message(tmp_path: Path):
    async def story(stage: Stage) -> None:
        for victim in ("1", "0"):
            stage.processes.crash(victim)
            await stage.flows_again()

    verdict = holdfast.run(play(tmp_path, story))
    assert verdict.ok, verdict.examples


def test_a_broker_that_is_started_again_takes_part_again(tmp_path: Path):
    async def story(stage: Stage) -> None:
        for victim in ("1", "0"):
            stage.processes.crash(victim)
            await stage.flows_again()
            stage.processes.restart(victim)
            await stage.is_ready(victim)
            await stage.flows_again()
        # Now everything hangs on those that came back: whoever is above them is lost.
        stage.processes.crash("2")
        await stage.flows_again()

    verdict = holdfast.run(play(tmp_path, story))
    assert verdict.ok, verdict.examples


def test_two_adjacent_brokers_that_are_killed_at_once_cost_nobody_a_message_if_two_are_tolerated(tmp_path: Path):
    async def story(stage: Stage) -> None:
        stage.processes.crash("1")
        stage.processes.crash("0")
        await stage.flows_again()

    verdict = holdfast.run(play(tmp_path, story, tolerance=2))
    assert verdict.ok, verdict.examples
