"""What thousands of connections cost a broker: to open, to keep, and to deliver to.

Costs are the broker's processor time and its resident memory, whatever the machine does besides. The clients are light
(`scale_load`), in a process of their own.
"""

import asyncio
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from holdfast.cluster.bench.cells import READY_S, chain
from holdfast.cluster.bench.memory import resident_bytes
from holdfast.cluster.bench.scale import ScaleRow, at_most, compared
from holdfast.cluster.bench.scale_load import LINK, check_connections
from holdfast.cluster.processes import Processes
from holdfast.cluster.workers import Worker

LOAD_MODULE = "holdfast.cluster.bench.scale_load"
LIMIT_S = 300.0
FAN_TOPIC, OWN_TOPICS = "scale/fan", "scale/own/{n}"
GROWTH_MAX = 1.5
"""What a late connection may cost, as a multiple of an early one: more than noise would not be linear."""
IDLE_PERCENT_MAX, CONNECTION_KB_MAX, DELIVERY_US_MAX = 1.0, 6.0, 20.0
NOBODY_RATIO_MAX = 1.25
FEW_SUBSCRIPTIONS = 10
SUBSCRIBERS = 20
"""How many clients share the subscriptions to topics to which nobody publishes."""
ROUNDS = 5


class ConnectionPlan(Struct, frozen=True):
    """How many of everything."""

    connections: int = 10_000
    step: int = 1000
    """The first, and the last, of the connections whose cost is compared."""
    fans: int = 1000
    fan_messages: int = 20
    idle_beats: int = 3
    subscriptions: int = 100_000
    stream: int = 5000


FULL = ConnectionPlan()
QUICK = ConnectionPlan(connections=2000, step=500, fan_messages=5, idle_beats=1, subscriptions=10_000, stream=2000)


def connection_rows(quick: bool) -> Iterator[ScaleRow]:
    """The rows of the bench of scale about connections."""
    plan = QUICK if quick else FULL
    check_connections(plan.connections)
    with asyncio.Runner() as runner:
        for rows in (_connections(plan), _nobody(plan)):
            try:
                while (row := runner.run(_next(rows))) is not None:
                    yield row
            finally:
                runner.run(_close(rows))


async def _next(rows: AsyncGenerator[ScaleRow, None]) -> ScaleRow | None:
    return await anext(rows, None)


async def _close(rows: AsyncGenerator[ScaleRow, None]) -> None:
    await rows.aclose()


# ------------------------------------------------------------------------------------------------ one broker, loaded


class Loaded:
    """A broker in a process of its own, and the process with its light clients."""

    def __init__(self, pid: int, load: Worker) -> None:
        self.pid, self._load = pid, load

    async def do(self, order: str, answer: str) -> float:
        """Have the clients do that; returns the broker's processor time for it, in seconds."""
        before_s = cpu_s(self.pid)
        self._load.tell(order)
        await self._load.report(answer, LIMIT_S)
        return cpu_s(self.pid) - before_s

    async def rest(self, seconds: float) -> float:
        """Have them do nothing; returns the share of a core that the broker took."""
        before_s, began = cpu_s(self.pid), time.monotonic()
        await asyncio.sleep(seconds)
        return (cpu_s(self.pid) - before_s) / (time.monotonic() - began)


@asynccontextmanager
async def loaded_broker() -> AsyncIterator[Loaded]:
    """A broker without clients, and a process that opens them as it is told."""
    with tempfile.TemporaryDirectory(prefix="holdfast-scale-") as directory:
        cluster = chain(1)
        processes = Processes(cluster, Path(directory), attached=True)
        try:
            await processes.start_brokers()
            settings = {"role": "load", "host": cluster.root.host, "port": cluster.root.port}
            async with Worker("the load", LOAD_MODULE, settings, Path(directory) / "logs" / "load.log") as load:
                await load.report("ready", READY_S)
                yield Loaded(processes.running[0].process.pid, load)
        finally:
            await processes.stop()


