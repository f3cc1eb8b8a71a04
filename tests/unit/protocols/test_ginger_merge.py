"""The order of a repair: what is certain is kept, whatever is preferred (docs/repair.md)."""

from collections.abc import Sequence

import pytest

from holdfast.model.batches import Batch, make_batch
from holdfast.model.guarantees import CAUSAL, FIFO, TOTAL
from holdfast.protocols.ginger.merge import Contribution, Flag, History, Merge
from holdfast.protocols.records import RecordId


def record(name: str, guarantee: int = CAUSAL, keys: tuple[str, ...] = (), seq: int = 1) -> tuple[RecordId, Batch]:
    return (name, seq), make_batch(name, seq, "t", guarantee, [b""], [keys] if keys else ())


def sent(*names: str) -> list[Contribution]:
    return [((name, 1), Flag.SENT, place, place + 1) for place, name in enumerate(names)]


def received(*names: str) -> list[Contribution]:
    return [((name, 1), Flag.RECEIVED, place + 1, place + 1) for place, name in enumerate(names)]


def renumbered(*parts: Sequence[Contribution]) -> list[Contribution]:
    entries = [entry for part in parts for entry in part]
    return [(rid, flag, place + (flag is Flag.RECEIVED), place + 1) for place, (rid, flag, _, _) in enumerate(entries)]


def merged(
    histories: dict[str, list[Contribution]],
    *records: tuple[RecordId, Batch],
    lacking: dict[str, str] | None = None,
    settled: str = "",
    new: str = "",
    awaited: str = "",
) -> Merge:
    return Merge(
        {who: History(entries, True, frozenset((name, 1) for name in awaited)) for who, entries in histories.items()},
        dict(records),
        lambda who, batch: batch.publisher in (lacking or {}).get(who, ""),
        [(name, 1) for name in settled],
        {(name, 1) for name in new},
    )


def test_what_was_received_before_something_was_sent_comes_before_it():
    # Trap 3: P receives m1, then sends m2; C2 lacks both.
    merge = merged({"p": renumbered(received("n"), sent("m"))}, record("m"), record("n"))
    assert merge.order == [("n", 1), ("m", 1)]


def test_sent_before_received_is_no_order_so_there_is_no_cycle():
    # Trap 2: C1 sends a, then receives b; P sends b, then receives a.
    merge = merged(
        {"c": renumbered(sent("a"), received("b")), "p": renumbered(sent("b"), received("a"))}, record("a"), record("b")
    )
    assert merge.forced == 0
    assert sorted(merge.order) == [("a", 1), ("b", 1)]


def test_a_publishers_order_is_kept_even_if_nobody_has_both():
    merge = merged({"c": received("a")}, record("a", seq=2), record("a", seq=1))
    assert merge.order == [("a", 1), ("a", 2)]


def test_two_orders_of_reception_by_two_dead_brokers_are_preferences():
    # Trap 7: as hard edges they would make a cycle.
    merge = merged({"c": received("a", "b"), "d": received("b", "a")}, record("a"), record("b"))
    assert merge.forced == 0


def test_the_order_around_a_total_record_on_its_key_is_kept():
    merge = merged({"c": received("z", "a")}, record("a", keys=("k",)), record("z", TOTAL, ("k",)))
    assert merge.order == [("z", 1), ("a", 1)]


@pytest.mark.parametrize("crossed", [False, True])
def test_what_has_crossed_a_total_record_takes_no_part_in_the_order_of_its_keys(crossed: bool):
    rid, weaker = record("a", keys=("k",))
    histories = {"c": received("z", "a"), "d": received("a", "z")}
    merge = merged(histories, (rid, weaker.as_crossed() if crossed else weaker), record("z", TOTAL, ("k",)))
    assert merge.forced == (not crossed)


def test_what_nobody_alive_has_sent_comes_last():
    # Trap 16: its dependencies died with its entry point.
    merge = merged({"c": received("a"), "d": sent("b")}, record("a"), record("b"))
    assert merge.order == [("b", 1), ("a", 1)]


