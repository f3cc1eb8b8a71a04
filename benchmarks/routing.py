"""What routing costs: nanoseconds a match, cached and not, with 1,000, 10,000 and 100,000 subscriptions.

    python benchmarks/routing.py [--json] [--seconds 0.3]

Every shop has five patterns (exact, `+`, `#`, `+` in front, one that never matches) and one of ten has a filter; every
topic asked for matches four of them, whatever the number of shops. So the work is the same in every row, and a ratio
above 1 is what the size of the table alone costs.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable

from holdfast.protocols.routing import RoutingTable

SIZES = (1_000, 10_000, 100_000)
PATTERNS_PER_SHOP = 5
TOPICS_ASKED = 1_000  # fewer than the cache holds; spread over the whole table

Row = dict[str, float]


def filled(subscriptions: int, cached_topics_max: int) -> RoutingTable:
    """A table with that many subscriptions of 500 clients."""
    table = RoutingTable(cached_topics_max)
    for shop in range(subscriptions // PATTERNS_PER_SHOP):
        name = f"city-{shop % 100}/shop-{shop}"
        where = f"amount > {shop % 50}" if shop % 10 == 0 else ""
        for pattern in (f"{name}/orders", f"{name}/+", f"{name}/#", f"+/shop-{shop}/orders", f"{name}/stock/+/low"):
            table.add(pattern, where, f"client-{shop % 500}")
    return table


def asked(subscriptions: int) -> list[str]:
    """Topics that match four subscriptions each."""
    shops = subscriptions // PATTERNS_PER_SHOP
    return [f"city-{shop % 100}/shop-{shop}/orders" for shop in (index * 7919 % shops for index in range(TOPICS_ASKED))]


def best_ns(work: Callable[[], int], seconds: float) -> float:
    """The least nanoseconds an operation over repeated passes: what disturbs a pass only ever adds to it."""
    work()
    passes: list[float] = []
    end = time.perf_counter() + seconds
    while len(passes) < 3 or time.perf_counter() < end:
        start_ns = time.perf_counter_ns()
        done = work()
        passes.append((time.perf_counter_ns() - start_ns) / done)
    return min(passes)


def routing(table: RoutingTable, topics: list[str]) -> Callable[[], int]:
    def work() -> int:
        route = table.route
        for topic in topics:
            route(topic)
        return len(topics)

    return work


def churning(table: RoutingTable, topics: list[str]) -> Callable[[], int]:
    """A client comes and goes on every topic while the cache is warm, and each topic is asked for after each change."""

    def work() -> int:
        for topic in topics:
            table.add(topic, "", "visitor")
            table.route(topic)
            table.remove(topic, "", "visitor")
            table.route(topic)
        return 2 * len(topics)

    return work


def bytes_each(subscriptions: int) -> float:
    tracemalloc.start()
    table = filled(subscriptions, 0)
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size_bytes / len(table)


def measure(subscriptions: int, seconds: float) -> Row:
    topics = asked(subscriptions)
    cold, warm = filled(subscriptions, 0), filled(subscriptions, len(topics))
    return {
        "subscriptions": subscriptions,
        "cached_ns": best_ns(routing(warm, topics), seconds),
        "uncached_ns": best_ns(routing(cold, topics), seconds),
        "change_and_route_ns": best_ns(churning(warm, topics), seconds),
        "bytes_each": bytes_each(subscriptions),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the routing table.")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--seconds", type=float, default=0.3, help="how long each figure is measured")
    options = parser.parse_args()
    rows = [measure(size, options.seconds) for size in SIZES]
    ratios = {name: rows[-1][name] / rows[0][name] for name in ("cached_ns", "uncached_ns", "change_and_route_ns")}
    if options.json:
        print(json.dumps({"rows": rows, "ratios": ratios}))
        return
    print(f"{'subscriptions':>13} {'cached ns':>10} {'uncached ns':>12} {'change + route ns':>18} {'bytes each':>11}")
    for row in rows:
        print(
            f"{row['subscriptions']:>13,} {row['cached_ns']:>10.0f} {row['uncached_ns']:>12.0f} "
            f"{row['change_and_route_ns']:>18.0f} {row['bytes_each']:>11.0f}"
        )
    cached, uncached, change = ratios.values()
    print(f"{'last / first':>13} {cached:>10.2f} {uncached:>12.2f} {change:>18.2f}")


if __name__ == "__main__":
    main()
