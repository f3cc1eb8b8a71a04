"""Where a client may be used: in the loop, the thread and the process that it was made in."""

import asyncio
import os
from threading import get_ident

import pytest

from holdfast.client.homes import NOWHERE, Home
from holdfast.model.errors import LocalMisuse


async def home_of() -> Home:
    return Home("client alice")


def test_a_home_that_is_checked_from_another_loop_of_the_same_thread_says_so():
    home = asyncio.run(home_of())

    async def elsewhere() -> None:
        home.check()

    with pytest.raises(LocalMisuse, match="client alice belongs to the event loop in which it was made"):
        asyncio.run(elsewhere())


def test_a_home_has_another_thread_than_a_loop_that_runs_beside_it():
    async def story() -> None:
        home = await home_of()
        home.check()
        with pytest.raises(LocalMisuse, match="used from another one"):
            await asyncio.to_thread(home.check)
        assert home.thread != await asyncio.to_thread(get_ident)

    asyncio.run(story())


def test_in_a_forked_child_a_home_has_no_thread():
    home = Home("client alice")
    assert home.thread != NOWHERE
    child = os.fork()
    if child == 0:
        try:
            home.check_process()
        except LocalMisuse as misuse:
            os._exit(0 if home.thread == NOWHERE and "used in a forked child" in str(misuse) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    home.check_process()
