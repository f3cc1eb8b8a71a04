"""What repositories do by themselves, without brokers between: storing, finding, answering, gossiping.

The machine and the store are those of a repository process; what it is asked is handed to it, and the time is that
until its answer is encoded.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter_ns, time_ns
from typing import Any

from holdfast.experiments.narada import CLIENTS, MISSED, PAPER_BYTES, NaradaSummary, NaradaTrial, summed_up
from holdfast.experiments.narada_clients import STREAM
from holdfast.model.batches import Batch, make_batch
from holdfast.model.reliable import Entry, Level
from holdfast.protocols.narada import Repository, RepositoryConfig
from holdfast.protocols.narada.events import (
    ControlEvent,
    Explain,
    Fetch,
    Gossip,
    Open,
    Order,
    Recovery,
    Run,
    decode,
    encode,
)
from holdfast.protocols.narada.fingerprints import fingerprint
from holdfast.protocols.narada.participant import Append, Commit, Effects, Put, Read, Say
from holdfast.protocols.narada.topics import bundle_topic, gossip_topic, inbox_topic
from holdfast.storage.stores import Store, open_store

AMORTISED = 64
"""Messages of a commit, or of a read, over which its cost is shared."""
READ_BYTES = AMORTISED * PAPER_BYTES
LEARN_S = 3600.0


# ------------------------------------------------------------------------------------------------------------ storing


def storage(trial: NaradaTrial, directory: Path) -> dict[str, NaradaSummary]:
    """Microseconds a message of 8 KiB: one at a time, and in commits and reads of 64."""
    url = f"sqlite:{directory / 'store.db'}" if trial.store == "sqlite" else f"segments:{directory / 'store'}"
    payload = bytes(PAPER_BYTES)

    def entries(first: int, count: int) -> list[Entry]:
        return [
            Entry(at, at, make_batch("p", at, STREAM, 2, [payload]), time_ns()) for at in range(first, first + count)
        ]

    with open_store(url) as store:
        next_one = 1
        figures: dict[str, NaradaSummary] = {}
        for count, name in ((1, "storing"), (AMORTISED, "storing amortised")):
            prepared = [entries(next_one + at * count, count) for at in range(trial.samples)]
            next_one += trial.samples * count
            figures[name] = summed_up([_stored_us(store, one, trial.level) / count for one in prepared])
        for count, name in ((1, "finding"), (AMORTISED, "finding amortised")):
            firsts = range(trial.samples + 1, trial.samples + 1 + trial.samples * AMORTISED, AMORTISED)
            figures[name] = summed_up([_found_us(store, first, count) / count for first in firsts])
    return figures


def _stored_us(store: Store, entries: Sequence[Entry], level: Level) -> float:
    begin = perf_counter_ns()
    store.append(STREAM, entries)
    store.commit(level)
    return (perf_counter_ns() - begin) / 1000


def _found_us(store: Store, first: int, count: int) -> float:
    begin = perf_counter_ns()
    store.read(STREAM, first, first + count - 1, READ_BYTES * 2)
    return (perf_counter_ns() - begin) / 1000


# ---------------------------------------------------------------------------------------------------------- answering


class KeptCosts:
    """A repository's machine and its store, without a process around them."""

    def __init__(self, name: str, url: str) -> None:
        self.machine = Repository(RepositoryConfig(name, Level.WRITTEN), [STREAM], 1)
        self.store = open_store(url)
        self.said: list[Say] = []
        self._carry_out(self.machine.start(monotonic(), time_ns()))
        self.tick(LEARN_S)

    def tick(self, later_s: float = 1.0) -> None:
        self._carry_out(self.machine.timer("tick", monotonic() + later_s))

    def tell(self, topic: str, events: Iterable[ControlEvent], publisher: str = "somebody") -> None:
        for event in events:
            self.hear(make_batch(publisher, 1, topic, 0, [encode(event)]))

    def hear(self, batch: Batch) -> None:
        self._carry_out(self.machine.heard(batch, monotonic()))

    def settle(self) -> None:
        self._carry_out(self.machine.settle(monotonic()))

    def _carry_out(self, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Append():
                    self.store.append(effect.stream, effect.entries)
                case Put():
                    self.store.put(effect.key, effect.value)
                case Commit():
                    self.store.commit(effect.level)
                    self._carry_out(self.machine.stored(effect.token, monotonic()))
                case Read():
                    found = self.store.read(effect.stream, effect.first, effect.last, effect.bytes_max)
                    kept = self.store.bounds(effect.stream)[0]
                    self._carry_out(self.machine.fetched(effect.token, found, kept, monotonic()))
                case Say():
                    self.said.append(effect)
                case _:
                    pass

    def publish(self, publisher: str, number: int, payload: bytes) -> None:
        """What comes of a publication: the message, and its order."""
        batch = make_batch(publisher, number, STREAM, 2, [payload])
        run = Run(number, number, 1, fingerprint(batch))
        self.hear(batch)
        order = Order(STREAM, publisher, 1, self.machine.name, (), 1, number, (run,))
        self.tell(bundle_topic(STREAM), [order], publisher)
        self.settle()

    def close(self) -> None:
        self.store.close()


def responses(trial: NaradaTrial, directory: Path) -> dict[str, NaradaSummary]:
    """Microseconds to answer clients and repositories, with a thousand messages that they missed, and to gossip."""
    one, other = (KeptCosts(name, f"sqlite:{directory / name}.db") for name in ("r0", "r1"))
    payload = bytes(PAPER_BYTES)
    for number in range(MISSED):
        one.publish(f"c{number % CLIENTS}", number // CLIENTS + 1, payload)
    names = [f"c{at}" for at in range(CLIENTS)]
    one.tell(bundle_topic(STREAM), (Recovery(STREAM, name, "r0", STREAM, "start", 0, 0) for name in names))
    asked = range(trial.samples)
    figures = {
        "publisher response": _answers_us(one, bundle_topic(STREAM), [Open(STREAM, "new", 9, "r0") for _ in asked]),
        "subscriber response": _answers_us(
            one, bundle_topic(STREAM), [Recovery(STREAM, "c1", "r0", STREAM, "start", 0, 0) for _ in asked]
        ),
        "repository response": summed_up([_explained_us(one) for _ in range(max(2, trial.samples // 20))]),
        **_gossips(one, other, trial.samples, payload),
    }
    one.close()
    other.close()
    return figures


def _answers_us(one: KeptCosts, topic: str, questions: Sequence[ControlEvent]) -> NaradaSummary:
    return summed_up([_timed_us(partial(one.tell, topic, [asked])) for asked in questions])


def _timed_us(work: Callable[[], Any]) -> float:
    begin = perf_counter_ns()
    work()
    return (perf_counter_ns() - begin) / 1000


def _explained_us(one: KeptCosts) -> float:
    """Another repository has missed everything: say what there is, and send it, however many portions that takes."""
    inbox, total = inbox_topic(STREAM, "r0"), 0.0
    total += _timed_us(partial(one.tell, inbox, [Explain(STREAM, "r0", "r9", 1)]))
    first = 1
    while first <= MISSED:
        one.said.clear()
        fetch = Fetch(STREAM, "r0", "r9", ((first, MISSED),))
        total += _timed_us(partial(one.tell, inbox, [fetch]))
        sent = [decode(said.payload) for said in one.said if said.topic == inbox_topic(STREAM, "r9")]
        lasts = [entry.last for event in sent for entry in getattr(event, "entries", ())]
        first = max(lasts) + 1
    return total


def _gossips(one: KeptCosts, other: KeptCosts, samples: int, payload: bytes) -> dict[str, NaradaSummary]:
    """Gossip after every twenty messages, one of each client: made by one repository, and heard by the other."""
    made, heard = [], []
    before = MISSED // CLIENTS
    for number in range(1, samples + 1):
        for at in range(CLIENTS):
            one.publish(f"c{at}", before + number, payload)
        one.said.clear()
        bundle = one.machine.streams[STREAM].bundle
        begin = perf_counter_ns()
        said = bundle.gossip(monotonic())
        made.append((perf_counter_ns() - begin) / 1000)
        told = [decode(effect.payload) for effect in said if isinstance(effect, Say)]
        gossip = [event for event in told if isinstance(event, Gossip)]
        heard.append(_timed_us(partial(other.tell, gossip_topic(STREAM), gossip, "r0")))
    return {"gossip made": summed_up(made), "gossip heard": summed_up(heard)}
