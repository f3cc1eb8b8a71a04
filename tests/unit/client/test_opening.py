"""What takes a while to open: awaited, entered, or made a task of."""

import asyncio
import gc
import warnings

import pytest

from holdfast.client.opening import Closing, Opening


class Door(Closing):
    """Notes when it is closed."""

    def __init__(self) -> None:
        self.state = "open"

    async def close(self) -> None:
        self.state = "closed"


async def opened() -> Door:
    await asyncio.sleep(0)
    return Door()


async def never() -> Door:
    await asyncio.Event().wait()
    return Door()


def test_it_is_awaited_or_entered_or_made_a_task():
    async def story() -> None:
        assert (await Opening(opened)).state == "open"
        async with Opening(opened) as door:
            assert door.state == "open"
        assert door.state == "closed"
        async with asyncio.TaskGroup() as group:
            tasks = [asyncio.create_task(Opening(opened)), group.create_task(Opening(opened))]
        assert [(await task).state for task in tasks] == ["open", "open"]

    asyncio.run(story())


def test_a_task_of_it_is_cancelled_like_any_other():
    async def story() -> None:
        before, within = asyncio.create_task(Opening(never)), asyncio.create_task(Opening(never))
        before.cancel()
        await asyncio.sleep(0)
        within.cancel()
        for task in (before, within):
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(story())


def test_one_that_nobody_wanted_has_begun_nothing():
    begun = []

    async def begin() -> Door:
        begun.append(True)
        return Door()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Opening(begin).close()
        gc.collect()
    assert begun == []
