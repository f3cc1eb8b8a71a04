"""Traces to judge: told event by event, a clean one, and random ones that may break every promise."""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from holdfast.model.filters import Value, parse_filter
from holdfast.model.guarantees import GUARANTEES
from holdfast.model.topics import matches
from holdfast.model.trace import Event

Choice = Callable[[Event], bool]


class Story:
    """A trace that is told in order: every call is one row, a nanosecond after the one before."""

    def __init__(self, run: str = "run") -> None:
        self.run = run
        self.events: list[Event] = []
        self.time = 0
        self._indexes: dict[str, int] = {}
        self._seqs: dict[str, int] = {}
        self._published: dict[str, Event] = {}

    def subscribe(self, node: str, pattern: str, where: str = "") -> None:
        self._add(Event(self.run, node, 0, 0, "subscribe", topic=pattern, where=where))

    def unsubscribe(self, node: str, pattern: str, where: str = "") -> None:
        self._add(Event(self.run, node, 0, 0, "unsubscribe", topic=pattern, where=where))

    def publish(
        self,
        node: str,
        topic: str,
        guarantee: str,
        keys: str = "",
        attributes: dict[str, Value] | None = None,
        past: dict[str, int] | None = None,
    ) -> str:
        """Publish and return the message's name, such as `bob#3`. Keys are separated by spaces."""
        seq = self._seqs[node] = self._seqs.get(node, 0) + 1
        row = Event(self.run, node, 0, 0, "publish", node, seq, topic, "", attributes or {}, guarantee, keys.split())
        self._published[f"{node}#{seq}"] = self._add(replace(row, past=past))
        return f"{node}#{seq}"

    def deliver(self, nodes: str, *messages: str) -> None:
        """Each of the nodes (separated by spaces) delivers the messages in this order."""
        for node in nodes.split():
            for message in messages:
                self._add(replace(self._published[message], event="deliver", node=node, past=None))

    def other(self, node: str, event: str) -> None:
        """A row that carries no promise."""
        self._add(Event(self.run, node, 0, 0, event))

    def _add(self, event: Event) -> Event:
        index = self._indexes.get(event.node, 0)
        self._indexes[event.node] = index + 1
        self.time += 1
        self.events.append(replace(event, index=index, time=self.time))
        return self.events[-1]


