"""Fewer filters: what one broker of a delta-fault-tolerant tree matches, with covering off and on.

All filters point to one neighbour, as those of a subtree do from far away. `ranges` are thresholds in 100 regions of
one topic, `values` name one customer each, `topics` are filters and whole subscriptions on 1,000 topics. Recipients of
every message are compared with those of the plain table.
"""

from collections.abc import Iterator
from random import Random
from time import process_time
from typing import Literal

from msgspec import Struct

from holdfast.model.filters import Value
from holdfast.protocols.delta.fewer_filters import FewerFilters
from holdfast.protocols.routing import RoutingTable

Shape = Literal["ranges", "values", "topics"]
Mode = Literal["off", "covering", "merging"]
SHAPES: tuple[Shape, ...] = ("ranges", "values", "topics")
MODES: tuple[Mode, ...] = ("off", "covering", "merging")
REGIONS, TOPICS, THRESHOLDS, MESSAGES = 100, 1000, 1000, 1000
NODE = "n"


class Matching(Struct, frozen=True):
    """What one table comes to."""

    known: int
    matched: int
    evaluated: float
    """Filters that were evaluated, a message."""
    microseconds: float
    """Of the processor, to find the recipients of a message on a topic that was there before."""
    adding_us: float
    """Of the processor, to add a filter."""
    differing: int
    """Messages with other recipients than in the plain table."""


def wanted(shape: Shape, size: int) -> Iterator[tuple[str, str]]:
    """So many filters; some may be the same."""
    chance = Random(1)
    for number in range(size):
        if shape == "ranges":
            yield "orders", f"amount > {chance.randrange(THRESHOLDS)} and region = 'r{chance.randrange(REGIONS)}'"
        elif shape == "values":
            yield "orders", f"customer = {number}"
        else:
            bound, kind = chance.randrange(100), chance.randrange(20)
            where = chance.choice(("", f"x > {bound}", f"x > {bound} and y = {kind}"))
            yield f"topic/{chance.randrange(TOPICS)}", where


def messages(shape: Shape, size: int) -> Iterator[tuple[str, dict[str, Value]]]:
    """What is published."""
    chance = Random(2)
    for _ in range(MESSAGES):
        topic = f"topic/{chance.randrange(TOPICS)}" if shape == "topics" else "orders"
        yield (
            topic,
            {
                "amount": chance.randrange(THRESHOLDS),
                "region": f"r{chance.randrange(REGIONS)}",
                "customer": chance.randrange(size),
                "x": chance.randrange(100),
                "y": chance.randrange(20),
            },
        )


def measure(shape: Shape, mode: Mode, size: int) -> Matching:
    """Fill a table, and ask it."""
    plain = RoutingTable()
    table: RoutingTable | FewerFilters = plain if mode == "off" else FewerFilters(merges=mode == "merging")
    entries = list(wanted(shape, size))
    began = process_time()
    for pattern, where in entries:
        table.add(pattern, where, NODE)
    added_s = process_time() - began
    if table is not plain:
        for pattern, where in entries:
            plain.add(pattern, where, NODE)
    matched = table.matched if isinstance(table, FewerFilters) else table
    asked = list(messages(shape, size))
    differing = sum(matched.takers_of(*one) != plain.takers_of(*one) for one in asked)
    evaluated, began = matched.evaluated, process_time()
    for one in asked:
        matched.takers_of(*one)
    took_s = process_time() - began
    return Matching(
        len(table),
        len(matched),
        (matched.evaluated - evaluated) / MESSAGES,
        took_s / MESSAGES * 1e6,
        added_s / size * 1e6,
        differing,
    )
