"""A subscription recorded: what a real broker delivers is on disk, in its order, numbered without a gap."""

import asyncio
import sys
import threading
from pathlib import Path

import holdfast
from holdfast.client.recording import record
from holdfast.storage.recordings import Recording, RecordingWriter
from tests.integration.support_brokers import address_of, broker_here, until


def test_what_arrives_is_recorded_and_the_next_recorder_goes_on_behind_it(tmp_path: Path):
    async def story() -> None:
        async with broker_here() as broker, holdfast.connect(address_of(broker), name="alice") as alice:
            for first in (0, 300):
                async with (
                    holdfast.connect(address_of(broker)) as client,
                    client.subscribe("numbers/#") as numbers,
                ):
                    with RecordingWriter(tmp_path) as writer:
                        recording = asyncio.ensure_future(record(numbers, writer, count=300))
                        for number in range(first, first + 300):
                            await alice.publish(f"numbers/{number % 2}", b"%d" % number, guarantee="fifo")
                        assert await recording == 300

    holdfast.run(story())
    payloads = b"".join(frame.columns.payloads for frame in Recording(tmp_path).frames(0, 600))
    assert payloads == b"".join(b"%d" % number for number in range(600))
    assert Recording(tmp_path).end() == 600


def test_a_recorder_that_is_cancelled_while_the_disk_works_waits_for_the_disk(tmp_path: Path):
    class SlowWriter(RecordingWriter):
        """Its disk works until it is told that it is done."""

        def __init__(self, path: Path) -> None:
            super().__init__(path)
            self.begun, self.done = threading.Event(), threading.Event()

        def flush(self, sync: bool = True) -> int:
            if self.pending:
                self.begun.set()
                assert self.done.wait(60)
            return super().flush(sync)

    async def story() -> None:
        async with broker_here() as broker, holdfast.connect(address_of(broker), name="alice") as client:
            numbers = await client.subscribe("numbers")
            writer = SlowWriter(tmp_path)
            recording = asyncio.ensure_future(record(numbers, writer))
            await client.publish("numbers", b"1")
            await until(writer.begun.is_set, "the disk works")
            recording.cancel()
            await asyncio.sleep(0)
            assert not recording.done()
            writer.done.set()
            await asyncio.gather(recording, return_exceptions=True)
            assert recording.cancelled()
            writer.close()

    holdfast.run(story())
    assert Recording(tmp_path).end() == 1


def test_a_recorder_that_is_cancelled_keeps_keeps_what_it_had_taken(tmp_path: Path):
    async def story() -> None:
        async with broker_here() as broker, holdfast.connect(address_of(broker), name="alice") as client:
            numbers = await client.subscribe("numbers")
            with RecordingWriter(tmp_path) as writer:
                recording = asyncio.ensure_future(record(numbers, writer))
                await client.publish("numbers", b"1")
                await until(lambda: Recording(tmp_path).end() == 1, "the message is recorded")
                recording.cancel()
                await asyncio.gather(recording, return_exceptions=True)

    holdfast.run(story())
    assert Recording(tmp_path).end() == 1


def test_the_command_line_records_and_says_where_it_began_and_how_many_it_were(tmp_path: Path):
    async def story() -> list[str]:
        async with broker_here() as broker, holdfast.connect(address_of(broker), name="alice") as client:
            options = ["--record", str(tmp_path), "--count", "2", "--name", "bob", "--address", address_of(broker)]
            command = [sys.executable, "-m", "holdfast", "sub", "numbers/#", *options]
            recorder = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
            assert recorder.stderr is not None
            said = [await recorder.stderr.readline() for _ in range(2)]
            for number in range(2):
                await client.publish(f"numbers/{number}", b"%d" % number)
            said.append(await recorder.stderr.read())
            assert await recorder.wait() == 0
            return [line.decode() for line in said]

    assert holdfast.run(story()) == [
        "bob is subscribed to numbers/# at broker b0\n",
        f"recording to {tmp_path} from position 0 on\n",
        f"recorded 2 messages to {tmp_path}\n",
    ]
    assert Recording(tmp_path).end() == 2
