"""Parts of a broker of a site, each by itself: streams, numbers of lanes, hold-back, states that count, delays."""

from holdfast.model.batches import Batch, make_batch
from holdfast.model.guarantees import EVENTUAL, FIFO
from holdfast.model.site_messages import Announce, Announced, Change, Pending
from holdfast.protocols.routing import RoutingTable
from holdfast.protocols.sesdad.announcements import Announcements
from holdfast.protocols.sesdad.desk import Desk
from holdfast.protocols.sesdad.holdback import HoldBack
from holdfast.protocols.sesdad.retransmission import Delays, Questions
from holdfast.protocols.sesdad.routes import Routes
from holdfast.protocols.sesdad.sequence_maps import Entry, Lane
from holdfast.protocols.sesdad.sites import Picker
from holdfast.protocols.sesdad.streams import Stream, Unit


def batch(first: int, count: int = 1, guarantee: int = FIFO, topic: str = "t") -> Batch:
    return make_batch("p", first, topic, guarantee, [b"x"] * count)


def unit(number: int, count: int = 1, version: int = 0) -> Unit:
    return Unit(number, batch(number, count), "a.1", {"a.1": version})


def test_a_unit_waits_for_those_before_it_and_for_f_others():
    stream = Stream("", "p")
    assert stream.add(unit(2))
    assert stream.missing() == (1, 1)
    assert stream.add(unit(1))
    assert stream.prefix == 2
    assert stream.ready(1, "a.1", 0) is None
    stream.note_mark("a.2", 1, 0)
    ready = stream.ready(1, "a.1", 0)
    assert ready is not None
    assert ready.number == 1


def test_a_unit_that_somebody_holds_since_a_later_promise_waits_for_that_state():
    stream = Stream("", "p")
    stream.add(unit(1))
    stream.units[1].holders["a.2"] = 5
    assert stream.ready(1, "a.1", 4) is None
    assert stream.ready(1, "a.1", 5) is not None


def test_what_a_broker_said_to_have_before_we_had_it_counts():
    stream = Stream("", "p")
    stream.note_mark("a.2", 3, 0)
    assert stream.missing() == (1, 3)
    stream.add(unit(1, count=3))
    assert stream.ready(1, "a.1", 0) is not None


def test_a_stream_begins_behind_a_later_number_when_that_is_confirmed():
    stream = Stream("", "p")
    stream.pending.append(Pending(7, 101, Change("b", "p|1", 1, number=100)))
    stream.add(unit(101))
    assert (stream.beginning, stream.prefix, stream.highest) == (100, 0, 101)
    assert stream.begin()
    assert (stream.beginning, stream.prefix, stream.missing()) == (100, 101, None)
    assert not stream.begin()


def test_a_processed_unit_is_kept_until_all_that_are_there_have_it():
    stream = Stream("", "p")
    stream.add(unit(1))
    stream.processed(stream.units[1])
    stream.trim(["a.2", "a.3"])
    assert 1 in stream.units
    stream.note_mark("a.2", 1, 0)
    stream.trim(["a.2"])
    assert not stream.units


def test_a_lane_numbers_by_itself_and_maps_back():
    lane = Lane("b", "", "p")
    lane.append(batch(4), "a.1", 4)
    lane.append(batch(9, count=2), "a.2", 10)
    assert [(entry.number, entry.last) for entry in lane.kept] == [(1, 1), (2, 3)]
    assert (lane.inbound(1), lane.inbound(3)) == (4, 10)
    assert [entry.number for entry in lane.between(3, 9)] == [2]
    lane.acknowledge(1)
    assert [entry.number for entry in lane.kept] == [2]


def test_numbers_of_a_lane_are_never_lowered_by_what_another_broker_tells():
    lane = Lane("b", "", "p")
    for number in range(1, 4):
        lane.append(batch(number), "a.1", number)
    lane.restore(2, 0)
    assert lane.next == 4
    lane.put_back(Entry(2, batch(2), "a.1", 2))
    assert [entry.number for entry in lane.kept] == [1, 2, 3]


def test_what_was_acknowledged_before_it_was_numbered_here_is_not_kept():
    lane = Lane("b", "", "p")
    lane.acknowledge(1)
    lane.append(batch(1), "a.1", 1)
    lane.append(batch(2), "a.1", 2)
    assert [entry.number for entry in lane.kept] == [2]


