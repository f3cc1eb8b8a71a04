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
        Opening(begin, "connect(...)").close()
        gc.collect()
    assert begun == []


def test_one_that_was_forgotten_is_warned_of_by_its_call():
    def forget() -> None:
        Opening(opened, "client.subscribe(...)")
        gc.collect()

    with pytest.warns(RuntimeWarning, match=r"^client\.subscribe\(\.\.\.\) was never awaited, so nothing was begun"):
        forget()


def test_one_that_was_awaited_entered_or_made_a_task_is_not():
    async def story() -> None:
        await Opening(opened, "a")
        async with Opening(opened, "b"):
            pass
        await asyncio.create_task(Opening(opened, "c"))
        cancelled = asyncio.create_task(Opening(opened, "d"))
        cancelled.cancel()
        await asyncio.wait([cancelled])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(story())
        gc.collect()


def test_what_is_asked_of_one_before_it_is_open_is_refused_with_advice():
    with pytest.raises(AttributeError, match="there is no 'publish' yet, since nothing was begun: write `await`"):
        Opening(opened).publish  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(Opening(opened), "cr_code")
