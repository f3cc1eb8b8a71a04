"""A client of a cluster's file as a process: a replica of the bank on each of its topics, until it is told to stop.

`python -m holdfast.cluster.replica_process JSON [--attached]`
"""

import asyncio
import signal
import sys

from msgspec import Struct

from holdfast.client import connect
from holdfast.cluster.client_main import main_of_client
from holdfast.runtime.logs import ProcessLog
from holdfast.runtime.tracing import RUN
from holdfast.services.bank import account_numbers
from holdfast.services.replica import open_replica


class ReplicaSettings(Struct, frozen=True):
    name: str
    address: str
    cluster: str
    topics: tuple[str, ...]
    trace: str = ""
    run: str = RUN


async def serve(settings: ReplicaSettings) -> None:
    """Follow every topic until a signal comes."""
    log = ProcessLog("holdfast.replica", node=settings.name)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    trace = settings.trace or None
    async with connect(
        settings.address, name=settings.name, cluster=settings.cluster, trace=trace, run=settings.run
    ) as client:
        replicas = [await open_replica(client, topic, account_numbers()) for topic in settings.topics]
        log.info("following", broker=client.broker, topics=list(settings.topics))
        following = [asyncio.ensure_future(replica.follow()) for replica in replicas]
        stopping = asyncio.ensure_future(stop.wait())
        ended, pending = await asyncio.wait({stopping, *following}, return_when=asyncio.FIRST_COMPLETED)
        for one in pending:
            one.cancel()
        for one in ended:
            one.result()
        for replica in replicas:
            log.info("stopped", topic=replica.topic, applied=replica.bank.applied, digest=replica.bank.digest())


def main(arguments: list[str]) -> int:
    return main_of_client(arguments, ReplicaSettings, "holdfast.replica", serve)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