def test_a_subscriber_holds_back_what_is_early_but_for_eventual_messages():
    queue = HoldBack()
    assert queue.take(3, batch(3)) == []
    early = batch(2, guarantee=EVENTUAL)
    assert queue.take(2, early) == [early]
    assert queue.missing() == (1, 1)
    first = batch(1)
    assert [one.first for one in queue.take(1, first)] == [1, 3]
    assert queue.take(2, early) == []
    assert queue.prefix == 3
    assert not queue.has_gap


def test_a_change_does_not_count_for_a_stream_that_has_not_come_to_its_number():
    routes = Routes()
    change = Change("s", "c|1", 1, "t", "")
    assert routes.apply(change) == [change]
    assert list(routes.takers(batch(1), [])) == ["c|1"]
    assert list(routes.takers(batch(1), [Pending(1, 5, change)])) == []
    assert routes.done == {"c|1": 1}


def test_delays_follow_round_trips_unless_they_are_set():
    delays = Delays()
    before = delays.request_s
    for _ in range(20):
        delays.sample(0.001)
    assert delays.request_s < before
    assert delays.notify_s == 2 * delays.request_s
    assert (Delays(1.5, 3.0).request_s, Delays(1.5, 3.0).notify_s) == (1.5, 3.0)


def test_a_question_that_is_not_answered_in_time_is_asked_elsewhere():
    questions = Questions()
    serial = questions.ask("a.1", 1.0)
    assert not questions.overdue(0.5)
    assert questions.answered(serial, 1.2) is not None
    questions.ask("a.1", 2.0)
    assert questions.overdue(2.0)
    assert not questions.lost("a.1")


def test_draws_are_spread_over_all_brokers():
    picker = Picker(7)
    drawn = [picker.pick(["a", "b", "c"]) for _ in range(300)]
    assert all(70 < drawn.count(name) < 130 for name in "abc")


def test_what_an_earlier_designated_broker_of_a_site_announces_counts_for_nothing_behind_a_later_ones():
    submitted: list[Change] = []
    desk = Desk(Announcements("a", [], lambda _site, _message: None), submitted.extend, lambda _peer, _message: None)
    later, earlier = Announce("b", 1, 1, True, (("t", ""),)), Announce("b", 0, 1, True, ())
    desk.announced("a.1", later, Routes(), 0)
    desk.announced("a.2", earlier, Routes(), 0)
    desk.announced("a.2", later, Routes(), 0)
    assert submitted == [Change("n", "b", 1 << 32 | 1)]
    assert [one.what for one in desk.expand(submitted[0], Routes())] == ["a", "n"]


def test_a_request_is_not_taken_before_the_one_before_it_which_nobody_has_heard():
    submitted: list[Change] = []
    desk = Desk(Announcements("a", [], lambda _site, _message: None), submitted.extend, lambda _peer, _message: None)
    first, second = (Change("s", "c|1", token, "t") for token in (1, 2))
    desk.ask("a.1", second, 1, Routes(), 0)
    assert submitted == []
    desk.ask("a.1", first, 0, Routes(), 0)
    desk.ask("a.1", second, 1, Routes(), 0)
    assert submitted == [first, second]


def test_a_request_is_taken_behind_one_that_is_done():
    submitted: list[Change] = []
    desk = Desk(Announcements("a", [], lambda _site, _message: None), submitted.extend, lambda _peer, _message: None)
    routes, second = Routes(), Change("s", "c|1", 2, "t")
    routes.apply(Change("s", "c|1", 1, "u"))
    desk.ask("a.1", second, 1, routes, 0)
    assert submitted == [second]


def test_a_table_of_another_broker_is_announced_where_it_differs():
    said: list[Announce] = []
    announcements, table = Announcements("a", ["b"], lambda _site, message: said.append(message)), RoutingTable()
    table.add("t", "", "c|1")
    announcements.begin(1, table, 1)
    announcements.on_announced("b", Announced("a", 1, 1), table)
    table = RoutingTable()
    table.add("u", "", "c|1")
    announcements.replaced(table, 2)
    assert (said[-1].wanted, said[-1].unwanted) == ((("u", ""),), (("t", ""),))
    assert not announcements.known_everywhere(2, "")
