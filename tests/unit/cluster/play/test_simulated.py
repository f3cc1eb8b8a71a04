"""Scripts in virtual time: what they do, what they expect, and how they fail."""

import pytest

from holdfast.cluster.play.simulated import SimulatedStage
from holdfast.cluster.play.words import ScriptError
from holdfast.model.trace import Event
from holdfast.simulation.checkers import check
from tests.unit.cluster.play.scripts import play

CHAIN = """
Broker a
Broker b Parent a
Broker c Parent b
Publisher p At a
Subscriber s At c
"""
TEN = CHAIN + "Subscriber s Subscribe t\nPublisher p Publish 10 OnTopic t Interval 10\n"


def test_what_is_published_arrives_and_expectations_are_met():
    played = play(TEN + "WaitQuiet\nExpect s Delivered 10\nExpect s Order p#1..10\nExpect Delivered 10\nExpect Clean\n")
    assert played.summary.ok
    assert (played.summary.expectations, played.summary.failures) == (4, [])
    assert (played.summary.published, played.summary.verdict["deliveries"]) == (10, 10)


def test_one_seed_is_one_run_and_another_seed_another_one():
    first, again, other = (play(TEN + "Crash b\nRestart b\n", seed) for seed in (1, 1, 2))
    assert (first.log, first.rows) == (again.log, again.rows)
    assert first.log != other.log


def test_an_expectation_that_is_not_met_is_told_with_its_line_and_the_script_goes_on():
    played = play(TEN + "WaitQuiet\nExpect s Delivered 9\nExpect s Delivered AtMost 9\nExpect s Delivered AtLeast 11\n")
    assert not played.summary.ok
    assert played.complaints == {
        10: "s got 10 (10 of p), and not exactly 9",
        11: "s got 10 (10 of p), and not at most 9",
        12: "s got 10 (10 of p), and not at least 11",
    }
    assert any("[10] FAILED: s got 10" in line for line in played.log)


def test_an_expectation_before_anything_waited_says_that_a_wait_is_missing():
    played = play(TEN + "Wait 35\nExpect s Delivered 10\n")
    assert played.complaints[10].startswith("s got 3 (3 of p), and not exactly 10 (nothing has waited since line 8 ")


@pytest.mark.parametrize(
    ("order", "complaint"),
    [
        ("p#1..10", ""),
        ("p#1..9", "s got p#10, too, as its message 10"),
        ("p#1..11", "s got 10 messages, and then not p#11"),
        ("p#2 p#1", "s got p#1 as its message 1, and not p#2"),
    ],
)
def test_an_order_is_exactly_what_came(order: str, complaint: str):
    assert play(TEN + f"WaitQuiet\nExpect s Order {order}\n").complaints.get(10, "") == complaint


def test_deliveries_are_counted_by_client_topic_and_publisher():
    more = "Publisher q At b\nSubscriber s Subscribe u/#\nPublisher q Publish 4 OnTopic u/x\n"
    more += "Publisher p Publish 2 OnTopic u/y\n"
    counts = "Expect s Delivered 4 From q\nExpect s Delivered 2 OnTopic u/+ From p\nExpect s Delivered 6 OnTopic u/#\n"
    played = play(TEN + more + "WaitQuiet\n" + counts + "Expect s Delivered 16\nExpect Delivered 10 OnTopic t\n")
    assert played.summary.ok, played.complaints


def test_virtual_time_passes_while_the_script_waits_and_publications_go_on_meanwhile():
    played = play(TEN + "Wait 42\nCrash p\nWaitQuiet\nExpect s Delivered 5\n")
    assert played.summary.ok, played.complaints


def test_a_crash_without_tolerance_is_not_quiet_and_the_line_says_who_waits():
    played = play(TEN + "Wait 45\nCrash b\nWaitQuiet 20s\n")
    assert "not quiet after 20 s" in played.complaints[11]
    assert not played.summary.ok


def test_a_crash_with_a_tolerance_loses_nothing_and_the_tree_is_whole_again():
    played = play("Tolerance 1\n" + TEN + "Wait 45\nCrash b\nWaitQuiet\nExpect s Delivered 10\nExpect b Down\n")
    assert played.summary.ok, played.complaints
    assert check(played.rows).ok


def test_a_frozen_broker_is_frozen_until_it_goes_on():
    script = "Tolerance 1\n" + TEN + "Freeze b\nWait 3s\nExpect b Frozen\nExpect b Down\nUnfreeze b\nWaitQuiet\n"
    played = play(script + "Expect b Ready\nExpect s Order p#1..10\n")
    assert played.complaints == {13: "b is frozen"}


