"""A client of a play as a process: it obeys the master on its control port, and writes down at once what it does.

`python -m holdfast.cluster.play.client_process JSON [--attached]`

`POST /subscribe?token=T&pattern=P&where=W`, `/unsubscribe`, and `/publish?token=T&order=JSON` are begun at once;
`GET /status` says what became of them. What it delivers, publishes and subscribes to is in its trace before anybody
else can see it: of a client that is killed nothing is known elsewhere that its trace lacks.
"""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.client import Client, Gap, Receipt, Subscription, connect
from holdfast.cluster.client_main import ClientRecord, main_of_client
from holdfast.cluster.config import LOOPBACK
from holdfast.cluster.play.grammar import numbered
from holdfast.cluster.play.payloads import payload_of
from holdfast.model.errors import HoldfastError, LocalMisuse
from holdfast.model.filters import Value
from holdfast.model.guarantees import Guarantee
from holdfast.runtime.health import Health
from holdfast.runtime.logs import ProcessLog
from holdfast.runtime.tracing import RUN, own_file

CONNECTED_S = 30.0
TROUBLES_MAX = 100


class PlayClientSettings(Struct, frozen=True):
    """Who the client is, where its broker is, and where the master reaches it."""

    name: str
    address: str
    cluster: str
    health_port: int
    trace: str
    host: str = LOOPBACK
    run: str = RUN


class Order(Struct, frozen=True):
    """So many messages to publish."""

    count: int
    topic: str
    guarantee: str
    interval_ms: float = 0.0
    keys: tuple[str, ...] = ()
    attributes: dict[str, Value] = {}
    size_bytes: int = 0


class PlayClient:
    """A session, and what the master has told it to do."""

    def __init__(self, client: Client, log: ProcessLog) -> None:
        self._client, self._log = client, log
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscriptions: dict[tuple[str, str], Subscription] = {}
        self._answers: dict[str, str] = {}
        self._troubles: list[str] = []
        self._pending: dict[str, str] = {}
        """What was begun and has not ended, by its token, in words."""
        self._published = self._delivered = 0

    def status(self) -> dict[str, object]:
        return {
            "broker": self._client.broker,
            "answers": dict(self._answers),
            "pending": list(self._pending.values()),
            "troubles": list(self._troubles),
            "published": self._published,
            "delivered": self._delivered,
            "waiting_for": self._client.waiting_for(),
        }

    def commands(self) -> dict[str, Any]:
        return {"/subscribe": self._subscribe, "/unsubscribe": self._unsubscribe, "/publish": self._publish}

    def _subscribe(self, query: dict[str, str]) -> dict[str, object]:
        interest = (query["pattern"], query.get("where", ""))
        return self._begin(query, f"its subscription to {interest[0]}", self._subscribed(interest))

    def _unsubscribe(self, query: dict[str, str]) -> dict[str, object]:
        interest = (query["pattern"], query.get("where", ""))
        if interest not in self._subscriptions:
            raise LocalMisuse(f"there is no subscription to {interest[0]!r} that is confirmed")
        return self._begin(query, f"the end of its subscription to {interest[0]}", self._unsubscribed(interest))

    def _publish(self, query: dict[str, str]) -> dict[str, object]:
        order = msgspec.json.decode(query["order"], type=Order)
        return self._begin(query, f"{order.count} publications on {order.topic}", self._publications(order))

    def _begin(self, query: dict[str, str], what: str, work: Coroutine[Any, Any, None]) -> dict[str, object]:
        token = query.get("token", "")
        self._pending[token] = what

        async def watched() -> None:
            answer = "done"
            try:
                await work
            except HoldfastError as error:
                answer = f"{what}: {error}"
                self._trouble(answer)
            del self._pending[token]
            self._answers[token] = answer

        self._spawn(watched())
        return {"begun": what}

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _trouble(self, sentence: str) -> None:
        self._log.warning("trouble", reason=sentence)
        if len(self._troubles) < TROUBLES_MAX:
            self._troubles.append(sentence)

    # ---------------------------------------------------------------------------------------------------- the work

    async def _subscribed(self, interest: tuple[str, str]) -> None:
        pattern, where = interest
        subscription = await self._client.subscribe(pattern, where)
        self._subscriptions[interest] = subscription
        self._spawn(self._read(subscription))

    async def _unsubscribed(self, interest: tuple[str, str]) -> None:
        await self._subscriptions.pop(interest).unsubscribe()

    async def _read(self, subscription: Subscription) -> None:
        while True:
            try:
                async for _ in subscription:
                    self._delivered += 1
                return
            except Gap as gap:
                self._trouble(str(gap))
                if not gap.goes_on:
                    return

    async def _publications(self, order: Order) -> None:
        receipt: Receipt | None = None
        begun_at, guarantee = monotonic(), Guarantee(order.guarantee)
        for place in range(order.count):
            wait_s = begun_at + place * order.interval_ms / 1000 - monotonic()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            self._published += 1
            receipt = await self._client.publish(
                order.topic,
                payload_of(self._client.name, self._published, order.size_bytes),
                guarantee,
                order.keys,
                numbered(order.attributes, place + 1),
            )
        if receipt is not None:
            await receipt.confirmed()


async def serve(settings: PlayClientSettings) -> None:
    """Play until a signal comes."""
    log = ProcessLog("holdfast.play", node=settings.name)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    record = ClientRecord(own_file(Path(settings.trace), f"client-{settings.name}"), at_once=True)
    async with connect(
        settings.address,
        name=settings.name,
        cluster=settings.cluster,
        trace=record,
        run=settings.run,
        timeout_s=CONNECTED_S,
    ) as client:
        player = PlayClient(client, log)
        health = Health(
            settings.name,
            lambda: True,
            lambda: {"name": settings.name, "ready": True, **player.status()},
            player.commands(),
        )
        try:
            await health.listen(settings.host, settings.health_port)
            log.info("plays", broker=client.broker, port=settings.health_port)
            await stop.wait()
        finally:
            record.end()
            health.close()


def main(arguments: list[str]) -> int:
    return main_of_client(arguments, PlayClientSettings, "holdfast.play", serve)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
