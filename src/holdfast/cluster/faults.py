"""Cuts between the brokers of a running cluster: the brokers themselves drop and refuse each other's connections."""

import asyncio
from urllib.parse import quote

from holdfast.cluster.config import Cluster
from holdfast.cluster.status import Asker, ask_directly, cluster_status, tell


async def cut(cluster: Cluster, name: str, other: str, ask: Asker = ask_directly) -> None:
    """Cut two brokers off from each other, until `heal`."""
    one, two = cluster.broker(name), cluster.broker(other)
    await asyncio.gather(tell(one, f"/cut?peer={quote(other)}", ask), tell(two, f"/cut?peer={quote(name)}", ask))


async def heal(cluster: Cluster, ask: Asker = ask_directly) -> int:
    """Take every cut back; how many brokers were told."""
    answering = [one.name for one in (await cluster_status(cluster, ask)).brokers if one.answers]
    await asyncio.gather(*(tell(cluster.broker(name), "/heal", ask) for name in answering))
    return len(answering)
