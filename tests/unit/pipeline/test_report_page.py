"""The page of a report: what it says of a run that went well and of one that did not."""

import re
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest

from holdfast.model.verdicts import Verdict
from holdfast.pipeline.report import with_audit
from holdfast.pipeline.report_drawings import (
    balances_drawing,
    diverged,
    hops_drawing,
    latency_drawing,
    load_drawing,
    timeline_drawing,
)
from holdfast.pipeline.report_findings import (
    BrokerRepair,
    Fault,
    Rate,
    ReplicaFindings,
    ReportFindings,
    Spread,
    interval_s,
)
from holdfast.pipeline.report_page import page
from tests.unit.pipeline.ran import findings, summary

AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def drawings(text: str) -> list[ET.Element]:
    """Every drawing of a page; one that is malformed is an error."""
    return [ET.fromstring(one) for one in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


def words(drawing: str) -> list[str]:
    return [one.text or "" for one in ET.fromstring(drawing).iter("text")]


def test_a_page_says_what_ran_and_draws_all_of_it():
    made = page(findings(), AT)
    assert "Every promise was kept: 40 deliveries" in made
    assert "3 brokers and 2 bank replicas" in made
    assert "written 2026-01-02 03:04 UTC with Holdfast 1, Python 3, Spark 4" in made
    labels = [drawing.attrib["aria-label"].partition(",")[0] for drawing in drawings(made)]
    assert labels == [
        "0 is the root",
        "1 is the root",
        "How long deliveries took",
        "How long deliveries took",
        "Deliveries that each broker had to do with",
        "Deliveries per second",
        "Balances of bank at every replica",
    ]


def test_a_page_is_whole_by_itself_and_the_same_every_time():
    made = page(findings(), AT)
    assert not re.search(r"<script|<link|<img|@import|url\(|https?:", made)
    assert made == page(findings(), AT)


def test_a_broken_promise_is_in_the_title_the_table_and_the_examples():
    verdict = Verdict(39, lost=1, examples=["bob never delivered <alice#3>"])
    made = page(findings(summary=with_audit(summary(), verdict), verdict=verdict), AT)
    assert "A promise was broken" in made
    assert 'class="banner broken"' in made
    assert re.search(r'<tr class="fault"><td class="text">lost</td><td>1</td>', made)
    assert "bob never delivered &lt;alice#3&gt;" in made


@pytest.mark.parametrize(("verdict", "ok"), [(Verdict(40), True), (Verdict(40, total=2), False), (Verdict(39), False)])
def test_a_run_is_in_order_only_if_both_judges_say_so_and_counted_everything(verdict: Verdict, ok: bool):
    judged = with_audit(summary(), verdict)
    assert (judged.ok, judged.audit) == (ok, verdict.as_dict())


def test_a_calm_run_has_one_tree_and_speaks_of_no_faults():
    calm = summary(kills=[], kill_times_ns=[], repairs=[], trees=summary().trees[:1])
    made = page(findings(summary=calm, faults=[], repairs=[]), AT)
    assert "SIGKILL" not in made
    assert "after the repairs" not in made
    assert len(drawings(made)) == 6


def test_a_run_of_which_nothing_is_known_still_has_a_page():
    bare = ReportFindings(summary(trees=[]), Verdict(), [], 1.0, [], [], [], [], [], {})
    assert drawings(page(bare, AT)) == []


# ---------------------------------------------------------------------------------------------------------- drawings


def test_ways_are_drawn_by_their_length_and_brokers_by_what_they_carried():
    made = findings()
    lines = [word for word in words(hops_drawing(made.hops)) if "broker" in word]
    assert lines == ["1 broker", "2 brokers", "3 brokers"]
    assert "36 of 40 deliveries" in page(made, AT)
    bars = [bar for bar in ET.fromstring(load_drawing(made.loads)).iter("rect") if bar.attrib["height"] == "18.0"]
    wide = {(bar[0].text or "").partition(":")[0]: float(bar.attrib["width"]) for bar in bars}
    assert wide["broker 1"] > wide["broker 2"] > wide["broker 0"]


def test_latencies_stand_on_an_axis_of_factors_from_weak_to_strong():
    said = words(latency_drawing(findings().spreads))
    assert [one for one in said if one in {"causal", "total", "tree whole", "under repair"}] == [
        *("causal", "tree whole"),
        *("causal", "under repair"),
        *("total", "tree whole"),
    ]
    assert [one for one in said if one[:1].isdigit()] == ["0.1", "1", "10", "100", "1,000"]
    assert any("milliseconds" in one for one in said)


def test_a_latency_of_nothing_is_drawn_at_the_edge():
    assert "0.001" in words(latency_drawing([Spread("causal", "calm", 1, 0, 0, 0, 0, 0, 0, 0)]))


def test_the_timeline_names_who_was_killed_and_who_repaired():
    drawing = timeline_drawing(
        [Rate(0.0, 5.0, 10.0), Rate(1.0, 5.0, 10.0)],
        1.0,
        [Fault("0", "root", 0.5, 120.0), Fault("9", "", 1.9, None)],
        [BrokerRepair("1", "0", 0.55, 0.6), BrokerRepair("2", "0", 0.55, None)],
    )
    said = words(drawing)
    assert "✕ broker 0 (root), 120 ms" in said
    assert "✕ broker 9" in said
    assert [one for one in said if one.startswith("broker ")] == ["broker 1", "broker 2"]
    assert {"50 ms", "not ended", "per second", "seconds since the first publication"} <= {*said}


def test_an_account_on_which_replicas_differ_is_marked():
    right, wrong = (
        ReplicaFindings("bank", "a", 1, 0, {"X": 1, "Y": 2}),
        ReplicaFindings("bank", "b", 1, 0, {"X": 1, "Y": 3}),
    )
    assert diverged([right, wrong]) == {"Y"}
    assert words(balances_drawing([right, wrong])).count("✕") == 1
    assert words(balances_drawing([right, right])).count("✕") == 0
    assert "the replicas differ on 1 account" in page(findings(replicas=[right, wrong]), AT)


def test_intervals_are_as_wide_as_a_drawing_can_show():
    assert [interval_s(seconds) for seconds in (0.0, 2.0, 5.0, 60.0, 1e6)] == [0.02, 0.02, 0.05, 1.0, 60.0]