def busy_day() -> list[Event]:
    """A clean run. ann, bob and cid publish in turn, #1 to #8 each; they and dan hear everything, in one order.

    #1 is eventual, #2 fifo, #3 causal, #4 total, and again. Everybody has delivered everything before the next message
    is published, so each message is in the causal past of the next. All have the key red.
    """
    story = Story()
    publishers = ("ann", "bob", "cid")
    for node in (*publishers, "dan"):
        story.subscribe(node, "bank/#")
    for number in range(24):
        keys = "red" if number % 2 else "red blue"
        message = story.publish(publishers[number % 3], "bank/lisbon", GUARANTEES[number // 3 % 4], keys)
        story.deliver("dan cid bob ann", message)
    return story.events


# ------------------------------------------------------------------------------------------------------ mutations


def is_delivery(node: str, message: str) -> Choice:
    return lambda event: event.event == "deliver" and event.node == node and name(event) == message


def name(event: Event) -> str:
    return f"{event.publisher}#{event.seq}"


def without(events: list[Event], chosen: Choice) -> list[Event]:
    kept = [event for event in events if not chosen(event)]
    assert len(kept) < len(events), "there is nothing to take away"
    return kept


def changed(events: list[Event], chosen: Choice, **columns: object) -> list[Event]:
    assert any(map(chosen, events)), "there is nothing to change"
    return [replace(event, **columns) if chosen(event) else event for event in events]


def added(events: list[Event], event: Event) -> list[Event]:
    """With one more row, at the end of its node's history."""
    last = max((other.index for other in events if other.node == event.node), default=-1)
    return [*events, replace(event, index=last + 1)]


def exchanged(events: list[Event], node: str, one: str, two: str) -> list[Event]:
    """With two deliveries in each other's place."""
    [first] = filter(is_delivery(node, one), events)
    [second] = filter(is_delivery(node, two), events)
    places = {id(first): second, id(second): first}
    return [
        replace(event, index=places[id(event)].index, time=places[id(event)].time) if id(event) in places else event
        for event in events
    ]


# --------------------------------------------------------------------------------------------------------- random

NODES = ("ann", "bob", "cid", "dan", "eve", "fay", "gus")
TOPICS = ("bank/x", "bank/y", "shop")
PATTERNS = ("#", "#", "#", "bank/#", "bank/+", "bank/x", "shop", "+")
FILTERS = ("", "", "", "amount > 1", "not amount = 2")
KEYS = ((), ("k",), ("k",), ("l",), ("k", "l"))


class RandomRun:
    """One random run: every client has a queue of what was published, and takes from it more or less in order.

    `disorder` is the probability that a step does what it should not: takes from the middle of the queue, drops,
    repeats or forges.
    """

    def __init__(self, random: Random, disorder: float, run: str, nodes: int, topics: tuple[str, ...]) -> None:
        self.random = random
        self.disorder = disorder
        self.run = run
        self.topics = topics
        self.nodes = NODES[:nodes]
        self.guarantees = random.choice((GUARANTEES, GUARANTEES, GUARANTEES[1:], GUARANTEES[3:]))
        self.time = 0
        self.events: list[Event] = []
        self.indexes = dict.fromkeys(self.nodes, 0)
        self.seqs = dict.fromkeys(self.nodes, 0)
        self.queues: dict[str, list[Event]] = {node: [] for node in self.nodes}
        self.wanted: dict[str, set[tuple[str, str]]] = {node: set() for node in self.nodes}

    def tell(self, steps: int) -> list[Event]:
        for node in self.nodes:
            for _ in range(self.random.choice((0, 1, 1, 1, 2))):
                self.subscribe(node)
        for _ in range(steps):
            node = self.random.choice(self.nodes)
            self.random.choices(
                [self.publish, self.deliver, self.subscribe, self.unsubscribe], weights=[6, 18, 1, 0.5]
            )[0](node)
        for node in self.nodes:
            while self.queues[node]:
                self.deliver(node)
        self.random.shuffle(self.events)
        return self.events

    def publish(self, node: str) -> None:
        choice = self.random.choice
        self.seqs[node] += 1
        attributes: dict[str, Value] = {"amount": choice((1, 2, 3))} if choice((True, False)) else {}
        event = Event(
            self.run,
            node,
            0,
            0,
            "publish",
            node,
            self.seqs[node],
            choice(self.topics),
            attributes=attributes,
            guarantee=choice(self.guarantees).value,
            keys=list(choice(KEYS)),
            past=self.past() if self.is_odd() else None,
        )
        event = self.add(event)
        for queue in self.queues.values():
            queue.append(event)
        if self.is_odd(0.2):
            self.repeat(event)

    def repeat(self, event: Event) -> None:
        """Publish under an identity that was used before, some deliveries later."""
        for _ in range(3):
            self.deliver(event.node)
        self.add(replace(event, guarantee="causal"))

    def past(self) -> dict[str, int]:
        return {node: self.random.randint(0, 5) for node in NODES if self.random.random() < 0.5}

    def deliver(self, node: str) -> None:
        queue = self.queues[node]
        if not queue:
            return
        place = self.random.randrange(len(queue)) if self.is_odd() else 0
        event = queue[place]
        if not self.is_odd(0.2):
            del queue[place]
        if not self.is_wanted(node, event) and not self.is_odd(0.2):
            return
        if self.is_odd(0.2):
            return
        columns: dict[str, object] = {"past": None, "event": "deliver", "node": node}
        if self.is_odd(0.1):
            forged = {"topic": "bank/x", "guarantee": "causal", "keys": ["k"], "seq": event.seq + 2}
            column = self.random.choice(sorted(forged))
            columns[column] = forged[column]
        self.add(replace(event, **columns))

    def subscribe(self, node: str) -> None:
        pair = (self.random.choice(PATTERNS), self.random.choice(FILTERS))
        self.wanted[node].add(pair)
        self.add(Event(self.run, node, 0, 0, "subscribe", topic=pair[0], where=pair[1]))

    def unsubscribe(self, node: str) -> None:
        pair = self.random.choice([*sorted(self.wanted[node]), ("bank/+", "")])
        self.wanted[node].discard(pair)
        self.add(Event(self.run, node, 0, 0, "unsubscribe", topic=pair[0], where=pair[1]))

    def is_wanted(self, node: str, event: Event) -> bool:
        return any(
            matches(pattern, event.topic) and (not where or parse_filter(where).matches(event.attributes))
            for pattern, where in self.wanted[node]
        )

    def is_odd(self, factor: float = 1.0) -> bool:
        return self.random.random() < self.disorder * factor

    def add(self, event: Event) -> Event:
        # Some rows share a time, so that the rules for equal times are needed.
        self.time += self.random.choice((0, 1, 1))
        event = replace(event, index=self.indexes[event.node], time=self.time)
        self.indexes[event.node] += 1
        self.events.append(event)
        return event


def random_trace(seed: int) -> list[Event]:
    """Small random runs; in some of them even the histories are shuffled, so that effects come before causes."""
    random = Random(seed)
    events: list[Event] = []
    for run in range(random.choice((1, 1, 1, 2))):
        disorder = random.choice((0.0, 0.0, 0.05, 0.2, 0.4))
        topics = random.choice((TOPICS, TOPICS[:1]))
        nodes = random.choice((1, 2, 3, 4, 4, 5, 7))
        told = RandomRun(random, disorder, f"run-{run}", nodes, topics).tell(random.randint(5, 80))
        events += shuffled(told, random) if random.random() < 0.1 else told
    return events


def shuffled(events: list[Event], random: Random) -> list[Event]:
    """The same rows in another order at each node."""
    result = []
    for node in sorted({event.node for event in events}):
        rows = [event for event in events if event.node == node]
        places = random.sample(range(len(rows)), len(rows))
        result += [replace(event, index=place) for event, place in zip(rows, places, strict=True)]
    return result
