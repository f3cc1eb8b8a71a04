"""SIGSTOP and SIGCONT: a broker that was given up and is alive comes back as a newcomer."""

from pathlib import Path

import pytest

import holdfast
from holdfast.cluster.status import broker_status
from tests.integration.faults.support_faults import Stage, play


@pytest.mark.parametrize("victim", ["1", "3", "0"], ids=["inner", "edge", "root"])
def test_a_frozen_broker_is_replaced_and_comes_back_as_a_newcomer(tmp_path: Path, victim: str):
    async def story(stage: Stage) -> None:
        stage.processes.freeze(victim)
        await stage.flows_again()
        stage.processes.thaw(victim)
        await stage.said(victim, "begins anew")
        await stage.is_ready(victim)
        await stage.flows_again()
        status = await broker_status(stage.processes.cluster.broker(victim))
        assert status.status["parent"] is not None

    verdict = holdfast.run(play(tmp_path, story))
    assert verdict.ok, verdict.examples


def test_a_short_freeze_is_nobodys_loss(tmp_path: Path):
    async def story(stage: Stage) -> None:
        stage.processes.freeze("1")
        await stage.passes(100)
        stage.processes.thaw("1")
        await stage.flows_again()
        assert not stage.log("1", "begins anew")

    verdict = holdfast.run(play(tmp_path, story))
    assert verdict.ok, verdict.examples
