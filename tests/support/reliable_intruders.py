"""Reliable topics with an intruder on the bus: it hears everything, and says control events of any kind, on any topic.

Whoever may publish may say such events, so participants must not raise because of any of them. What an intruder says in
the name of a repository or a publisher is believed: nothing is promised to those it deceives.
"""

import typing
from functools import partial
from random import Random

from msgspec import Struct

from holdfast.model.batches import Batch, make_batch
from holdfast.protocols.narada.events import ControlEvent, decode, encode
from holdfast.simulation.reliable.world import ReliableWorld
from tests.support.forgeries import Forger

EVENTS: tuple[type[Struct], ...] = typing.get_args(ControlEvent)
NAMES = ("r1", "r2", "alice", "bob", "carol", "dave")
BUSY_S = 4.0
EVERYTHING = "~#"


class IntrudedBundle:
    """Two repositories, two publishers, three subscribers and an intruder, drawn from one seed."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(f"reliable {seed}")
        self.world = world = ReliableWorld(seed, check_invariants=False)
        for name in NAMES[:2]:
            world.repository(name)
        publishers = [world.publisher(name) for name in ("alice", "bob")]
        world.subscriber("carol")
        world.manual_subscriber("dave")
        for number in range(40):
            publisher = self.chance.choice(publishers)
            world.at(self.chance.uniform(0.2, BUSY_S), partial(publisher.publish, "orders", b"%d" % number))
        self.forger = Forger(self.chance, NAMES, "mallory")
        self.topics = ["orders"]
        self.heard: dict[type, ControlEvent] = {}
        self.said = 0
        # A deceived subscriber may be told of very many messages that it will not get; nobody judges that here.
        world.history.gap = lambda *_: None  # type: ignore[method-assign]
        world.bus.attach("mallory", self._hear)
        world.bus.listen("mallory", EVERYTHING)

    def _hear(self, batch: Batch) -> None:
        if batch.publisher == "mallory":
            return
        if batch.topic not in self.topics:
            self.topics.append(batch.topic)
        for payload in batch.payload_list():
            event = decode(payload)
            if event is not None:
                self.forger.hear(event)
                self.heard[type(event)] = event

    def _mischief(self, _: object) -> None:
        chance = self.chance
        for _number in range(chance.choice((1, 3, 10))):
            self._say()
        self.world.kernel.after(chance.choice((0.001, 0.01, 0.05)), self._mischief)

    def _say(self) -> None:
        chance, forger = self.chance, self.forger
        known = list(self.heard.values())
        if known and chance.random() < 0.5:
            # What somebody really said, with one thing changed, is most easily believed.
            event = chance.choice(known)
            made, fields = forger.struct(type(event)), event.__struct_fields__
            changed = chance.choice(fields)
            values = {name: getattr(made if name == changed else event, name) for name in fields}
            event = type(event)(**values)
        else:
            event = forger.struct(chance.choice(EVENTS))
        payload = encode(event) if chance.random() < 0.98 else bytes(7)
        self.said += 1
        self.world.bus.say("mallory", make_batch("mallory", self.said, chance.choice(self.topics), 0, [payload]))

    def run(self) -> "IntrudedBundle":
        self.world.kernel.after(0.3, self._mischief)
        self.world.run(BUSY_S)
        return self
