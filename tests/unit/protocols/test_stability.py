"""What is kept, and when it may be forgotten (docs/repair.md, invariants, traps 4 to 6)."""

from random import Random

import pytest

from holdfast.model.batches import Batch, make_batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import Levels
from holdfast.protocols.stability import StabilityLog


def batch(publisher: str, seq: int = 1) -> Batch:
    return make_batch(publisher, seq, "t", 2, [b"x"])


def log_with(levels: int, *peers: str) -> StabilityLog:
    log = StabilityLog(levels)
    for peer in peers:
        log.link(peer)
    return log


def passed(log: StabilityLog, one: Batch, came_from: str, *to: str) -> None:
    record = log.append(one)
    log.came(record, came_from)
    for peer in to:
        log.went(record, peer)


def test_a_record_is_kept_until_the_neighbour_that_it_went_to_says_the_level():
    log = log_with(1, "a", "b")
    passed(log, batch("p"), "a", "b")
    log.on_levels("a", Levels((0, 0), (1, 1)))
    log.on_levels("b", Levels((1, 0), (0, 0)))
    log.survey()
    assert len(log) == 1
    log.on_levels("b", Levels((1, 1), (0, 0)))
    log.survey()
    assert len(log) == 0


def test_a_record_is_kept_until_the_neighbour_that_it_came_from_says_the_level():
    # Trap 6: stability that looks only downstream forgets what the upstream broker died in the middle of passing on.
    log = log_with(1, "a", "b")
    passed(log, batch("p"), "a", "b")
    log.on_levels("b", Levels((1, 1), (0, 0)))
    log.survey()
    assert len(log) == 1
    log.on_levels("a", Levels((0, 0), (1, 1)))
    log.survey()
    assert len(log) == 0


def test_a_later_record_is_not_stable_before_an_earlier_one():
    # Trap 4: y is stable on its own links, but it is the bridge between x, which is not, and what follows y.
    log = log_with(1, "a", "b", "c")
    passed(log, batch("x"), "a", "b")
    passed(log, batch("y"), "a", "c")
    log.on_levels("c", Levels((1, 1), (0, 0)))
    log.on_levels("a", Levels((0, 0), (2, 2)))
    said = log.survey()
    assert said["c"].went == (1, 0)
    assert len(log) == 2
    log.on_levels("b", Levels((1, 1), (0, 0)))
    log.survey()
    assert len(log) == 0


def test_what_waits_is_not_stable_whatever_its_neighbours_say():
    log = log_with(1, "a", "b")
    record = log.append(batch("p"), pending=True)
    log.came(record, "a")
    log.asked(record, "b")
    log.on_levels("a", Levels((0, 0), (1, 1)))
    log.on_levels("b", Levels((1, 1), (0, 0)))
    assert log.survey()["a"].came == (1, 0)
    log.released(record)
    log.survey()
    assert len(log) == 0


def test_nothing_is_said_twice_unless_it_may_have_been_lost():
    log = log_with(1, "a")
    assert log.survey() == {"a": Levels((0, 0), (0, 0))}
    assert log.survey() == {}
    log.say_again("a")
    assert log.survey() == {"a": Levels((0, 0), (0, 0))}


def test_with_two_levels_a_record_is_kept_for_the_neighbours_of_neighbours():
    log = log_with(2, "a", "b")
    passed(log, batch("p"), "a", "b")
    log.on_levels("a", Levels((0, 0, 0), (1, 1, 1)))
    log.on_levels("b", Levels((1, 1, 0), (0, 0, 0)))
    log.survey()
    assert len(log) == 1
    log.on_levels("b", Levels((1, 1, 1), (0, 0, 0)))
    log.survey()
    assert len(log) == 0


def test_what_concerned_a_dead_parent_is_owed_to_the_new_one_in_the_same_order():
    log = log_with(1, "old", "b")
    passed(log, batch("x"), "old", "b")
    passed(log, batch("y"), "b", "old")
    records = log.relabel("old", "new")
    assert [(record.record_id, record.outs["new"], record.received_from) for record in records] == [
        (("x", 1), 1, "new"),
        (("y", 1), 2, ""),
    ]
    assert "old" not in log.flows


def test_a_request_keeps_the_place_where_it_was_sent():
    # Trap 14: q goes up, then the request for m; m comes back later as received. q went by before the request.
    log = log_with(1, "up", "c")
    passed(log, batch("q"), "c", "up")
    request = log.append(batch("m"), pending=True)
    log.asked(request, "up")
    passed(log, batch("z"), "c", "up")
    log.released(request)
    log.came(request, "up")
    assert [(record.record_id[0], after) for record, after in log.history("up")] == [("q", 0), ("z", 1), ("m", 1)]


def test_bytes_are_counted_down_again():
    log = log_with(1, "a")
    passed(log, batch("p"), "a")
    assert log.bytes > 0
    log.unlink("a")
    log.survey()
    assert log.bytes == 0


def test_a_total_record_is_not_forgotten_before_what_was_processed_before_its_release():
    # t is asked for, x passes, t is released: t stands behind x, though it was in the log before it.
    log = log_with(1, "a", "b")
    total = log.append(make_batch("t", 1, "t", TOTAL, [b""]), pending=True)
    passed(log, batch("x"), "a", "b")
    log.released(total)
    log.renumber(total)
    log.survey()
    assert [record.record_id for record in log.records()] == [("x", 1), ("t", 1)]
    log.on_levels("a", Levels((0, 0), (1, 1)))
    log.on_levels("b", Levels((1, 1), (0, 0)))
    log.survey()
    assert len(log) == 0
    assert log.bytes == 0


