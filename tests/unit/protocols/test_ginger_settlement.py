"""What a repair hands to whom: each rule of a settlement in a small situation, and the same without the rule."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.model.batches import Batch, make_batch
from holdfast.model.guarantees import CAUSAL, TOTAL
from holdfast.model.messages import Join, Twig, Unstable
from holdfast.protocols.ginger.absences import NOTHING, OwnHistory
from holdfast.protocols.ginger.joiners import Joiner
from holdfast.protocols.ginger.merge import Flag, Merge
from holdfast.protocols.ginger.settlement import Held, Settlement, Settling, Situation, settle
from holdfast.protocols.records import RecordId
from holdfast.protocols.routing import Takers

A1: RecordId = ("a", 1)
B1: RecordId = ("b", 1)


def batch(publisher: str, seq: int = 1, count: int = 1, key: str = "") -> Batch:
    """A causal batch, or, with a key, a total one."""
    keys = [(key,)] * count if key else ()
    return make_batch(publisher, seq, "t", TOTAL if key else CAUSAL, [b"x"] * count, keys)


def joiner(name: str, *records: Unstable, kind: str = "broker", processed: dict[str, int] | None = None) -> Joiner:
    known = {one.batch.publisher: one.batch.last for one in records if one.flag in ("s", "r")}
    twig = Twig(name, kind, 1, "")  # type: ignore[arg-type]
    numbers = known if processed is None else processed
    return Joiner(Join(twig, "B", (), numbers, (("t", ""),), 0, 0), list(records))


def received(*batches: Batch) -> list[Unstable]:
    return [Unstable("r", one, place + 1, place + 1) for place, one in enumerate(batches)]


def wanted_by(*names: str) -> Callable[[Batch], Takers]:
    return lambda _: dict.fromkeys(names)


def situation(*joiners: Joiner, **more: Any) -> Situation:
    """P repairs the loss of B; all joiners want everything, and nobody else does."""
    joined = {one.join.twig.name: one for one in joiners}
    known: dict[str, Any] = {"own": "P", "lost": "B", "mine": NOTHING, "joined": joined}
    known |= {"joiners_want": wanted_by(*joined), "others_want": wanted_by()}
    return Situation(**{**known, **more})


# ------------------------------------------------------------------------------------------------------- situations


def one_has_it_and_one_lacks_it() -> Situation:
    return situation(joiner("C1", *received(batch("a"))), joiner("C2"))


def one_has_forgotten_it() -> Situation:
    return situation(joiner("C1", *received(batch("a"))), joiner("C2"), joiner("C3", processed={"a": 1}))


def it_was_done_without_the_lost_broker() -> Situation:
    """C3 had been asked for it by B, and knows that it has turned."""
    asked = Unstable("d", batch("a", key="k"), 1, 0)
    return situation(joiner("C1", *received(batch("a", key="k"))), joiner("C2"), joiner("C3", asked))


def the_coordinator_knows_it_done() -> Situation:
    mine = OwnHistory([(A1, Flag.DONE, 0, 0)], {}, {}, {})
    return situation(joiner("C1", *received(batch("a", key="k"))), joiner("C2"), mine=mine)


def the_lost_broker_has_passed_by() -> Situation:
    """B had a before b, says C1, and has passed b alone to C2, which did not want a then."""
    both = joiner("C1", *received(batch("a"), batch("b")))
    return situation(both, joiner("C2", *received(batch("b"))), heard={"C1": 0, "C2": 0})


def only_the_absent_want_it() -> Situation:
    """The story of the rule: P would process c7#1 behind c0#1, for those out of reach alone."""
    c0, c7 = batch("c0", key="k"), batch("c7", key="k")
    mine = OwnHistory([(("c0", 1), Flag.SENT, 0, 1)], {("c0", 1): c0}, {("c0", 1): 1}, {})
    having = joiner("c4", *received(c7), kind="client")
    held, absent = [Held(("c0", 1), c0, 1, False, True)], "(the absent)"
    others_want = wanted_by(absent)
    return situation(having, mine=mine, held=held, processed={"c0": 1}, others_want=others_want, absent=(absent,))


