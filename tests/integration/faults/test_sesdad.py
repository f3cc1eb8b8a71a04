"""Sites of three brokers as real processes: kill -9 of one in each, returns and freezes, under traffic."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.cluster.config import Cluster, parse_cluster
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.processes import Processes
from holdfast.cluster.status import cluster_status
from holdfast.model.errors import HoldfastError, Refused
from holdfast.model.trace import Event
from holdfast.simulation.checkers import Verdict, check

TEXT = """
name = "sites"
protocol = "sesdad"
routing = "{routing}"

[sites.lisbon]
[sites.porto]
parent = "lisbon"
[sites.faro]
parent = "lisbon"
"""
PERIOD_S = 0.004
PATIENCE_S = 30.0


class Player:
    """A client of a site that publishes without a pause and reads what everybody publishes."""

    def __init__(self, client: holdfast.Client, subscription: holdfast.Subscription, arrived: asyncio.Event) -> None:
        self.client, self.subscription, self.arrived = client, subscription, arrived
        self.published, self.stopped = 0, False
        self.got: dict[str, int] = {}

    async def publish(self) -> None:
        while not self.stopped:
            guarantee: holdfast.GuaranteeName = "fifo" if self.published % 4 else "eventual"
            await self.client.publish("t/all", b"%d" % self.published, guarantee=guarantee)
            self.published += 1
            await asyncio.sleep(PERIOD_S)

    async def read(self) -> None:
        async for message in self.subscription:
            self.got[message.publisher] = self.got.get(message.publisher, 0) + 1
            self.arrived.set()


Story = Callable[[Processes, list[Player]], Awaitable[None]]


async def until(players: list[Player], is_so: Callable[[], bool]) -> None:
    """Return when it is so; it is looked at whenever something has arrived."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            players[0].arrived.clear()
            await players[0].arrived.wait()


async def flows(players: list[Player]) -> None:
    """Return when everybody has got something that each of the others has published from now on."""
    marks = {player.client.name: player.published for player in players}
    await until(
        players, lambda: all(one.got.get(name, 0) > mark + 2 for one in players for name, mark in marks.items())
    )


async def play(directory: Path, story: Story, routing: str = "filtering") -> Verdict:
    cluster = parse_cluster(TEXT.format(routing=routing))
    cluster = cluster.at_ports(free_port_pairs(len(cluster.brokers)))
    processes = Processes(cluster, directory, attached=True)
    rows: list[Event] = []
    await processes.start_brokers()
    try:
        players: list[Player] = []
        arrived = asyncio.Event()
        for site in cluster.sites:
            client = await holdfast.connect(
                cluster.addresses_of(site.name), name=f"at-{site.name}", cluster="sites", trace=rows.append
            )
            players.append(Player(client, await client.subscribe("t/#"), arrived))
        reading = [asyncio.ensure_future(player.read()) for player in players]
        publishing = [asyncio.ensure_future(player.publish()) for player in players]
        await flows(players)
        await story(processes, players)
        await flows(players)
        for player in players:
            player.stopped = True
        await asyncio.gather(*publishing)
        total = {player.client.name: player.published for player in players}
        for player in players:
            await player.client.flush()
        await until(players, lambda: all(player.got == total for player in players))
        for task in reading:
            task.cancel()
        for player in players:
            await player.client.close()
    finally:
        await processes.stop()
    return check(rows)


async def ready(processes: Processes, names: list[str]) -> None:
    for name in names:
        await processes.wait_ready(name)


@pytest.mark.parametrize("routing", ["filtering", "flooding"])
def test_kill_9_of_one_broker_in_each_site_costs_nobody_a_message(tmp_path: Path, routing: str):
    async def story(processes: Processes, players: list[Player]) -> None:
        for name in ("lisbon.1", "porto.2", "faro.3"):
            processes.crash(name)
        await flows(players)

    verdict = holdfast.run(play(tmp_path, story, routing))
    assert verdict.ok, verdict.examples
    # Each time that messages flow, each of three clients gets three messages of each.
    assert verdict.deliveries >= 3 * 27


def test_brokers_that_return_are_told_everything_and_the_others_may_be_killed_then(tmp_path: Path):
    async def story(processes: Processes, players: list[Player]) -> None:
        for victims in (["lisbon.1", "porto.1"], ["lisbon.2", "porto.2"], ["lisbon.3", "porto.3"]):
            for name in victims:
                processes.crash(name)
            await flows(players)
            for name in victims:
                processes.restart(name)
            await ready(processes, victims)
        processes.freeze("lisbon.2")
        await flows(players)
        processes.thaw("lisbon.2")
        await ready(processes, ["lisbon.2"])

    verdict = holdfast.run(play(tmp_path, story))
    assert verdict.ok, verdict.examples


def test_status_names_the_site_and_its_designated_broker_and_stronger_guarantees_are_refused(tmp_path: Path):
    async def story() -> None:
        cluster: Cluster = parse_cluster('protocol = "sesdad"\n[sites.lisbon]\n')
        cluster = cluster.at_ports(free_port_pairs(3))
        processes = Processes(cluster, tmp_path, attached=True)
        await processes.start_brokers()
        try:
            seen = await cluster_status(cluster)
            assert [broker.ready for broker in seen.brokers] == [True, True, True]
            async with holdfast.connect(cluster.addresses_of("lisbon")[:1], name="one") as client:
                assert client.protocol == "sesdad"
                with pytest.raises(HoldfastError, match="eventual"):
                    await client.publish("t", b"", guarantee="total")
                receipt = await client.publish("t", b"", guarantee="fifo")
                await receipt.confirmed()
        finally:
            await processes.stop()

    holdfast.run(story())


def test_a_client_is_told_in_a_sentence_if_the_cluster_is_another_one(tmp_path: Path):
    async def story() -> None:
        cluster = parse_cluster('name = "sites"\nprotocol = "sesdad"\nreplicas = 1\n[sites.lisbon]\n')
        cluster = cluster.at_ports(free_port_pairs(1))
        processes = Processes(cluster, tmp_path, attached=True)
        await processes.start_brokers()
        try:
            with pytest.raises(Refused, match="belongs to cluster 'sites'"):
                async with holdfast.connect(cluster.addresses_of("lisbon"), cluster="other"):
                    pass
        finally:
            await processes.stop()

    holdfast.run(story())