def cpu_s(pid: int) -> float:
    """The processor time of a process so far."""
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        # Elsewhere than on Linux there is no clock of another process, only what `ps` says: [hours:]minutes:seconds.
        listed = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], check=True, capture_output=True, text=True)
        seconds = 0.0
        for part in listed.stdout.strip().split(":"):
            seconds = 60 * seconds + float(part)
        return seconds


# ------------------------------------------------------------------------------------------------------- measurements


async def _connections(plan: ConnectionPlan) -> AsyncGenerator[ScaleRow, None]:
    async with loaded_broker() as broker:
        empty_bytes = resident_bytes(broker.pid)
        first_us = await broker.do(f"open {plan.step} {OWN_TOPICS}", "opened") * 1e6 / plan.step
        yield compared(f"connecting: each of the first {plan.step:,}, broker", first_us, "µs")
        await broker.do(f"open {plan.fans} {FAN_TOPIC}", "opened")
        await broker.do(f"spread 3 {FAN_TOPIC} {plan.fans}", "spread")
        rounds = [
            await broker.do(f"spread {plan.fan_messages} {FAN_TOPIC} {plan.fans}", "spread") for _ in range(ROUNDS)
        ]
        delivery_us = min(rounds) * 1e6 / (plan.fan_messages * plan.fans)
        label = f"fan-out to {plan.fans:,} subscribers: a delivery, broker"
        yield at_most(label, delivery_us, "µs", DELIVERY_US_MAX)
        # Those in between are opened before the last ones are measured, without what the others cost meanwhile.
        await broker.do(f"open {plan.connections - plan.fans - 2 * plan.step} {OWN_TOPICS}", "opened")
        share, began = await broker.rest(LINK.heartbeat_s), time.monotonic()
        last_s = await broker.do(f"open {plan.step} {OWN_TOPICS}", "opened")
        last_us = (last_s - share * (time.monotonic() - began)) * 1e6 / plan.step
        yield compared(f"connecting: each of the last {plan.step:,} of {plan.connections:,}, broker", last_us, "µs")
        yield at_most("connecting: one of the last against one of the first", last_us / first_us, "times", GROWTH_MAX)
        each_kb = (resident_bytes(broker.pid) - empty_bytes) / plan.connections / 1000
        yield at_most(
            f"memory of the broker for each of {plan.connections:,} connections", each_kb, "KB", CONNECTION_KB_MAX
        )
        await broker.rest(LINK.heartbeat_s / 2)
        share = await broker.rest(plan.idle_beats * LINK.heartbeat_s)
        yield at_most(
            f"idle: of a core for each 1,000 of {plan.connections:,} connections",
            100 * share * 1000 / plan.connections,
            "%",
            IDLE_PERCENT_MAX,
        )


async def _nobody(plan: ConnectionPlan) -> AsyncGenerator[ScaleRow, None]:
    """Two brokers take turns: a machine that is slow for a while is slow for both."""
    async with loaded_broker() as few, loaded_broker() as many:
        for broker in (few, many):
            await broker.do(f"open {SUBSCRIBERS}", "opened")
        await few.do(f"subscribe {FEW_SUBSCRIPTIONS} scale/few", "subscribed")
        subscribe_s = await many.do(f"subscribe {plan.subscriptions} scale/many", "subscribed")
        yield compared("subscribing to a topic, broker", subscribe_s * 1e6 / plan.subscriptions, "µs")
        order = f"stream {plan.stream} scale/nobody"
        rounds = [(await few.do(order, "streamed"), await many.do(order, "streamed")) for _ in range(ROUNDS)]
        few_us, many_us = (min(costs) * 1e6 / plan.stream for costs in zip(*rounds, strict=True))
        yield compared(f"publish to nobody with {FEW_SUBSCRIPTIONS} subscriptions, broker", few_us, "µs")
        yield compared(f"publish to nobody with {plan.subscriptions:,} subscriptions, broker", many_us, "µs")
        yield at_most("publish to nobody: many against few subscriptions", many_us / few_us, "times", NOBODY_RATIO_MAX)
