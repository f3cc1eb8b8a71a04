"""A report as files: a CSV for each table, an SVG for each drawing, all rows as JSON lines, and a page of Markdown.

Tables that are for programs are written as Parquet, too.
"""

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec

from holdfast.experiments.experiment import Cell, ExperimentReport, ReportTable
from holdfast.model.errors import ConfigError

PAGE, ROWS = "report.md", "rows.jsonl"


def write_report(directory: Path, report: ExperimentReport, rows: Sequence[Any]) -> list[Path]:
    """Write everything into the directory, which is made if need be; returns what was written."""
    texts = {f"{table.name}.csv": csv_text(table) for table in report.tables}
    texts |= {f"{figure.name}.svg": figure.svg for figure in report.figures}
    texts[ROWS] = "".join(map(row_line, rows))
    texts[PAGE] = markdown(report)
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (directory / name).write_text(text)
    details = [table for table in report.tables if table.detail and table.rows]
    written = [_write_parquet(directory / f"{table.name}.parquet", table) for table in details]
    return [*(directory / name for name in texts), *written]


def _write_parquet(path: Path, table: ReportTable) -> Path:
    # Only whoever writes a report waits until this is loaded.
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    columns = zip(*table.rows, strict=True)
    parquet.write_table(pa.table(dict(zip(table.columns, map(list, columns), strict=True))), path)
    return path


def row_line(row: Any) -> str:
    """A row as one line of JSON, its newline included."""
    return msgspec.json.encode(row).decode() + "\n"


class RowLog:
    """The rows of a run that may be interrupted: each is on disk as soon as it is there, and can be read back.

    A line that was cut off by the interruption is not a row, and is dropped.
    """

    def __init__(self, directory: Path, row_kind: type[Any], resume: bool) -> None:
        self.path = directory / ROWS
        self.rows = self._read(row_kind) if resume and self.path.exists() else []
        directory.mkdir(parents=True, exist_ok=True)
        self.path.write_text("".join(map(row_line, self.rows)))

    def _read(self, row_kind: type[Any]) -> list[Any]:
        lines = self.path.read_text().splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines.pop()
        try:
            return [msgspec.json.decode(line.encode(), type=row_kind) for line in lines]
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"{self.path} holds other rows than those of this experiment ({error}); choose another directory, or "
                "leave out --resume to begin anew."
            ) from None

    def add(self, row: Any) -> None:
        with self.path.open("a") as file:
            file.write(row_line(row))


def csv_text(table: ReportTable) -> str:
    """The table with its columns in the first line; what is unknown is empty."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return out.getvalue()


def markdown(report: ExperimentReport) -> str:
    """The whole report as one page, with links to its drawings."""
    parts = [f"# {report.title}", *([report.remark] if report.remark else [])]
    parts += [f"![{figure.title}]({figure.name}.svg)" for figure in report.figures]
    parts += [_goals_text(report)] if report.goals else []
    parts += [_claims_text(report)] if report.claims else []
    parts += [f"## {table.title}\n\n{markdown_table(table)}" for table in report.tables if not table.detail]
    parts += [f"## Broken\n\n```\n{complaint}\n```" for complaint in report.broken]
    return "\n\n".join(parts) + "\n"


def goal_word(met: bool | None) -> str:
    return "not measured" if met is None else "met" if met else "missed"


def _goals_text(report: ExperimentReport) -> str:
    lines = tuple((one.title, one.wanted, one.ours, goal_word(one.met)) for one in report.goals)
    return "## Goals\n\n" + markdown_table(ReportTable("goals", "Goals", ("", "wanted", "here", ""), lines))


def _claims_text(report: ExperimentReport) -> str:
    source = report.source
    lines = [f"## Beside the {source}", ""]
    for claim in report.claims:
        word = f"as in the {source}" if claim.agrees else "differs"
        lines.append(f"- {claim.figure}, {word}. The {source}: {ended(claim.says)} Here: {ended(claim.ours)}")
        if claim.why and not claim.agrees:
            lines.append(f"  Why: {claim.why}")
    return "\n".join(lines)


def ended(words: str) -> str:
    """The words as a sentence among others."""
    return words if words.endswith((".", "!", "?")) else f"{words}."


def markdown_table(table: ReportTable) -> str:
    """The table as Markdown knows it."""
    return "\n".join(_lines(table))


def _lines(table: ReportTable) -> Iterator[str]:
    yield f"| {' | '.join(table.columns)} |"
    yield f"|{' --- |' * len(table.columns)}"
    for row in table.rows:
        yield f"| {' | '.join(map(cell_text, row))} |"


def cell_text(cell: Cell) -> str:
    """A cell for people: figures with thousands apart, from 100 on without a fraction."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 or cell == int(cell) else f"{cell:g}"
    return f"{cell:,}" if isinstance(cell, int) else cell
