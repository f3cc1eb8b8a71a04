"""The diary of a broker that has lost somebody: what is kept for whom, and for how long."""

import pytest

from holdfast.model.batches import Batch, make_batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import Twig
from holdfast.model.terms import Contact
from holdfast.protocols.ginger.absences import REFUSALS_MAX, Absence, Absences, OwnHistory, take_up
from holdfast.protocols.ginger.flush import own_history
from holdfast.protocols.ginger.merge import Flag
from holdfast.protocols.stability import StabilityLog


def batch(seq: int) -> Batch:
    return make_batch("p", seq, "t", 0, [b"x"])


def twig(name: str, *below: Twig) -> Twig:
    return Twig(name, "broker", 1, name, below)


def begun(absences: Absences, key: str, *missing: str, now: float = 0.0) -> Absence:
    absences.begin(key, (), now)
    absence = absences.find(key)
    assert absence is not None
    absence.missing = {name: twig(name) for name in missing}
    return absence


def kept(absences: Absences, absence: Absence) -> list[int]:
    return [seq for (_, seq), *_ in absences.history(absence).entries]


def test_nothing_is_written_down_while_nobody_is_lost():
    absences = Absences(1 << 20)
    absences.note(batch(1), 1)
    assert absences.bytes == 0
    assert kept(absences, begun(absences, "b", "c")) == []


def test_every_absence_begins_at_its_own_page_of_one_diary():
    absences = Absences(1 << 20)
    first = begun(absences, "b", "c")
    absences.note(batch(1), 1)
    second = begun(absences, "d", "e")
    absences.note(batch(2), 2)
    assert (kept(absences, first), kept(absences, second)) == ([1, 2], [2])
    absences.end(first)
    assert kept(absences, second) == [2]
    absences.end(second)
    assert absences.bytes == 0


def test_what_is_written_down_stands_in_one_certain_order():
    absences = Absences(1 << 20)
    absence = begun(absences, "b", "c")
    for seq in (1, 2, 3):
        absences.note(batch(seq), 10 * seq)
    entries = absences.history(absence).entries
    assert [(flag, after, number) for _, flag, after, number in entries] == [
        (Flag.SENT, 0, 10),
        (Flag.SENT, 1, 20),
        (Flag.SENT, 2, 30),
    ]


def test_a_total_batch_that_is_released_after_the_loss_stands_where_it_was_released():
    absences = Absences(1 << 20)
    absence = begun(absences, "b", "c")
    asked = make_batch("q", 8, "t", TOTAL, [b"x"])
    absence.history = OwnHistory([(("q", 8), Flag.ASKED, 0, 0)], {}, {}, {("q", 8): asked})
    absences.note(batch(3), 10)
    assert [record_id for record_id, *_ in absences.history(absence).entries] == [("q", 8), ("p", 3)]
    absences.note(asked, 11)
    assert absences.history(absence).entries == [(("p", 3), Flag.SENT, 0, 10), (("q", 8), Flag.SENT, 1, 11)]


def test_an_absence_ends_when_the_lost_one_returns_or_the_last_that_was_missed():
    absences = Absences(1 << 20)
    absence = begun(absences, "b", "c", "d")
    assert absences.of("c") is absence
    assert absences.of("b") is absence
    absences.returned(absence, twig("c"))
    assert absences.of("c") is None
    assert absences.of("d") is absence
    absences.returned(absence, twig("d"))
    assert len(absences) == 0
    absence = begun(absences, "b", "c", "d")
    absences.returned(absence, twig("b"))
    assert len(absences) == 0


def test_who_returns_brings_those_behind_it_along():
    absences = Absences(1 << 20)
    absence = begun(absences, "b", "c", "d")
    absences.returned(absence, twig("c", twig("d")))
    assert len(absences) == 0


def test_an_absence_is_bounded_in_time_and_the_diary_in_bytes():
    absences = Absences(300)
    old, new = begun(absences, "b", "c", now=0.0), begun(absences, "d", "e", now=50.0)
    assert absences.overdue(100.0, 60.0) == [old]
    assert absences.overdue(100.0, 600.0) == []
    for seq in range(1, 10):
        absences.note(batch(seq), seq)
    assert absences.overdue(100.0, 600.0) == [old]
    absences.end(old)
    assert absences.find("d") is new


