"""The end of a demonstration on Spark: the trace is judged, and the page shows its figures."""

from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from holdfast.cluster.demo import RECORDINGS, DemoSummary
from holdfast.model.batches import Message
from holdfast.model.trace import Event
from holdfast.model.verdicts import Verdict
from holdfast.pipeline.report import prove
from holdfast.pipeline.report_findings import BrokerRepair, Fault, gather
from holdfast.pipeline.trace_frames import read_events
from holdfast.services.bank import Deposit, encode, guarantee_of, keys_of
from holdfast.storage.recordings import RecordingWriter
from holdfast.storage.traces import TraceWriter
from tests.unit.pipeline.ran import summary

MS = 1_000_000
BEGAN = 1_000 * MS
CLIENTS = ("alice", "bob")
DEPOSIT = Deposit("162550400", 50)
RUN = summary(messages=2, messages_expected=2, deliveries=4, deliveries_expected=4, kill_times_ns=[BEGAN + 100 * MS])


def event(node: str, index: int, at_ms: float, what: str, publisher: str = "", peer: str = "") -> Event:
    time = BEGAN + int(at_ms * MS)
    if not publisher:
        return Event("r", node, index, time, what, topic="bank" if what == "subscribe" else "", peer=peer)
    guarantee, keys = guarantee_of(DEPOSIT).value, list(keys_of(DEPOSIT))
    return Event(
        "r", node, index, time, what, publisher, 1, "bank", guarantee=guarantee, keys=keys, size=9, overhead=24
    )


def leave(directory: Path, lost: bool = False) -> None:
    """What a demonstration leaves: alice's message arrives in the calm, bob's while broker 1 repairs the loss of 0."""
    rows = [
        event("1", 0, 110, "suspect", peer="0"),
        event("1", 1, 120, "repair_start", peer="0"),
        event("1", 2, 180, "repair_end", peer="0"),
        *(event(client, 0, -10, "subscribe") for client in CLIENTS),
        event("alice", 1, 0, "publish", "alice"),
        *(event(client, 2, 4, "deliver", "alice") for client in CLIENTS),
        event("bob", 3, 90, "publish", "bob"),
        *(event(client, 4, 190, "deliver", "bob") for client in CLIENTS[lost:]),
    ]
    with TraceWriter(directory / "trace" / "all.jsonl", fresh=True) as trace:
        for row in rows:
            trace.append(row)
    for client in CLIENTS:
        with RecordingWriter(directory / RECORDINGS / client) as recording:
            told = [Message("bank", encode(DEPOSIT), of, 1, guarantee_of(DEPOSIT), keys_of(DEPOSIT)) for of in CLIENTS]
            recording.append(told, 1)


def test_the_figures_of_a_run_come_from_its_trace_and_recordings(spark: SparkSession, tmp_path: Path):
    leave(tmp_path)
    found = gather(spark, read_events(spark, tmp_path / "trace"), RUN, Verdict(4), tmp_path)
    times = {(one.guarantee, one.phase): (one.deliveries, one.p50, one.highest) for one in found.spreads}
    assert times == {("causal", "calm"): (2, 4.0, 4.0), ("causal", "repair"): (2, 100.0, 100.0)}
    assert found.faults == [Fault("0", "root", 0.1, 120.0)]
    assert found.repairs == [BrokerRepair("1", "0", 0.12, 0.18)]
    assert (found.every_s, sum(one.deliveries_per_s for one in found.rates) * found.every_s) == (0.02, 4.0)
    assert [(one.topic, one.name, one.applied, one.balances["162550400"]) for one in found.replicas] == [
        ("bank", "alice", 2, 101_00),
        ("bank", "bob", 2, 101_00),
    ]
    assert [(one.guarantee, one.publications, one.header_bytes_each) for one in found.overheads] == [
        ("causal", 2, 24.0)
    ]


def test_a_loss_makes_the_run_broken_in_the_summary_and_on_the_page(spark: SparkSession, tmp_path: Path):
    leave(tmp_path, lost=True)
    stages: list[str] = []
    proof = prove(RUN, tmp_path, progress=lambda stage, *_: stages.append(stage))
    assert (proof.summary.ok, proof.verdict.lost, proof.verdict.deliveries) == (False, 1, 3)
    assert msgspec.json.decode((tmp_path / "summary.json").read_bytes(), type=DemoSummary) == proof.summary
    assert "alice never delivered bob#1" in proof.page.read_text()
    assert list(dict.fromkeys(stages)) == ["Spark starts", "Spark audit", "report"]
