"""What a broker's memory does while messages pass: it must not depend on how many have."""

import subprocess
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import Struct

from holdfast.cluster.bench.cells import OURS_MODULE, READY_S, chain
from holdfast.cluster.processes import Processes
from holdfast.cluster.workers import Worker

FEW, MANY = 10_000, 1_000_000
SIZE_BYTES = 1024
RATIO_MAX = 1.2
LIMIT_S = 300.0


class Memory(Struct, frozen=True):
    """Resident memory of a broker after few and after many messages of 1 KiB, with a subscriber that keeps up."""

    few: int
    few_bytes: int
    many: int
    many_bytes: int

    @property
    def ratio(self) -> float:
        return self.many_bytes / self.few_bytes


async def measure_memory(directory: Path, few: int = FEW, many: int = MANY) -> Memory:
    """One broker for each, fresh."""
    return Memory(few, await _after(few, directory), many, await _after(many, directory))


async def _after(count: int, directory: Path) -> int:
    log = directory / "logs" / "workers.log"
    async with AsyncExitStack() as stack:
        cluster = chain(1)
        processes = Processes(cluster, directory, attached=True)
        stack.push_async_callback(processes.stop)
        await processes.start_brokers()
        common = {"address": cluster.root.address, "size_bytes": SIZE_BYTES, "count": count}
        subscriber = Worker("subscriber", OURS_MODULE, {"role": "subscriber", **common}, log)
        await stack.enter_async_context(subscriber)
        await subscriber.report("ready", READY_S)
        publisher = Worker("publisher", OURS_MODULE, {"role": "publisher", **common}, log)
        await stack.enter_async_context(publisher)
        await publisher.report("ready", READY_S)
        publisher.tell("go")
        published = (await publisher.report("done", LIMIT_S))["published"]["count"]
        subscriber.tell(str(published))
        await subscriber.report("done", LIMIT_S)
        return resident_bytes(processes.running[0].process.pid)


def resident_bytes(pid: int) -> int:
    """How much of a process is in memory."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if "VmRSS" in line)
    listed = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], check=True, capture_output=True, text=True)
    return int(listed.stdout) * 1024
