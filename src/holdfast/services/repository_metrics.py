"""The figures of a repository, out of what it says of itself: one source for people and for machines."""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.runtime.exposition import Metric

STREAM_GAUGES = (
    ("stored_messages", "messages", "Messages that are kept."),
    ("stored_bytes", "bytes", "What the kept messages weigh, encoded."),
    ("sequence_end", "end", "The highest sequence number that was given."),
    ("sequence_kept", "kept", "Everything below this sequence number was forgotten by retention."),
    ("places_messages", "places", "Messages that are known to exist and are missing."),
    ("damaged_messages", "damaged", "Messages that are not as they were stored, and wait to be mended."),
    ("publishers", "publishers", "Publishers that are known."),
)


def repository_metrics(status: Mapping[str, Any]) -> list[Metric]:
    """What `RepositoryService.status` says, as metrics."""
    streams: Mapping[str, Mapping[str, Any]] = status["streams"]
    inspection: Mapping[str, Any] = status["inspection"]
    metrics = [
        _plain("ready", "gauge", "Whether it serves all its streams.", float(bool(status["ready"]))),
        _plain("commits_total", "counter", "Commits that it asked its store for.", float(status["commits"])),
        _of_streams(streams, "serving", "Whether clients are served.", lambda one: float(one["state"] == "serving")),
    ]
    metrics += [
        _of_streams(streams, name, text, lambda one, key=key: one.get(key))  # type: ignore[misc]
        for name, key, text in STREAM_GAUGES
    ]
    metrics += [
        _of_streams(streams, "mended_messages_total", "Messages mended by a sibling.", lambda one: one["mended"]),
        _of_parts(streams, "subscriber_sync", "subscriber", "What it has everything up to.", lambda one: one["sync"]),
        _of_parts(streams, "subscriber_lag_messages", "subscriber", "What is ahead of it.", lambda one: one["lag"]),
        _of_parts(
            streams,
            "sibling_lag_messages",
            "sibling",
            "What it has and we lack.",
            lambda one: one["end"] - one["cover"],
        ),
        _plain("store_damages", "gauge", "What the last inspection found.", inspection.get("count")),
        _plain("inspected_timestamp_seconds", "gauge", "When that was.", inspection.get("inspected_at")),
    ]
    return metrics


def _plain(name: str, kind: str, text: str, value: float | None) -> Metric:
    return Metric(f"holdfast_repository_{name}", kind, text, () if value is None else (({}, float(value)),))


def _of_streams(
    streams: Mapping[str, Mapping[str, Any]], name: str, text: str, value: Callable[[Mapping[str, Any]], Any]
) -> Metric:
    found = [({"stream": stream}, value(said)) for stream, said in streams.items()]
    kind = "counter" if name.endswith("_total") else "gauge"
    samples = tuple((labels, float(number)) for labels, number in found if number is not None)
    return Metric(f"holdfast_repository_{name}", kind, text, samples)


def _of_parts(
    streams: Mapping[str, Mapping[str, Any]],
    name: str,
    label: str,
    text: str,
    value: Callable[[Mapping[str, Any]], Any],
) -> Metric:
    """The same for each subscriber, or each sibling, of each stream."""
    group = "subscribers" if label == "subscriber" else "members"
    samples = tuple(
        ({"stream": stream, label: part}, float(value(about)))
        for stream, said in streams.items()
        for part, about in said[group].items()
    )
    return Metric(f"holdfast_repository_{name}", "gauge", text, samples)
