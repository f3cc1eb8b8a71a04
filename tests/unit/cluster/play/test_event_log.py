"""The event log is in an order in which things may have happened, whatever the clocks say."""

from holdfast.cluster.play.event_log import EventLog
from holdfast.model.trace import Event


def row(node: str, index: int, time: int, event: str, seq: int = 0, **rest: str) -> Event:
    publisher = "alice" if seq else ""
    return Event("r", node, index, time, event, publisher, seq, rest.get("topic", "t"), guarantee="fifo" if seq else "")


def test_a_delivery_is_behind_its_publication_though_the_subscribers_clock_is_behind():
    log = EventLog()
    log.know("alice")
    log.know("bob")
    log.add([row("bob", 0, 1_000_000, "subscribe"), row("bob", 1, 2_000_000, "deliver", 1)])
    assert log.lines(horizon_ns=1_500_000) == ["     0.001 s  bob subscribes to t"]


def test_rows_wait_until_nothing_can_come_before_them():
    log = EventLog()
    for name in ("alice", "bob"):
        log.know(name)
    log.add([row("alice", 0, 5_000_000, "publish", 1), row("bob", 0, 3_000_000, "deliver", 1)])
    assert log.lines(horizon_ns=4_999_999) == []
    assert log.lines() == [
        "     0.005 s  alice publishes alice#1 on t (fifo)",
        "     0.005 s  bob delivers alice#1 on t (fifo)",
    ]
    assert log.lines() == []


def test_a_light_log_leaves_out_what_brokers_report_and_a_full_one_does_not():
    rows = [row("b1", 0, 1_000_000, "repair_start", topic=""), row("alice", 0, 2_000_000, "publish", 1)]
    seen = {}
    for level in ("light", "full"):
        log = EventLog(level)
        log.know("alice")
        log.add(rows)
        log.command(3, "Crash b2", 1_500_000)
        seen[level] = [line.split("s  ", 1)[1] for line in log.lines()]
    assert seen["light"] == ["[3] Crash b2", "alice publishes alice#1 on t (fifo)"]
    assert seen["full"] == ["broker b1 repair_start", *seen["light"]]


def test_messages_are_numbered_from_1_wherever_the_numbers_of_a_session_begin():
    log = EventLog()
    for name in ("alice", "bob"):
        log.know(name)
    begun = 17_009_993_935
    log.add([row("bob", 0, 3_000_000, "deliver", begun + 1)])
    log.add([row("alice", number, 1_000_000, "publish", begun + number) for number in (0, 1)])
    assert [line.split("s  ", 1)[1] for line in log.lines()] == [
        "alice publishes alice#1 on t (fifo)",
        "alice publishes alice#2 on t (fifo)",
        "bob delivers alice#2 on t (fifo)",
    ]
