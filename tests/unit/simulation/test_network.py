"""Connections between hosts: what is promised while they last, and what each fault does to them."""

import pytest

from holdfast.model.messages import Frame, Hello, Ping
from holdfast.model.wire import WireError
from holdfast.protocols.node import Connect, Disconnect, Effects, Report, Send, SetTimer
from holdfast.simulation.faults import Crash, Cut, Freeze, Heal, Recover, Reset, Slow, Thaw, When
from holdfast.simulation.latencies import Constant, Exponential
from holdfast.simulation.network import LinkSettings, NetworkConfig
from tests.unit.simulation.toys import Talker, Toy, hello, toy, toys

# With one millisecond a frame: the dialler is up at 2 ms, its hello arrives at 3 ms.
UP_S = 0.002
HELLO_S = 0.003


def test_a_connection_takes_a_round_trip_and_the_acceptor_learns_of_it_by_the_hello():
    sim = toys("0-1")
    sim.run_for(1.0)
    assert toy(sim, "1").diary == [(UP_S, "up", "0")]
    assert toy(sim, "0").diary == [(HELLO_S, "from 1", hello("1"))]


def test_frames_arrive_in_order_whatever_time_each_would_take():
    sim = toys("0-1", Talker, network=NetworkConfig(latency=Exponential(20.0)))
    sim.run_for(5.0)
    assert toy(sim, "0").heard() == list(range(1, 101))
    assert toy(sim, "1").heard() == list(range(1, 101))


def test_no_frame_takes_longer_than_the_longest_latency_whatever_is_drawn():
    def first_word_s(longest_ms: float | None) -> float:
        sim = toys("0-1", network=NetworkConfig(latency=Constant(80.0), speeds=(10.0,), latency_ms_max=longest_ms))
        sim.run_for(5.0)
        return float(toy(sim, "0").diary[0][0])

    assert first_word_s(None) == pytest.approx(2.4)
    assert first_word_s(100.0) == pytest.approx(0.3)


def test_a_connection_to_nobody_fails():
    class Lost(Toy):
        def start(self, now: float) -> Effects:
            self.began = now
            return [Connect("nowhere")]

    sim = toys("0", Lost)
    sim.run_for(10.0)
    assert toy(sim, "0").diary == [(2.0, "down", "nowhere")]


def test_a_connection_to_a_host_that_is_down_is_refused_after_a_round_trip():
    sim = toys("0-1")
    sim.at(0.0, Crash("0"))
    sim.run_for(1.0)
    assert toy(sim, "1").diary == [(0.002, "down", "0")]


def test_whoever_does_not_begin_with_a_hello_is_hung_up_on():
    class Rude(Toy):
        def peer_up(self, peer: str, now: float) -> Effects:
            super().peer_up(peer, now)
            return [Send(peer, Ping(1)), Send(peer, hello(self.name))]

    sim = toys("0-1", Rude)
    sim.run_for(1.0)
    assert toy(sim, "0").diary == []
    assert toy(sim, "1").diary == [(UP_S, "up", "0"), (0.004, "down", "0")]


def test_a_newer_connection_of_the_same_peer_replaces_the_older_which_is_reported_down_first():
    class Impatient(Toy):
        def peer_up(self, peer: str, now: float) -> Effects:
            first = not self.when("up")
            return [*super().peer_up(peer, now), *([Connect(peer)] if first else [])]

    sim = toys("0-1", Impatient)
    sim.run_for(1.0)
    assert toy(sim, "1").diary == [(UP_S, "up", "0"), (0.004, "down", "0"), (0.004, "up", "0")]
    assert [what for _, what, _ in toy(sim, "0").diary] == ["from 1", "down", "from 1"]


