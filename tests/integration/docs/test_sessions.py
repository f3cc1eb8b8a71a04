"""Every document is typed from top to bottom into a terminal, and does and prints what it says.

Documents that start no cluster of their own share one, and so do pieces of programs, which run in this process.
"""

import ast
import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from tests.integration.docs.terminals import Session, block_of_ports, said_here
from tests.support.documents import Example, documents, examples_in, examples_of
from tests.tidy.sources import ROOT

PIECE_S = 30.0
SHARED = "```sh\nholdfast up examples/clusters/kept.toml\n```\n"
NOT_HERE = ("spark",)
"""Names that `tests/integration/pipeline` gives to pieces of programs."""


def session_of(document: Path) -> list[Example]:
    """The blocks of a document that a shell runs, and what they print."""
    found = [one for one in examples_of(document) if (one.is_run and not one.given) or one.option("output")]
    return found if any(one.language in ("sh", "python") for one in found) else []


def pieces() -> list[Example]:
    found = [one for document in documents() for one in examples_of(document) if one.given and one.is_run]
    return [one for one in found if not set(one.given) & set(NOT_HERE)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The first port of a cluster of three brokers and two repositories."""
    with block_of_ports() as base_port:
        made = Session(tmp_path_factory.mktemp("shared"), base_port)
        try:
            made.run(examples_in(SHARED, "shared.md"))
            yield base_port
        finally:
            made.close()


@pytest.mark.parametrize(
    "document", [one for one in documents() if session_of(one)], ids=lambda one: str(one.relative_to(ROOT))
)
def test_a_document_typed_from_top_to_bottom_does_what_it_says(
    document: Path, tmp_path: Path, request: pytest.FixtureRequest
):
    found = session_of(document)
    if not any("holdfast up" in one.text for one in found):
        Session(tmp_path, request.getfixturevalue("shared")).run(found)
        return
    with block_of_ports() as base_port:
        session = Session(tmp_path, base_port)
        try:
            session.run(found)
        finally:
            session.close()


# ------------------------------------------------------------------------------------------------- pieces of programs


class PrinterError(Exception):
    """What the piece about acknowledgements expects of its application."""


class Given:
    """The names that a piece of a program uses, made when it asks for them."""

    def __init__(self, client: holdfast.Client) -> None:
        self.client = client
        self.asides: list[asyncio.Task[None]] = []
        self.billed: list[bytes] = []

    async def make(self, name: str) -> Any:
        makers: dict[str, Callable[[], Awaitable[Any]]] = {"orders": self._orders, "bill": self._bill}
        plain = {"client": self.client, "PrinterError": PrinterError, "fetch_elsewhere": lambda after: after}
        return plain[name] if name in plain else await makers[name]()

    async def _orders(self) -> holdfast.Subscription:
        """A subscription that ends when its two messages were read."""
        orders = await self.client.subscribe("docs/orders")
        receipt = await self.client.publish_many("docs/orders", [b"1", b"2"])
        assert receipt is not None

        async def end() -> None:
            await receipt.confirmed(by="application")
            await orders.unsubscribe()

        self.asides.append(asyncio.create_task(end()))
        return orders

    async def _bill(self) -> Callable[[bytes], Awaitable[None]]:
        """Work that fails at first and then succeeds; the application ends when all of it is done."""
        for payload in (b"one", b"two"):
            await (await self.client.publish("bank/orders", payload, durable=True)).stored()

        async def bill(payload: bytes) -> None:
            self.billed.append(payload)
            if len(self.billed) == 1:
                raise PrinterError
            if {b"one", b"two"} <= set(self.billed[1:]):
                self.asides.append(asyncio.create_task(self._close()))

        return bill

    async def _close(self) -> None:
        await asyncio.sleep(0)
        await self.client.close()


@pytest.mark.parametrize("example", pieces(), ids=str)
def test_a_piece_of_a_program_runs(example: Example, shared: int):
    async def run() -> None:
        async with holdfast.connect(f"holdfast://127.0.0.1:{shared}") as client:
            given = Given(client)
            namespace = {"holdfast": holdfast, "asyncio": asyncio}
            namespace |= {name: await given.make(name) for name in example.given}
            # The piece is as long as the document says; its delays need not be.
            text = said_here(example.text, shared).replace("delay_s=5", "delay_s=0.05")
            code = compile(text, str(example), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            async with asyncio.timeout(PIECE_S):
                ended = eval(code, namespace)  # it is our own documentation
                if inspect.isawaitable(ended):
                    await ended
                await asyncio.gather(*given.asides)

    asyncio.run(run())