def test_who_has_one_and_lacks_the_other_shows_what_the_dead_broker_did():
    merge = merged({"c": received("z"), "d": received("a")}, record("a"), record("z"), lacking={"c": "a"})
    assert merge.order == [("z", 1), ("a", 1)]


def test_what_would_come_too_late_for_somebody_is_said():
    # c has the total z already; d has processed a before z, so a is not c's: it did not want it then.
    merge = merged(
        {"c": received("z"), "d": received("a", "z")},
        record("a", keys=("k",)),
        record("z", TOTAL, ("k",)),
        lacking={"c": "a"},
    )
    assert merge.order == [("a", 1), ("z", 1)]
    assert merge.late == {("c", ("a", 1))}


def test_what_went_by_before_a_request_comes_before_what_was_asked_for():
    entries: list[Contribution] = [
        (("q", 1), Flag.SENT, 0, 1),
        (("b", 1), Flag.RECEIVED, 1, 3),
        (("a", 1), Flag.SENT, 1, 2),
    ]
    merge = merged({"c": [entries[0], entries[2], entries[1]]}, record("a"), record("b", TOTAL), record("q"))
    assert merge.order.index(("q", 1)) < merge.order.index(("b", 1))


def test_what_is_in_the_causal_past_of_something_received_was_not_wanted_in_time():
    # x received a and then sent b, so the dead broker had a before b; it passed b to c, and a by.
    histories = {"x": renumbered(received("a"), sent("b")), "c": received("b")}
    assert merged(histories, record("a"), record("b"), lacking={"c": "a"}).late == {("c", ("a", 1))}


def test_what_has_no_causal_order_is_never_withheld_for_it():
    histories = {"x": renumbered(received("a"), sent("b")), "c": received("b")}
    assert merged(histories, record("a", FIFO), record("b"), lacking={"c": "a"}).late == set()


def test_who_has_the_first_messages_of_a_batch_may_have_the_rest():
    assert merged({"c": received("a")}, record("a"), lacking={"c": "a"}).late == set()


def test_what_came_back_at_once_was_sent():
    # c received a and then sent b, which came back with nothing in between.
    entries: list[Contribution] = [(("b", 1), Flag.RECEIVED, 1, 1), (("a", 1), Flag.RECEIVED, 2, 2)]
    merge = merged({"c": [entries[1], entries[0]]}, record("a"), record("b"))
    assert merge.order == [("a", 1), ("b", 1)]
    assert merged({"c": [entries[1], entries[0]], "d": received("a")}, record("a"), record("b")).forced == 0


def test_what_comes_before_something_that_was_passed_on_cannot_be_passed_on_any_more():
    # Everybody has a before the total z, which the coordinator has passed on; somebody outside wants a only now.
    histories = {"own": received("z"), "c": received("a", "z")}
    merge = merged(histories, record("a", keys=("k",)), record("z", TOTAL, ("k",)), settled="z", new="a")
    assert (merge.untimely, merge.forced) == ({("a", 1)}, 0)


def test_what_makes_something_untimely_may_be_known_by_way_of_a_third():
    # c has a before the total y, d has y before the total z: nobody has both a and z.
    histories = {"own": received("z"), "c": received("a", "y"), "d": received("y", "z")}
    records = [record("a", keys=("k",)), record("y", TOTAL, ("k",)), record("z", TOTAL, ("k",))]
    merge = merged(histories, *records, settled="z", new="a")
    assert (merge.untimely, merge.forced) == ({("a", 1)}, 0)


def test_what_somebody_has_comes_before_a_batch_that_it_lacks_and_that_the_lost_broker_may_not_have_processed():
    # The lost broker may not have processed z. c has a, and lacks z. A third, which has z, wants a only now.
    histories = {"own": sent("z"), "c": received("a")}
    records = [record("a", keys=("k",)), record("z", TOTAL, ("k",))]
    merge = merged(histories, *records, lacking={"c": "z"}, settled="z", new="a", awaited="z")
    assert (merge.order, merge.untimely, merge.late) == ([("a", 1), ("z", 1)], {("a", 1)}, set())