def test_who_disconnects_is_told_nothing_and_the_other_gets_all_that_was_sent_before_its_end():
    class Brief(Toy):
        def peer_up(self, peer: str, now: float) -> Effects:
            return [*super().peer_up(peer, now), *(Send(peer, Ping(n)) for n in (1, 2)), Disconnect(peer, "enough")]

    sim = toys("0-1", Brief, network=NetworkConfig(latency=Exponential(5.0)))
    sim.run_for(1.0)
    assert [what for _, what, _ in toy(sim, "1").diary] == ["up"]
    assert [what for _, what, _ in toy(sim, "0").diary] == ["from 1", "from 1", "from 1", "down"]


def test_whoever_gives_an_attempt_up_hears_no_more_of_it():
    class Fickle(Toy):
        def start(self, now: float) -> Effects:
            return [*super().start(now), *([Disconnect(self.parent, "no")] if self.parent else [])]

    sim = toys("0-1", Fickle)
    sim.run_for(5.0)
    assert (toy(sim, "0").diary, toy(sim, "1").diary) == ([], [])


# ------------------------------------------------------------------------------------------------- speed and size


def test_each_direction_has_its_own_factor():
    link = LinkSettings(("0", "1"), factor=3.0, back_factor=10.0)
    sim = toys("0-1", network=NetworkConfig(latency=Constant(1.0), links=(link,)))
    sim.run_for(1.0)
    # There at 10 ms, back after 3; the hello takes 10 again.
    assert toy(sim, "1").diary == [(0.013, "up", "0")]
    assert toy(sim, "0").when("from 1") == [0.023]


def test_a_slow_link_is_slow_from_that_moment_and_in_the_direction_that_was_said():
    sim = toys("0-1", Talker)
    sim.at(0.005, Slow("1", "0", 50.0, 1.0))
    sim.run_for(1.0)
    assert max(toy(sim, "0").when("from 1")) > 0.05
    assert max(toy(sim, "1").when("from 0")) < 0.02


def test_directions_draw_their_speed_once():
    sim = toys("0-1 0-2 0-3 0-4 0-5", network=NetworkConfig(latency=Constant(1.0), speeds=(1.0, 5.0)))
    sim.run_for(1.0)
    ups = {toy(sim, str(n)).when("up")[0] for n in range(1, 6)}
    assert ups <= {0.002, 0.006, 0.01}
    assert len(ups) > 1


def test_bandwidth_makes_large_frames_late_and_those_behind_them():
    class Bulky(Toy):
        def peer_up(self, peer: str, now: float) -> Effects:
            super().peer_up(peer, now)
            big = Hello(1, self.name, "broker", "x" * 100, 1, False, 0, 0)
            return [Send(peer, big), Send(peer, Ping(1))]

    sim = toys("0-1", Bulky, network=NetworkConfig(latency=Constant(1.0), bytes_per_s=1000.0))
    sim.run_for(5.0)
    size_bytes = sim.network.sent_bytes
    first, second = toy(sim, "0").when("from 1")
    assert second == pytest.approx(0.003 + size_bytes / 1000)
    assert second - first == pytest.approx(0.010)  # A ping is ten bytes on the wire.
    assert first > 0.1


def test_the_codec_check_sends_every_frame_through_the_wire_and_notices_what_it_changes():
    class Faulty(Toy):
        def peer_up(self, peer: str, now: float) -> Effects:
            return [*super().peer_up(peer, now), Send(peer, Ping(self.number))]

        number = 7

    checked = NetworkConfig(latency=Constant(1.0), codec_check=True)
    sim = toys("0-1", Faulty, network=checked)
    sim.run_for(1.0)
    assert toy(sim, "0").heard() == [7]

    Faulty.number = -1
    with pytest.raises(WireError, match="no Holdfast frame"):
        toys("0-1", Faulty, network=checked).run_for(1.0)


# ------------------------------------------------------------------------------------------------------------ cuts


def test_a_cut_holds_everything_and_after_the_heal_it_comes_in_order():
    sim = toys("0-1", Talker)
    sim.at(0.006, Cut("0", "1"))
    sim.at(0.5, Heal("1", "0"))
    sim.run_for(0.4)
    before = toy(sim, "0").heard()
    assert 0 < len(before) < 100
    assert max(toy(sim, "0").when("from 1")) <= 0.006
    sim.run_for(1.0)
    assert toy(sim, "0").heard() == toy(sim, "1").heard() == list(range(1, 101))
    assert toy(sim, "0").when("down") == []


