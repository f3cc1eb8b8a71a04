"""The index of a log: it says what a walk over the log would say, and does not walk."""

from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from holdfast.model.batches import Batch, make_batch
from holdfast.model.guarantees import CAUSAL, TOTAL
from holdfast.model.messages import Levels
from holdfast.protocols.records import Record
from holdfast.protocols.stability import StabilityLog

PEERS = ("a", "b", "c", "d")


def batch(seq: int, guarantee: int = CAUSAL) -> Batch:
    return make_batch("p", seq, "t", guarantee, [b"x"], [("k",)] if guarantee == TOTAL else [])


class Traffic:
    """Whatever may happen to a log, at random."""

    def __init__(self, seed: int, levels: int) -> None:
        self.chance = Random(seed)
        self.log = StabilityLog(levels)
        for peer in PEERS:
            self.log.link(peer)
        self.seq = 0
        self.asked: list[Record] = []

    def step(self) -> None:
        what = self.chance.choices(
            (self.pass_on, self.ask, self.release, self.hear, self.go_again, self.come_again, self.leave, self.repair),
            (40, 12, 12, 40, 4, 4, 1, 1),
        )[0]
        what()

    def peer(self) -> str:
        return self.chance.choice(sorted(self.log.flows))

    def some(self) -> list[str]:
        return [peer for peer in sorted(self.log.flows) if self.chance.random() < 0.4]

    def pass_on(self) -> None:
        self.seq += 1
        record, source = self.log.append(batch(self.seq)), self.peer()
        self.log.came(record, source)
        for peer in self.some():
            if peer != source:
                self.log.went(record, peer)

    def ask(self) -> None:
        self.seq += 1
        record, source = self.log.append(batch(self.seq, TOTAL), pending=True), self.peer()
        self.log.came(record, source, request=True)
        if self.chance.random() < 0.5:
            self.log.asked(record, self.peer())
        self.asked.append(record)

    def release(self) -> None:
        if self.asked:
            record = self.asked.pop(self.chance.randrange(len(self.asked)))
            self.log.released(record)
            self.log.renumber(record)
            for peer in self.some():
                self.log.went(record, peer)

    def hear(self) -> None:
        peer, levels = self.peer(), self.log.levels
        flow = self.log.flows[peer]
        came = sorted((self.chance.randint(0, flow.sent) for _ in range(levels + 1)), reverse=True)
        went = sorted((self.chance.randint(0, flow.received) for _ in range(levels + 1)), reverse=True)
        self.log.on_levels(peer, Levels(tuple(came), tuple(went)))

    def kept(self) -> Record | None:
        records = list(self.log.records())
        return self.chance.choice(records) if records else None

    def go_again(self) -> None:
        record = self.kept()
        if record is not None:
            self.log.went(record, self.peer())

    def come_again(self) -> None:
        record = self.kept()
        if record is not None:
            self.log.came(record, self.peer())

    def leave(self) -> None:
        peer = self.peer()
        self.log.unlink(peer)
        self.log.link(peer)

    def repair(self) -> None:
        peer, record = self.peer(), self.kept()
        if record is not None:
            self.log.append_again(record)
            self.log.place(record, peer, max(1, self.log.flows[peer].received))


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_it_says_what_a_walk_over_the_log_would_say(seed: int, levels: int):
    traffic = Traffic(seed, levels)
    longest = 0
    for _ in range(400):
        traffic.step()
        longest = max(longest, len(traffic.log))
        traffic.log.check_invariants()
        if traffic.chance.random() < 0.5:
            traffic.log.survey()
            traffic.log.check_invariants()
    assert longest > 10


class CountingDeque(deque[Record]):
    """Records that are counted when somebody looks at them."""

    looked_at = 0

    def __iter__(self) -> Iterator[Record]:
        for record in super().__iter__():
            self.looked_at += 1
            yield record

    def __getitem__(self, place: Any) -> Any:
        self.looked_at += 1
        return super().__getitem__(place)


@pytest.mark.parametrize("levels", [1, 2])
def test_a_neighbour_that_is_away_does_not_make_surveys_longer(levels: int):
    log = StabilityLog(levels)
    records = log._log = CountingDeque()
    for peer in ("away", "here"):
        log.link(peer)
    total = log.append(batch(1, TOTAL), pending=True)
    log.came(total, "here", request=True)
    log.released(total)
    log.renumber(total)
    for seq in range(2, 2000):
        record = log.append(batch(seq))
        log.came(record, "here")
        log.went(record, "away")
        log.on_levels("here", Levels((0,) * (levels + 1), (seq,) * (levels + 1)))
        log.survey()
    assert len(log) > 1990
    assert records.looked_at < 2000 * 2 * (levels + 1)
    log.on_levels("away", Levels((1998,) * (levels + 1), (0,) * (levels + 1)))
    log.survey()
    assert len(log) == 0
