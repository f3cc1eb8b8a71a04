"""A bus that promises nothing: what is said on it may be lost, repeated, delayed, cut in two, or overtaken.

Reliable topics must not rely on the brokers, so this is what they are tried on: every listener's copy of everything
said has a fate of its own. A cut lets nothing through between two participants until it is healed.
"""

from collections.abc import Callable
from random import Random
from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.batches import Batch
from holdfast.model.topics import matches
from holdfast.simulation.kernel import Kernel

Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0)]
Hear = Callable[[Batch], None]


class BusConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How bad the bus is."""

    lost: Share = 0.0
    repeated: Share = 0.0
    split: Share = 0.0
    """The share of batches of several messages that arrive in two pieces."""
    latency_s: Seconds = 0.002
    jitter_s: Seconds = 0.0
    """Up to so much is added by chance: what differs in it overtakes."""
    straggling: Share = 0.0
    straggling_s: Seconds = 2.0
    """So many come up to so much later."""


class Bus:
    """Who listens to what, and what becomes of what is said."""

    def __init__(self, kernel: Kernel, config: BusConfig, chance: Random) -> None:
        self.kernel, self.config, self._chance = kernel, config, chance
        self._patterns: dict[str, dict[str, None]] = {}
        self._hear: dict[str, Hear] = {}
        self._cuts: set[frozenset[str]] = set()
        self._listeners: dict[str, list[str]] = {}
        """Who listens to a topic, until somebody begins or ends to listen to something."""
        self.said = self.delivered = 0
        self.loses: Callable[[str, str, Batch], bool] | None = None
        """Whether what this one says gets lost on its way to that one: for scripted losses."""

    def attach(self, name: str, hear: Hear) -> None:
        self._listeners.clear()
        self._hear[name] = hear
        self._patterns[name] = {}

    def detach(self, name: str) -> None:
        self._listeners.clear()
        self._hear.pop(name, None)
        self._patterns.pop(name, None)

    def listen(self, name: str, pattern: str) -> None:
        self._listeners.clear()
        self._patterns[name][pattern] = None

    def unlisten(self, name: str, pattern: str) -> None:
        self._listeners.clear()
        self._patterns[name].pop(pattern, None)

    def cut(self, a: str, b: str) -> None:
        self._cuts.add(frozenset((a, b)))

    def heal(self) -> None:
        self._cuts.clear()

    def mend(self) -> None:
        """From now on nothing is lost."""
        self.config = BusConfig(latency_s=self.config.latency_s)

    def say(self, sender: str, batch: Batch) -> None:
        """Every listener gets it, or not."""
        self.said += 1
        listeners = self._listeners.get(batch.topic)
        if listeners is None:
            listeners = self._listeners[batch.topic] = [
                name
                for name, patterns in self._patterns.items()
                if any(matches(pattern, batch.topic) for pattern in patterns)
            ]
        for name in listeners:
            if self._cuts and frozenset((sender, name)) in self._cuts:
                continue
            if self.loses is None or not self.loses(sender, name, batch):
                self._send(name, batch)

    def _send(self, name: str, batch: Batch) -> None:
        config, chance = self.config, self._chance
        copies = 2 if config.repeated and chance.random() < config.repeated else 1
        for _ in range(copies):
            if config.lost and chance.random() < config.lost:
                continue
            pieces = [batch]
            if batch.count > 1 and config.split and chance.random() < config.split:
                at = chance.randint(batch.first, batch.last - 1)
                pieces = [batch.part(batch.first, at), batch.part(at + 1, batch.last)]
            for piece in pieces:
                self.kernel.after(self._delay_s(), self._deliver, (name, piece))

    def _delay_s(self) -> float:
        config, chance = self.config, self._chance
        delay_s = config.latency_s + (chance.random() * config.jitter_s if config.jitter_s else 0.0)
        if config.straggling and chance.random() < config.straggling:
            delay_s += chance.random() * config.straggling_s
        return delay_s

    def _deliver(self, what: tuple[str, Batch]) -> None:
        name, batch = what
        # Whoever has begun anew since is somebody else, but it has the same name, and the network does not know.
        hear = self._hear.get(name)
        if hear is not None:
            self.delivered += 1
            hear(batch)
