"""The health endpoint: a few questions over HTTP, answered and closed.

`GET /health` is 200 when the node serves clients and 503 when it does not (yet, or any more); `GET /status` is what the
node says of itself, as JSON; `GET /metrics`, where there are some, its figures for Prometheus. A process that takes
part in experiments obeys some commands, too, as `POST`; one that keeps things answers questions about them, whose
answers take a while and are bytes. That is all, so there is no HTTP library here; whatever is not such a request is
refused.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import cast
from urllib.parse import parse_qsl

import msgspec

from holdfast.model.errors import HoldfastError, LocalMisuse, Refused
from holdfast.runtime.exposition import CONTENT_TYPE
from holdfast.runtime.places import listen_error

REQUEST_BYTES_MAX = 8192
ANSWER_S = 5.0
QUESTION_S = 60.0
"""How long the answer to a question may take, with the way to whoever asked."""
CONNECTIONS_MAX = 64

Answer = tuple[HTTPStatus, dict[str, object] | str | bytes]
Command = Callable[[dict[str, str]], dict[str, object]]
Question = Callable[[dict[str, str]], Awaitable[bytes]]


class Health:
    """What is answered: `ready` and `status` are asked anew for every request.

    `commands` are paths to `POST` to, `questions` paths to `GET`.
    """

    def __init__(
        self,
        name: str,
        ready: Callable[[], bool],
        status: Callable[[], dict[str, object]],
        commands: Mapping[str, Command] | None = None,
        metrics: Callable[[], str] | None = None,
        questions: Mapping[str, Question] | None = None,
        *,
        local_commands: bool = False,
    ) -> None:
        """`local_commands`: commands are obeyed only if they come from the machine that this process runs on."""
        self._metrics, self._local_commands = metrics, local_commands
        self._name, self._ready, self._status, self._commands = name, ready, status, commands or {}
        self.questions = questions or {}
        self._server: asyncio.Server | None = None
        self.connections: set[asyncio.Transport] = set()

    async def listen(self, host: str, port: int) -> int:
        """Answer there; returns the port, which was chosen if `port` is 0."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: _Request(self), host, port)
        except OSError as error:
            raise listen_error(f"the health endpoint of {self._name}", host, port, error) from None
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for transport in list(self.connections):
            transport.abort()

    def answer(self, method: str, path: str, query: str = "", *, from_here: bool = True) -> Answer:
        if method == "POST" and path in self._commands:
            if self._local_commands and not from_here:
                return HTTPStatus.FORBIDDEN, {"error": "commands are taken from this machine alone: tell its agent"}
            try:
                return HTTPStatus.OK, self._commands[path](dict(parse_qsl(query)))
            except LocalMisuse as misuse:
                return HTTPStatus.BAD_REQUEST, {"error": str(misuse)}
        if method not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, {"error": f"{method} is not answered here: use GET"}
        if path == "/health":
            ready = self._ready()
            return (HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE), {"ready": ready}
        if path == "/status":
            return HTTPStatus.OK, self._status()
        if path == "/metrics" and self._metrics is not None:
            return HTTPStatus.OK, self._metrics()
        return HTTPStatus.NOT_FOUND, {"error": f"there is no {path} here: ask for /health or /status"}


class _Request(asyncio.Protocol):
    """One connection: one request, one answer."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._received = b""
        self._asking: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if len(self._health.connections) >= CONNECTIONS_MAX:
            self._transport.abort()
        self._health.connections.add(self._transport)
        self._deadline = asyncio.get_running_loop().call_later(ANSWER_S, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._deadline.cancel()
        if self._asking is not None:
            self._asking.cancel()
        self._health.connections.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._asking is not None:
            return
        self._received += data
        if not self._received[:1].isalpha():
            # A client that was given this port by mistake hears it at once.
            self._respond(HTTPStatus.BAD_REQUEST, {"error": "this is the health endpoint: it speaks HTTP"})
        elif b"\r\n\r\n" in self._received:
            self._answer()
        elif len(self._received) > REQUEST_BYTES_MAX:
            self._respond(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, {"error": "the request is too long"})

    def _answer(self) -> None:
        words = self._received.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            self._respond(HTTPStatus.BAD_REQUEST, {"error": "this is no HTTP/1 request"})
            return
        path, _, query = words[1].partition("?")
        question = self._health.questions.get(path)
        if words[0] == "GET" and question is not None:
            loop = asyncio.get_running_loop()
            self._deadline.cancel()
            self._deadline = loop.call_later(QUESTION_S, self._transport.abort)
            self._asking = loop.create_task(self._ask(question, query))
        else:
            ends = (self._transport.get_extra_info("peername"), self._transport.get_extra_info("sockname"))
            # Whoever connects from the same machine has the address that it connects to.
            from_here = None not in ends and ends[0][0] == ends[1][0]
            self._respond(*self._health.answer(words[0], path, query, from_here=from_here))

    async def _ask(self, question: Question, query: str) -> None:
        try:
            self._respond(HTTPStatus.OK, await question(dict(parse_qsl(query))))
        except LocalMisuse as misuse:
            self._respond(HTTPStatus.BAD_REQUEST, {"error": str(misuse)})
        except Refused as refusal:
            self._respond(HTTPStatus.FORBIDDEN, {"error": str(refusal)})
        except HoldfastError as failure:
            self._respond(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(failure)})

    def _respond(self, status: HTTPStatus, body: dict[str, object] | str | bytes) -> None:
        if isinstance(body, bytes):
            kind, content = "application/msgpack", body
        elif isinstance(body, str):
            kind, content = CONTENT_TYPE, body.encode()
        else:
            kind, content = "application/json", msgspec.json.encode(body, enc_hook=str) + b"\n"
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        with_body = not self._received.startswith(b"HEAD ")
        self._transport.write(head.encode() + (content if with_body else b""))
        self._transport.close()
