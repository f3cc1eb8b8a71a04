"""What a broker's health endpoint says, and what is made of one that says something else or nothing."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from io import StringIO

import pytest
from rich.console import Console

from holdfast.cli.clusters import tree_of
from holdfast.cluster.config import Broker, Cluster
from holdfast.cluster.status import BrokerStatus, ClusterStatus, broker_status, cluster_status

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def answering(status: str, body: bytes) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        assert request.startswith(b"GET /status HTTP/1.1\r\n")
        writer.write(f"HTTP/1.1 {status}\r\n\r\n".encode() + body)
        writer.close()

    return handle


def asked(handler: Handler) -> BrokerStatus:
    async def ask() -> BrokerStatus:
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        async with server:
            return await broker_status(Broker("b", None, "127.0.0.1", 7400, server.sockets[0].getsockname()[1]))

    return asyncio.run(ask())


def test_a_ready_broker_is_ready_and_names_its_clients():
    said = {"name": "b", "ready": True, "clients": ["alice"], "subscriptions": 3}
    seen = asked(answering("200 OK", json.dumps(said).encode()))
    assert (seen.ready, seen.reason, seen.clients, seen.status) == (True, "", ("alice",), said)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"name": "b", "ready": False, "waiting_for": ["its parent"]}, "its parent"),
        ({"name": "b", "ready": False, "stopping": True}, "is stopping"),
        ({"name": "b", "ready": False}, "is not ready yet"),
    ],
)
def test_a_broker_that_is_not_ready_says_why(said: dict[str, object], reason: str):
    seen = asked(answering("200 OK", json.dumps(said).encode()))
    assert (seen.ready, seen.reason) == (False, reason)


def test_somebody_else_on_the_port_is_not_taken_for_the_broker():
    seen = asked(answering("200 OK", b'{"name": "other", "ready": true}'))
    assert not seen.ready
    assert "answers as 'other', which is somebody else" in seen.reason


@pytest.mark.parametrize(("status", "body"), [("404 Not Found", b""), ("200 OK", b"<html>"), ("200 OK", b"[1]")])
def test_an_answer_that_is_none_is_no_reason_to_fail(status: str, body: bytes):
    seen = asked(answering(status, body))
    assert not seen.ready
    assert seen.reason


def test_a_broker_that_is_not_there_is_said_to_be_so():
    async def ask() -> BrokerStatus:
        server = await asyncio.start_server(answering("200 OK", b""), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        return await broker_status(Broker("b", None, "127.0.0.1", 7400, port))

    seen = asyncio.run(ask())
    assert (seen.ready, seen.reason) == (False, "nobody listens on its health port")


def test_a_cluster_is_ready_when_all_its_brokers_are():
    async def ask() -> bool:
        server = await asyncio.start_server(answering("200 OK", b'{"name": "a", "ready": true}'), "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            one, other = Broker("a", None, "127.0.0.1", 1, port), Broker("b", "a", "127.0.0.1", 2, port)
            seen = await cluster_status(Cluster("c", "ginger", (one, other)))
            assert [broker.name for broker in seen.tops()] == ["a"]
            # Whoever answers on b's port is not b.
            assert ([broker.name for broker in seen.silent()], seen.children("a")) == (["b"], [])
            return seen.ready

    assert asyncio.run(ask()) is False


def test_a_brokers_parent_is_the_one_that_it_names_itself():
    said = {"name": "b", "ready": True, "parent": "elsewhere"}
    assert asked(answering("200 OK", json.dumps(said).encode())).parent == "elsewhere"


def test_those_above_whom_nobody_answers_are_at_the_top_and_those_that_are_silent_are_apart():
    def seen(name: str, parent: str | None, answers: bool) -> BrokerStatus:
        return BrokerStatus(name, parent, "", answers, status={"name": name} if answers else {})

    brokers = (seen("a", None, False), seen("b", None, True), seen("c", "a", True), seen("d", "b", True))
    status = ClusterStatus("c", "ginger", brokers)
    assert [one.name for one in status.tops()] == ["b", "c"]
    assert [one.name for one in status.children("b")] == ["d"]
    assert [one.name for one in status.silent()] == ["a"]


def test_a_broker_around_which_the_tree_heals_says_what_it_waits_for_and_whom_it_misses():
    said = {
        "waiting_for": ["4, 5 to join, since 1 is lost", "credit from 3", "2 to open the link"],
        "absent": ["7"],
    }
    seen = BrokerStatus("0", None, "holdfast://h:1", ready=True, status=said)
    assert seen.healing == [
        "waits for 4, 5 to join, since 1 is lost",
        "waits for 2 to open the link",
        "keeps what 7 may lack",
    ]
    shown = Console(width=100, no_color=True, file=StringIO())
    shown.print(tree_of(ClusterStatus("c", "ginger", (seen,))))
    assert isinstance(shown.file, StringIO)
    assert "↻ waits for 4, 5 to join, since 1 is lost" in shown.file.getvalue()


def test_a_broker_that_waits_for_traffic_alone_is_whole():
    said = {"waiting_for": ["credit from 3", "2 messages of c1, which went up to 0 and have not turned"], "absent": []}
    assert BrokerStatus("0", None, "holdfast://h:1", ready=True, status=said).healing == []


def test_a_broker_with_too_many_neighbours_says_so_and_whom_it_moves():
    waiting = ["4 to be moved below 1: their link to fall silent", "credit from 3"]
    said = {"name": "b", "ready": True, "degree": 4, "degree_max": 3, "waiting_for": waiting}
    seen = asked(answering("200 OK", json.dumps(said).encode()))
    assert seen.healing == [
        "waits for 4 to be moved below 1: their link to fall silent",
        "has 4 neighbours, and keeps 3: children will be moved",
    ]


@pytest.mark.parametrize("degree_max", [0, 4])
def test_a_broker_with_room_has_nothing_to_say_of_its_neighbours(degree_max: int):
    said = {"name": "b", "ready": True, "degree": 4, "degree_max": degree_max}
    assert asked(answering("200 OK", json.dumps(said).encode())).healing == []
