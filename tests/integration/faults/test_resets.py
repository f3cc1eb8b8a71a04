"""Connections that break while the tree is repaired: a reset alone is nobody's loss, and a repair survives it."""

from pathlib import Path

import pytest

import holdfast
from tests.integration.faults.support_faults import ProxiedProcesses, Stage, play

UNDER_WAY_MAX = 200
"""The proxies share a thread with the clients: what piles up there while connections break takes its time."""


def proxied(stage: Stage) -> ProxiedProcesses:
    assert isinstance(stage.processes, ProxiedProcesses)
    return stage.processes


def test_a_connection_that_breaks_is_no_broker_that_is_lost(tmp_path: Path):
    async def story(stage: Stage) -> None:
        for _ in range(10):
            proxied(stage).break_all()
            await stage.flows_again()
        assert proxied(stage).breaks >= 10
        for name in ("0", "1", "2"):
            assert not stage.log(name, "suspect")

    verdict = holdfast.run(play(tmp_path, story, proxied=True, under_way_max=UNDER_WAY_MAX))
    assert verdict.ok, verdict.examples


@pytest.mark.parametrize(("victim", "coordinator"), [("1", "0"), ("0", "1")], ids=["inner", "root"])
def test_connections_that_break_during_a_repair_do_not_spoil_it(tmp_path: Path, victim: str, coordinator: str):
    async def story(stage: Stage) -> None:
        stage.processes.crash(victim)
        await stage.said(coordinator, "repair_start")
        for _ in range(10):
            proxied(stage).break_all()
            await stage.passes(5)
        await stage.flows_again()

    verdict = holdfast.run(play(tmp_path, story, proxied=True, under_way_max=UNDER_WAY_MAX))
    assert verdict.ok, verdict.examples
