"""A report as files."""

import csv
from pathlib import Path

import msgspec

from holdfast.experiments.experiment import ExperimentReport, Figure, PaperClaim, ReportTable
from holdfast.experiments.reports import cell_text, csv_text, markdown, write_report

TABLE = ReportTable("t", "Latency", ("who", "ms"), (("a, b", 1.5), ("c", None)))
DETAIL = ReportTable("d", "Everything", ("x",), ((1,),), detail=True)
REPORT = ExperimentReport(
    "Title",
    (TABLE, DETAIL),
    (Figure("f", "A drawing", "<svg/>"),),
    (
        PaperClaim("figure 1", "up.", "down.", False, "gravity."),
        PaperClaim("figure 2", "left.", "left.", True, "unused."),
    ),
    ("lost 3\nto see it again: holdfast",),
)


def test_everything_is_written_and_named(tmp_path: Path):
    rows = [{"n": 1}, {"n": 2}]
    written = write_report(tmp_path / "new" / "out", REPORT, rows)
    assert {path.name for path in written} == {"t.csv", "d.csv", "d.parquet", "f.svg", "rows.jsonl", "report.md"}
    assert all(path.is_file() for path in written)
    lines = (tmp_path / "new" / "out" / "rows.jsonl").read_text().splitlines()
    assert [msgspec.json.decode(line) for line in lines] == rows


def test_a_table_can_be_read_back_from_its_file():
    assert list(csv.reader(csv_text(TABLE).splitlines())) == [["who", "ms"], ["a, b", "1.5"], ["c", ""]]


def test_the_page_shows_drawings_tables_differences_and_complaints():
    page = markdown(REPORT)
    assert "![A drawing](f.svg)" in page
    assert "| who | ms |\n| --- | --- |\n| a, b | 1.5 |\n| c |  |" in page
    assert "figure 1, differs. The thesis: up. Here: down.\n  Why: gravity." in page
    assert "lost 3\nto see it again: holdfast" in page


def test_a_reason_is_given_only_for_a_difference_and_details_are_not_shown():
    page = markdown(REPORT)
    assert "unused" not in page
    assert "Everything" not in page


def test_figures_are_as_short_as_they_say_something():
    assert [cell_text(one) for one in (None, "x", 1234, 1234.5, 37.5, 50.0)] == [
        "",
        "x",
        "1,234",
        "1,234",
        "37.5",
        "50",
    ]