@pytest.mark.parametrize("forgotten", [True, False])
def test_who_returns_says_what_was_done_of_that_which_it_was_asked_for(forgotten: bool):
    # Broker a asks us for m, and is lost before it hears that m is released. Meanwhile our log may forget m.
    log = StabilityLog(1)
    log.link("a")
    m = log.append(make_batch("p", 1, "t", TOTAL, [b"x"]), pending=True)
    log.came(m, "a", request=True)
    log.released(m)
    log.renumber(m)
    history = own_history(log.history("a"), "a")
    log.unlink("a")
    assert history.batches == {}, "it was passed to nobody over there"
    if forgotten:
        log.survey()
        assert len(log) == 0
    take_up(log, "a", history)
    ((record, after),) = log.history("a")
    assert record.batch is m.batch
    assert record.was_only_requested("a")
    assert not record.pending
    assert after == 1, "it stands behind its own place: we were asked for it, and have not asked"


def in_line(absence: Absence) -> str:
    return "".join(contact.name for contact in absence.contacts)


def test_who_had_its_turn_goes_behind_all_others():
    absence = Absence("a", tuple(Contact(name, 1, name) for name in "abcd"), 0, 0.0)
    absence.had_its_turn("a")
    assert in_line(absence) == "bcda"


def test_who_could_not_answer_has_another_turn_behind_one_other_and_then_waits_for_all():
    absence = Absence("a", tuple(Contact(name, 1, name) for name in "abcd"), 0, 0.0)
    absence.had_its_turn("a")
    absence.could_not_answer("a")
    assert in_line(absence) == "bacd"
    absence.had_its_turn("b")
    absence.could_not_answer("a")
    assert in_line(absence) == "cdba"
    absence.could_not_answer("c")
    absence.could_not_answer("d")
    assert in_line(absence) == "cdba"


def test_two_that_never_can_answer_do_not_keep_the_others_from_their_turns():
    absence = Absence("a", tuple(Contact(name, 1, name) for name in "abcd"), 0, 0.0)
    asked = ""
    for _ in range(12):
        name = absence.contacts[0].name
        asked += name
        (absence.could_not_answer if name in "ab" else absence.had_its_turn)(name)
    assert asked == "ababcdababcd"


def test_what_still_went_by_to_the_lost_and_what_did_not_stand_in_processing_order():
    # 1 and 3 were wanted there, and counted as sent until it was known that nobody comes; 2 and 4 were not.
    absences, log = Absences(1 << 20), StabilityLog(1)
    log.link("b")
    log.went(log.append(batch(1)), "b")
    absence = begun(absences, "b", "c")
    for seq in (2, 3, 4):
        record = log.append(batch(seq))
        absences.note(record.batch, record.number)
        if seq == 3:
            log.went(record, "b")
    absence.history = own_history(log.history("b"), "b")
    entries = absences.history(absence).entries
    assert [seq for (_, seq), *_ in entries] == [1, 2, 3, 4]
    assert [after for _, _, after, _ in entries] == [0, 1, 2, 3]


def test_a_search_is_over_when_the_lost_parent_comes_with_a_broker_that_has_taken_it_in():
    absences = Absences(1 << 20)
    absence = begun(absences, "a", "a", "b", "d")
    absence.to_parent, absence.contacts = True, tuple(Contact(name, 1, name) for name in "abd")
    absences.returned(absence, twig("d", twig("a")))
    assert len(absences) == 0


def test_those_below_a_lost_child_are_missed_still_when_it_has_begun_anew_below_one_of_them():
    absences = Absences(1 << 20)
    absence = begun(absences, "a", "a", "b", "d")
    absences.returned(absence, twig("d", twig("a")))
    assert absences.find("a") is absence
    assert sorted(absence.missing) == ["b"]


def test_a_broker_that_is_found_is_looked_for_no_longer_while_others_are():
    absences = Absences(1 << 20)
    absence = begun(absences, "a", "a", "b", "d")
    absence.to_parent, absence.contacts = True, tuple(Contact(name, 1, name) for name in "abd")
    absences.returned(absence, twig("d"))
    assert absences.of_parent() is absence
    assert [one.name for one in absence.contacts] == ["a", "b"]


def test_a_root_of_a_part_that_is_back_in_a_later_epoch_is_the_one_that_was_lost():
    absences = Absences(1000)
    absence = begun(absences, "2", "c2")
    absence.contacts = (Contact("2", 1, "at"), Contact("3", 1, ""))
    absences.is_back(Twig("2", "broker", 4, ""))
    assert absence.contacts == (Contact("2", 4, "at"), Contact("3", 1, ""))


def test_one_of_the_missing_that_takes_us_for_dead_again_and_again_has_had_time_to_come():
    absence = begun(Absences(1000), "5", "6", "7")
    assert [absence.has_refused_often("6") for _ in range(REFUSALS_MAX)] == [False] * (REFUSALS_MAX - 1) + [True]
    assert not absence.has_refused_often("7")
