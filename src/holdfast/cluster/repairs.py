"""How long a tree needs to work again after a broker was killed, judged by the histories of its clients.

Before a kill the tree is asked who is where. The paths that the kill breaks are those between a publisher and a
subscriber that pass through the victim, and all those of the victim's own clients. A path works again with the first
delivery of a message that was published on it after the kill.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, time_ns

from msgspec import Struct

from holdfast.cluster.config import Cluster
from holdfast.cluster.processes import ProcessError, Processes
from holdfast.cluster.status import ClusterStatus, cluster_status
from holdfast.model.identities import name_of
from holdfast.model.trace import Event

WHOLE_S = 30.0
POLL_S = 0.05

Path = tuple[str, str]
"""A publisher and a subscriber."""


class Kill(Struct, frozen=True):
    """A broker that was killed: what it was to the tree, when, and which paths it took along."""

    broker: str
    role: str
    time: int
    gone: int
    """When the process was surely gone: nothing that was published later went through it."""
    paths: tuple[Path, ...]


class RepairMeasurement(Struct, frozen=True):
    """From a kill to the first delivery on a broken path, and to the last path that had one."""

    broker: str
    role: str
    paths: int
    first_ms: float
    all_ms: float


# --------------------------------------------------------------------------------------------------------- killing


async def whole(
    cluster: Cluster, dead: Sequence[str], clients: Sequence[str], timeout_s: float = WHOLE_S
) -> ClusterStatus:
    """The tree, when it is one again."""
    limit = monotonic() + timeout_s
    while True:
        seen = await cluster_status(cluster)
        missing = missing_from_whole(seen, dead, clients)
        if not missing:
            return seen
        if monotonic() > limit:
            raise ProcessError(f"the tree was not whole again within {timeout_s:g} s; {'; '.join(missing)}.")
        await asyncio.sleep(POLL_S)


def missing_from_whole(seen: ClusterStatus, dead: Sequence[str], clients: Sequence[str]) -> list[str]:
    """In words, why the tree is not whole: one root, all that live ready and done with repairs, every client somewhere.

    An orphan names the broker that it asks as its parent, and serves its clients meanwhile. A kill at that moment
    would be a second loss in one repair, which may be more than the tree survives.
    """
    alive = [broker for broker in seen.brokers if broker.name not in dead]
    missing = [f"{broker.name}: {broker.reason or 'it is not ready'}" for broker in alive if not broker.ready]
    missing += [f"{broker.name} {broker.healing[0]}" for broker in alive if broker.ready and broker.healing]
    if len(seen.tops()) != 1:
        missing.append(f"{len(seen.tops())} roots")
    attached = {client for broker in alive for client in broker.clients}
    return missing + [f"{client} is at no broker" for client in clients if client not in attached]


def kill(processes: Processes, seen: ClusterStatus, victim: str, topics: Mapping[str, str]) -> Kill:
    """Kill that broker; `topics` says on which topic each client publishes and subscribes."""
    parents = {broker.name: broker.parent for broker in seen.brokers if broker.answers}
    homes = {client: broker.name for broker in seen.brokers for client in broker.clients if client in topics}
    paths = tuple(
        (publisher, subscriber)
        for publisher in sorted(homes)
        for subscriber in sorted(homes)
        if topics[publisher] == topics[subscriber] and victim in between(parents, homes[publisher], homes[subscriber])
    )
    role = role_of(parents, victim)
    at = time_ns()
    processes.crash(victim)
    return Kill(victim, role, at, time_ns(), paths)


def role_of(parents: Mapping[str, str | None], broker: str) -> str:
    """`root`, `inner` or `edge`."""
    if parents[broker] is None:
        return "root"
    return "inner" if broker in parents.values() else "edge"


def between(parents: Mapping[str, str | None], one: str, other: str) -> set[str]:
    """The brokers on the way from one to the other, both included."""
    up, down = _ancestors(parents, one), _ancestors(parents, other)
    meeting = next((broker for broker in up if broker in down), up[-1])
    if meeting not in down:
        return {*up, *down}
    return {*up[: up.index(meeting) + 1], *down[: down.index(meeting)]}


def _ancestors(parents: Mapping[str, str | None], broker: str) -> list[str]:
    found, above = [broker], parents.get(broker)
    while above is not None and above not in found:
        found.append(above)
        above = parents.get(above)
    return found


# -------------------------------------------------------------------------------------------------------- measuring


def repairs(kills: Sequence[Kill], events: Sequence[Event]) -> list[RepairMeasurement]:
    """How long each kill was felt; all on the clock of one machine."""
    published: dict[tuple[str, int], int] = {}
    delivered: defaultdict[Path, list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        if event.event == "publish":
            published[name_of(event.publisher), event.seq] = event.time
        elif event.event == "deliver":
            delivered[name_of(event.publisher), name_of(event.node)].append((event.time, event.seq))
    found = [_repair(one, published, delivered) for one in kills]
    return [one for one in found if one is not None]


def _repair(
    one: Kill,
    published: Mapping[tuple[str, int], int],
    delivered: Mapping[Path, Sequence[tuple[int, int]]],
) -> RepairMeasurement | None:
    waits_ms = []
    for publisher, subscriber in one.paths:
        arrivals = delivered.get((publisher, subscriber), ())
        fresh = [time for time, seq in arrivals if published.get((publisher, seq), 0) >= one.gone]
        if fresh:
            waits_ms.append((min(fresh) - one.time) / 1e6)
    if not waits_ms:
        # It broke nothing, or nobody published any more.
        return None
    return RepairMeasurement(one.broker, one.role, len(waits_ms), round(min(waits_ms), 1), round(max(waits_ms), 1))


class Assassin:
    """Kills brokers on the way: each when its share of the work is done and the tree is whole."""

    def __init__(self, processes: Processes, victims: Sequence[str], topics: Mapping[str, str]) -> None:
        self._processes, self._victims, self._topics = processes, victims, topics
        self._share = 0.0
        self._advanced = asyncio.Event()
        self.kills: list[Kill] = []
        self.dead: list[str] = []
        self.trees: list[ClusterStatus] = []
        """What the tree looked like before the first kill and after each, when it was whole."""

    def advanced(self, share: float) -> None:
        """So much of the work is done."""
        self._share = share
        self._advanced.set()

    async def work(self, progress: Callable[[str, int, int], None]) -> None:
        """Kill them all, one after the other."""
        for number, victim in enumerate(self._victims, 1):
            await self.reached(number / (len(self._victims) + 1))
            title = f"kill -9 of broker {victim}"
            progress(title, 0, 1)
            await self.strike(victim)
            progress(title, 1, 1)

    async def reached(self, share: float) -> None:
        """Return when so much of the work is done."""
        while self._share < share:
            self._advanced.clear()
            await self._advanced.wait()

    async def strike(self, *victims: str) -> None:
        """Kill these at once, and return when the tree is whole again."""
        seen = await self._look()
        self.kills += [kill(self._processes, seen, victim, self._topics) for victim in victims]
        self.dead += victims
        await self._look()

    async def _look(self) -> ClusterStatus:
        self.trees.append(await whole(self._processes.cluster, self.dead, list(self._topics)))
        return self.trees[-1]