def test_what_is_in_flight_at_the_heal_does_not_overtake_what_was_held():
    class Slowly(Talker):
        gap_s = 0.004

    sim = toys("0-1", Slowly, network=NetworkConfig(latency=Exponential(30.0)))
    for number in range(10):
        sim.at(0.1 + 0.04 * number, Cut("0", "1"))
        sim.at(0.12 + 0.04 * number, Heal())
    sim.run_for(5.0)
    assert toy(sim, "0").heard() == toy(sim, "1").heard() == list(range(1, 101))


def test_an_attempt_to_connect_through_a_cut_hangs_and_fails():
    sim = toys("0-1")
    sim.at(0.0, Cut("0", "1"))
    sim.run_for(60.0)
    assert toy(sim, "1").diary == [(2.001, "down", "0")]


def test_a_cut_in_the_middle_of_connecting_makes_it_fail_too():
    sim = toys("0-1")
    sim.at(0.0015, Cut("0", "1"))
    sim.run_for(60.0)
    assert toy(sim, "1").diary == [(2.002, "down", "0")]
    assert toy(sim, "0").diary == []


def test_the_death_of_a_host_behind_a_cut_is_heard_of_after_the_heal():
    sim = toys("0-1")
    sim.at(0.1, Cut("0", "1"))
    sim.at(0.2, Crash("0"))
    sim.at(5.0, Heal())
    sim.run_for(4.9)
    assert toy(sim, "1").when("down") == []
    sim.run_for(1.0)
    [down] = toy(sim, "1").when("down")
    assert 5.0 < down < 5.1


# ---------------------------------------------------------------------------------------------------------- resets


def reset_talk(seed: int) -> tuple[Talker, Talker]:
    # Ten pings are in flight at any time after 4 ms.
    sim = toys("0-1", Talker, seed)
    sim.at(0.008, Reset("0", "1"))
    sim.run_for(1.0)
    return toy(sim, "0"), toy(sim, "1")


def test_a_reset_loses_a_suffix_of_what_is_in_flight_each_way_and_tells_both_later():
    talks = [reset_talk(seed) for seed in range(1, 40)]
    for one, other in talks:
        for talker in (one, other):
            heard = talker.heard()
            assert heard == list(range(1, len(heard) + 1))
            [down] = talker.when("down")
            assert 0.008 < down < 0.012
            assert talker.diary[-1][1] in ("down", "timer")
            assert all(time <= down for time, what, _ in talker.diary if what.startswith("from"))
    counts = {len(one.heard()) for one, _ in talks}
    assert len(counts) > 5, "always the same number is lost"
    assert max(counts) - min(counts) >= 8, "sometimes almost nothing is lost, sometimes almost all"
    assert any(one.when("down") != other.when("down") for one, other in talks)
    assert any(len(one.heard()) - len(other.heard()) > 3 for one, other in talks), "directions are independent"


def test_a_reset_between_two_that_are_not_connected_is_nothing():
    sim = toys("0-1 0-2")
    sim.at(0.5, Reset("1", "2"))
    sim.run_for(1.0)
    assert [toy(sim, name).when("down") for name in "012"] == [[], [], []]


def test_what_is_sent_after_a_reset_and_before_it_is_noticed_is_lost():
    for seed in range(1, 20):
        one, _ = reset_talk(seed)
        # What was sent before the reset at 8 ms: one ping every 0.1 ms since 2 ms.
        assert max(one.heard(), default=0) <= 60


# --------------------------------------------------------------------------------------------------------- crashes


def test_a_crash_ends_all_connections_and_each_peer_learns_it_at_its_own_time():
    sim = toys("0-1 0-2 0-3", seed=3)
    sim.at(0.5, Crash("0"))
    sim.run_for(1.0)
    downs = [toy(sim, name).when("down")[0] for name in "123"]
    assert all(0.5 < down < 0.51 for down in downs)
    assert len(set(downs)) == 3


