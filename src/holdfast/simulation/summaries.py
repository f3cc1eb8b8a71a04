"""The figures of one run: how much happened, what was said on the links, how long messages took."""

from collections import defaultdict
from typing import TYPE_CHECKING

from holdfast.model.guarantees import GUARANTEES

if TYPE_CHECKING:
    from holdfast.simulation.world import Simulation

PERCENTILES = (50, 90, 99)


def summarize(sim: "Simulation") -> dict[str, object]:
    """Everything in JSON-able values. All but `wall_s` and `events_per_s` is the same in every run of one seed."""
    waits_s = delivery_waits_s(sim)
    frames = {kind.__name__: count for kind, count in sim.network.sent.items()}
    return {
        "virtual_s": sim.now,
        "events": sim.kernel.events,
        "wall_s": sim.wall_s,
        "events_per_s": sim.kernel.events / sim.wall_s if sim.wall_s else 0.0,
        "published": sum(it.batch.count for _, _, it in sim.reports if it.event == "publish" and it.batch),
        "deliveries": sum(map(len, waits_s.values())),
        "frames": dict(sorted(frames.items())),
        "latency_ms": {name: _figures(waits) for name, waits in waits_s.items() if waits},
    }


def delivery_waits_s(sim: "Simulation") -> dict[str, list[float]]:
    """By guarantee, how long after its publication each message was delivered to each client."""
    published: defaultdict[str, dict[int, float]] = defaultdict(dict)
    waits: dict[str, list[float]] = {guarantee.value: [] for guarantee in GUARANTEES}
    for time_s, _, it in sim.reports:
        batch = it.batch
        if batch is None:
            continue
        times = published[batch.publisher]
        numbers = range(batch.first, batch.last + 1)
        if it.event == "publish":
            times.update(dict.fromkeys(numbers, time_s))
        elif it.event == "deliver":
            waits[GUARANTEES[batch.guarantee].value] += [time_s - times[seq] for seq in numbers if seq in times]
    return waits


def _figures(waits_s: list[float]) -> dict[str, float]:
    waits_ms = sorted(1000 * wait for wait in waits_s)
    figures = {"count": len(waits_ms), "mean": sum(waits_ms) / len(waits_ms), "max": waits_ms[-1]}
    # The nearest rank: the smallest value that at least that share of all does not exceed.
    return figures | {f"p{share}": waits_ms[-(-share * len(waits_ms) // 100) - 1] for share in PERCENTILES}
