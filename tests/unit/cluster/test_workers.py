"""Workers report, obey, and are never left behind."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.cluster.pids import process_id
from holdfast.cluster.workers import Worker, WorkerError

MODULE = "tests.unit.cluster.echo_worker"
LIMIT_S = 20.0


def worker(tmp_path: Path, then: str = "obey") -> Worker:
    return Worker("echo", MODULE, {"then": then}, tmp_path / "logs" / "echo.log")


def test_a_worker_hears_words_and_reports_in_order(tmp_path: Path):
    async def play() -> tuple[Any, list[str]]:
        others: list[str] = []
        async with worker(tmp_path) as one:
            await one.report("ready", LIMIT_S)
            one.tell("hello")
            heard = await one.report("heard", LIMIT_S, lambda said: others.append(said["event"]))
            one.tell("stop")
            await one.report("stopped", LIMIT_S)
            return heard["word"], others

    assert asyncio.run(play()) == ("hello", ["noise"])


def test_leaving_the_block_ends_a_worker_that_is_still_waiting(tmp_path: Path):
    async def play() -> bool:
        async with worker(tmp_path) as one:
            await one.report("ready", LIMIT_S)
            running = process_id(one.pid)
            assert running.is_alive()
        return running.is_alive()

    assert asyncio.run(play()) is False
    assert (tmp_path / "logs" / "echo.log").read_text() == ""


def test_an_error_inside_the_block_ends_the_worker_too(tmp_path: Path):
    seen = []

    async def play() -> None:
        async with worker(tmp_path) as one:
            await one.report("ready", LIMIT_S)
            seen.append(process_id(one.pid))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(play())
    assert not seen[0].is_alive()


def test_a_worker_that_ends_too_early_is_reported_with_the_end_of_its_log(tmp_path: Path):
    async def play() -> None:
        async with worker(tmp_path, "exit") as one:
            await one.report("heard", LIMIT_S)

    with pytest.raises(WorkerError, match=r"echo ended with exit code 3 .*\n  it was too much"):
        asyncio.run(play())


def test_a_worker_that_fails_says_why(tmp_path: Path):
    async def play() -> None:
        async with worker(tmp_path, "fail") as one:
            await one.report("heard", LIMIT_S)

    with pytest.raises(WorkerError, match="echo: I was told to fail"):
        asyncio.run(play())


def test_a_worker_that_stays_silent_is_given_up(tmp_path: Path):
    async def play() -> None:
        async with worker(tmp_path) as one:
            await one.report("ready", LIMIT_S)
            await one.report("heard", 0.05)

    with pytest.raises(WorkerError, match=r"echo did not report 'heard' within 0.05 s"):
        asyncio.run(play())
