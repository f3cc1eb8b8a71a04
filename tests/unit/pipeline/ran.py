"""A small run for the tests of the report: three brokers, of which the root is killed, and two replicas of one bank."""

from typing import Any

from msgspec import structs

from holdfast.cluster.demo import DemoLatency, DemoSummary, Tree
from holdfast.cluster.repairs import RepairMeasurement
from holdfast.model.verdicts import Verdict
from holdfast.pipeline.report_findings import (
    BrokerRepair,
    Fault,
    HopSpread,
    LoadFindings,
    Overhead,
    Rate,
    ReplicaFindings,
    ReportFindings,
    Spread,
)

BEFORE = Tree({"0": None, "1": "0", "2": "0"}, {"alice": "1", "bob": "2"})
AFTER = Tree({"1": None, "2": "1"}, {"alice": "1", "bob": "2"})


def summary(**changes: Any) -> DemoSummary:
    made = DemoSummary(
        ok=True,
        brokers=3,
        clients=2,
        operations=10,
        seed=7,
        seconds=3.5,
        messages=20,
        messages_expected=20,
        deliveries=40,
        deliveries_expected=40,
        verdict=Verdict(40).as_dict(),
        latencies=[DemoLatency("causal", 20, 40, 1.0, 9.0)],
        kills=["0"],
        repairs=[RepairMeasurement("0", "root", 4, 80.0, 120.0)],
        balances={"alice": "d", "bob": "d"},
        replicas_equal=True,
        refused_operations=0,
        trace="trace",
        run="demo-1",
        protocol="ginger",
        tolerance=1,
        kill_times_ns=[1_500_000_000],
        trees=[BEFORE, AFTER],
    )
    return structs.replace(made, **changes)


def findings(**changes: Any) -> ReportFindings:
    made = ReportFindings(
        summary(),
        Verdict(40),
        [
            Spread("total", "calm", 10, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 9.0),
            Spread("causal", "repair", 10, 5.0, 50.0, 80.0, 90.0, 95.0, 99.0, 120.0),
            Spread("causal", "calm", 20, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0),
        ],
        0.5,
        [
            Rate(0.0, 10.0, 20.0),
            Rate(0.5, 10.0, 20.0),
            Rate(1.0, 10.0, 20.0),
            Rate(1.5, 10.0, 0.0),
            Rate(2.0, 0.0, 20.0),
        ],
        [Fault("0", "root", 1.5, 120.0)],
        [BrokerRepair("1", "0", 1.55, 1.6), BrokerRepair("2", "0", 1.56, None)],
        [
            ReplicaFindings("bank", "alice", 20, 1, {"A": 10_000, "B": 250}),
            ReplicaFindings("bank", "bob", 20, 1, {"A": 10_000, "B": 250}),
        ],
        [Overhead("causal", 15, 900, 24.0), Overhead("total", 5, 300, 24.5)],
        {"Holdfast": "1", "Python": "3", "Spark": "4"},
        [
            HopSpread(1, "calm", 12, 0.2, 0.3, 0.5, 0.8, 1.0, 2.0, 3.0),
            HopSpread(3, "calm", 16, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 9.0),
            HopSpread(2, "repair", 8, 5.0, 50.0, 80.0, 90.0, 95.0, 99.0, 120.0),
        ],
        [LoadFindings("0", 0, 0, 0, 16), LoadFindings("1", 1, 10, 20, 36), LoadFindings("2", 1, 10, 20, 24)],
    )
    return structs.replace(made, **changes)
