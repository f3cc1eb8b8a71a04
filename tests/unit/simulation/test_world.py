"""A whole simulated cluster: the timetable, running until quiet, clients, and what can be asked afterwards."""

import re

import pytest

from holdfast.model.errors import ConfigError, FilterError, TopicError
from holdfast.model.guarantees import GuaranteeError
from holdfast.model.messages import Frame, Ping
from holdfast.protocols.config import BrokerConfig, ClientConfig, LinkConfig
from holdfast.protocols.node import Effects, Report, Send, SetTimer
from holdfast.protocols.registry import ProtocolError
from holdfast.simulation.faults import (
    Attach,
    Command,
    Confirm,
    Crash,
    Cut,
    Detach,
    Freeze,
    Heal,
    Publish,
    React,
    Reset,
    Stop,
    Subscribe,
    Unsubscribe,
    When,
)
from holdfast.simulation.world import NotQuiet, Simulation
from tests.unit.simulation.toys import Talker, Toy, hello, toy, toys

# ------------------------------------------------------------------------------------------------ the driver's duties


def test_a_node_is_settled_at_the_end_of_each_instant_in_which_something_was_handed_to_it():
    class Burst(Toy):
        def peer_up(self, peer: str, now: float) -> Effects:
            return [*super().peer_up(peer, now), *(Send(peer, Ping(n)) for n in (1, 2, 3))]

    sim = toys("0-1", Burst)
    sim.run_for(1.0)
    assert toy(sim, "0").when("from 1") == [0.003] * 4
    assert (toy(sim, "0").settled, toy(sim, "1").settled) == (2, 2), "after the start, and after what came"


def test_invariants_are_checked_after_every_entry_point_if_asked_for():
    sim = toys("0-1", Talker, check_invariants=True)
    sim.run_for(1.0)
    node = toy(sim, "0")
    assert node.checked == 1 + len(node.diary) + node.settled
    unchecked = toys("0-1", Talker)
    unchecked.run_for(1.0)
    assert toy(unchecked, "0").checked == 0


def test_a_broken_invariant_names_the_node_the_time_and_the_way_to_see_it_again():
    class Broken(Toy):
        def check_invariants(self) -> None:
            assert not self.diary, "two and two are five"

    with pytest.raises(AssertionError, match="two and two are five") as caught:
        toys("0-1", Broken, check_invariants=True, replay="press play").run_for(1.0)
    assert caught.value.__notes__ == [
        "in node 1 at 0.002000000 s",
        "at 0.002000000 s of virtual time; to see it again: press play",
    ]


def test_clocks_of_different_nodes_have_nothing_to_do_with_each_other():
    sim = toys("0-1 0-2")
    sim.run_for(0.1)
    assert len({toy(sim, name).began for name in "012"}) == 3


def test_a_timer_that_is_set_again_or_cancelled_fires_once_or_never():
    class Timed(Toy):
        def start(self, now: float) -> Effects:
            self.began = now
            return [SetTimer("a", 0.5), SetTimer("a", 1.0), SetTimer("b", 0.2)]

    sim = toys("0", Timed)
    sim.run_for(5.0)
    assert toy(sim, "0").diary == [(0.2, "timer", "b"), (1.0, "timer", "a")]


# ------------------------------------------------------------------------------------------------------------- quiet


def test_quiet_is_when_only_heartbeats_are_left():
    class Beating(Toy):
        def receive(self, peer: str, frame: Frame, now: float) -> Effects:
            super().receive(peer, frame, now)
            return [SetTimer(f"beat {peer}", 0.1)]

        def timer(self, name: str, now: float) -> Effects:
            super().timer(name, now)
            return [Send(name.removeprefix("beat "), Ping(1)), SetTimer(name, 0.1)]

    sim = toys("0-1", Beating)
    sim.run_until_quiet(limit_s=10)
    assert sim.now < 3.0


def test_the_timetable_has_to_be_done_before_it_is_quiet():
    sim = toys("0-1")
    sim.at(20.0, Crash("0"))
    sim.run_until_quiet(limit_s=60)
    assert sim.now > 20.0
    assert toy(sim, "1").when("down")


def test_the_calm_begins_after_the_last_thing_that_happened_however_long_nothing_had_happened_before_it():
    class Late(Toy):
        def peer_down(self, peer: str, now: float) -> Effects:
            return [*super().peer_down(peer, now), SetTimer("afterwards", 0.9)]

    sim = toys("0-1", Late)
    sim.at(20.0, Crash("0"))
    sim.run_until_quiet(limit_s=60)
    assert toy(sim, "1").when("timer")


