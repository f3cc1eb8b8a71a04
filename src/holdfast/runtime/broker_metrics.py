"""The figures of a broker, out of what it says of itself: one source for people and for machines."""

from collections.abc import Mapping
from typing import Any

from holdfast.runtime.exposition import Metric


def broker_metrics(status: Mapping[str, Any]) -> list[Metric]:
    """What `BrokerProcess.status` says, as metrics. What a protocol does not know is left out."""
    backlogs, away, late = status.get("backlog_bytes"), status.get("away"), status.get("late")
    # The clients of one lost broker share what is kept for them.
    shared = None if late is None else {one["lost"]: one["bytes"] for one in late.values()}
    return [
        _gauge("ready", "Whether it serves clients.", float(bool(status.get("ready")))),
        _gauge("clients", "Sessions of clients.", _count(status.get("clients"))),
        _gauge("subscriptions", "Different subscriptions that it knows of.", status.get("subscriptions")),
        _gauge("backlog_bytes", "What waits for connections or for credit.", _sum(backlogs)),
        _gauge("away_clients", "Clients that have lost their connection, and may come back.", _count(away)),
        _gauge("away_bytes", "What is kept for them.", _sum(away)),
        _gauge("late_clients", "Clients of brokers that died, which have yet to come.", _count(late)),
        _gauge("late_bytes", "What is kept for them.", _sum(shared)),
        _gauge("slow_clients", "Clients that are behind, or have dropped messages.", _count(status.get("slow"))),
        _counter("dropped_messages", "Messages that slow readers have dropped.", status.get("dropped_messages")),
        _counter("slow_ended", "Sessions and subscriptions that ended for not reading.", status.get("slow_ended")),
        _gauge("kept_messages", "Batches that are kept until nobody can need them.", status.get("kept")),
        _gauge("kept_bytes", "What those weigh.", status.get("kept_bytes")),
    ]


def _count(things: Any) -> float | None:
    return None if things is None else float(len(things))


def _sum(figures: Mapping[str, float] | None) -> float | None:
    return None if figures is None else float(sum(figures.values()))


def _gauge(name: str, text: str, value: float | None) -> Metric:
    return Metric(f"holdfast_broker_{name}", "gauge", text, () if value is None else (({}, float(value)),))


def _counter(name: str, text: str, value: float | None) -> Metric:
    return Metric(f"holdfast_broker_{name}_total", "counter", text, () if value is None else (({}, float(value)),))
