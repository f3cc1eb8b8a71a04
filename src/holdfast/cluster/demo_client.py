"""One client of the demonstration as a worker: a bank replica that also publishes its share of the workload.

It says `ready` when it is subscribed, begins when it is told `go`, says `progress` on the way, and `done` when its last
publication is confirmed and everything that everybody publishes on its topic has been delivered here. Told to `stop`,
which means that everybody is done, it ends its trace before it closes.
"""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from random import Random
from time import monotonic, time_ns

from msgspec import Struct

from holdfast.client import Receipt, connect
from holdfast.cluster.client_main import ClientRecord
from holdfast.cluster.processes import link_of
from holdfast.cluster.workers import Orders, say, settings_of_this_process, work
from holdfast.model.batches import Message
from holdfast.runtime.tracing import own_file
from holdfast.services.bank import TransferOutcome, account_numbers, workload
from holdfast.services.replica import Replica, open_replica
from holdfast.storage.recordings import RecordingWriter

PROGRESS_S = 0.1
CONNECTED_S = 30.0


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
    silence_s: float = 0.0
    """After what silence a broker is taken for lost; 0: as usual."""
    recording: str = ""
    """Where what is delivered is kept, payloads included, in its order; nowhere if empty."""


class DemoClient:
    """The replica and how far it is."""

    def __init__(
        self, settings: DemoClientSettings, replica: Replica, record: ClientRecord, recording: RecordingWriter | None
    ) -> None:
        self._settings, self._replica, self._record, self._recording = settings, replica, record, recording
        self._complete = asyncio.Event()
        self._published = 0
        self._expected = settings.operations * settings.replicas
        if not self._expected:
            self._complete.set()

    def _watch(self, message: Message, _: TransferOutcome) -> None:
        if self._recording is not None:
            self._recording.append((message,), time_ns())
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
            self._record.flush()
            if self._recording is not None:
                self._recording.flush(sync=False)
            await asyncio.sleep(PROGRESS_S)


async def serve(settings: DemoClientSettings) -> None:
    orders = Orders()
    orders.listen()
    record = ClientRecord(own_file(Path(settings.trace), settings.name))
    async with connect(
        settings.address,
        name=settings.name,
        cluster=settings.cluster,
        trace=record,
        run=settings.run,
        link=link_of(settings.silence_s) if settings.silence_s else None,
        timeout_s=CONNECTED_S,
    ) as client:
        replica = await open_replica(client, settings.topic, account_numbers(settings.accounts))
        say("ready", broker=client.broker)
        await orders.wait_for("go")
        with RecordingWriter(settings.recording) if settings.recording else nullcontext() as recording:
            await DemoClient(settings, replica, record, recording).play()
        bank = replica.bank
        say("done", applied=bank.applied, refused=bank.refused, digest=bank.digest(), delivered=bank.applied)
        await orders.wait_for("stop")
        record.end()
    say("closed")


if __name__ == "__main__":
    work(serve(settings_of_this_process(DemoClientSettings)))
