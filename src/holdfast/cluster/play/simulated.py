"""The stage in virtual time: the machines of the simulator, one seed for one run.

Virtual time passes while a script waits, for a while or for something, and at no other time.
"""

import typing
from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.client.connecting import LINK, MOVE_S, STEADY_LINK
from holdfast.cluster.play.cast import ROUTING, Cast
from holdfast.cluster.play.grammar import numbered
from holdfast.cluster.play.payloads import payload_of
from holdfast.cluster.play.stage import CONFIRMED_S, QUIET_LIMIT_S, SESSION_S, Deed, NotQuietError
from holdfast.cluster.play.statements import (
    ClientLine,
    Crash,
    Cut,
    Freeze,
    Heal,
    Publish,
    Restart,
    Subscribe,
    Unfreeze,
    Unsubscribe,
)
from holdfast.cluster.status import BrokerStatus, ClusterStatus, status_of
from holdfast.model.trace import Event
from holdfast.protocols.config import BrokerConfig, ClientConfig
from holdfast.protocols.node import BrokerNode
from holdfast.protocols.registry import find_protocol
from holdfast.runtime.settings import JOIN_S, SUSPECT_S, WATCHFUL_LINK
from holdfast.simulation import faults
from holdfast.simulation.applications import judged_rows
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network_settings import LinkSettings, NetworkConfig
from holdfast.simulation.sites import REPLICAS_USUALLY
from holdfast.simulation.world import NotQuiet, Simulation

SEED = 1
STEP_S = 0.005


