"""LoCaMu as processes: brokers are killed, frozen and started again under traffic, and everybody goes on where it was.

The tree is of six brokers, with clients at five of them; whoever is absent is passed over, up to the tolerance.
"""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cluster.config import LOOPBACK, Broker
from holdfast.cluster.processes import STATE
from holdfast.cluster.status import broker_status, tell
from holdfast.model.errors import ConfigError
from holdfast.model.guarantees import GuaranteeError
from holdfast.simulation.checkers import Verdict
from holdfast.storage.state_log import SUFFIX
from tests.integration.faults.support_faults import PATIENCE_S, TREE, Stage, play, settled, tree_of_processes
from tests.integration.support_brokers import address_of, serving_child, until

RATE = 200
HOMES = ("3", "4", "5")
"""The brokers above these have no clients: traffic of all must flow on when one of them is absent."""


def played(directory: Path, story, *, tolerance: int = 1, homes: tuple[str, ...] = HOMES) -> Verdict:
    verdict = holdfast.run(
        play(directory, story, TREE, homes, tolerance=tolerance, rate=RATE, under_way_max=RATE, protocol="locamu")
    )
    assert verdict.ok, verdict.examples
    assert verdict.deliveries > 0
    return verdict


async def sees(stage: Stage, name: str, other: str, absent: bool) -> None:
    """Return when that broker takes the other one for absent, or for there."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            said = await broker_status(stage.processes.cluster.broker(name))
            if (other in said.status["suspected"]) is absent:
                return
            await asyncio.sleep(0.02)


def test_messages_pass_a_killed_broker_over_and_it_is_given_what_it_missed(tmp_path: Path):
    async def story() -> None:
        async with tree_of_processes(tmp_path, {"0": None, "1": "0", "2": "1"}, protocol="locamu") as processes:
            first, last = (processes.cluster.broker(name).address for name in ("0", "2"))
            async with (
                holdfast.connect(first, name="alice", cluster="faults") as alice,
                holdfast.connect(last, name="bob", cluster="faults") as bob,
            ):
                inbox = await bob.subscribe("t")
                await alice.publish("t", b"all are there", guarantee="causal")
                assert (await inbox.get(10)).payload == b"all are there"
                # What a broker has told in part when it dies waits for it: see the stories below.
                await settled(processes)
                processes.crash("1")
                await alice.publish("t", b"one is absent", guarantee="causal")
                assert (await inbox.get(10)).payload == b"one is absent"
                assert (await broker_status(processes.cluster.broker("0"))).status["kept"] > 0
                processes.restart("1")
                await settled(processes)

    holdfast.run(story())


def test_brokers_are_killed_one_after_the_other_in_the_midst_of_traffic(tmp_path: Path):
    async def story(stage: Stage) -> None:
        for name in ("1", "0"):
            stage.processes.crash(name)
            await stage.passes(RATE // 4)
            stage.processes.restart(name)
            await stage.is_ready(name)
            await stage.flows_again()

    played(tmp_path, story)


def test_a_client_goes_on_with_its_session_when_its_broker_was_killed_and_is_back(tmp_path: Path):
    async def story(stage: Stage) -> None:
        stage.processes.crash("3")
        await stage.passes(RATE // 4)
        stage.processes.restart("3")
        await stage.is_ready("3")
        await stage.flows_again()

    played(tmp_path, story)


def test_two_neighbours_may_be_killed_at_once_where_the_tolerance_is_two(tmp_path: Path):
    async def story(stage: Stage) -> None:
        stage.processes.crash("0")
        stage.processes.crash("1")
        await stage.passes(RATE // 4)
        for name in ("1", "0"):
            stage.processes.restart(name)
        for name in ("1", "0"):
            await stage.is_ready(name)
        await stage.flows_again()

    played(tmp_path, story, tolerance=2)


def test_a_frozen_broker_is_suspected_passed_over_and_goes_on_when_it_thaws(tmp_path: Path):
    async def story(stage: Stage) -> None:
        stage.processes.freeze("1")
        await sees(stage, "3", "1", absent=True)
        await stage.passes(RATE // 4)
        stage.processes.thaw("1")
        await sees(stage, "3", "1", absent=False)
        await stage.flows_again()

    played(tmp_path, story)


def test_brokers_that_were_all_killed_at_once_go_on_with_what_they_had_written_down(tmp_path: Path):
    async def story(stage: Stage) -> None:
        for name in TREE:
            stage.processes.crash(name)
        for name in TREE:
            stage.processes.restart(name)
        for name in TREE:
            await stage.is_ready(name)
        await stage.flows_again()

    played(tmp_path, story)


def test_total_order_is_refused_and_a_damaged_journal_keeps_a_broker_from_starting(tmp_path: Path):
    async def story() -> None:
        async with tree_of_processes(tmp_path, {"0": None, "1": "0"}, protocol="locamu") as processes:
            address = processes.cluster.broker("1").address
            async with holdfast.connect(address, name="alice", cluster="faults") as alice:
                inbox = await alice.subscribe("t")
                with pytest.raises(GuaranteeError, match="locamu gives eventual, fifo, causal, not total"):
                    await alice.publish("t", b"", guarantee="total")
                await alice.publish("t", b"causal", guarantee="causal")
                assert (await inbox.get(10)).payload == b"causal"
            journal = tmp_path / STATE / f"1{SUFFIX}"
            await until(journal.exists, "the broker has written something down")
            processes.crash("1")
            data = bytearray(journal.read_bytes())
            data[len(data) // 2] ^= 1
            journal.write_bytes(data)
            processes.restart("1")
            with pytest.raises(ConfigError, match=r"broker 1 cannot begin: .* is damaged at byte"):
                await processes.wait_ready("1")

    holdfast.run(story())


def test_a_broker_that_is_started_with_an_empty_directory_under_a_used_name_ends(tmp_path: Path):
    async def story() -> None:
        # It has said nothing yet: there are no numbers by which it could be noticed.
        async with tree_of_processes(tmp_path, {"0": None, "1": "0"}, protocol="locamu") as processes:
            address = processes.cluster.broker("0").address
            async with holdfast.connect(address, name="alice", cluster="faults") as alice:
                # Known everywhere when it is confirmed, so the two have met.
                await alice.subscribe("t")
            processes.crash("1")
            (tmp_path / STATE / f"1{SUFFIX}").unlink()
            processes.restart("1")
            [running] = [one for one in processes.running if one.name == "1"]
            await until(lambda: not running.process.is_alive(), "the broker ends")
            assert (await broker_status(processes.cluster.broker("0"))).ready

    holdfast.run(story())
    log = (tmp_path / "logs" / "broker-1.log").read_text()
    assert "broker 1 has lost what it wrote down: 0 knows it by the birth" in log


def test_a_broker_joins_by_an_address_survives_a_kill_and_leaves_for_good(tmp_path: Path):
    async def story() -> None:
        async with tree_of_processes(tmp_path, {"0": None, "1": "0", "2": "1"}, protocol="locamu") as processes:
            cluster = processes.cluster
            settings: dict[str, Any] = {
                "name": "new",
                "cluster": "faults",
                "protocol": "locamu",
                "seeds": ((LOOPBACK, cluster.broker("2").port),),
                "state_dir": str(tmp_path / STATE),
                "newcomer": None,
                "experiments": True,
            }
            async with holdfast.connect(cluster.broker("0").address, name="alice", cluster="faults") as alice:
                async with serving_child(tmp_path, **settings) as first:
                    place = {"port": first.port, "health_port": first.health_port}
                    async with holdfast.connect(address_of(first), name="eve", cluster="faults") as eve:
                        inbox = await eve.subscribe("t")
                        await alice.publish("t", b"to the newcomer", guarantee="causal")
                        assert (await inbox.get(10)).payload == b"to the newcomer"
                        first.send(signal.SIGKILL)
                        await first.exit_code()
                        await alice.publish("t", b"while it was away", guarantee="causal")
                        async with serving_child(tmp_path, **settings, **place) as again:
                            assert (await inbox.get(10)).payload == b"while it was away"
                            await eve.close()
                            here = Broker("new", None, LOOPBACK, again.port, again.health_port)
                            await tell(here, "/leave")
                            assert await again.exit_code() == 0
                said = await broker_status(cluster.broker("2"))
                assert said.status["children"] == []
                with pytest.raises(ConfigError, match="broker 1 cannot leave the tree: only a leaf"):
                    await tell(cluster.broker("1"), "/leave")

    holdfast.run(story())
