"""The end of a demonstration: Spark judges its trace and writes a page that a person opens.

proved = prove(summary, Path("report"))
proved.page, proved.verdict
"""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, structs
from pyspark import StorageLevel

from holdfast.cluster.demo import PAGE, DemoSummary, write_summary
from holdfast.model.verdicts import Verdict
from holdfast.pipeline.audit import audit
from holdfast.pipeline.errors import spoken_plainly
from holdfast.pipeline.report_findings import gather
from holdfast.pipeline.report_page import page
from holdfast.pipeline.session import LOCAL_MASTER, spark_session
from holdfast.pipeline.trace_frames import read_events

SHUFFLE_PARTITIONS = 2
"""What people start by hand and look at is small; a demonstration of millions still fits two tasks."""

Progress = Callable[[str, int, int], None]


class Proof(Struct, frozen=True):
    """What Spark found, the summary with it, and the page that shows it."""

    summary: DemoSummary
    verdict: Verdict
    page: Path


def _silent(phase: str, done: int, total: int) -> None:
    """Shows nothing."""


def prove(summary: DemoSummary, directory: Path, master: str = LOCAL_MASTER, progress: Progress = _silent) -> Proof:
    """Judge the demonstration that left its trace and recordings in `directory`, and write the page beside them."""
    settings = {"spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS)}
    progress("Spark starts", 0, 1)
    with spoken_plainly(), spark_session(master, quick=True, settings=settings) as spark:
        progress("Spark starts", 1, 1)
        events = read_events(spark, directory / "trace").persist(StorageLevel.MEMORY_AND_DISK)
        verdict = audit(spark, events, progress=_titled("Spark audit", progress)).verdict
        progress("report", 0, 1)
        findings = gather(spark, events, with_audit(summary, verdict), verdict, directory)
    file = directory / PAGE
    file.write_text(page(findings), encoding="utf-8")
    write_summary(findings.summary, directory)
    progress("report", 1, 1)
    return Proof(findings.summary, verdict, file)


def _titled(title: str, progress: Progress) -> Progress:
    return lambda _, done, total: progress(title, done, total)


def with_audit(summary: DemoSummary, verdict: Verdict) -> DemoSummary:
    """The summary with Spark's verdict; it is in order only if both judges say so and counted the same."""
    complete = verdict.deliveries == summary.deliveries_expected
    return structs.replace(summary, ok=summary.ok and verdict.ok and complete, audit=verdict.as_dict())
