"""Ctrl-C while Spark starts: nothing is left behind."""

import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest

from holdfast.pipeline import session


def test_an_interrupt_while_spark_starts_stops_what_was_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    steps: list[str] = []

    def start(*_: Any) -> str:
        signal.raise_signal(signal.SIGINT)
        steps.append("started")
        return "spark"

    monkeypatch.setattr(session, "_start", start)
    monkeypatch.setattr(session, "_stop", lambda spark: steps.append(f"stopped {spark}"))
    monkeypatch.setattr(session, "_depth", 0)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), session.spark_session():
        steps.append("used")
    assert steps == ["started", "stopped spark"]
    assert signal.getsignal(signal.SIGINT) is before
    assert list(tmp_path.iterdir()) == []
