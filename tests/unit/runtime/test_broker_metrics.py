"""The figures of a broker for Prometheus."""

from holdfast.runtime.broker_metrics import broker_metrics
from holdfast.runtime.exposition import exposition


def figures(status: dict[str, object]) -> dict[str, float]:
    lines = exposition(broker_metrics(status)).splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if line and not line.startswith("#")}


def test_sessions_that_are_away_or_late_are_counted_with_what_is_kept_for_them():
    late = {"c": {"lost": "1", "bytes": 70}, "d": {"lost": "1", "bytes": 70}, "e": {"lost": "2", "bytes": 5}}
    found = figures(
        {"ready": True, "clients": ["a", "b"], "away": {"a": 100}, "late": late, "kept": 3, "kept_bytes": 9}
    )
    assert found == {
        "holdfast_broker_ready": 1,
        "holdfast_broker_clients": 2,
        "holdfast_broker_away_clients": 1,
        "holdfast_broker_away_bytes": 100,
        "holdfast_broker_late_clients": 3,
        "holdfast_broker_late_bytes": 75,
        "holdfast_broker_kept_messages": 3,
        "holdfast_broker_kept_bytes": 9,
    }


def test_what_a_protocol_does_not_know_is_left_out():
    assert figures({"ready": False}) == {"holdfast_broker_ready": 0}
