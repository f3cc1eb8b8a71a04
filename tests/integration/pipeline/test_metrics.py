"""Figures of a run that was made up, so that every one of them is known."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.model.trace import Event
from holdfast.pipeline import metrics
from holdfast.pipeline.trace_frames import read_events
from holdfast.storage.traces import write_trace

MS = 1_000_000
Tables = dict[str, list[dict[str, Any]]]


class Log:
    """Rows of a run by hand: who, when (ms), what."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._indexes: dict[str, int] = {}

    def row(self, node: str, at_ms: float, event: str, **columns: Any) -> None:
        index = self._indexes[node] = self._indexes.get(node, -1) + 1
        self.events.append(Event("run", node, index, int(at_ms * MS), event, **columns))

    def message(self, node: str, at_ms: float, event: str, seq: int, guarantee: str, overhead: int = 20) -> None:
        columns = {"publisher": "ann", "seq": seq, "topic": "bank/x", "guarantee": guarantee}
        self.row(node, at_ms, event, size=100, overhead=overhead, **columns)


def a_run_with_a_repair() -> list[Event]:
    """Three brokers in a row, 0-1-2. ann and cid are at 0, bob at 2; 1 fails at 3 s, and 2 comes to be below 0."""
    log = Log()
    for child, parent in (("1", "0"), ("2", "1")):
        log.row(child, 1, "attach", peer=parent)
        log.row(parent, 1, "attach", peer=child)
    for client, broker in (("ann", "0"), ("bob", "2"), ("cid", "0")):
        log.row(client, 2, "attach", peer=broker)
        log.row(broker, 2, "attach", peer=client)
    for client in ("bob", "cid"):
        log.row(client, 3, "subscribe", topic="bank/#")
    for seq in range(1, 11):
        log.message("ann", 1000 + seq, "publish", seq, "causal")
        log.message("bob", 1000 + seq + 4, "deliver", seq, "causal")
        log.message("cid", 1000 + seq + 1, "deliver", seq, "causal")
    # Delivered again, later: only the first delivery has a latency.
    log.message("cid", 1900, "deliver", 1, "causal")
    log.message("ann", 2990, "publish", 11, "total", overhead=32)
    log.row("0", 3000, "suspect", peer="1")
    log.row("2", 3010, "suspect", peer="1")
    log.row("2", 3020, "repair_start", peer="1")
    log.row("2", 3020, "attach", peer="0")
    log.row("0", 3021, "attach", peer="2")
    log.row("2", 3050, "repair_end", peer="0")
    log.message("bob", 3090, "deliver", 11, "total", overhead=32)
    log.message("cid", 2995, "deliver", 11, "total", overhead=32)
    for client, at_ms in (("ann", 4000), ("bob", 4007), ("cid", 4001)):
        log.message(client, at_ms, "publish" if client == "ann" else "deliver", 12, "causal")
    return log.events


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    path: Path = tmp_path_factory.mktemp("trace")
    write_trace(path, a_run_with_a_repair())
    with metrics.all_metrics(read_events(spark, path), every_s=1.0) as frames:
        yield {name: metrics.rows_of(frame, 100) for name, frame in frames.items()}


def test_latencies_are_those_of_first_deliveries(tables: Tables):
    causal, total = tables["latency_by_guarantee"]
    assert (causal["guarantee"], causal["deliveries"], causal["p50_ms"], causal["max_ms"]) == ("causal", 22, 1.0, 7.0)
    assert (total["guarantee"], total["deliveries"], total["max_ms"]) == ("total", 2, 100.0)
    assert [(row["topic"], row["deliveries"]) for row in tables["latency_by_topic"]] == [("bank/x", 24)]


def test_a_delivery_that_had_to_wait_for_a_repair_is_told_from_the_others(tables: Tables):
    phases = {(row["phase"], row["guarantee"]): row["deliveries"] for row in tables["latency_by_phase"]}
    assert phases == {("calm", "causal"): 22, ("calm", "total"): 1, ("repair", "total"): 1}


def test_latencies_are_also_told_for_each_window_of_faults(tables: Tables):
    assert [(row["repair"], row["deliveries"], row["max_ms"]) for row in tables["latency_by_window"]] == [(1, 1, 100.0)]


def test_hops_are_the_brokers_on_the_way_in_the_tree_of_that_moment(tables: Tables):
    hops = {(row["phase"], row["hops"]): (row["deliveries"], row["p50_ms"]) for row in tables["latency_by_hops"]}
    # From ann to bob it is three brokers before the repair and two after it. What was on its way meanwhile has no hops.
    assert hops == {("calm", 1): (12, 1.0), ("calm", 3): (10, 4.0), ("calm", 2): (1, 7.0)}


def test_a_repair_lasts_from_its_start_to_its_end_and_is_felt_from_the_first_suspicion(tables: Tables):
    [repair] = tables["repairs"]
    assert (repair["node"], repair["failed"], repair["repair_ms"], repair["felt_ms"]) == ("2", "1", 30.0, 50.0)
    [window] = tables["fault_windows"]
    assert (window["failed"], window["start_ns"], window["end_ns"]) == ("1", 3000 * MS, 3050 * MS)


def test_throughput_is_counted_by_interval(tables: Tables):
    rows = [(row["at_s"], row["publications"], row["deliveries"], row["payload_bytes"]) for row in tables["throughput"]]
    assert rows == [(0.0, 10, 21, 2100), (1.0, 1, 1, 100), (2.0, 1, 1, 100), (3.0, 0, 2, 200)]


def test_header_bytes_are_summed_by_guarantee(tables: Tables):
    rows = {row["guarantee"]: (row["publications"], row["header_bytes"]) for row in tables["overheads"]}
    assert rows == {"causal": (11, 220), "total": (1, 32)}


def test_the_load_of_a_broker_is_what_its_clients_published_and_delivered_and_what_was_routed_over_it(tables: Tables):
    names = ("clients", "publications", "deliveries", "routed")
    rows = {row["broker"]: tuple(row[name] for name in names) for row in tables["brokers"]}
    assert rows == {"0": (2, 12, 13, 23), "1": (0, 0, 0, 10), "2": (1, 0, 12, 11)}
