"""Brokers that come and go under traffic: one joins with a bare address, one leaves gracefully."""

import asyncio
import signal
from pathlib import Path

import holdfast
from holdfast.cluster.config import LOOPBACK
from holdfast.cluster.status import broker_status
from tests.integration.faults.support_faults import Stage, play
from tests.integration.support_brokers import QUICK, serving_child


def test_a_broker_joins_under_traffic_with_one_address_and_its_parent_may_be_lost_then(tmp_path: Path):
    async def story(stage: Stage) -> None:
        seed = (LOOPBACK, stage.processes.cluster.broker("1").port)
        settings = {"name": "new", "cluster": "faults", "seeds": (seed,), "link": QUICK}
        async with serving_child(tmp_path, **settings) as new:
            assert new.said("found", peer="1", tolerance=1)
            await stage.flows_again()
            stage.processes.crash("1")
            await new.waits_to_say("repair_end", peer="0")
            await stage.flows_again()

    verdict = holdfast.run(play(tmp_path, story))
    assert verdict.ok, verdict.examples


def test_a_broker_that_was_given_up_finds_its_way_back_although_whom_it_had_joined_is_lost(tmp_path: Path):
    async def story(stage: Stage) -> None:
        seed = (LOOPBACK, stage.processes.cluster.broker("1").port)
        async with serving_child(tmp_path, name="new", cluster="faults", seeds=(seed,), link=None) as new:
            new.send(signal.SIGSTOP)
            await stage.said("1", "suspect")
            stage.processes.crash("1")
            await stage.flows_again()
            new.send(signal.SIGCONT)
            await new.waits_to_say("begins anew")
            await stage.until(lambda: [line["event"] for line in new.lines()].count("serving") == 2, "it serves again")
            await stage.flows_again()

    verdict = holdfast.run(play(tmp_path, story))
    assert verdict.ok, verdict.examples


def test_a_broker_that_leaves_under_traffic_costs_nobody_a_message(tmp_path: Path):
    async def story(stage: Stage) -> None:
        code = await asyncio.to_thread(stage.processes.dismiss, "3")
        assert code == 0
        await stage.flows_again()
        assert "3" not in [player.client.broker for player in stage.players]
        above = await broker_status(stage.processes.cluster.broker("1"))
        assert above.status["children"] == ["4"]

    verdict = holdfast.run(play(tmp_path, story))
    assert verdict.ok, verdict.examples
