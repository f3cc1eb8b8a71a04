"""A virtual disk for one node: what was not synced yet may be gone after a crash."""

from collections.abc import Callable
from random import Random
from typing import Annotated

from msgspec import Meta, Struct

from holdfast.protocols.node import Persist
from holdfast.simulation.kernel import Kernel


class DiskConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How long it takes until a write is durable: a sync, and the bytes."""

    write_ms: Annotated[float, Meta(ge=0, le=60_000)] = 0.2
    bytes_per_s: Annotated[float, Meta(gt=0)] = 200e6


class Disk:
    """The pairs that survive, and the writes that are under way."""

    __slots__ = ("_config", "_kernel", "_make_chance", "_writing", "pairs", "syncs")

    def __init__(self, kernel: Kernel, config: DiskConfig, make_chance: Callable[[], Random]) -> None:
        self._kernel, self._config, self._make_chance = kernel, config, make_chance
        self.pairs: dict[str, bytes] = {}
        self._writing: list[Persist] = []
        self.syncs = 0

    def write(self, writes: list[Persist], done: Callable[[object], None]) -> None:
        """Make these writes durable together, then call `done`. The driver asks for one group at a time."""
        self._writing = writes
        size_bytes = sum(len(write.key) + len(write.value) for write in writes)
        delay_s = self._config.write_ms / 1000 + size_bytes / self._config.bytes_per_s
        self._kernel.after(delay_s, self._synced, (writes, done))

    def _synced(self, group: tuple[list[Persist], Callable[[object], None]]) -> None:
        writes, done = group
        if writes is not self._writing:
            return  # A crash came first, and has decided what is left of them.
        self._writing = []
        self.syncs += 1
        self._store(writes)
        done(None)

    def crash(self) -> None:
        """The power is gone: of the writes under way, a random number had reached the disk, in order."""
        writes, self._writing = self._writing, []
        if writes:
            self._store(writes[: self._make_chance().randint(0, len(writes))])

    def _store(self, writes: list[Persist]) -> None:
        for write in writes:
            if write.value:
                self.pairs[write.key] = write.value
            else:
                self.pairs.pop(write.key, None)
