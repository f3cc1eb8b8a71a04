"""Traces of any size for `benchmarks/audit.py`: made up, clean but for planted faults whose number is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from holdfast.model.guarantees import GUARANTEES
from holdfast.model.trace import Event
from holdfast.pipeline.trace_frames import ARROW_SCHEMA, arrow_columns

RUN = "big"
CLIENTS, FAN_OUT, KEYS = 50, 10, 100
TOPICS_PER_CLIENT = 2
PUBLISHERS_OF_FIVE = 4
SHARES = (0.3, 0.1, 0.3, 0.3)
"""Of eventual, fifo, causal and total messages. Causal and total ones have a key."""
LAG_MESSAGES = (100, 2000)
"""How many publications a client is behind: between these."""
FAULTS_EACH = 7
ROW_GROUP_ROWS = 250_000


def write_trace(directory: Path, deliveries: int, clients: int = CLIENTS, seed: int = 1) -> dict[str, int]:
    """Write a trace of about that many deliveries, a file for each client; returns what an audit has to find.

    40 of 50 clients publish, on 100 topics with 10 subscribers each; with more clients likewise. Everything fifo or
    stronger is delivered in one order everywhere, with a lag of its own at each client; eventual messages float.
    """
    chance = np.random.default_rng(seed)
    count = deliveries // FAN_OUT
    publishers, topics = clients * PUBLISHERS_OF_FIVE // 5, clients * TOPICS_PER_CLIENT
    publisher = chance.integers(0, publishers, count)
    topic = chance.integers(0, topics, count)
    rank = chance.choice(4, count, p=SHARES).astype(np.int8)
    key = np.where(rank >= 2, chance.integers(0, KEYS, count), -1)
    seq = np.zeros(count, np.int64)
    for one in range(publishers):
        own = publisher == one
        seq[own] = np.arange(1, own.sum() + 1)
    subscribers = np.stack([chance.permutation(clients)[:FAN_OUT] for _ in range(topics)])
    messages = {"publisher": publisher, "topic": topic, "rank": rank, "key": key, "seq": seq}
    directory.mkdir(parents=True)
    total = 0
    for client in range(clients):
        total += _write_client(directory, client, messages, (subscribers == client).any(axis=1), chance)
    stories = _stories(count * 1000)
    table = pa.table(arrow_columns(stories), schema=ARROW_SCHEMA)
    pq.write_table(table.select(_COLUMNS), directory / "stories.parquet")
    expected = dict.fromkeys(("lost", "duplicated", "created", "fifo", "causal", "total"), FAULTS_EACH)
    return {"deliveries": total + sum(row.event == "deliver" for row in stories), **expected}


_COLUMNS = ["run", "node", "index", "time", "event", "publisher", "seq", "topic", "guarantee", "keys", "size"]


def _write_client(
    directory: Path, client: int, messages: dict[str, np.ndarray], wanted: np.ndarray, chance: np.random.Generator
) -> int:
    delivered = np.flatnonzero(wanted[messages["topic"]])
    lag = int(chance.integers(*LAG_MESSAGES))
    times = (delivered + lag) * 1000 + 500
    floating = messages["rank"][delivered] == 0
    times[floating] += chance.integers(0, 200, floating.sum()) * 1000 + 200
    order = np.argsort(times, kind="stable")
    delivered, times = delivered[order], times[order]
    if client < FAULTS_EACH:
        # One is lost; one comes again at the end; one that nobody published comes last of all.
        lost = len(delivered) // 2
        delivered, times = np.delete(delivered, lost), np.delete(times, lost)
        delivered = np.append(delivered, [delivered[0], delivered[1]])
        times = np.append(times, [times[-1] + 1, times[-1] + 2])
    published = np.flatnonzero(messages["publisher"] == client)
    rows = np.concatenate([published, delivered])
    is_publish = np.concatenate([np.ones(len(published), np.bool_), np.zeros(len(delivered), np.bool_)])
    at = np.concatenate([published * 1000, times])
    forged = np.zeros(len(rows), np.bool_)
    forged[-1] = client < FAULTS_EACH
    order = np.argsort(at, kind="stable")
    topics = np.flatnonzero(wanted)
    body = _table(client, rows[order], is_publish[order], at[order], forged[order], messages, len(topics))
    head = [Event(RUN, _name(client), index, -1, "subscribe", topic=_topic(one)) for index, one in enumerate(topics)]
    table = pa.concat_tables([pa.table(arrow_columns(head), schema=ARROW_SCHEMA).select(_COLUMNS), body])
    pq.write_table(table, directory / f"{_name(client)}.parquet", row_group_size=ROW_GROUP_ROWS)
    return len(delivered)


def _table(
    client: int,
    rows: np.ndarray,
    is_publish: np.ndarray,
    times: np.ndarray,
    forged: np.ndarray,
    messages: dict[str, np.ndarray],
    first: int,
) -> pa.Table:
    size = len(rows)
    seqs = messages["seq"][rows] + np.where(forged, 1 << 30, 0)
    keys = messages["key"][rows]
    offsets = np.concatenate([[0], np.cumsum(keys >= 0)]).astype(np.int32)
    held = pa.array([f"key-{one}" for one in range(KEYS)]).take(pa.array(keys[keys >= 0]))
    columns = {
        "run": _words([RUN], np.zeros(size, np.int32)),
        "node": _words([_name(client)], np.zeros(size, np.int32)),
        "index": pa.array(np.arange(first, first + size)),
        "time": pa.array(times),
        "event": _words(["deliver", "publish"], is_publish.astype(np.int32)),
        "publisher": _numbered(_name, messages["publisher"][rows]),
        "seq": pa.array(seqs),
        "topic": _numbered(_topic, messages["topic"][rows]),
        "guarantee": _words([one.value for one in GUARANTEES], messages["rank"][rows]),
        "keys": pa.ListArray.from_arrays(pa.array(offsets), held),
        "size": pa.array(np.full(size, 64)),
    }
    return pa.table(columns)


def _words(words: list[str], indexes: np.ndarray) -> pa.Array:
    return pa.array(words).take(pa.array(indexes))


def _numbered(name: Callable[[int], str], numbers: np.ndarray) -> pa.Array:
    different, places = np.unique(numbers, return_inverse=True)
    return _words([name(number) for number in different.tolist()], places)


def _name(client: int) -> str:
    return f"client-{client:02}"


def _topic(topic: int) -> str:
    return f"bank/branch-{topic:02}/orders"


class _Teller:
    """Rows of a few clients beside the others."""

    def __init__(self, start_time: int) -> None:
        self.rows: list[Event] = []
        self._start_time = start_time
        self._indexes: dict[str, int] = {}
        self._seqs: dict[str, int] = {}

    def subscribe(self, topic: str, nodes: str) -> None:
        for node in nodes.split():
            self._tell(Event(RUN, node, 0, 0, "subscribe", topic=topic))

    def publish(self, publisher: str, topic: str, guarantee: str, key: str = "") -> Event:
        seq = self._seqs[publisher] = self._seqs.get(publisher, 0) + 1
        keys = [key] if key else []
        row = Event(RUN, publisher, 0, 0, "publish", publisher, seq, topic, guarantee=guarantee, keys=keys)
        return self._tell(row)

    def deliver(self, nodes: str, *messages: Event) -> None:
        for node in nodes.split():
            for message in messages:
                self._tell(replace(message, event="deliver", node=node))

    def _tell(self, row: Event) -> Event:
        index = self._indexes.get(row.node, 0)
        self._indexes[row.node] = index + 1
        self.rows.append(replace(row, index=index, time=self._start_time + len(self.rows)))
        return self.rows[-1]


def _stories(start_time: int) -> list[Event]:
    """Each time: zoe has two messages out of fifo order, two out of causal order, and two unlike everybody else."""
    told = _Teller(start_time)
    told.subscribe("stories/fifo", "zoe")
    told.subscribe("stories/news", "yann zoe")
    told.subscribe("stories/replies", "zoe")
    told.subscribe("stories/bids", "wilma yann zoe")
    for _ in range(FAULTS_EACH):
        first, second = (told.publish("xena", "stories/fifo", "fifo") for _ in range(2))
        told.deliver("zoe", second, first)
        news = told.publish("xena", "stories/news", "causal")
        told.deliver("yann", news)
        reply = told.publish("yann", "stories/replies", "causal")
        told.deliver("zoe", reply, news)
        bids = [told.publish(bidder, "stories/bids", "total", "lot") for bidder in ("walt", "xena")]
        told.deliver("wilma yann", *bids)
        told.deliver("zoe", *bids[::-1])
    return told.rows
