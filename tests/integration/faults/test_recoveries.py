"""Processes that are killed and started again, and know no more than their own parent and what they wrote down."""

from pathlib import Path

import msgspec

import holdfast
from holdfast.cluster.config import LOOPBACK, Broker, Cluster, checked
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.processes import STATE, Processes
from holdfast.cluster.status import broker_status
from holdfast.protocols.durable import kept_in
from holdfast.runtime.settings import BrokerSettings
from holdfast.storage.state_file import StateFile
from tests.integration.faults.support_faults import Stage, play, started
from tests.integration.support_brokers import until


class Secretive(Processes):
    """Brokers that are told of nobody but their parent, as one would be that a supervisor starts again."""

    def settings_of(self, broker: Broker, *, newcomer: bool) -> BrokerSettings:
        settings = super().settings_of(broker, newcomer=newcomer)
        above = {name: place for name, place in settings.addresses.items() if name == broker.parent}
        return msgspec.structs.replace(settings, addresses=above, join=(), newcomer=None)


def cluster_of(parents: dict[str, str | None]) -> Cluster:
    ports = free_port_pairs(len(parents))
    brokers = tuple(
        Broker(name, parent, LOOPBACK, port, health)
        for (name, parent), (port, health) in zip(parents.items(), ports, strict=True)
    )
    return checked(Cluster("faults", "ginger", brokers, (), 1), "the test")


def state_of(directory: Path, name: str) -> StateFile:
    return StateFile(directory / STATE, "faults", name)


def knows(directory: Path, name: str) -> set[str]:
    return {one.name for one in kept_in(state_of(directory, name).pairs).tree}


def test_brokers_that_are_killed_find_the_tree_again_though_their_parent_is_gone(tmp_path: Path):
    """The leaf and then its parent are killed; the root follows. Leaf and root come back, with what they wrote down."""

    async def story() -> None:
        processes = Secretive(cluster_of({"0": None, "1": "0", "2": "0", "3": "1"}), tmp_path, attached=True)
        async with started(processes):
            await until(lambda: {"0", "1"} <= knows(tmp_path, "3"), "the leaf has written down who is there")
            await until(lambda: {"1", "2"} <= knows(tmp_path, "0"), "and so has the root")
            epoch = kept_in(state_of(tmp_path, "3").pairs).epoch
            processes.crash("3")
            processes.crash("1")
            processes.restart("3")
            await processes.wait_ready("3")
            assert kept_in(state_of(tmp_path, "3").pairs).epoch > epoch
            processes.crash("0")
            processes.restart("0")
            await processes.wait_ready("0")
            root = await broker_status(processes.cluster.broker("0"))
            assert root.status["parent"] in {"2", "3"}
            async with (
                holdfast.connect(processes.cluster.broker("3").address, name="a", cluster="faults") as alice,
                holdfast.connect(processes.cluster.broker("0").address, name="b", cluster="faults") as bob,
            ):
                inbox = await bob.subscribe("t")
                await alice.publish("t", b"found")
                assert (await inbox.get(10)).payload == b"found"

    holdfast.run(story())


def test_a_tree_of_which_all_were_killed_at_once_grows_again_from_its_root(tmp_path: Path):
    async def story() -> None:
        names = ("0", "1", "2")
        processes = Secretive(cluster_of({"0": None, "1": "0", "2": "0"}), tmp_path, attached=True)
        async with started(processes):
            await until(lambda: all(knows(tmp_path, name) for name in names), "all have written down who is there")
            for name in names:
                processes.crash(name)
            for name in names:
                processes.restart(name)
            for name in names:
                await processes.wait_ready(name)
            root = await broker_status(processes.cluster.broker("0"))
            assert root.status["parent"] is None

    holdfast.run(story())


def test_a_torn_state_is_set_aside_and_the_broker_comes_back_by_its_configuration(tmp_path: Path):
    async def story(stage: Stage) -> None:
        stage.processes.crash("3")
        await stage.flows_again()
        file = state_of(tmp_path, "3").path
        file.write_bytes(file.read_bytes()[:-1])
        stage.processes.restart("3")
        await stage.is_ready("3")
        [said] = stage.log("3", "state refused")
        assert "is damaged" in said["reason"]
        assert file.with_name("3.state.refused-1").exists()
        await stage.flows_again()

    verdict = holdfast.run(play(tmp_path, story))
    assert verdict.ok, verdict.examples
