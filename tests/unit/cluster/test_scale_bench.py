"""The rows of the bench of scale: figures, goals, and which parts are measured."""

import pytest

from holdfast.cluster.bench import scale
from holdfast.cluster.bench.scale import ScaleRow, at_most, compared, rounded, run_scale
from holdfast.model.errors import ConfigError


def test_a_row_says_whether_its_goal_is_met():
    assert at_most("fan-out", 19.96, "µs", 20) == ScaleRow("fan-out", 20.0, "µs", "≤ 20", met=True)
    assert at_most("fan-out", 20.04, "µs", 20) == ScaleRow("fan-out", 20.0, "µs", "≤ 20", met=False)
    assert compared("fan-out to ten", 7.123, "µs") == ScaleRow("fan-out to ten", 7.12, "µs")


def test_figures_keep_the_digits_that_count():
    assert [rounded(figure) for figure in (0.012345, 46.04, 12345.6)] == [0.0123, 46.0, 12346.0]


def test_rows_are_handed_over_as_they_come_and_progress_ends_at_its_total(monkeypatch):
    rows = [compared("one", 1, "s"), compared("two", 2, "s")]
    monkeypatch.setattr(scale, "parts", lambda: {"connections": lambda _quick: iter(rows)})
    seen: list[ScaleRow] = []
    phases: list[tuple[str, int, int]] = []
    result = run_scale(quick=True, progress=lambda *phase: phases.append(phase), found=seen.append)
    assert result.rows == seen == rows
    assert phases[-1] == ("connections", 2, 2)


def test_a_part_that_is_not_there_is_refused_with_the_names_of_those_that_are(monkeypatch):
    monkeypatch.setattr(scale, "parts", lambda: {"connections": lambda _quick: iter(())})
    with pytest.raises(ConfigError, match="try connections"):
        run_scale(only="nonsense")