def test_who_waits_is_named_when_the_limit_passes():
    sim = toys("0-1", replay="holdfast simulate x.toml")
    sim.run_for(0.1)
    toy(sim, "1").waits.append("the bus")
    with pytest.raises(NotQuiet) as caught:
        sim.run_until_quiet(limit_s=7)
    assert str(caught.value) == (
        "not quiet after 7 s of virtual time (now 7.100 s)\n"
        "  1 waits for the bus\n"
        "to see it again: holdfast simulate x.toml"
    )


def test_a_timetable_that_goes_on_past_the_limit_is_not_quiet():
    sim = toys("0")
    sim.at(100.0, Crash("0"))
    with pytest.raises(NotQuiet, match="1 entries of the timetable are still to come"):
        sim.run_until_quiet(limit_s=5)


def test_a_frozen_node_with_input_is_not_quiet():
    sim = toys("0-1")
    sim.at(0.001, Freeze("0"))
    with pytest.raises(NotQuiet, match="0 waits for frozen, with 1 inputs queued up"):
        sim.run_until_quiet(limit_s=5)


def test_who_says_something_now_and_then_is_not_quiet_even_when_nothing_is_under_way():
    class Remembering(Toy):
        def peer_up(self, peer: str, now: float) -> Effects:
            return [*super().peer_up(peer, now), SetTimer("by the way", 0.6)]

        def timer(self, name: str, now: float) -> Effects:
            super().timer(name, now)
            return [Send("0", hello(self.name)), SetTimer(name, 0.6)]

    with pytest.raises(NotQuiet):
        toys("0-1", Remembering).run_until_quiet(limit_s=20)


def test_nodes_that_chatter_for_ever_are_not_quiet():
    class Chatter(Toy):
        def receive(self, peer: str, frame: Frame, now: float) -> Effects:
            super().receive(peer, frame, now)
            return [Send(peer, frame)]

    with pytest.raises(NotQuiet, match="nobody says that it waits, but frames keep going to and fro"):
        toys("0-1", Chatter).run_until_quiet(limit_s=5)


