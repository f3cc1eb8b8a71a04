"""The status of a cluster that runs elsewhere, asked through the address of any of its brokers.

A broker says at its port who it is and where its health endpoint is; the health endpoint says how the broker is, and
where the brokers are that it knows: its neighbours, and where brokers repair their tree some more. So one address leads
to the next, until no broker is named that was not asked. The address may as well be that of a health endpoint.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from holdfast.client.addresses import Address, shown
from holdfast.client.errors import ConnectionFailed
from holdfast.cluster.status import ANSWER_S, BrokerStatus, ClusterStatus, get_json, reason_of, status_of
from holdfast.model.errors import ConfigError
from holdfast.runtime.introducing import who_is_there
from holdfast.runtime.places import place_of

ASKED_MAX = 1024
"""How many brokers are asked: whoever answers could name any number of others."""
ANYWHERE = frozenset({"127.0.0.1", "localhost", "::1", "0.0.0.0", "::", ""})
"""Hosts that mean another machine to a broker than to whoever asks it: there, the host that the broker was asked at."""


class Answer(Struct, frozen=True):
    """What somebody at an address said of itself, or why there is no answer."""

    place: Address
    name: str = ""
    said: dict[str, Any] = {}
    reason: str = ""

    @property
    def is_broker(self) -> bool:
        """Whether a broker answered; others with health endpoints are in no tree."""
        return "links" in self.said


async def ask(place: Address) -> Answer:
    """Ask whoever is at the port of a broker, or of a health endpoint, how it is."""
    host, port = place
    try:
        found = await who_is_there(host, port)
    except (OSError, TimeoutError) as error:
        if isinstance(error, ConnectionRefusedError | TimeoutError):
            return Answer(place, reason=_sentence(error))
        return await _ask_health(place, port, "")
    if not found.health_port:
        return Answer(place, found.name, reason="has no health endpoint; start it with --health-port")
    return await _ask_health(place, found.health_port, found.name)


async def _ask_health(place: Address, port: int, name: str) -> Answer:
    try:
        async with asyncio.timeout(ANSWER_S):
            said = await get_json(place[0], port, "/status")
    except (OSError, TimeoutError, ValueError) as error:
        return Answer(place, name, reason=_sentence(error))
    return Answer(place, str(said.get("name", name)), said)


def _sentence(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {ANSWER_S:g} s"
    if isinstance(error, ConnectionRefusedError):
        return "nobody is listening there"
    return reason_of(error)


async def remote_status(addresses: Iterable[Address]) -> ClusterStatus:
    """Every broker that can be found from these addresses; raises `ConnectionFailed` if there is none."""
    first = await asyncio.gather(*map(ask, addresses))
    if not any(answer.is_broker for answer in first):
        tried = "; ".join(f"{shown(one.place)} ({one.reason or f'is {one.name}, no broker'})" for one in first)
        raise ConnectionFailed(f"no broker says how its cluster is; tried {tried}")
    found = {answer.name: answer for answer in first if answer.name}
    asked = {answer.place for answer in first}
    following = _named(first, found, asked)
    while following and len(asked) + len(following) <= ASKED_MAX:
        asked |= set(following.values())
        answers = await asyncio.gather(*map(ask, following.values()))
        named = zip(following, answers, strict=True)
        found |= {name: answer for name, answer in named if name not in found and answer.name in (name, "")}
        following = _named(answers, found, asked)
    return _cluster_of(found)


def _named(answers: Iterable[Answer], found: dict[str, Answer], asked: set[Address]) -> dict[str, Address]:
    """The brokers that these name and that were not found yet, and where they are."""
    following: dict[str, Address] = {}
    for answer in answers:
        for name, address in dict(answer.said.get("places") or {}).items():
            place = place_of(str(address))
            if place is None or name in found:
                continue
            reached = (answer.place[0], place[1]) if place[0] in ANYWHERE else place
            if reached not in asked:
                following.setdefault(str(name), reached)
    return following


def _cluster_of(found: dict[str, Answer]) -> ClusterStatus:
    brokers = [answer for answer in found.values() if answer.is_broker]
    clusters = {str(answer.said.get("cluster")): answer.name for answer in brokers}
    if len(clusters) > 1:
        listed = ", ".join(f"{name} to {cluster}" for cluster, name in clusters.items())
        raise ConfigError(f"the addresses are of several clusters ({listed}); ask one at a time.")
    answering = [
        status_of(one.name, one.said.get("parent"), f"holdfast://{shown(one.place)}", one.said) for one in brokers
    ]
    silent = [
        BrokerStatus(name, None, f"holdfast://{shown(one.place)}", ready=False, reason=one.reason)
        for name, one in found.items()
        if not one.said
    ]
    lost = {str(child): one.name for one in brokers for child in one.said.get("children") or () if child not in found}
    hidden = [
        BrokerStatus(name, None, "", ready=False, reason=f"is below {parent}, which does not know where it listens")
        for name, parent in sorted(lost.items())
    ]
    protocol = str(brokers[0].said.get("protocol"))
    return ClusterStatus(next(iter(clusters)), protocol, (*answering, *silent, *hidden))
