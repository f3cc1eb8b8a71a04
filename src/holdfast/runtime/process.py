"""What a process decides once: its event loop, its garbage collector, the identity of its start."""

import asyncio
import gc
from collections.abc import Coroutine
from secrets import randbits
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

INCARNATION_BITS = 63
YOUNG_OBJECTS_MAX = 50_000
"""Almost everything we allocate dies by its reference count: the collector need not look every 700 allocations."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The loop that everything of ours runs on where we may choose."""
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a program on the fast event loop: `asyncio.run` with uvloop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


def tune_collector() -> None:
    """Leave what start-up made out of every later collection, and collect rarely. For processes of our own only."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, 20, 100)


def new_incarnation() -> int:
    """A number that no other start of any node has: the identity of its sessions."""
    return randbits(INCARNATION_BITS)
