"""Any sequence of operations: every store says what the simplest possible one would say."""

import random
from collections.abc import Callable, Sequence

import pytest
from msgspec import Struct, field

from holdfast.model.reliable import LEVELS, Entry
from holdfast.storage.stores import Store
from tests.contracts.stores.places import Place
from tests.support.entries import entry

SEEDS = range(6)
STEPS = 120
STREAMS = ("orders", "bank/#")
PUBLISHERS = ("alice", "bob", "çelik")

Message = tuple[int, int, str, int, bytes]
"""Sequence number, catenation number, publisher, time, payload."""


def messages_of(entries: Sequence[Entry]) -> list[Message]:
    return [
        (one.first + index, one.cat + index, one.publisher, one.time_ns, payload)
        for one in entries
        for index, payload in enumerate(one.batch.payload_list())
    ]


class ModelStream(Struct):
    """Messages by their sequence number."""

    kept: int = 1
    next: int = 1
    messages: dict[int, Message] = field(default_factory=dict)

    def between(self, first: int, last: int) -> list[Message]:
        return [self.messages[number] for number in sorted(self.messages) if max(first, self.kept) <= number <= last]

    def of(self, publisher: str, cat_first: int, cat_last: int) -> list[Message]:
        found = [one for one in self.between(1, self.next) if one[2] == publisher and cat_first <= one[1] <= cat_last]
        return sorted(found, key=lambda one: one[1])

    def at_time(self, time_ns: int) -> int:
        return min((one[0] for one in self.between(1, self.next) if one[3] >= time_ns), default=self.next)


class Run:
    """A store beside its model, and somebody who does anything."""

    def __init__(self, seed: int, place: Place) -> None:
        self.chance = random.Random(seed)
        self.place, self.store = place, place.open()
        self.model = {stream: ModelStream() for stream in STREAMS}
        self.pairs: dict[str, bytes] = {}
        self.cats: dict[tuple[str, str], list[int]] = {}
        self.free: dict[str, list[int]] = {stream: [] for stream in STREAMS}
        self.time_ns = 1000
        self.buffered: list[Callable[[], None]] = []
        self.next_seq = dict.fromkeys(STREAMS, 1)

    def step(self) -> None:
        self.chance.choices(
            (self.append, self.fill, self.put, self.forget, self.commit, self.reopen, self.compact, self.compare),
            weights=(8, 3, 2, 1, 5, 0.3, 0.2, 5),
        )[0]()

    def append(self) -> None:
        stream = self.chance.choice(STREAMS)
        skipped = self.chance.choice((0, 0, 0, 1, 3))
        self.free[stream] += range(self.next_seq[stream], self.next_seq[stream] + skipped)
        one = self._made(stream, self.next_seq[stream] + skipped, self.chance.choice((1, 1, 2, 5)))
        self.next_seq[stream] = one.last + 1
        self._take(stream, one)

    def fill(self) -> None:
        stream = self.chance.choice(STREAMS)
        if self.free[stream]:
            first = self.free[stream].pop(self.chance.randrange(len(self.free[stream])))
            self._take(stream, self._made(stream, first, 1))

    def _made(self, stream: str, first: int, count: int) -> Entry:
        publisher = self.chance.choice(PUBLISHERS)
        cats = self.cats.setdefault((stream, publisher), [1])
        cat = cats.pop() if count == 1 and len(cats) > 1 and self.chance.random() < 0.5 else cats[0]
        if cat == cats[0]:
            # Some are left out and come later, out of their order.
            skipped = self.chance.choice((0, 0, 2))
            cats += range(cat, cat + skipped)
            cat += skipped
            cats[0] = cat + count
        self.time_ns += self.chance.choice((-3, 0, 1, 5))
        payloads = [self.chance.randbytes(self.chance.choice((0, 1, 1, 9))) for _ in range(count)]
        return entry(first, cat, payloads, publisher, self.time_ns)

    def _take(self, stream: str, one: Entry) -> None:
        self.store.append(stream, [one])

        def done() -> None:
            model = self.model[stream]
            model.messages |= {message[0]: message for message in messages_of([one]) if message[0] >= model.kept}
            model.next = max(model.next, one.last + 1)

        self.buffered.append(done)

    def put(self) -> None:
        key, value = self.chance.choice("abc"), self.chance.choice((b"", b"1", b"22"))
        self.store.put(key, value)
        self.buffered.append(lambda: self.pairs.__setitem__(key, value))

    def forget(self) -> None:
        stream = self.chance.choice(STREAMS)
        before = self.chance.randint(1, self.next_seq[stream])
        self.store.forget(stream, before)

        def done() -> None:
            model = self.model[stream]
            model.kept = max(model.kept, min(before, model.next))

        self.buffered.append(done)

    def commit(self) -> None:
        self.store.commit(self.chance.choice(LEVELS))
        for done in self.buffered:
            done()
        self.buffered.clear()

    def reopen(self) -> None:
        self.commit()
        self.store = self.place.open()

    def compact(self) -> None:
        self.commit()
        self.store.compact()

    def compare(self) -> None:
        for stream, model in self.model.items():
            assert self.store.bounds(stream) == (model.kept, model.next)
            first, last = sorted(self.chance.randint(0, model.next + 2) for _ in range(2))
            bytes_max = self.chance.choice((0, 3, 20, 1 << 30))
            self._same(self.store.read(stream, first, last, bytes_max), model.between(first, last), bytes_max)
            publisher = self.chance.choice(PUBLISHERS)
            found = self.store.by_identity(stream, publisher, first, last, bytes_max)
            self._same(found, model.of(publisher, first, last), bytes_max)
            time_ns = self.time_ns - self.chance.randint(-2, 60)
            assert self.store.at_time(stream, time_ns) == model.at_time(time_ns)
        assert dict(self.store.items()) == {key: value for key, value in self.pairs.items() if value}
        assert self.store.streams() == sorted(name for name, model in self.model.items() if model.next > 1)

    def _same(self, found: list[Entry], expected: list[Message], bytes_max: int) -> None:
        messages = messages_of(found)
        weights = [len(one.batch.payloads) for one in found]
        assert messages == expected[: len(messages)]
        if len(messages) < len(expected):
            assert sum(weights) >= bytes_max
        assert not found or sum(weights[:-1]) < max(bytes_max, 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_says_what_the_simplest_one_would_say(place: Place, seed: int):
    run = Run(seed, place)
    for _ in range(STEPS):
        run.step()
    run.reopen()
    run.compare()
    assert run.store.verify() == []


def test_the_runs_fill_places_forget_and_cut(tmp_path):
    # The other tests would prove nothing if these did not happen.
    runs = [Run(seed, Place("memory:")) for seed in SEEDS]
    for run in runs:
        for _ in range(STEPS):
            run.step()
    store: Store = runs[0].store
    assert any(run.store.info("orders").kept > 1 for run in runs)
    assert sum(run.store.info(stream).messages for run in runs for stream in STREAMS) > 300
    assert any(run.free["orders"] for run in runs)
    assert store.verify() == []
