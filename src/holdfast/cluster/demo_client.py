"""One client of the demonstration as a worker: a bank replica that also publishes its share of the workload.

It says `ready` when it is subscribed, begins when it is told `go`, says `progress` on the way, and `done` when its last
publication is confirmed and everything that everybody publishes on its topic has been delivered here.
"""

import asyncio
from random import Random
from time import monotonic

from msgspec import Struct

from holdfast.client import Receipt, connect
from holdfast.cluster.workers import Orders, say, settings_of_this_process, work
from holdfast.services.bank import account_numbers, workload
from holdfast.services.replica import Replica, open_replica

PROGRESS_S = 0.1


class DemoClientSettings(Struct, frozen=True):
    name: str
    address: str
    cluster: str
    topic: str
    replicas: int
    """How many clients publish on the topic, this one included."""
    operations: int
    accounts: int
    interval_ms: float
    seed: int
    trace: str
    run: str


class DemoClient:
    """The replica and how far it is."""

    def __init__(self, settings: DemoClientSettings, replica: Replica) -> None:
        self._settings, self._replica = settings, replica
        self._complete = asyncio.Event()
        self._published = 0
        self._expected = settings.operations * settings.replicas
        if not self._expected:
            self._complete.set()

    def _watch(self, *_: object) -> None:
        if self._replica.bank.applied >= self._expected:
            self._complete.set()

    async def play(self) -> None:
        """Publish everything, see that it is confirmed, and wait for what the others publish."""
        following = asyncio.ensure_future(self._replica.follow(self._watch))
        telling = asyncio.ensure_future(self._tell())
        try:
            receipt = await self._publish()
            if receipt is not None:
                await receipt.confirmed()
            waiting = asyncio.ensure_future(self._complete.wait())
            await asyncio.wait({waiting, following}, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                waiting.cancel()
                following.result()
        finally:
            following.cancel()
            telling.cancel()

    async def _publish(self) -> Receipt | None:
        settings = self._settings
        chance = Random(f"{settings.seed}/{settings.name}")
        receipt, begun_at = None, monotonic()
        operations = workload(chance, account_numbers(settings.accounts), settings.operations)
        for number, operation in enumerate(operations):
            wait_s = begun_at + number * settings.interval_ms / 1000 - monotonic()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            receipt = await self._replica.perform(operation)
            self._published += 1
        return receipt

    async def _tell(self) -> None:
        while True:
            say("progress", published=self._published, delivered=self._replica.bank.applied)
            await asyncio.sleep(PROGRESS_S)


async def serve(settings: DemoClientSettings) -> None:
    orders = Orders()
    orders.listen()
    async with connect(
        settings.address, name=settings.name, cluster=settings.cluster, trace=settings.trace, run=settings.run
    ) as client:
        replica = await open_replica(client, settings.topic, account_numbers(settings.accounts))
        say("ready", broker=client.broker)
        await orders.wait_for("go")
        await DemoClient(settings, replica).play()
        bank = replica.bank
        say("done", applied=bank.applied, refused=bank.refused, digest=bank.digest(), delivered=bank.applied)
        await orders.wait_for("stop")
    say("closed")


if __name__ == "__main__":
    work(serve(settings_of_this_process(DemoClientSettings)))
