"""Merges that are interrupted: a part of the tree is cut off and comes back, and while it does a second fault follows.

    python benchmarks/merges.py [--rounds 5] [--fault cut|kill-part|kill-border|links|flap|all] [--rate 150] [--seed 1]
                                [--json] [--keep DIR]

Seven brokers (0; 1 and 2 below it; 4 and 5 below 1; 3 and 6 below 2) as processes, five clients with mixed guarantees.
In each round {1, 4, 5} is cut off from the others, then the cut is healed. When broker 1 asks to be taken back, and up
to half a second later, the second fault: `cut` cuts 1 off from 0 again for two seconds, `kill-part` kills 1, which
comes back, `kill-border` kills 0, which comes back. Two kinds have no part: `links` has two links of the tree cut, one
after the other, for 1.6 s each, in every second round 2-0 and 6-2, in the others any two; `flap` has one link cut three
to five times, for half a second to three seconds, with as much between.

Then nothing more fails. Printed are, for each kind of fault: how many rounds, how long it took until there was one tree
again (in silences: a connection is given up after one), and what the judges found in the histories of the clients:
messages that are missing without a word, confirmations that are not true, and faults of order.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from pathlib import Path
from random import Random
from time import monotonic

import msgspec
from msgspec import Struct

import holdfast
from holdfast.cluster.config import LOOPBACK, Broker, Cluster, checked
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.processes import Processes
from holdfast.cluster.repairs import whole
from holdfast.cluster.status import broker_status, tell
from holdfast.model.trace import Event, encode_line
from holdfast.protocols.config import LinkConfig
from holdfast.runtime.settings import BrokerSettings
from holdfast.simulation.checkers import check
from holdfast.simulation.checkers.honesty import complaints

PARENTS = {"0": None, "1": "0", "2": "0", "3": "2", "4": "1", "5": "1", "6": "2"}
PART = ("1", "4", "5")
HOMES = {"alice": "4", "bob": "5", "carol": "0", "dave": "3", "eve": "6"}
LINK = LinkConfig(heartbeat_s=0.3, silence_s=1.5)
JOIN_S = 0.5
GUARANTEES = ("eventual", "fifo", "causal", "total")
FAULTS = ("cut", "kill-part", "kill-border", "links", "flap")
EDGES = [(child, parent) for child, parent in PARENTS.items() if parent is not None]
PARTED_S, AGAIN_S, LINK_S, CALM_S = 6.0, 2.0, 1.6, 3.0
LIMIT_SILENCES = 40
CONFIRMED_SHARE = 0.05


class Round(Struct):
    """What one round came to; `silences` is how long it took until there was one tree again."""

    fault: str
    silences: float
    published: int
    gaps: int
    told: int
    """Clients that were told of a gap."""
    faults: list[str]


class QuickProcesses(Processes):
    """Brokers that give a silent connection up soon."""

    def settings_of(self, broker: Broker, *, newcomer: bool) -> BrokerSettings:
        settings = super().settings_of(broker, newcomer=newcomer)
        return msgspec.structs.replace(settings, link=LINK, join_s=JOIN_S)


@asynccontextmanager
async def tree(directory: Path) -> AsyncIterator[QuickProcesses]:
    """The brokers, all ready; gone at the end."""
    ports = free_port_pairs(len(PARENTS))
    brokers = tuple(
        Broker(name, parent, LOOPBACK, port, health)
        for (name, parent), (port, health) in zip(PARENTS.items(), ports, strict=True)
    )
    cluster = checked(Cluster("merges", "ginger", brokers, (), 1), "the benchmark")
    processes = QuickProcesses(cluster, directory, attached=True)
    await processes.start_brokers()
    try:
        yield processes
    finally:
        for running in processes.running:
            if running.process.is_alive():
                processes.crash(running.name)
        await processes.stop()


class Reader:
    """A client that publishes and reads, whatever it is told."""

    def __init__(self, client: holdfast.Client, subscription: holdfast.Subscription, chance: Random) -> None:
        self.client, self._subscription, self._chance = client, subscription, chance
        self.gaps = self.published = 0
        self._asking: set[asyncio.Task[None]] = set()

    async def read(self) -> None:
        while True:
            try:
                async for _ in self._subscription:
                    pass
                return
            except holdfast.Gap as gap:
                self.gaps += 1
                if not gap.goes_on:
                    return
            except holdfast.SessionLost:
                # It is told that messages may be missing, as by a gap.
                self.gaps += 1
                return

    async def publish(self, done: asyncio.Event, interval_s: float) -> None:
        with contextlib.suppress(holdfast.SessionLost, holdfast.ClientClosed):
            while not done.is_set():
                guarantee, key = self._chance.choice(GUARANTEES), f"k{self._chance.randrange(4)}"
                receipt = await self.client.publish("t", b"x" * 32, guarantee, keys=[key])
                self.published += 1
                if self._chance.random() < CONFIRMED_SHARE:
                    asking = asyncio.create_task(self._ask(receipt))
                    self._asking.add(asking)
                    asking.add_done_callback(self._asking.discard)
                await asyncio.sleep(interval_s)

    @staticmethod
    async def _ask(receipt: holdfast.Receipt) -> None:
        # Whatever it says is in the trace.
        with contextlib.suppress(holdfast.HoldfastError):
            await receipt.confirmed()


@asynccontextmanager
async def session(address: str, name: str, rows: list[Event]) -> AsyncIterator[holdfast.Client]:
    """A client that may lose its session, for example one that a busy machine keeps from coming in time."""
    with contextlib.suppress(holdfast.SessionLost):
        async with holdfast.connect(address, name=name, cluster="merges", trace=rows.append) as client:
            yield client


async def cut_apart(cluster: Cluster, pairs: Sequence[tuple[str, str]]) -> None:
    for one, other in pairs:
        for name, peer in ((one, other), (other, one)):
            with contextlib.suppress(holdfast.HoldfastError):
                await tell(cluster.broker(name), f"/cut?peer={peer}")


async def heal(cluster: Cluster) -> None:
    for broker in cluster.brokers:
        with contextlib.suppress(holdfast.HoldfastError):
            await tell(broker, "/heal")


async def asks_back(processes: Processes, since: int, limit_s: float) -> None:
    """Return when broker 1 has asked to be taken back, which its log says."""
    path = next(Path(one.log) for one in processes.running if one.name == "1")
    limit = monotonic() + limit_s
    while monotonic() < limit:
        if b"take us back in" in path.read_bytes()[since:]:
            return
        await asyncio.sleep(0.002)


def cuts_of(fault: str, chance: Random) -> list[tuple[tuple[str, str], float, float]]:
    """Which links are cut, for how long, and how long nothing fails after each."""
    if fault == "links":
        pairs = [("2", "0"), ("6", "2")] if chance.random() < 0.5 else chance.sample(EDGES, 2)
        return [(pair, LINK_S, 0.0) for pair in pairs]
    pair, times = chance.choice(EDGES), chance.randint(3, 5)
    cuts = [(pair, chance.uniform(0.5, 3.0), chance.uniform(0.5, 3.0)) for _ in range(times)]
    return [*cuts[:-1], (pair, cuts[-1][1], 0.0)]


async def befall(processes: Processes, fault: str, chance: Random) -> None:
    """The faults of one round; when it returns, nothing more fails."""
    cluster = processes.cluster
    if fault in ("links", "flap"):
        for pair, cut_s, calm_s in cuts_of(fault, chance):
            await cut_apart(cluster, [pair])
            await asyncio.sleep(cut_s)
            await heal(cluster)
            await asyncio.sleep(calm_s)
        return
    others = [name for name in PARENTS if name not in PART]
    await cut_apart(cluster, list(product(PART, others)))
    await asyncio.sleep(PARTED_S)
    since = next(Path(one.log) for one in processes.running if one.name == "1").stat().st_size
    await heal(cluster)
    await asks_back(processes, since, 3.0)
    await asyncio.sleep(chance.choice((0.0, 0.005, 0.02, 0.1, 0.5)))
    if fault == "cut":
        await cut_apart(cluster, [("1", "0")])
        await asyncio.sleep(AGAIN_S)
        await heal(cluster)
    else:
        victim = "1" if fault == "kill-part" else "0"
        processes.crash(victim)
        await asyncio.sleep(AGAIN_S)
        processes.restart(victim)


async def is_calm(processes: Processes, rows: list[Event], limit: float) -> None:
    """Return when no broker waits for anything, and nothing more is delivered."""
    seen, since = -1, monotonic()
    while monotonic() < limit:
        said = [(await broker_status(broker)).status for broker in processes.cluster.brokers]
        if len(rows) != seen or any(one.get("waiting_for") for one in said):
            seen, since = len(rows), monotonic()
        elif monotonic() - since >= CALM_S:
            return
        await asyncio.sleep(0.1)


async def play(fault: str, seed: int, rate: int, keep: Path | None = None) -> Round:
    chance, rows = Random(seed), list[Event]()
    limit_s = LIMIT_SILENCES * LINK.silence_s
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        processes = await stack.enter_async_context(tree(Path(directory)))
        readers = []
        for name, home in HOMES.items():
            address = processes.cluster.broker(home).address
            client = await stack.enter_async_context(session(address, name, rows))
            readers.append(Reader(client, await client.subscribe("t"), Random(f"{seed} {name}")))
        done = asyncio.Event()
        reading = [asyncio.create_task(reader.read()) for reader in readers]
        saying = [asyncio.create_task(reader.publish(done, len(readers) / rate)) for reader in readers]
        await asyncio.sleep(1.0)
        await befall(processes, fault, chance)
        healed, problems = monotonic(), list[str]()
        try:
            await whole(processes.cluster, (), (), limit_s)
        except holdfast.HoldfastError as error:
            problems.append(str(error))
        silences = (monotonic() - healed) / LINK.silence_s
        done.set()
        await asyncio.wait(saying, timeout=limit_s)
        await is_calm(processes, rows, monotonic() + limit_s)
        for broker in processes.cluster.brokers:
            waiting = (await broker_status(broker)).status.get("waiting_for")
            problems += [f"{broker.name} waits for {reason}" for reason in waiting] if isinstance(waiting, list) else []
        for task in (*reading, *saying):
            task.cancel()
        verdict = check(rows)
        order = [f"{kind}: {count}" for kind, count in verdict.faults.items() if count and kind != "lost"]
        found = [*problems, *order, *complaints(rows)]
        if found and keep is not None:
            kept = keep / f"{fault}-{seed}"
            shutil.copytree(directory, kept, dirs_exist_ok=True)
            (kept / "trace.jsonl").write_bytes(b"".join(map(encode_line, rows)))
        published, gaps = sum(one.published for one in readers), sum(one.gaps for one in readers)
        return Round(fault, round(silences, 1), published, gaps, sum(one.gaps > 0 for one in readers), found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fault", choices=(*FAULTS, "all"), default="all")
    parser.add_argument("--rate", type=int, default=150, help="messages a second that all clients publish together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="where the logs and the trace of broken rounds are kept")
    options = parser.parse_args()
    kinds = FAULTS if options.fault == "all" else (options.fault,)
    rounds = []
    for number, fault in product(range(options.rounds), kinds):
        one = asyncio.run(play(fault, options.seed + number, options.rate, options.keep))
        rounds.append(one)
        words = f"{fault} {options.seed + number}: one tree after {one.silences} silences, {one.published} published, "
        print(words + f"{one.told} clients told; {'; '.join(one.faults) or 'clean'}", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps([msgspec.to_builtins(one) for one in rounds]))
        return
    print("| second fault | rounds | one tree again: median / worst, silences | rounds with a gap told | broken |")
    print("| --- | --- | --- | --- | --- |")
    for fault in kinds:
        mine = sorted((one for one in rounds if one.fault == fault), key=lambda one: one.silences)
        middle, worst = mine[len(mine) // 2].silences, mine[-1].silences
        broken, told = sum(bool(one.faults) for one in mine), sum(one.gaps > 0 for one in mine)
        print(f"| {fault} | {len(mine)} | {middle} / {worst} | {told} | {broken} |")


if __name__ == "__main__":
    main()
