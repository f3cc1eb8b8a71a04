"""Bits flip and blocks are torn in the store of a repository: it finds out, says so, and mends it from its sibling."""

import asyncio
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast.cluster.processes import Processes
from holdfast.storage.stores import open_store
from holdfast.storage.stores.mending import mend_from
from tests.integration.reliable.bundles import (
    PATIENCE_S,
    STREAM,
    bundle_of_processes,
    connected,
    payload_of,
    payloads_in,
    publish,
    read,
    repository_here,
    until_it_has,
    until_it_says,
)
from tests.integration.support_brokers import address_of, broker_here, until

COUNT, SIZE_BYTES = 100, 700
HARMED = (7, 8, 50, 93)
DAMAGED = re.compile("^([0-9]+) messages? of alice to bank/# (?:are|is) damaged in the store of r1, and no other")


def everything(last: int) -> list[bytes]:
    return [payload_of("alice", number, SIZE_BYTES) for number in range(1, last + 1)]


def files_of(store: Path) -> list[Path]:
    return sorted(store.glob("*.log")) if store.is_dir() else [store]


def flip_bits(store: Path) -> None:
    """Harm some messages of the middle: each is somewhere in the files, as it was published."""
    for number in HARMED:
        wanted = payload_of("alice", number, SIZE_BYTES)[:-8]
        found = [(file, at) for file in files_of(store) if (at := file.read_bytes().find(wanted)) >= 0]
        assert found, f"message {number} is in no file of {store}"
        for file, at in found:
            with file.open("r+b") as bytes_of_it:
                bytes_of_it.seek(at + 200)
                bytes_of_it.write(b"\x00")


def log_of(store: Path) -> Path:
    return files_of(store)[-1] if store.is_dir() else store.with_name(f"{store.name}-wal")