class SimulatedStage:
    """A cast in virtual time."""

    name = "simulation"

    def __init__(self, seed: int | None = None) -> None:
        """Without a seed the script's own is taken, or the usual one."""
        self.seed = seed
        self._cast = Cast()
        self._parents: Mapping[str, str | None] = {}
        self._sim: Simulation | None = None
        self._published: dict[str, int] = {}

    @property
    def sim(self) -> Simulation:
        assert self._sim is not None, "the stage has begun"
        return self._sim

    def now_ns(self) -> int:
        return round(self.sim.now * 1e9)

    def horizon_ns(self) -> int:
        return self.now_ns()

    async def begin(self, cast: Cast) -> None:
        self._cast = cast
        if self.seed is None:
            self.seed = SEED if cast.seed is None else cast.seed
        places = cast.sites or cast.brokers
        self._sim = Simulation(
            {name: line.parent for name, line in places.items()},
            cast.protocol,
            self.seed,
            network=NetworkConfig(links=_links(cast)),
            broker=_broker_config(cast),
            client=ClientConfig("*", link=LINK, steady=STEADY_LINK, move_s=MOVE_S),
            replicas=next((line.replicas for line in cast.sites.values()), REPLICAS_USUALLY),
            replay="holdfast play with this script and seed",
        )
        sited = {one.name: one.parent for one in cast.cluster().brokers} if cast.sites else {}
        self._parents = sited or self._sim.tree
        for client in cast.clients.values():
            await self.enter(client)
        await self.wait_quiet(QUIET_LIMIT_S)

    async def enter(self, client: ClientLine) -> None:
        self.sim.at(self.sim.now, faults.Attach(f"{client.name}@{client.at}"))

    async def do(self, deed: Deed) -> str:
        sim = self.sim
        match deed:
            case Subscribe(client=client, pattern=pattern, where=where):
                return self._ask(faults.Subscribe(client, pattern, where), waits=deed.waits)
            case Unsubscribe(client=client, pattern=pattern, where=where):
                return self._ask(faults.Unsubscribe(client, pattern, where), waits=True)
            case Publish():
                self._publish(deed)
            case Crash(node=node):
                sim.do(faults.Crash(node))
                if node in sim.clients:
                    sim.client(node).buried = True
            case Freeze(node=node):
                sim.do(faults.Freeze(node))
            case Unfreeze(node=node):
                sim.do(faults.Thaw(node))
            case Restart(node=node):
                sim.do(faults.Recover(node))
            case Cut(one=one, other=other):
                sim.do(faults.Cut(one, other))
            case Heal():
                sim.do(faults.Heal())
        return ""

    def _ask(self, request: faults.Subscribe | faults.Unsubscribe, *, waits: bool) -> str:
        sim, host = self.sim, self.sim.client(request.client)
        failed, done = len(host.failures), len(host.completed)
        sim.at(sim.now, request)
        limit_s = sim.now + CONFIRMED_S
        while waits and request not in host.completed[done:] and sim.now < limit_s:
            sim.run_for(STEP_S)
            if len(host.failures) > failed:
                return f"refused: {host.failures[-1]}"
        if waits and request not in host.completed[done:]:
            return f"not confirmed within {CONFIRMED_S:g} s; the script goes on"
        return ""

    def _publish(self, publish: Publish) -> None:
        sim, guarantee = self.sim, self._cast.guarantee_of(publish)
        first = self._published.get(publish.client, 0) + 1
        for place in range(publish.count):
            sim.at(
                sim.now + place * publish.interval_ms / 1000,
                faults.Publish(
                    publish.client,
                    publish.topic,
                    payload_of(publish.client, first + place, publish.size_bytes),
                    guarantee,
                    publish.keys,
                    numbered(publish.attributes, place + 1),
                ),
            )
        self._published[publish.client] = first + publish.count - 1

    async def wait(self, ms: float) -> None:
        self.sim.run_for(ms / 1000)

    async def wait_quiet(self, limit_s: float) -> None:
        try:
            self.sim.run_until_quiet(limit_s)
        except NotQuiet as error:
            raise NotQuietError(str(error).partition("\nto see it again")[0]) from None

    async def status(self) -> ClusterStatus:
        return ClusterStatus(self._cast.cluster().name, self._cast.protocol, tuple(map(self._status_of, self.sim.tree)))

    def _status_of(self, name: str) -> BrokerStatus:
        host = self.sim.host(name)
        if not host.up or host.frozen:
            reason = "has crashed" if not host.up else "is frozen"
            return BrokerStatus(name, self._parents[name], name, ready=False, reason=reason)
        node = typing.cast("BrokerNode", host.node)
        said = {**node.status(), "ready": node.ready(), "waiting_for": node.waiting_for()}
        # Brokers of sites have no parents of their own; they are shown below each other as on processes.
        parent = self._parents[name] if self._cast.sites else said.get("parent", self._parents[name])
        return status_of(name, parent if isinstance(parent, str) else None, name, said)

    async def frozen(self, node: str) -> bool:
        return self.sim.host(node).frozen

    async def rows(self) -> list[Event]:
        return list(self.sim.events)

    def judged(self, rows: list[Event]) -> list[Event]:
        return judged_rows(rows, {name: self.sim.client(name) for name in self.sim.clients})

    async def end(self) -> None:
        self._sim = None


def _links(cast: Cast) -> tuple[LinkSettings, ...]:
    return tuple(
        LinkSettings((line.parent, name), Constant(line.latency_ms))
        for name, line in cast.brokers.items()
        if line.parent is not None and line.latency_ms is not None
    )


def _broker_config(cast: Cast) -> BrokerConfig:
    """What the brokers of a real cluster with this cast would be told."""
    config = BrokerConfig("*", tolerance=cast.tolerance, session_keep_s=SESSION_S, routing=cast.policy or ROUTING)
    if cast.sites:
        return replace(config, link=WATCHFUL_LINK)
    if not cast.tolerance:
        return config
    heals = find_protocol(cast.protocol).hops is None
    return replace(
        config,
        link=WATCHFUL_LINK,
        suspect_s=SUSPECT_S,
        join_s=JOIN_S,
        brokers=len(cast.brokers) if heals else 0,
        durable=True,
    )
