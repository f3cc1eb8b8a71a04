"""The rows about filters of the bench of scale: which there are, and that they measure what they say."""

from holdfast.cluster.bench import scale_filters
from holdfast.cluster.bench.scale_filters import asked, broker_with, filter_rows, mixed, mixed_attributes


def test_every_goal_for_filters_has_a_row(monkeypatch):
    monkeypatch.setattr(scale_filters, "FEW", 200)
    monkeypatch.setattr(scale_filters, "MANY", 2_000)
    monkeypatch.setattr(scale_filters, "SUBSCRIPTIONS_MAX", 300)
    rows = list(filter_rows(quick=True))
    assert [(row.goal, row.unit) for row in rows if row.goal] == [
        ("≤ 100", "µs"),
        ("≤ 3", "times"),
        ("≤ 100", "µs"),
        ("≤ 1.5", "times"),
        ("≤ 1500", "bytes"),
    ]
    assert all(row.figure > 0 for row in rows)
    assert all((row.met is None) == (row.goal == "") for row in rows)


def test_some_ten_of_the_filters_match_a_message_however_many_there_are():
    for count in (2_000, 8_000):
        broker, _ = broker_with(count, mixed)
        _, found = asked(broker.table, count, 100, mixed_attributes)
        assert 5 < found < 20
        assert broker.table.evaluated < 100 * 100