def tear(store: Path) -> None:
    """Lose the end of what was written last, some messages with it."""
    data = log_of(store).read_bytes().rstrip(b"\x00")
    log_of(store).write_bytes(data[: len(data) // 2])


def blot(store: Path) -> None:
    """Lose a block of it, with the same result: nobody can read what stands behind."""
    data = bytearray(log_of(store).read_bytes())
    half = len(data.rstrip(b"\x00")) // 2
    # Not zeros: where the block lies there may be nothing else.
    data[half : half + 4096] = bytes(255 - byte for byte in data[half : half + 4096])
    log_of(store).write_bytes(data)


async def era_of(processes: Processes) -> int:
    said = await until_it_says(processes, "r1", lambda said: bool(said["streams"]))
    return int(said["streams"][STREAM]["era"])


@pytest.mark.parametrize("kind", ["sqlite", "segments"])
def test_flipped_bits_and_a_torn_end_are_found_told_and_mended_from_the_sibling(tmp_path: Path, kind: str):
    stores = {name: f"{kind}:{tmp_path / name}" for name in ("r1", "r2")}

    async def flipped(processes: Processes) -> None:
        processes.dismiss("r1")
        flip_bits(tmp_path / "r1")
        processes.dismiss("r2")
        processes.restart("r1")
        # Alone it can only say so, and why.
        said = await until_it_says(processes, "r1", lambda said: said["streams"][STREAM]["damaged"] > 0)
        assert any("damaged messages of bank/# to be mended by a sibling" in one for one in said["waiting_for"])
        assert said["inspection"]["count"] >= 1
        processes.restart("r2")
        await processes.wait_ready("r2")
        said = await until_it_says(processes, "r1", lambda said: not said["inspection"]["count"])
        assert said["streams"][STREAM]["mended"] >= len(HARMED)
        assert said["waiting_for"] == []

    async def torn(processes: Processes, alice: holdfast.Client) -> None:
        await publish(alice, COUNT + 1, 2 * COUNT, SIZE_BYTES)
        for name in stores:
            await until_it_has(processes, name, 2 * COUNT)
        before = await era_of(processes)
        processes.crash("r1")
        tear(tmp_path / "r1")
        processes.restart("r1")
        await processes.wait_ready("r1")
        await until_it_has(processes, "r1", 2 * COUNT)
        # SQLite may have moved its log into the database already: then tearing it has lost nothing.
        if kind == "segments":
            assert await era_of(processes) > before, "whoever has lost what it told must not be taken for who it was"

    async def story() -> None:
        async with bundle_of_processes(tmp_path, stores, inspect_s=0.3) as processes:
            alice, reader = [await connected(processes, name) for name in ("alice", "reader")]
            async with asyncio.timeout(3 * PATIENCE_S):
                orders = await reader.subscribe(STREAM, durable="reader")
                await publish(alice, 1, COUNT, SIZE_BYTES)
                assert await read(orders, COUNT) == everything(COUNT)
                for name in stores:
                    await until_it_has(processes, name, COUNT)
                await flipped(processes)
                await torn(processes, alice)
                assert await read(orders, COUNT) == everything(2 * COUNT)[COUNT:]
                processes.crash("r2")
                again = await reader.subscribe(STREAM, durable="again")
                assert await read(again, 2 * COUNT) == everything(2 * COUNT)
                for client in (alice, reader):
                    await client.close()

    holdfast.run(story())
    for url in stores.values():
        assert payloads_in(url) == everything(2 * COUNT)


def test_damage_that_a_reader_meets_is_mended_before_it_reads_on(tmp_path: Path):
    async def story() -> None:
        stores = {name: f"segments:{tmp_path / name}" for name in ("r1", "r2")}
        async with (
            broker_here() as broker,
            holdfast.connect(address_of(broker), name="alice") as alice,
            repository_here(broker, "r1", stores["r1"], inspect_s=0) as one,
        ):
            async with repository_here(broker, "r2", stores["r2"]) as two:
                await publish(alice, 1, COUNT, SIZE_BYTES)
                await until(lambda: not (one.machine.waiting_for() or two.machine.waiting_for()), "both have all")
            flip_bits(tmp_path / "r1")
            orders = await alice.subscribe(STREAM, durable="reader")
            await until(lambda: one.machine.streams[STREAM].damage.messages > 0, "the damage is found")
            async with repository_here(broker, "r2", stores["r2"]):
                assert await read(orders, COUNT) == everything(COUNT)

    holdfast.run(story())
    assert payloads_in(f"segments:{tmp_path / 'r1'}") == everything(COUNT)


@pytest.mark.parametrize("kind", ["sqlite", "segments"])
def test_a_store_that_was_mended_by_hand_is_gone_on_with(tmp_path: Path, kind: str):
    stores = {name: f"{kind}:{tmp_path / name}" for name in ("r1", "r2")}

    async def story() -> None:
        async with broker_here() as broker, holdfast.connect(address_of(broker), name="alice") as alice:
            async with (
                repository_here(broker, "r1", stores["r1"]) as one,
                repository_here(broker, "r2", stores["r2"]) as two,
            ):
                await publish(alice, 1, COUNT, SIZE_BYTES)
                await until(lambda: not (one.machine.waiting_for() or two.machine.waiting_for()), "both have all")
                # As a process that is killed leaves it: the log is not cleared away.
                copied(tmp_path / "r1", tmp_path / "torn")
            (tear if kind == "segments" else blot)(tmp_path / "torn")
            flip_bits(tmp_path / "r1")
            for url in (f"{kind}:{tmp_path / 'torn'}", stores["r1"]):
                with open_store(url) as store, open_store(stores["r2"], write=False) as sibling:
                    mended = mend_from(store, sibling)
                assert (bool(mended.found), mended.left) == (True, []), f"{url} is whole again"
            for name in ("torn", "r1"):
                async with repository_here(broker, "r1", f"{kind}:{tmp_path / name}") as back:
                    await until(back.ready, "it serves")
                    everything_again = await alice.subscribe(STREAM, durable=f"reader of {name}")
                    assert await read(everything_again, COUNT) == everything(COUNT)

    holdfast.run(story())


def copied(store: Path, copy: Path) -> None:
    if store.is_dir():
        shutil.copytree(store, copy)
        return
    for suffix in ("", "-wal"):
        shutil.copy(f"{store}{suffix}", f"{copy}{suffix}")


def test_pairs_that_are_harmed_are_made_anew_from_what_is_stored(tmp_path: Path):
    stores = {name: f"sqlite:{tmp_path / name}" for name in ("r1", "r2")}

    async def story() -> None:
        async with (
            broker_here() as broker,
            holdfast.connect(address_of(broker), name="alice") as alice,
            repository_here(broker, "r2", stores["r2"]) as two,
        ):
            async with repository_here(broker, "r1", stores["r1"]) as one:
                await publish(alice, 1, COUNT, SIZE_BYTES)
                await until(lambda: not (one.machine.waiting_for() or two.machine.waiting_for()), "both have all")
            with closing(sqlite3.connect(tmp_path / "r1")) as db, db:
                which = "key LIKE '%/chain/%' OR key LIKE '%/head'"
                changed = db.execute(f"UPDATE pairs SET value = zeroblob(9) WHERE {which}")
                assert changed.rowcount == 2
            async with repository_here(broker, "r1", stores["r1"]) as one:
                await publish(alice, COUNT + 1, 2 * COUNT, SIZE_BYTES)
                await until(lambda: not (one.machine.waiting_for() or two.machine.waiting_for()), "both have all")

    holdfast.run(story())
    for url in stores.values():
        assert payloads_in(url) == everything(2 * COUNT)


@pytest.mark.parametrize("kind", ["sqlite", "segments"])
def test_a_reader_of_a_damaged_store_without_a_sibling_gets_a_gap_where_the_hole_is(tmp_path: Path, kind: str):
    store = f"{kind}:{tmp_path / 'r1'}"

    async def told(orders: holdfast.Subscription, last: int) -> list[int]:
        """The numbers of the messages up to the last; for each gap, how many are missing, below 0."""
        found: list[int] = []
        while not found or found[-1] != last:
            try:
                found.append(int((await orders.get(PATIENCE_S)).payload.split()[1].rstrip(b".")))
            except holdfast.Gap as gap:
                found.append(-int(DAMAGED.findall(str(gap))[0]))
        return found

    async def story() -> None:
        async with broker_here() as broker, holdfast.connect(address_of(broker), name="alice") as alice:
            async with repository_here(broker, store=store):
                await publish(alice, 1, COUNT, SIZE_BYTES)
            flip_bits(tmp_path / "r1")
            async with repository_here(broker, store=store) as kept:
                await publish(alice, COUNT + 1, COUNT + 1, SIZE_BYTES)
                found = await told(await alice.subscribe(STREAM, durable="reader"), COUNT + 1)
                lost = kept.machine.streams[STREAM].damage.lost
        assert -sum(one for one in found if one < 0) == lost >= len(HARMED)
        # Where a gap stands, as many numbers are missing as it says.
        reached = 0
        for one in found:
            assert one < 0 or one == reached + 1
            reached = reached - one if one < 0 else one
        assert not set(HARMED) & set(found)

    holdfast.run(story())