def test_a_subscriber_that_crashed_is_owed_nothing_and_the_trace_says_so():
    played = play(TEN + "Subscriber s2 At b\nSubscriber s2 Subscribe t\nWait 30\nCrash s2\nWaitQuiet\nExpect Clean\n")
    assert played.summary.ok, (played.complaints, played.summary.verdict)
    assert check(played.rows).ok
    assert any("s2 crashes" in line for line in played.log)


def test_a_loss_is_found_where_there_is_one(monkeypatch: pytest.MonkeyPatch):
    kept = SimulatedStage.rows

    async def lossy(stage: SimulatedStage) -> list[Event]:
        rows = await kept(stage)
        return [row for row in rows if (row.event, row.seq) != ("deliver", 4)]

    monkeypatch.setattr(SimulatedStage, "rows", lossy)
    played = play(
        TEN + "WaitQuiet\nExpect NoLoss\nExpect NoDuplicates\nExpect Order fifo\nExpect Clean\nExpect Broken\n"
    )
    assert sorted(played.complaints) == [10, 13]
    assert played.complaints[10].startswith("the audit finds 1 lost: s never delivered p#4 on topic t")


def test_a_script_that_shows_a_broken_promise_says_so():
    played = play(TEN + "WaitQuiet\nExpect Broken\n")
    assert played.complaints == {10: "the audit finds every promise kept"}


def test_a_partition_stands_until_it_is_healed():
    script = "Tolerance 1\n" + CHAIN + "Subscriber s Subscribe t\nPart a b\nPublisher p Publish 3 OnTopic t\nWait 3s\n"
    played = play(script + "Expect s Delivered 0\nHeal\nWaitQuiet\nExpect s Order p#1..3\nExpect Clean\n")
    assert played.summary.ok, played.complaints


def test_clients_may_come_while_the_cluster_runs():
    played = play(
        TEN + "WaitQuiet\nSubscriber late At a\nSubscriber late Subscribe t\nPublisher p Publish 2 OnTopic t\n"
    )
    assert played.summary.verdict["deliveries"] == 14
    assert "late subscribes to t" in " ".join(played.log)


def test_a_line_that_is_typed_too_late_is_refused_and_the_cluster_goes_on():
    with pytest.raises(ScriptError, match="the cluster runs since line 7"):
        play(TEN + "Broker d Parent c\n")


@pytest.mark.parametrize("policy", ["flooding", "filtering"])
def test_a_site_does_without_one_of_its_brokers_and_waits_for_a_majority(policy: str):
    sites = f"Protocol sesdad\nRoutingPolicy {policy}\nOrdering fifo\nSite a\nSite b Parent a\nSite c Parent b\n"
    script = sites + "Publisher p At a\nSubscriber s At c\nSubscriber s Subscribe /IST/*\n"
    script += "Publisher p Publish 20 OnTopic /IST/MEIC Interval 10\nWait 55\nCrash b.1\nWaitQuiet\n"
    played = play(
        script + "Expect s Order p#1..20\nExpect b.1 Down\nRestart b.1\nWaitQuiet\nExpect b.1 Ready\nExpect Clean\n"
    )
    assert played.summary.ok, played.complaints


def test_brokers_of_sites_stand_where_they_stand_on_processes():
    script = (
        "Protocol sesdad\nSite a\nSite b Parent a\nSubscriber s At b\nWaitQuiet\nExpect a.1 Root\nExpect a.2 Root\n"
    )
    assert play(script + "Expect b.1 Root\n").complaints == {7: "a.2 is ready, below a.1", 8: "b.1 is ready, below a.1"}


@pytest.mark.parametrize("protocol", ["ginger", "cbcast", "barriers", "delta-neighbourhood", "locamu"])
def test_every_protocol_plays_the_same_script(protocol: str):
    played = play(f"Protocol {protocol}\nOrdering fifo\n{TEN}WaitQuiet\nExpect s Order p#1..10\nExpect Clean\n")
    assert played.summary.ok, played.complaints


def test_a_broker_is_ready_and_may_be_the_root():
    played = play(
        "Tolerance 1\n" + CHAIN + "Expect a Root\nExpect b Ready\nExpect b Root\nCrash a\nExpect b Root Within 9s\n"
    )
    assert played.complaints == {10: "b is ready, below a"}
