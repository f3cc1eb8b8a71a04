"""A subscriber that reads too slowly is not sent what is published any more; it gets it out of the store."""

from collections.abc import Sequence

from holdfast.protocols.narada import SubscriberConfig
from tests.support.reliable import STEERING, numbers, publish, world_of

TIGHT = SubscriberConfig("slow", "orders", steering=STEERING, unconsumed_bytes_max=400, buffer_bytes_max=2000)


def events(reports: Sequence[tuple[float, object]]) -> list[str]:
    names = [getattr(report, "event", "") for _, report in reports]
    return [name for name in names if name in ("spilled", "live")]


def test_who_reads_slowly_is_sent_nothing_more_and_misses_nothing():
    world = world_of(2)
    alice = world.publisher("alice")
    slow = world.subscriber("slow", TIGHT, consume_s=0.05)
    fast = world.subscriber("fast")
    publish(world, alice, 1, 300, 1.0, gap_s=0.005)
    world.run(2.6)
    assert slow.machine.status()["spilled"]
    assert slow.machine.status()["buffered"] == 0
    assert not fast.machine.status()["spilled"]
    assert world.payloads("fast") == numbers(1, 300)
    world.run_until_drained(60.0)
    assert not slow.machine.status()["spilled"]
    assert world.payloads("slow") == numbers(1, 300)
    assert events(slow.reports)[:2] == ["spilled", "live"]
    publish(world, alice, 301, 310, world.kernel.now + 0.5)
    world.run_until_drained(90.0)
    assert world.payloads("slow") == numbers(1, 310)


def test_who_is_behind_goes_on_without_gap_or_repeat_when_its_repository_dies():
    world = world_of(2)
    alice = world.publisher("alice")
    slow = world.subscriber("slow", TIGHT, consume_s=0.02)
    publish(world, alice, 1, 300, 1.0, gap_s=0.005)
    world.run(3.0)
    assert slow.machine.status()["spilled"]
    world.crash(str(slow.machine.status()["steering"]))()
    world.run(40.0)
    assert world.payloads("slow") == numbers(1, 300)