# -------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("command", "error", "complaint"),
    [
        (Publish("alice@9", "t"), ConfigError, "client 'alice@9': write name@broker, with one of the brokers 0, 1"),
        (Publish("alice", "t"), ConfigError, "client 'alice': write name@broker"),
        (Publish("1@0", "t"), ConfigError, "1 is the name of a broker"),
        (Publish("bob@1", "t"), ConfigError, "bob is at broker 0 already"),
        (Publish("bob", "a/+"), TopicError, "wildcard"),
        (Publish("bob", "t", guarantee="best"), GuaranteeError, "unknown guarantee 'best'"),
        (Subscribe("bob", "a//b"), TopicError, "empty level"),
        (Subscribe("bob", "a", where="n >"), FilterError, "n >"),
        (React("bob", "#/x", "t"), TopicError, "goes on after '#'"),
        (Crash("7"), ConfigError, "there is no broker or client '7'; there are 0, 1, bob"),
        (Cut("0", "zoe"), ConfigError, "there is no broker or client 'zoe'"),
        (When("0", "Ping", Crash("8")), ConfigError, "'8'"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_put_on_the_timetable(
    command: Command, error: type[Exception], complaint: str
):
    sim = Simulation("0-1")
    sim.at(0.0, Subscribe("bob@0", "x"))
    with pytest.raises(error, match=re.escape(complaint)):
        sim.at(1.0, command)


def test_the_past_cannot_be_put_on_the_timetable():
    sim = Simulation("0")
    sim.run_for(5.0)
    with pytest.raises(ConfigError, match=r"it is 5.0 s already"):
        sim.at(1.0, Crash("0"))


def test_an_unknown_protocol_is_refused_with_the_known_ones():
    with pytest.raises(ProtocolError, match="choose one of ginger"):
        Simulation("0", "gingerbread")


def test_asking_for_a_client_that_is_not_there_says_who_is():
    sim = Simulation("0")
    sim.at(0.0, Subscribe("bob@0", "x"))
    with pytest.raises(ConfigError, match="there is no client 'eve@0'; there are bob"):
        sim.delivered("eve@0")


# -------------------------------------------------------------------------------------------- clients, with `ginger`


def test_what_is_published_while_cut_off_arrives_after_the_heal():
    sim = Simulation(tree="0-1 0-2 1-3", protocol="ginger", seed=7, check_invariants=True)
    sim.at(0.0, Subscribe("bob@2", "orders"))
    sim.at(1.0, Cut("1", "0"))
    sim.at(2.0, Publish("alice@3", "orders", b"a", guarantee="causal"))
    sim.at(9.0, Heal())
    sim.run_until_quiet(limit_s=60)
    assert sim.delivered("bob@2", "orders") == [b"a"]
    assert sim.check().ok


def test_deliveries_are_whole_messages_and_can_be_asked_for_by_topic():
    sim = Simulation("0-1")
    sim.at(0.0, Subscribe("bob@1", "#"))
    sim.at(1.0, Publish("alice@0", "a", b"1", "total", ("k",), {"n": 5}))
    sim.at(2.0, Publish("alice@0", "b", b"2"))
    sim.run_until_quiet()
    assert (sim.delivered("bob"), sim.delivered("bob@1", "b")) == ([b"1", b"2"], [b"2"])
    [first, _] = sim.deliveries("bob")
    assert (first.publisher, first.seq, first.keys, first.attributes) == ("alice", 1, ("k",), {"n": 5})


def test_a_confirmed_command_is_among_the_completed():
    sim = Simulation("0-1")
    subscribe, unsubscribe, confirm = Subscribe("bob@1", "a"), Unsubscribe("bob@1", "a"), Confirm("bob@1", "a")
    sim.at(0.0, subscribe)
    sim.at(1.0, unsubscribe)
    sim.at(2.0, Publish("bob@1", "a"))
    sim.at(2.0, confirm)
    sim.run_until_quiet()
    assert sim.completed("bob") == [subscribe, unsubscribe, confirm]
    assert sim.failures() == []


def test_what_did_not_work_out_is_among_the_failures():
    sim = Simulation("0")
    sim.at(0.0, Confirm("bob@0", "a"))
    sim.at(1.0, Detach("bob@0"))
    sim.at(2.0, Publish("bob@0", "a"))
    sim.run_until_quiet()
    first, second = sim.failures("bob")
    assert "bob has published nothing on a that could be confirmed" in first
    assert "the client is down" in second


@pytest.mark.parametrize(("crash_s", "over"), [(0.0, True), (1.0, False)], ids=["before", "after"])
def test_a_client_whose_one_broker_dies_before_it_was_let_in_was_promised_nothing(crash_s: float, over: bool):
    sim = Simulation("0")
    sim.at(0.0, Subscribe("bob@0", "t"))
    sim.at(crash_s, Crash("0"))
    sim.run_for(60.0)
    assert (sim.client("bob").over, sim.failures() == []) == (over, over)


def test_a_client_comes_when_it_is_attached_and_may_come_again():
    sim = Simulation("0-1")
    sim.at(0.0, Subscribe("bob@0", "a"))
    sim.at(3.0, Attach("late@1"))
    sim.at(3.0, Publish("late@1", "a", b"1"))
    sim.at(4.0, Detach("late@1"))
    sim.at(6.0, Attach("late@1"))
    sim.at(6.0, Publish("late@1", "a", b"2"))
    sim.run_for(2.0)
    assert not sim.host("late").up
    sim.run_until_quiet()
    assert sim.delivered("bob") == [b"1", b"2"]
    assert [message.seq for message in sim.deliveries("bob")] == [1, 2]


def test_a_client_that_is_first_named_in_the_midst_of_a_run_comes_then():
    sim = Simulation("0-1")
    sim.at(0.0, Subscribe("bob@0", "a"))
    sim.run_until_quiet()
    sim.at(sim.now, Publish("alice@1", "a", b"1"))
    sim.run_until_quiet()
    assert sim.delivered("bob") == [b"1"]


def test_reactions_follow_what_they_react_to_as_often_as_they_may():
    sim = Simulation("0-1 0-2")
    sim.at(0.0, Subscribe("bob@1", "a"))
    sim.at(0.0, Subscribe("eve@2", "#"))
    sim.at(0.0, React("bob@1", "a", "b", b"answer", times=2))
    for number in range(4):
        sim.at(1.0 + number, Publish("alice@0", "a", b"question"))
    sim.run_until_quiet()
    assert sim.delivered("eve", "b") == [b"answer"] * 2
    assert sim.delivered("eve")[:2] == [b"question", b"answer"]


def test_hooks_see_every_delivery_and_can_put_more_on_the_timetable():
    sim = Simulation("0")
    seen = []

    def hook(message: object) -> None:
        seen.append(message)
        if len(seen) < 3:
            sim.at(sim.now + 0.5, Publish("bob@0", "a", b"again"))

    sim.on_deliver("bob@0", hook)
    sim.at(0.0, Subscribe("bob@0", "a"))
    sim.at(1.0, Publish("bob@0", "a", b"once"))
    sim.run_until_quiet()
    assert sim.deliveries("bob") == seen
    assert len(seen) == 3


def test_a_slow_subscriber_holds_its_messages_up_and_nobody_elses():
    link = LinkConfig(window_bytes=1000)
    sim = Simulation("0", broker=BrokerConfig("*", link=link), client=ClientConfig("*", link=link))
    sim.client("slow@0").consume_s = 0.1
    for name in ("slow@0", "quick@0"):
        sim.at(0.0, Subscribe(name, "a"))
    for number in range(100):
        sim.at(1.0 + number / 1000, Publish("alice@0", "a", b"%03d" % number))
    sim.run_until_quiet()
    expected = [b"%03d" % number for number in range(100)]
    assert sim.delivered("slow") == sim.delivered("quick") == expected
    assert sim.client("quick").delivered[-1][0] < 1.5
    assert 7.0 < sim.client("slow").delivered[-1][0] < 12.0


def test_publications_wait_while_too_much_is_not_accepted():
    sim = Simulation("0-1")
    sim.at(0.0, Subscribe("bob@0", "a"))
    sim.at(1.0, Cut("alice@1", "1"))
    for number in range(40):
        sim.at(2.0, Publish("alice@1", "a", bytes(100_000) + bytes([number])))
    sim.at(5.0, Heal())
    sim.run_for(4.0)
    assert 20 < len(sim.client("alice").commands) < 35
    sim.run_until_quiet()
    assert [payload[-1] for payload in sim.delivered("bob")] == list(range(40))


def test_a_stopped_broker_is_gone_after_its_goodbyes():
    class Leaving(Toy):
        def stop(self, _now: float) -> Effects:
            return [Report("stopped"), Send("1", Ping(9))]

    sim = toys("0-1", Leaving)
    sim.at(1.0, Stop("0"))
    sim.run_for(2.0)
    assert not sim.host("0").up
    assert toy(sim, "1").heard() == [9]
    assert toy(sim, "1").diary[-1] == (1.001, "down", "0")


# ----------------------------------------------------------------------------------------------------------- results


def run_with_everything(seed: int = 3) -> Simulation:
    sim = Simulation("0-1 1-2", seed=seed)
    sim.at(0.0, Subscribe("bob@2", "a"))
    for number, guarantee in enumerate(("eventual", "fifo", "causal", "total", "total")):
        sim.at(1.0 + number / 100, Publish("alice@0", "a", b"x" * number, guarantee, ("k",)))
    sim.at(1.02, Reset("0", "1"))
    sim.run_until_quiet()
    return sim


def test_the_trace_has_each_nodes_history_with_virtual_times():
    events = run_with_everything().events
    mine = [event for event in events if event.node == "bob"]
    assert [event.index for event in mine] == list(range(len(mine)))
    assert [event.event for event in mine] == ["attach", "subscribe", *["deliver"] * 5]
    assert {event.run for event in events} == {"ginger-3"}
    published = [event.time for event in events if event.event == "publish"]
    assert published == [1_000_000_000 + 10_000_000 * number for number in range(5)]
    assert [event.time for event in events] == sorted(event.time for event in events)


def test_the_trace_can_be_read_before_the_end_and_goes_on_where_it_was():
    whole = run_with_everything().events
    sim = Simulation("0-1 1-2", seed=3)
    sim.at(0.0, Subscribe("bob@2", "a"))
    for number, guarantee in enumerate(("eventual", "fifo", "causal", "total", "total")):
        sim.at(1.0 + number / 100, Publish("alice@0", "a", b"x" * number, guarantee, ("k",)))
    sim.at(1.02, Reset("0", "1"))
    sim.run_for(1.015)
    assert 0 < len(sim.events) < len(whole)
    sim.run_until_quiet()
    assert sim.events == whole


def test_faults_are_in_the_trace_under_the_nodes_name():
    sim = toys("0-1")
    sim.at(0.5, Crash("1"))
    sim.run_for(1.0)
    assert [(event.node, event.time, event.event) for event in sim.events] == [("1", 500_000_000, "crash")]


def test_the_summary_counts_what_happened_and_how_long_messages_took():
    sim = run_with_everything()
    summary = sim.summary()
    assert (summary["published"], summary["deliveries"]) == (5, 5)
    assert summary["virtual_s"] == sim.now
    assert summary["events"] == sim.kernel.events > 50
    frames = summary["frames"]
    assert isinstance(frames, dict)
    # The root has all subscribers below it: what is published there turns at once.
    assert "Climb" not in frames
    assert frames["Publish"] >= 3
    latency = summary["latency_ms"]
    assert isinstance(latency, dict)
    assert {name: figures["count"] for name, figures in latency.items()} == {
        "eventual": 1,
        "fifo": 1,
        "causal": 1,
        "total": 2,
    }
    assert latency["eventual"]["p50"] == latency["eventual"]["max"] > 2.0
    assert latency["total"]["p50"] <= latency["total"]["p99"] == latency["total"]["max"]


def test_different_seeds_make_different_runs():
    assert run_with_everything(3).events != run_with_everything(4).events