def it_has_turned_below_for_others() -> Situation:
    """The story of the rule: s, above P, wanted c3#1 too late; P would process it behind p#1, which B has not got."""
    p1, c3 = batch("p", key="k"), batch("c3", key="k")
    mine = OwnHistory([(("p", 1), Flag.SENT, 0, 1)], {("p", 1): p1}, {("p", 1): 1}, {})
    held, below = [Held(("p", 1), p1, 1, False, True)], joiner("C", Unstable("d", c3, 0, 0))
    having = joiner("c1", *received(c3), kind="client")
    more: dict[str, Any] = {"mine": mine, "held": held, "processed": {"p": 1}, "others_want": wanted_by("s")}
    return situation(having, below, below=True, heard={"P": 0, "c1": 0, "C": 0}, **more)


def each_seems_to_have_come_too_late() -> Situation:
    """The story of the rule: s, at P, wants c3#1, which c1 has; P has p#1, which c1 lacks."""
    given = it_has_turned_below_for_others()
    return replace(given, below=False)


def only_a_late_client_wants_it() -> Situation:
    late = "(late clients of B, 1)"
    asked = joiner("C1", Unstable("d", batch("a", key="k"), 0, 0))
    return situation(asked, joiners_want=wanted_by(), others_want=wanted_by(late), late=(late,))


def an_earlier_batch_of_its_publisher_has_turned() -> Situation:
    """The story of the rule: c1#6 has turned at B for c1 alone; c1#7 climbs."""
    own = [Unstable("t", batch("c1", seq, key="k"), 0, 0) for seq in (6, 7)]
    climbing = Held(("c1", 7), batch("c1", 7, key="k"), 0, True, True)
    return situation(joiner("c1", *own, kind="client"), held=[climbing])


def a_client_has_a_part() -> Situation:
    """It wanted the second message of a total batch alone; the log of P has the whole."""
    whole = Held(("a", 1), batch("a", 1, 2, key="k"), 1, False, True)
    part = joiner("c4", *received(batch("a", 2, key="k")), kind="client")
    return situation(part, held=[whole], processed={"a": 2})


def somebody_wants_it_now() -> Situation:
    """P has processed it, and forgotten it: those who want it by now are not owed it."""
    return situation(joiner("C1", *received(batch("a"))), processed={"a": 1}, others_want=wanted_by("late"))


def a_witness_has_asked() -> Situation:
    """c1 was taken in before; its climb goes on since then."""
    witness = joiner("C9", Unstable("t", batch("a", key="k"), 0, 0))
    return situation(joiner("C1"), witnesses={"C9": witness})


# ----------------------------------------------------------------------------------------------------- without a rule


class NothingIsForgotten(Settling):
    def _forgotten(self) -> set[RecordId]:
        return set()


class NothingWasInVain(Settling):
    def _asked_in_vain(self) -> set[RecordId]:
        return set()


class NothingIsDoneElsewhere(Settling):
    def _done_elsewhere(self) -> set[RecordId]:
        return set()


class NobodyWasPassedBy(Settling):
    def _late(self, merge: Merge, *_: object) -> set[tuple[str, RecordId]]:
        return merge.late


class NothingIsOvertaken(Settling):
    def _overtaken_here(self, *_: object) -> set[RecordId]:
        return set()


class NothingTurnedBelow(Settling):
    def _turned_below(self) -> set[RecordId]:
        return set()


class NobodyIsContradicted(Settling):
    def _contradicted(self, *_: object) -> set[str]:
        return set()


class LateClientsHavePlaces(Settling):
    def _for_late_alone(self, *_: object) -> set[RecordId]:
        return set()


