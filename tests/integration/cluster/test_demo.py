"""The demonstration on real processes: a small one to its end, and ones that are cut short."""

import json
import os
import signal
from pathlib import Path

from tests.integration.cluster.terminal import Terminal, eventually, press_ctrl_c, processes_that_mention


def test_a_small_demonstration_ends_with_all_zeros(terminal: Terminal):
    report = terminal.directory / "report"
    report.mkdir()
    (report / "report.html").write_text("of an earlier run")
    ran = terminal.run("demo", "--operations", 20, "--interval-ms", 1, "--calm", "--no-spark")
    assert ran.returncode == 0, ran.stderr
    assert "out of order: total" in ran.stdout
    assert not (report / "report.html").exists()
    summary = json.loads((report / "summary.json").read_text())
    assert (summary["ok"], summary["replicas_equal"]) == (True, True)
    assert (summary["brokers"], summary["clients"], summary["messages"]) == (8, 5, 100)
    # Three clients share one bank and two the other: each publication reaches every replica of its bank.
    assert summary["deliveries"] == 20 * (3 * 3 + 2 * 2)
    assert [one["guarantee"] for one in summary["latencies"]] == ["eventual", "causal", "total"]
    audit = terminal.run("audit", "report/trace", "--json")
    assert (audit.returncode, json.loads(audit.stdout)["deliveries"]) == (0, summary["deliveries"])
    assert processes_that_mention(str(report)) == []


def test_brokers_that_are_killed_on_the_way_cost_nobody_a_message(terminal: Terminal):
    ran = terminal.run("demo", "--operations", 150, "--no-spark")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "From kill -9 to the next delivery" in ran.stdout
    summary = json.loads((terminal.directory / "report" / "summary.json").read_text())
    assert summary["kills"] == ["1", "0"]
    # On a busy machine everything may be published, though not delivered, before the second one is killed.
    repaired = [(one["broker"], one["role"]) for one in summary["repairs"]]
    assert repaired in ([("1", "inner")], [("1", "inner"), ("0", "root")])
    assert summary["deliveries"] == 150 * (3 * 3 + 2 * 2)


def test_a_loss_planted_in_the_trace_of_a_demonstration_is_found(terminal: Terminal):
    assert terminal.run("demo", "--operations", 5, "--interval-ms", 0, "--calm", "--no-spark").returncode == 0
    trace = terminal.directory / "report" / "trace" / "c2.jsonl"
    lines = trace.read_text().splitlines(keepends=True)
    # The closing takes subscriptions back, and is no part of what is judged: nothing would be owed after it.
    assert not any('"unsubscribe"' in line for line in lines)
    deliveries = [number for number, line in enumerate(lines) if '"deliver"' in line]
    assert len(deliveries) == 10
    for number in (deliveries[0], deliveries[-1]):
        trace.write_text("".join(lines[:number] + lines[number + 1 :]))
        audit = terminal.run("audit", "report/trace", "--json")
        found = json.loads(audit.stdout)
        assert (audit.returncode, found["ok"], found["lost"], found["deliveries"]) == (1, False, 1, 64)


def test_a_cluster_file_can_be_demonstrated_too(terminal: Terminal, chain: Path):
    flags = ("--interval-ms", 0, "--json", "--report", "here", "--no-spark")
    ran = terminal.run("demo", chain, "--operations", 10, *flags)
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)
    assert (summary["ok"], summary["brokers"], summary["deliveries"]) == (True, 3, 40)
    assert json.loads((terminal.directory / "here" / "summary.json").read_text()) == summary


def _well_under_way(report: Path) -> bool:
    traces = list((report / "trace").glob("c?.jsonl"))
    return len(traces) == 5 and all(b'"publish"' in trace.read_bytes() for trace in traces)


def test_ctrl_c_ends_a_demonstration_and_leaves_no_process(terminal: Terminal):
    report = terminal.directory / "report"
    demo = terminal.start("demo", "--operations", 100_000, "--report", report, "--calm")
    assert eventually(lambda: _well_under_way(report))
    assert len(processes_that_mention(str(report))) >= 13
    code, out, err = press_ctrl_c(demo)
    assert (code, out) == (130, "")
    assert "Traceback" not in err
    assert processes_that_mention(str(report)) == []


def test_a_demonstration_that_is_killed_takes_its_processes_with_it(terminal: Terminal):
    report = terminal.directory / "report"
    demo = terminal.start("demo", "--operations", 100_000, "--report", report, "--calm")
    assert eventually(lambda: _well_under_way(report))
    os.kill(demo.pid, signal.SIGKILL)
    assert eventually(lambda: processes_that_mention(str(report)) == [])


def test_a_report_that_cannot_be_written_is_refused_before_anything_starts(terminal: Terminal):
    (terminal.directory / "file").write_text("")
    ran = terminal.run("demo", "--report", "file/report")
    assert ran.returncode == 2
    assert ran.stderr == "holdfast: the report cannot be written to file/report: Not a directory.\n"
