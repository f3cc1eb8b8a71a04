"""The rows of the bench of scale about content filters and subscriptions: what they cost a broker and a client.

All of it is the processor time of the machines in this process, without sockets: the interest map of a broker, which
every protocol but locamu and cbcast uses as it is, and the deliveries of a client. Filters are drawn with a fixed seed.
"""

import gc
import random
import tracemalloc
from collections.abc import Callable, Iterator
from time import process_time

from holdfast.client.deliveries import Deliveries
from holdfast.client.errors import Gap
from holdfast.client.subscriptions import Delivery, Subscription
from holdfast.cluster.bench.scale import ScaleRow, at_most, compared
from holdfast.model.batches import Attributes, Batch, make_batch
from holdfast.model.filter_syntax import FILTER_CHARACTERS_MAX, parse_condition
from holdfast.model.messages import Subscribe
from holdfast.protocols.interests import InterestMap
from holdfast.protocols.routing import RoutingTable
from holdfast.runtime.logs import ProcessLog

FEW, MANY = 10_000, 100_000
MATCH_US_MAX, SUBSCRIBE_US_MAX, BYTES_MAX, GROWTH_MAX = 100.0, 100.0, 1500.0, 3.0
NOBODY_GROWTH_MAX = 1.5
"""The cost of a publication that nobody wants is to be the same; half as much again is noise."""
NOBODY_MESSAGES = 2000
"""They take microseconds each: a quick run has time for all of them."""
FILTERS_A_REGION = 400
"""With `amount > N` for half of the amounts and two kinds of forty, some ten of these match a message."""
SUBSCRIPTIONS_MAX = 20_000
TOPIC = "orders"

Text = Callable[[random.Random, int], str]


def filter_rows(quick: bool) -> Iterator[ScaleRow]:
    """Measure what filters and subscriptions cost; a quick run asks with fewer messages, of as many filters."""
    messages = 200 if quick else 2000
    yield from _matching_rows(messages)
    yield from _other_filters(messages)
    yield from _nobody_rows(NOBODY_MESSAGES)
    yield from _client_rows(messages)
    yield compared("reading a filter of 4,096 characters", _reading_us(20 if quick else 200), "µs")
    yield at_most("memory of a filter in a broker", _memory_bytes(FEW if quick else MANY), "bytes", BYTES_MAX)


# -------------------------------------------------------------------------------------------------------- a broker


