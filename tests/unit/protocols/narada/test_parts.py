"""The parts of which participants are made: buffers, tables, trackers, and the choice of a repository."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.batches import Batch, make_batch
from holdfast.model.reliable import Entry
from holdfast.protocols.narada.backlog import Backlog
from holdfast.protocols.narada.chains import Chain, Place
from holdfast.protocols.narada.config import SteeringConfig
from holdfast.protocols.narada.events import (
    GIVEN_UP,
    MESSAGES,
    SKIPPED,
    ProbeReply,
    Row,
    catenation,
    decode,
    encode,
    life_of,
    number_of,
)
from holdfast.protocols.narada.fingerprints import fingerprint
from holdfast.protocols.narada.message_buffer import MessageBuffer
from holdfast.protocols.narada.released_messages import ReleasedMessages
from holdfast.protocols.narada.rows import RowTable
from holdfast.protocols.narada.steering import Steering
from holdfast.protocols.narada.topics import bundle_topic, inbox_topic


def _batch(first: int, *payloads: bytes) -> Batch:
    return make_batch("alice", first, "orders", 1, payloads)


# ------------------------------------------------------------------------------------------------------------- events


def test_a_catenation_number_holds_a_life_and_a_count():
    cat = catenation((1 << 31) - 1, 7)
    assert (life_of(cat), number_of(cat)) == ((1 << 31) - 1, 7)
    assert catenation(1, 1) > catenation(0, (1 << 32) - 1)
    assert cat < 1 << 63


def test_communication_topics_have_one_level_for_each_name():
    assert bundle_topic("bank/#") == "~narada/bank%2F%23/bundle"
    assert inbox_topic("a%b", "c+d") == "~narada/a%25b/to/c%2Bd"


@given(st.binary(max_size=200))
def test_nonsense_is_no_event(nonsense: bytes):
    event = decode(nonsense)
    assert event is None or decode(encode(event)) == event


@given(st.lists(st.binary(max_size=5), min_size=2, max_size=8), st.data())
def test_a_fingerprint_is_that_of_the_messages_whatever_they_were_cut_out_of(payloads: list[bytes], data):
    first = data.draw(st.integers(1, len(payloads)))
    last = data.draw(st.integers(first, len(payloads)))
    part = _batch(1, *payloads).part(first, last)
    assert fingerprint(part) == fingerprint(_batch(first, *payloads[first - 1 : last]))


# ------------------------------------------------------------------------------------------------------------- pieces


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=6), st.lists(st.integers(1, 4), min_size=1, max_size=6), st.data()
)
def test_what_was_ordered_is_found_however_it_arrived(arrived: list[int], ordered: list[int], data):
    payloads = [b"%d" % number for number in range(sum(arrived))]
    whole = _batch(1, *payloads)
    pieces, at = MessageBuffer(1 << 20), 1
    batches = []
    for count in arrived:
        batches.append(whole.part(at, at + count - 1))
        at += count
    for batch in data.draw(st.permutations(batches)):
        pieces.add(batch)
    at = 1
    for count in ordered:
        wanted = payloads[at - 1 : at - 1 + count]
        if len(wanted) < count:
            break
        taken = pieces.take("alice", at, count, fingerprint(_batch(at, *wanted)))
        assert taken is not None
        assert taken.payload_list() == wanted
        at += count
    assert pieces.bytes >= 0


def test_what_says_something_else_is_not_taken_and_what_does_not_fit_goes():
    pieces = MessageBuffer(150)
    pieces.add(_batch(1, b"old"))
    assert pieces.take("alice", 1, 1, fingerprint(_batch(1, b"new"))) is None
    pieces.add(_batch(2, b"x" * 30))
    pieces.add(_batch(3, b"y" * 30))
    assert pieces.dropped == 2
    assert not pieces.has("alice", 1)
    assert pieces.has("alice", 3)


# --------------------------------------------------------------------------------------------------------------- rows


def test_rows_that_continue_each_other_are_one_and_are_found_both_ways():
    table = RowTable(8)
    table.add(Row(1, 2, "alice", catenation(1, 1)))
    table.add(Row(3, 3, "alice", catenation(1, 3)))
    table.add(Row(6, 1, "bob", catenation(1, 1)))
    assert len(table) == 2
    assert table.places_of("alice", catenation(1, 2), catenation(1, 4)) == [(catenation(1, 2), 2, 3)]
    assert [(row.first, row.publisher) for row in table.between(4, 9)] == [(4, "alice"), (6, "bob")]


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 6)), max_size=12))
def test_a_table_knows_each_number_once_whatever_overlaps(rows: list[tuple[int, int]]):
    table, known = RowTable(1000), set()
    for first, count in rows:
        table.add(Row(first, count, "alice", catenation(1, first)))
        known |= set(range(first, first + count))
    found = [number for row in table.between(1, 100) for number in range(row.first, row.last + 1)]
    assert found == sorted(known)
    assert all(row.cat == catenation(1, row.first) for row in table.between(1, 100))


def test_at_the_bound_the_lowest_go_or_the_highest_if_the_lowest_are_needed():
    for needed_from, kept in ((1 << 62, [2, 3]), (1, [1, 2])):
        table = RowTable(2)
        table.needed_from = needed_from
        for number, name in ((1, "a"), (2, "b"), (3, "c")):
            table.add(Row(number, 1, name, catenation(1, 1)))
        assert [first for first, _ in table.ranges()] == kept


def test_what_was_lost_takes_the_place_of_what_was_told():
    table = RowTable(8)
    table.add(Row(1, 10, "alice", catenation(1, 1)))
    table.add(Row(4, 3, "", 0, SKIPPED))
    assert [(row.first, row.last, row.kind) for row in table.between(1, 10)] == [
        (1, 3, MESSAGES),
        (4, 6, SKIPPED),
        (7, 10, MESSAGES),
    ]


# ------------------------------------------------------------------------------------------------------------- chains


def test_places_are_cut_out_and_what_is_left_stays():
    chain = Chain("alice", 1)
    chain.set_aside(6, 10)
    assert chain.cut_out(3, 4) == [Place(3, 12, 2)]
    assert chain.places == [Place(1, 10, 2), Place(5, 14, 2)]


def test_a_chain_comes_back_from_the_store_as_it_was():
    chain = Chain("alice", 3, after=(catenation(2, 9),))
    chain.set_aside(2, 1)
    chain.top = 5
    chain.taken.add(3, 5)
    again = Chain.restored("alice", 3, chain.save())
    assert (again.top, again.places, again.after) == (5, [Place(1, 1, 2)], (catenation(2, 9),))
    assert again.stored.ranges() == [(3, 5)]


def test_copies_are_counted_by_what_others_cover():
    chain = Chain("alice", 1)
    for number in (1, 2, 3):
        chain.settled.add(number, number)
        chain.stored_at(number, 10 * number)
    assert [chain.covered(cover) for cover in (9, 10, 25, 30)] == [0, 1, 2, 3]
    chain.forget_copies(20)
    # Whoever does not cover what all the others had came later, and has nothing for certain.
    assert [chain.covered(cover) for cover in (0, 20, 30)] == [0, 2, 3]


# ----------------------------------------------------------------------------------------------------------- released


def test_what_was_released_is_known_across_restarts_and_a_gap_is_told_once():
    released = ReleasedMessages()
    released.add("alice", catenation(1, 1), 3)
    assert released.pass_over("alice", catenation(1, 4), 2) == [(catenation(1, 4), catenation(1, 5))]
    assert released.pass_over("alice", catenation(1, 4), 2) == []
    released.add("alice", catenation(1, 6), 1)
    again = ReleasedMessages()
    again.restore(released.save())
    assert again.new_part("alice", catenation(1, 1), 7) == [
        (catenation(1, 4), catenation(1, 5)),
        (catenation(1, 7), catenation(1, 7)),
    ]
    assert again.pass_over("alice", catenation(1, 4), 2) == []
    # Another repository may have what was given up at this one: it does not count as released.
    assert again.cut() == (("alice", catenation(1, 3)),)


def test_what_a_repository_says_was_had_does_not_hide_what_was_given_up():
    released, gap = ReleasedMessages(), ("alice", catenation(1, 2), catenation(1, 3))
    released.skip((("alice", catenation(1, 5)),), (gap, ("alice", catenation(2, 1), catenation(2, 1))))
    assert released.new_part("alice", catenation(1, 1), 6) == [gap[1:], (catenation(1, 6), catenation(1, 6))]
    assert released.pass_over("alice", catenation(1, 2), 2) == []  # It was told when it was passed.
    assert released.cut() == (("alice", catenation(1, 1)),)


def test_what_lies_before_the_first_that_was_seen_is_not_wanted():
    released = ReleasedMessages()
    released.add("alice", catenation(1, 10), 1)
    assert released.new_part("alice", catenation(1, 5), 6) == []


# ------------------------------------------------------------------------------------------------------------ backlog


def test_a_backlog_goes_through_its_rows_in_order_and_says_what_is_missing():
    backlog, pieces = Backlog(8, 1000), MessageBuffer(1000)
    backlog.begin(1)
    backlog.add_row(Row(3, 1, "alice", catenation(1, 2), MESSAGES, "orders", 5, 0))
    assert backlog.unknown()
    backlog.add_row(Row(1, 2, "bob", catenation(1, 1), GIVEN_UP))
    row = backlog.row()
    assert row is not None
    assert row.kind == GIVEN_UP
    backlog.advance(3)
    assert backlog.missing(pieces, 8) == [(3, 3)]
    backlog.add_entry(Entry(3, catenation(1, 2), _batch(5, b"x"), 0))
    assert backlog.missing(pieces, 8) == []
    backlog.check()


# ----------------------------------------------------------------------------------------------------------- steering


def test_the_repository_with_the_shortest_round_trip_steers_and_one_that_was_given_up_is_avoided():
    steering = Steering(SteeringConfig(), "orders", "alice")
    steering.look(0.0)
    steering.on_reply(ProbeReply("orders", "far", 1), 0.010)
    steering.on_reply(ProbeReply("orders", "near", 1), 0.012)
    steering.round_trips_s["near"] = 0.001
    steering.on_timer(0.03)
    assert steering.repository == "near"
    steering.asked(1.0)
    assert not steering.is_silent(1.1)
    assert steering.is_silent(9.0)
    steering.give_up(9.0, "silence")
    for name in ("near", "far"):
        steering.on_reply(ProbeReply("orders", name, 2), 9.01)
    steering.on_timer(9.1)
    assert steering.repository == "far"


def test_an_answer_to_an_earlier_question_counts_for_nothing():
    steering = Steering(SteeringConfig(), "orders", "alice")
    steering.look(0.0)
    steering.look(1.0)
    assert steering.on_reply(ProbeReply("orders", "r1", 1), 1.1) == []
    assert steering.looking