class NothingClimbs(Settling):
    def _climbing(self) -> dict[RecordId, Batch]:
        return {}


class PartsArePartsOnly(Settling):
    def _see_wholes(self) -> None:
        pass


class NothingIsUntimely(Settling):
    def _untimely(self, *_: object) -> set[RecordId]:
        return set()


class WitnessesAskAgain(Settling):
    def _ask_nothing_for_witnesses(self) -> None:
        pass


def given(name: str) -> Callable[[Settlement], object]:
    return lambda plan: plan.given[name]


def first_record(name: str) -> Callable[[Settlement], object]:
    return lambda plan: (plan.joiners[name].records[0].batch.first, plan.joiners[name].records[0].batch.count)


RULES: list[tuple[Callable[[], Situation], type[Settling], Callable[[Settlement], object], object, object]] = [
    (one_has_forgotten_it, NothingIsForgotten, given("C2"), set(), {A1}),
    (it_was_done_without_the_lost_broker, NothingWasInVain, given("C2"), set(), {A1}),
    (the_coordinator_knows_it_done, NothingIsDoneElsewhere, given("C2"), set(), {A1}),
    (the_lost_broker_has_passed_by, NobodyWasPassedBy, given("C2"), set(), {A1}),
    (it_has_turned_below_for_others, NothingTurnedBelow, given("c1"), {("p", 1)}, set()),
    (each_seems_to_have_come_too_late, NobodyIsContradicted, lambda plan: plan.contradicted, {"c1"}, set()),
    (only_a_late_client_wants_it, LateClientsHavePlaces, lambda plan: plan.untimely, {A1}, set()),
    (only_the_absent_want_it, NothingIsOvertaken, given("c4"), {("c0", 1)}, set()),
    (
        an_earlier_batch_of_its_publisher_has_turned,
        NothingClimbs,
        lambda plan: plan.joiners["c1"].taken,
        6,
        5,
    ),
    (a_client_has_a_part, PartsArePartsOnly, first_record("c4"), (1, 2), (2, 1)),
    (somebody_wants_it_now, NothingIsUntimely, lambda plan: plan.untimely, {A1}, set()),
    (a_witness_has_asked, WitnessesAskAgain, lambda plan: [name for name, _ in plan.asked], [], ["C9"]),
]


def named(value: object) -> str:
    return getattr(value, "__name__", "")


@pytest.mark.parametrize(("known", "without", "read", "expected", "else_"), RULES, ids=named)
def test_a_rule_decides_its_situation_and_without_it_the_plan_is_another(
    known: Callable[[], Situation],
    without: type[Settling],
    read: Callable[[Settlement], object],
    expected: object,
    else_: object,
):
    assert (read(settle(known())), read(settle(known(), without))) == (expected, else_)


def test_each_joiner_is_given_what_it_lacks_and_another_has():
    plan = settle(one_has_it_and_one_lacks_it())
    assert (plan.order, plan.given) == ([A1], {"C1": set(), "C2": {A1}})


def test_what_only_the_lost_broker_may_have_turned_is_asked_anew():
    plan = settle(situation(joiner("C1", Unstable("t", batch("a", key="k"), 0, 0))))
    assert ([name for name, _ in plan.asked], plan.done) == (["C1"], [])


def test_what_a_joiner_shows_to_have_turned_is_done():
    asked = Unstable("t", batch("a", key="k"), 0, 0)
    plan = settle(situation(joiner("C1", asked), joiner("C2", *received(batch("a", key="k")))))
    assert ([name for name, _ in plan.done], plan.asked) == (["C1"], [])


def test_a_settlement_changes_nothing_that_it_is_given():
    known = a_client_has_a_part()
    plan = settle(known)
    assert [one.batch.first for one in known.joined["c4"].records] == [2]
    assert plan.joiners["c4"] is not known.joined["c4"]
    assert known.held == [Held(("a", 1), batch("a", 1, 2, key="k"), 1, False, True)]