def test_a_record_may_turn_out_to_be_of_a_longer_batch():
    log = log_with(1, "a")
    record = log.append(batch("p"))
    log.change(record, make_batch("p", 1, "t", 2, [b"x", b"y"]))
    assert record.batch.count == 2
    assert log.bytes == record.batch.cost_bytes


def test_what_was_merely_received_is_told_from_what_was_sent():
    log = log_with(1, "a")
    passed(log, batch("r"), "a")
    log.went(log.append(batch("s")), "a")
    own = log.append(batch("o"))
    log.asked(own, "a")
    log.came(own, "a")
    assert [(record.record_id[0], after) for record, after in log.history("a")] == [("r", 1), ("s", 1), ("o", 2)]


def test_a_request_that_came_is_not_a_record_that_was_received():
    log = log_with(1, "asker", "wanting")
    asked = log.append(batch("p"), pending=True)
    log.came(asked, "asker", request=True)
    assert not asked.was_received("asker")
    assert asked.was_only_requested("asker")
    # It came: whoever died with it had passed it on to us, and asked for nothing behind it.
    assert [after for _, after in log.history("asker")] == [1]
    log.went(asked, "asker")
    assert not asked.was_only_requested("asker")
    log.came(asked, "asker")
    assert asked.was_received("asker")


def test_that_only_a_request_has_gone_by_is_known_to_whoever_takes_the_place_of_the_asker():
    log = log_with(1, "asker")
    asked = log.append(batch("p"), pending=True)
    log.came(asked, "asker", request=True)
    log.relabel("asker", "next")
    log.relabel("next", "the one after")
    assert asked.was_only_requested("the one after")
    assert not asked.was_received("the one after")


def test_what_a_link_is_used_for_is_told_from_what_was_handed_over_when_it_was_opened():
    log = log_with(1, "parent", "client")
    passed(log, batch("p"), "parent", "client")
    log.begin("parent")
    passed(log, batch("p", 2), "parent", "client")
    assert log.inherited("parent") == 1
    assert log.inherited("client") == 2
    log.relabel("parent", "grandparent")
    assert log.inherited("grandparent", instead=True) == 1
    assert log.inherited("grandparent") == 2


@pytest.mark.parametrize("peers", [("a", "b", "c"), tuple("abcdefghijklmnopqrst")])
def test_a_log_that_need_not_be_walked_says_the_same_as_one_that_is(peers: tuple[str, ...]):
    chance = Random(7)
    skipping, walked = log_with(1, *peers), log_with(1, *peers)
    said = {peer: ([0, 0], [0, 0]) for peer in peers}
    for number in range(1, 400):
        source = chance.choice(peers)
        to = [peer for peer in peers if peer != source and chance.random() < 0.7]
        for log in (skipping, walked):
            passed(log, batch("p", number), source, *to)
        # A record that is found a second time, in no place in particular, makes this log one that is walked.
        walked.place(walked.append_unplaced(batch("q", number)), "nobody", 1)
        peer = chance.choice(peers)
        flow = skipping.flows[peer]
        came, went = said[peer]
        for level in (0, 1):
            came[level] = chance.randint(came[level], flow.sent)
            went[level] = chance.randint(went[level], flow.received)
        for log in (skipping, walked):
            log.on_levels(peer, Levels((came[0], min(came)), (went[0], min(went))))
        assert list(skipping.survey().items()) == list(walked.survey().items())
    assert 0 < len(skipping) <= 400


def visits_of_fan_out(clients: int) -> int:
    """How many flows and positions are looked at while so many clients acknowledge a message one after the other."""
    names = [f"c{number:04}" for number in range(clients)]
    log = log_with(1, "publisher", *names)
    log.survey()
    log.visits = 0
    passed(log, batch("p"), "publisher", *names)
    [record] = log.records()
    log.survey()
    log.on_levels("publisher", Levels((0, 0), (1, 1)))
    for reached in ((1, 0), (1, 1)):
        for name in names:
            log.on_levels(name, Levels(reached, (0, 0)))
            log.survey()
    assert len(log) == 0
    assert record.passed_on is not None
    assert record.everywhere is not None
    return log.visits + record.passed_on.visits + record.everywhere.visits


def test_a_fan_out_costs_each_client_a_constant_number_of_visits():
    assert visits_of_fan_out(100) <= 100 * 8
    assert visits_of_fan_out(1000) <= 1000 * 8


def test_a_survey_looks_at_the_flow_that_has_grown_and_not_at_a_thousand_others():
    log = log_with(1, *(f"c{number}" for number in range(1000)))
    log.survey()
    log.visits = 0
    log.link("newcomer")
    assert list(log.survey()) == ["newcomer"]
    log.came(None, "c7")
    assert log.survey() == {"c7": Levels((1, 1), (0, 0))}
    assert log.visits == 2


def test_a_request_that_came_back_is_owed_as_a_request_and_not_as_a_message():
    log = log_with(1, "up")
    asked, later = log.append(make_batch("p", 1, "t", TOTAL, [b"x"]), pending=True), log.append(batch("q"))
    log.asked(asked, "up")
    log.went(later, "up")
    log.came(asked, "up", request=True)
    log.released(asked)
    log.renumber(asked)
    assert asked.was_only_requested("up")
    assert log.history("up") == [(later, 0), (asked, 2)]