def mixed(chance: random.Random, count: int) -> str:
    """A filter of three predicates: an equality, a comparison and a set."""
    kinds = ", ".join(f"'k{chance.randrange(40)}'" for _ in range(2))
    region = chance.randrange(max(count // FILTERS_A_REGION, 1))
    return f"region = 'r{region}' and amount > {chance.randrange(1000)} and kind in ({kinds})"


def thresholds(chance: random.Random, _count: int) -> str:
    """A filter of three comparisons, each of which a message of `thresholds_attributes` satisfies once in twenty."""
    return " and ".join(f"{name} > {chance.uniform(0, 100):.3f}" for name in ("heat", "load", "rate"))


def windows(chance: random.Random, count: int) -> str:
    """A filter of two comparisons that make a narrow range, and a third one."""
    low = chance.randrange(count)
    return f"price >= {low} and price < {low + 20} and size > {chance.randrange(100)}"


def mixed_attributes(chance: random.Random, count: int) -> Attributes:
    region = chance.randrange(max(count // FILTERS_A_REGION, 1))
    return {"region": f"r{region}", "amount": chance.randrange(1000), "kind": f"k{chance.randrange(40)}", "paid": True}


def thresholds_attributes(_chance: random.Random, _count: int) -> Attributes:
    return {"heat": 5.0, "load": 5.0, "rate": 5.0}


def windows_attributes(chance: random.Random, count: int) -> Attributes:
    return {"price": chance.randrange(count), "size": chance.randrange(100)}


def broker_with(count: int, text: Text, measured: float = 0.1) -> tuple[InterestMap, float]:
    """The interest map of a broker with so many clients of one filter each; what subscribing took one of the last."""
    chance = random.Random(count)
    broker = InterestMap(lambda _peer, _message: None)
    texts = [text(chance, count) for _ in range(count)]
    begin = int(count * (1 - measured))
    for number in range(begin):
        broker.subscribe(f"client-{number}", Subscribe(number, TOPIC, texts[number]))
    started = process_time()
    for number in range(begin, count):
        broker.subscribe(f"client-{number}", Subscribe(number, TOPIC, texts[number]))
    return broker, (process_time() - started) / (count - begin) * 1e6


def asked(
    table: RoutingTable, count: int, messages: int, attributes: Callable[[random.Random, int], Attributes]
) -> tuple[float, float]:
    """What finding the takers of a message costs, in microseconds, and how many there are, on average."""
    chance = random.Random(messages)
    batches = [_message(TOPIC, attributes(chance, count)) for _ in range(messages)]
    found = 0
    started = process_time()
    for batch in batches:
        found += len(table.takers(batch))
    return (process_time() - started) / messages * 1e6, found / messages


def _matching_rows(messages: int) -> Iterator[ScaleRow]:
    broker, _ = broker_with(FEW, mixed)
    few_us, _ = asked(broker.table, FEW, messages, mixed_attributes)
    yield compared(f"matching a message with {FEW:,} filters of three predicates on one topic", few_us, "µs")
    broker, subscribe_us = broker_with(MANY, mixed)
    many_us, found = asked(broker.table, MANY, messages, mixed_attributes)
    label = f"matching a message with {MANY:,} filters of three predicates on one topic, {found:.0f} of which match"
    yield at_most(label, many_us, "µs", MATCH_US_MAX)
    yield at_most("the same, compared with a tenth of the filters", many_us / few_us, "times", GROWTH_MAX)
    yield at_most(f"subscribing with a filter where there are {MANY:,}", subscribe_us, "µs", SUBSCRIBE_US_MAX)


def _other_filters(messages: int) -> Iterator[ScaleRow]:
    for text, attributes, what in (
        (windows, windows_attributes, "filters of a narrow range and a comparison"),
        (thresholds, thresholds_attributes, "filters of three one-sided comparisons"),
    ):
        broker, _ = broker_with(MANY, text)
        figure_us, found = asked(broker.table, MANY, messages // 4, attributes)
        yield compared(f"matching a message with {MANY:,} {what}, {found:.0f} of which match", figure_us, "µs")


def _nobody_rows(messages: int) -> Iterator[ScaleRow]:
    figures = [_nobody_us(count, messages) for count in (10, MANY)]
    for count, figure_us in zip((10, MANY), figures, strict=True):
        yield compared(f"finding that nobody wants a message, with {count:,} subscriptions", figure_us, "µs")
    label = "the same, compared with ten subscriptions"
    yield at_most(label, figures[1] / figures[0], "times", NOBODY_GROWTH_MAX)


def _nobody_us(count: int, messages: int) -> float:
    """Half of the topics were never heard of, half of the messages are on one that is known."""
    table = RoutingTable()
    for number in range(count):
        table.add(f"t/{number}/+", "", f"client-{number}")
    batches = [_message(f"u/{number}/x", {}) for number in range(messages // 2)] * 2
    # A search for circles among a hundred thousand subscriptions takes longer than all of these messages.
    collecting = gc.isenabled()
    gc.disable()
    try:
        started = process_time()
        for batch in batches:
            table.takers(batch)
        return (process_time() - started) / len(batches) * 1e6
    finally:
        if collecting:
            gc.enable()


def _memory_bytes(count: int) -> float:
    """What a subscription with a filter holds on to in the interest map of a broker, its texts included."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        broker, _ = broker_with(count, mixed)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(broker.table) == count, "not every filter was counted"
    return (after - before) / count


def _reading_us(repeats: int) -> float:
    """One filter of as many characters as are allowed, of as many terms as fit."""
    terms = " or ".join(f"attribute{number} = 'x{number}'" for number in range(200))
    text = terms[: terms.rindex(" or ", 0, FILTER_CHARACTERS_MAX)]
    started = process_time()
    for _ in range(repeats):
        parse_condition(text)
    return (process_time() - started) / repeats * 1e6


def _message(topic: str, attributes: Attributes) -> Batch:
    return make_batch("publisher", 1, topic, 0, [b"x" * 16], attributes=[attributes])


# -------------------------------------------------------------------------------------------------------- a client


class _Counting(Subscription):
    """A subscription that counts what arrives and keeps nothing."""

    arrived = 0

    def arrive(self, batch: Batch, delivery: Delivery) -> None:  # noqa: ARG002
        _Counting.arrived += batch.count


def _client_rows(messages: int) -> Iterator[ScaleRow]:
    for count in (100, SUBSCRIPTIONS_MAX):
        label = f"a message on a new topic at a client with {count:,} subscriptions t/N/+"
        yield compared(label, _client_us(count, messages), "µs")


def _client_us(count: int, messages: int) -> float:
    deliveries = Deliveries(lambda _batch: None, lambda _batch: None, lambda _: None, ProcessLog("bench"))
    for number in range(count):
        deliveries.add(_Counting(_NoClient(deliveries), f"t/{number}/+", ""))
    batches = [_message(f"t/{number % count}/{number}", {}) for number in range(messages)]
    started = process_time()
    for batch in batches:
        deliveries.arrive(batch)
    return (process_time() - started) / messages * 1e6


class _NoClient:
    """What a subscription asks of its client, where there is none."""

    def __init__(self, deliveries: Deliveries) -> None:
        self.batch_taken, self.batch_read = deliveries.taken, deliveries.read

    def batch_dropped(self, subscription: Subscription, batch: Batch, delivery: Delivery, reason: str) -> None:
        """These subscriptions drop nothing."""

    def end_slow(self, subscription: Subscription, gap: Gap) -> None:
        """And are not ended."""

    async def end_subscription(self, subscription: Subscription) -> None:
        """There is nobody to tell."""