def test_a_host_that_crashed_does_nothing_more():
    sim = toys("0-1", Talker)
    sim.at(0.006, Crash("1"))
    sim.run_for(1.0)
    assert all(time <= 0.006 for time, _, _ in toy(sim, "1").diary)
    heard = toy(sim, "0").heard()
    assert heard == list(range(1, len(heard) + 1))
    assert len(heard) < 45


def test_a_crash_in_mid_fan_out_reaches_some_and_not_others():
    class Root(Toy):
        def receive(self, peer: str, frame: Frame, now: float) -> Effects:
            super().receive(peer, frame, now)
            if len(self.when("from 1") + self.when("from 2") + self.when("from 3")) < 3:
                return []
            return [SetTimer("fan out", 1.0)]

        def timer(self, name: str, now: float) -> Effects:
            super().timer(name, now)
            return [*(Send(peer, Ping(1)) for peer in "123"), Report("fanned out")]

    heard: set[tuple[int, ...]] = set()
    for seed in range(30):
        sim = toys("0-1 0-2 0-3", Root, seed)
        sim.at(0.5, When("0", "Ping", Crash("0"), count=2))
        sim.run_for(3.0)
        assert [report.event for _, _, report in sim.reports] == ["crash"]
        assert toy(sim, "3").heard() == []
        heard.add(tuple(len(toy(sim, name).heard()) for name in "12"))
    assert heard == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_a_recovered_host_is_a_new_node_with_a_new_incarnation():
    sim = toys("0-1")
    sim.at(0.5, Crash("1"))
    sim.at(1.0, Recover("1"))
    sim.run_for(0.7)
    before = toy(sim, "1")
    sim.run_for(1.0)
    after = toy(sim, "1")
    assert after is not before
    assert after.incarnation != before.incarnation
    assert after.diary == [(UP_S, "up", "0")]
    assert [what for _, what, _ in toy(sim, "0").diary] == ["from 1", "down", "from 1"]


def test_crashing_twice_or_recovering_the_living_changes_nothing():
    sim = toys("0-1")
    sim.at(0.5, Recover("1"))
    sim.at(0.6, Crash("0"))
    sim.at(0.7, Crash("0"))
    sim.run_for(1.0)
    assert [what for _, what, _ in toy(sim, "1").diary] == ["up", "down"]


# --------------------------------------------------------------------------------------------------------- freezes


def test_a_frozen_node_takes_nothing_in_and_gets_it_all_in_order_when_it_thaws():
    sim = toys("0-1", Talker)
    sim.at(0.005, Freeze("0"))
    sim.at(2.0, Thaw("0"))
    sim.run_for(1.0)
    assert all(time <= 0.005 for time, _, _ in toy(sim, "0").diary)
    sim.run_for(2.0)
    assert toy(sim, "0").heard() == list(range(1, 101))
    assert toy(sim, "1").heard() == list(range(1, 101))
    assert toy(sim, "0").when("down") == toy(sim, "1").when("down") == []


def test_after_a_thaw_overdue_timers_come_sometimes_before_the_input_and_sometimes_after():
    orders = set()
    for seed in range(12):
        sim = toys("0-1", Talker, seed)
        sim.at(0.005, Freeze("0"))
        sim.at(2.0, Thaw("0"))
        sim.run_for(2.5)
        orders.add(next(what for time, what, _ in toy(sim, "0").diary if time >= 2.0))
    assert orders == {"timer", "from 1"}


def test_one_can_connect_to_a_frozen_host_which_answers_later():
    sim = toys("0-1")
    sim.at(0.0, Freeze("0"))
    sim.at(1.0, Thaw("0"))
    sim.run_for(2.0)
    assert toy(sim, "1").diary == [(UP_S, "up", "0")]
    assert toy(sim, "0").diary == [(1.0, "from 1", hello("1"))]
