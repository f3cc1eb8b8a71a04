"""What a process decides once: its event loop, its memory, its garbage collector, the identity of its start."""

import asyncio
import ctypes
import gc
from collections.abc import Coroutine
from secrets import randbits
from time import time_ns
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

CHANCE_BITS = 10
"""The last bits of an incarnation are drawn, so that two that begin at the same microsecond differ."""
MALLOPT = (
    (-1, 64 << 20),  # M_TRIM_THRESHOLD: how much may be free at the end of the heap
    (-2, 1 << 20),  # M_TOP_PAD: by how much the heap grows at least
    (-3, 8 << 20),  # M_MMAP_THRESHOLD: what is larger than any frame still gets, and returns, pages of its own
)
YOUNG_OBJECTS_MAX = 50_000
"""Almost everything we allocate dies by its reference count: the collector need not look every 700 allocations."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The loop that everything of ours runs on where we may choose."""
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a program the fast way: `asyncio.run` with uvloop, and with memory kept for the next batch."""
    keep_memory()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


def keep_memory() -> None:
    """Tell the allocator of the C library not to give memory back that the next batch will want again.

    Left alone, glibc returns the end of its heap to the system whenever 128 KiB of it are free, so that every batch
    of 64 KiB pays for its pages anew: half the CPU of passing 8 KiB messages on was page faults. Other libraries have
    no such settings, and need none.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in MALLOPT:
            mallopt(parameter, value)


def tune_collector() -> None:
    """Leave what start-up made out of every later collection, and collect rarely. For processes of our own only."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, 20, 100)


class _Incarnations:
    """The numbers that this process has given, of which each is greater than the one before."""

    last = 0


def new_incarnation(after: int = 0) -> int:
    """A number that no other start of any node has, and that is greater than those of the same node's earlier starts.

    It is the identity of the node's sessions, and a broker's epoch: what was given up in one is let in again in a later
    one. So it comes from the clock, in nanoseconds; even if that was set back, it is greater than `after`, the last one
    that the node has written down.
    """
    drawn = time_ns() >> CHANCE_BITS << CHANCE_BITS | randbits(CHANCE_BITS)
    _Incarnations.last = max(drawn, _Incarnations.last + 1, after + 1)
    return _Incarnations.last
