"""How many messages a second a chain of three `delta` brokers with many filters passes on, beside `ginger` with one.

    python benchmarks/delta_throughput.py [--filters 1000] [--messages 30000] [--size 1024] [--rounds 3] [--json]

One publisher at full speed at the first broker and one subscriber at the last, real processes on loopback, guarantee
fifo. With `delta` a client at each broker wants `--filters` different values of an attribute on the same topic; none of
them matches, and every broker knows all of them. With `ginger` nobody but the subscriber wants anything. The systems
take turns, and which one is first turns with every round. The ratio is that of the medians; the goal is 0.5.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from holdfast.client import connect
from holdfast.cluster.bench.cells import OURS_MODULE, READY_S, chain
from holdfast.cluster.bench.ours import TOPIC
from holdfast.cluster.processes import Processes
from holdfast.cluster.workers import Worker

LIMIT_S = 300.0
GOAL = 0.5
SYSTEMS = {"ginger": ("ginger", 0), "delta, tolerance 1": ("delta", 1), "delta, tolerance 2": ("delta", 2)}


async def rate(protocol: str, tolerance: int, filters: int, messages: int, size_bytes: int) -> float:
    """Messages a second from the publisher's start to the last delivery."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-delta-")))
        cluster = replace(chain(3), protocol=protocol, tolerance=tolerance)
        processes = Processes(cluster, directory, attached=True)
        stack.push_async_callback(processes.stop)
        await processes.start_brokers()
        for broker in cluster.brokers if filters else ():
            client = await stack.enter_async_context(connect(broker.address))
            await asyncio.gather(
                *(client.subscribe(TOPIC, f"customer = '{broker.name} {one}'") for one in range(filters))
            )
        workers = {}
        for role, broker in {"subscriber": cluster.brokers[-1], "publisher": cluster.brokers[0]}.items():
            common = {"address": broker.address, "guarantee": "fifo", "size_bytes": size_bytes, "count": messages}
            worker = Worker(role, OURS_MODULE, {"role": role, **common}, directory / "workers.log")
            workers[role] = await stack.enter_async_context(worker)
            await worker.report("ready", READY_S)
        workers["publisher"].tell("go")
        published = (await workers["publisher"].report("done", LIMIT_S))["published"]
        workers["subscriber"].tell(str(published["count"]))
        received = (await workers["subscriber"].report("done", LIMIT_S))["received"]
        workers["publisher"].tell("stop")
        assert received["count"] == published["count"], f"{published['count']} were published, {received['count']} came"
        return float(published["count"]) / ((received["ended_ns"] - published["started_ns"]) / 1e9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filters", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=30_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="every sample")
    arguments = parser.parse_args()
    found: dict[str, list[float]] = {title: [] for title in SYSTEMS}
    for number in range(arguments.rounds):
        for title in sorted(SYSTEMS, reverse=bool(number % 2)):
            protocol, tolerance = SYSTEMS[title]
            filters = arguments.filters if protocol == "delta" else 0
            found[title].append(asyncio.run(rate(protocol, tolerance, filters, arguments.messages, arguments.size)))
    if arguments.json:
        print(json.dumps(found))
        return
    floor = median(found["ginger"])
    for title, rates in found.items():
        ratio = median(rates) / floor
        said = (
            "" if title == "ginger" else f"{ratio:.2f} of ginger's; goal {GOAL}: {'met' if ratio >= GOAL else 'missed'}"
        )
        print(f"{title:20} {median(rates):10,.0f} messages/s  {said}")


if __name__ == "__main__":
    main()
