"""The demonstration as a person starts it, to the page at its end."""

import json
import subprocess
import sys
from pathlib import Path

LIMIT_S = 400
"""A bound for a machine that is busy, not a claim."""


def test_a_demonstration_ends_with_a_page_that_shows_the_verdict_of_spark(tmp_path: Path):
    report = tmp_path / "report"
    command = [sys.executable, "-m", "holdfast", "demo", "--operations", "10", "--interval-ms", "1", "--calm"]
    where = ["--report", str(report), "--master", "local[1]"]
    ran = subprocess.run([*command, *where], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"open {report / 'report.html'}" in ran.stdout
    assert "WARN" not in ran.stderr
    assert "Every promise was kept: 130 deliveries" in (report / "report.html").read_text()
    summary = json.loads((report / "summary.json").read_text())
    assert (summary["ok"], summary["audit"]["deliveries"]) == (True, summary["deliveries"])
