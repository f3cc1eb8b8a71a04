"""The audit on Spark says what the checkers in memory say, of every trace."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from holdfast.model.trace import Event, TraceError
from holdfast.model.verdicts import KINDS, Verdict
from holdfast.pipeline.audit import audit
from holdfast.pipeline.trace_frames import ARROW_SCHEMA, arrow_columns, write_parquet_trace
from holdfast.simulation.checkers import check
from holdfast.storage.traces import write_trace
from tests.unit.simulation.stories import Story, added, busy_day, exchanged, is_delivery, random_trace, without

TRACES = 2_200
SPREAD_TRACES = 400
NARROW_TRACES = 200


def runs_of(seeds: Iterable[int]) -> dict[str, list[Event]]:
    """The runs of many random traces, under names of their own."""
    runs: dict[str, list[Event]] = {}
    for seed in seeds:
        for event in random_trace(seed):
            name = f"{seed}/{event.run}"
            runs.setdefault(name, []).append(replace(event, run=name))
    return runs


def summary(verdict: Verdict) -> tuple[int, dict[str, int]]:
    return verdict.deliveries, verdict.faults


def assert_agreement(spark: SparkSession, path: Path, runs: dict[str, list[Event]], **options: Any) -> None:
    expected = {run: check(events, examples_max=1_000) for run, events in runs.items()}
    found = audit(spark, path, **options)
    judged = {run: verdict for run, verdict in expected.items() if verdict.deliveries or not verdict.ok}
    assert {run: summary(found.runs[run]) for run in judged} == {run: summary(one) for run, one in judged.items()}
    # A comparison in which some fault never occurs would compare nothing.
    seen = Counter(kind for verdict in expected.values() for kind in KINDS if verdict.faults[kind])
    assert all(seen[kind] >= len(runs) // 20 for kind in KINDS), seen
    said = {f"run {run}: {sentence}" for run, verdict in expected.items() for sentence in verdict.examples}
    assert len(found.verdict.examples) == 5 * len(KINDS)
    assert {*found.verdict.examples} <= said


def test_thousands_of_random_runs_in_parquet_are_judged_as_in_memory(spark: SparkSession, tmp_path: Path):
    runs = runs_of(range(TRACES))
    events = [event for rows in runs.values() for event in rows]
    write_parquet_trace(tmp_path, events, rows_per_file=len(events) // 4 + 1)
    assert_agreement(spark, tmp_path, runs)


def test_runs_whose_clients_are_spread_over_all_tasks_too_and_from_lines(spark: SparkSession, tmp_path: Path):
    runs = runs_of(range(TRACES, TRACES + SPREAD_TRACES))
    for number, rows in enumerate(runs.values()):
        write_trace(tmp_path / f"{number}.jsonl", rows)
    assert_agreement(spark, tmp_path, runs, spread=True)


def test_runs_whose_clocks_are_too_large_for_a_task_are_looked_at_by_some_publishers_at_a_time(
    spark: SparkSession, tmp_path: Path
):
    runs = runs_of(range(TRACES + SPREAD_TRACES, TRACES + SPREAD_TRACES + NARROW_TRACES))
    write_parquet_trace(tmp_path, [event for rows in runs.values() for event in rows])
    assert_agreement(spark, tmp_path, runs, spread=True, clock_bytes_max=1)


def test_rows_of_a_node_with_the_same_index_are_in_the_order_in_which_they_were_written(
    spark: SparkSession, tmp_path: Path
):
    story = Story()
    story.subscribe("ann", "bank/#")
    one, two, three = (story.publish("bob", "bank/x", "fifo") for _ in range(3))
    story.deliver("ann", one, three, two)
    events = [replace(event, index=7) if event.event == "deliver" else event for event in story.events]
    write_trace(tmp_path, events)
    assert check(events).fifo == 1
    assert summary(audit(spark, tmp_path).verdict) == summary(check(events))


def planted_faults() -> dict[str, list[Event]]:
    """A clean day, and the same with one fault of each kind."""
    day = busy_day()
    [third] = filter(is_delivery("dan", "ann#3"), day)
    faulty = without(day, is_delivery("dan", "bob#5"))
    faulty = added(faulty, third)
    faulty = added(faulty, replace(third, seq=99))
    return {"clean": day, "faulty": exchanged(faulty, "dan", "ann#4", "bob#4")}


def test_a_verdict_names_what_was_broken_by_run_and_in_sentences(spark: SparkSession, tmp_path: Path):
    stories = planted_faults()
    runs = {name: [replace(event, run=name) for event in events] for name, events in stories.items()}
    write_parquet_trace(tmp_path, [event for events in runs.values() for event in events])
    found = audit(spark, tmp_path)
    expected = check([event for events in runs.values() for event in events])
    assert found.runs["clean"].ok
    assert not found.runs["faulty"].ok
    assert summary(found.verdict) == summary(expected)
    assert sorted(found.verdict.examples) == sorted(expected.examples)


def test_the_past_column_is_believed(spark: SparkSession, tmp_path: Path):
    story = Story()
    story.subscribe("zoe", "news")
    first = story.publish("ann", "news", "causal", past={})
    second = story.publish("bob", "news", "causal", past={"ann": 1})
    story.deliver("zoe", second, first)
    write_parquet_trace(tmp_path, story.events)
    assert summary(audit(spark, tmp_path).verdict) == (2, {**dict.fromkeys(KINDS, 0), "causal": 1})


def test_dependencies_run_through_causal_and_total_messages_only(spark: SparkSession, tmp_path: Path):
    events: list[Event] = []
    for guarantee in ("eventual", "fifo", "causal", "total"):
        for past in (None, {"ann": 1}):
            story = Story()
            story.subscribe("bob", "y")
            story.subscribe("zoe", "#")
            x, y = story.publish("ann", "x", "causal"), story.publish("ann", "y", guarantee, past=past)
            story.deliver("bob", y)
            z = story.publish("bob", "z", "causal")
            story.deliver("zoe", z, x, y)
            name = f"{guarantee}, {'computed' if past is None else 'written'}"
            events += [replace(event, run=name) for event in story.events]
    write_parquet_trace(tmp_path, events)
    for spread in (False, True):
        found = audit(spark, tmp_path, spread=spread)
        assert {run for run, verdict in found.runs.items() if verdict.causal} == {
            f"{guarantee}, {how}" for guarantee in ("causal", "total") for how in ("computed", "written")
        }


def test_a_weaker_message_that_is_reported_to_have_crossed_takes_no_part_in_total_order(
    spark: SparkSession, tmp_path: Path
):
    story = Story()
    for reader in ("zoe", "yan"):
        story.subscribe(reader, "news")
    total = story.publish("ann", "news", "total", keys="k")
    weak = story.publish("bob", "news", "fifo", keys="k")
    story.deliver("zoe", total, weak)
    story.deliver("yan", weak, total)
    seen = [replace(event, run="seen") for event in story.events]
    [published] = [event for event in seen if event.event == "publish" and event.publisher == "bob"]
    report = replace(published, run="reported", node="broker", event="crossed", index=0)
    # A subscriber that got it with that word is enough.
    flagged = [
        replace(event, detail="crossed") if (event.event, event.node, event.seq) == ("deliver", "yan", 1) else event
        for event in (replace(event, run="flagged") for event in seen)
    ]
    write_parquet_trace(tmp_path, [*seen, *(replace(event, run="reported") for event in seen), report, *flagged])
    found = audit(spark, tmp_path)
    assert found.runs["seen"].faults["total"] == 1
    assert found.runs["reported"].ok
    assert found.runs["flagged"].ok
    assert check(flagged).ok
    assert check([event for event in [*seen, report] if event.run == "seen"]).faults["total"] == 1
    assert check([*(replace(event, run="reported") for event in seen), report]).ok


# ------------------------------------------------------------------------------------------------------- malformed


def test_a_malformed_line_is_named(spark: SparkSession, tmp_path: Path):
    file = write_trace(tmp_path, busy_day())
    lines = file.read_bytes().splitlines(keepends=True)
    lines[40] = lines[40].replace(b'"seq":', b'"sequence":')
    file.write_bytes(b"".join(lines))
    with pytest.raises(TraceError, match=r"trace\.jsonl:41: column 'seq' is missing"):
        audit(spark, tmp_path)


def test_a_parquet_trace_without_a_column_is_refused_before_anything_is_read(spark: SparkSession, tmp_path: Path):
    table = pa.table(arrow_columns(busy_day()), schema=ARROW_SCHEMA).drop_columns(["guarantee"])
    pq.write_table(table, tmp_path / "trace.parquet")
    with pytest.raises(TraceError, match="column 'guarantee' is missing"):
        audit(spark, tmp_path)


def test_a_column_of_another_type_is_named(spark: SparkSession, tmp_path: Path):
    table = pa.table(arrow_columns(busy_day()), schema=ARROW_SCHEMA)
    seqs = table.column("seq").cast(pa.string())
    pq.write_table(table.set_column(table.column_names.index("seq"), "seq", seqs), tmp_path / "trace.parquet")
    with pytest.raises(TraceError, match="column 'seq' has the type string; it should be bigint"):
        audit(spark, tmp_path)


def test_a_row_of_parquet_that_lacks_what_it_must_have_is_named(spark: SparkSession, tmp_path: Path):
    rows = [replace(event, topic="") if event.event == "publish" else event for event in busy_day()]
    write_parquet_trace(tmp_path, rows)
    with pytest.raises(TraceError, match=r"parquet, row 5: column 'topic' is missing; a row of 'publish' has"):
        audit(spark, tmp_path)


def test_a_filter_that_cannot_be_read_is_named(spark: SparkSession, tmp_path: Path):
    story = Story()
    story.subscribe("ann", "bank/#", "amount >>> 3")
    write_trace(tmp_path, story.events)
    with pytest.raises(TraceError, match="run 'run', node 'ann', index 0: column 'where' holds no legal filter"):
        audit(spark, tmp_path)
