"""The search of a part's root for the brokers that it lost, and what these answer: no network, values alone."""

from typing import Any

import pytest

from holdfast.model.messages import Found, Refusal, Seek, Twig
from holdfast.model.terms import Contact
from holdfast.protocols.config import LinkConfig
from holdfast.protocols.ginger.absences import Absence, Absences
from holdfast.protocols.ginger.search import DENIALS_MAX, TICKS_MAX, UNSURE_DENIALS_MAX, Search, SearchState
from holdfast.protocols.ginger.seek_answers import Standing, answer_to
from holdfast.protocols.hub import Hub
from holdfast.protocols.node import Connect
from holdfast.protocols.treeview import TreeView

KEEPER, OTHER = Contact("0", 1, ""), Contact("2", 1, "")
SERVES = Standing(life=1, is_expected=False, settles=True)


class _Owner:
    """Hears of nothing here."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_args, **_more: None


def searching() -> tuple[Search, Absence, Hub]:
    hub = Hub(_Owner(), "1", "broker", "test", LinkConfig(), 1)
    absence = Absence("0", (KEEPER, OTHER), 0, 0.0)
    absence.parent = "0"
    return Search(hub, lambda _name: False), absence, hub


def view_of(name: str = "2", *above: Contact, lost: tuple[Contact, ...] = ()) -> TreeView:
    view = TreeView(name, 1, "", 2, lambda _peer, _message: None)
    view.chain, view.lost = above, lost
    return view


def test_contacts_are_asked_in_turn():
    search, absence, hub = searching()
    search.ask_next(absence, 0.0)
    assert search.is_asking("0")
    assert [one.peer for one in hub.take() if isinstance(one, Connect)] == ["0"]
    search.unheard(absence)
    assert search.state is SearchState.IDLE
    search.ask_next(absence, 0.0)
    assert search.is_asking("2")


def test_a_contact_that_stays_silent_is_given_up_after_some_ticks():
    search, absence, _ = searching()
    search.ask_next(absence, 0.0)
    assert [search.has_time() for _ in range(TICKS_MAX)] == [False] * (TICKS_MAX - 1) + [True]


def test_whatever_ends_a_return_leads_back_to_the_search():
    search, absence, _ = searching()
    search.ask_next(absence, 0.0)
    search.found()
    assert search.is_returning_to("0")
    assert not search.has_time()
    search.end()
    assert search.state is SearchState.IDLE
    assert search.has_time()


@pytest.mark.parametrize(
    ("contact", "code", "times"),
    [("0", "late", 1), ("2", "late", DENIALS_MAX), ("2", "moved", DENIALS_MAX), ("2", "elsewhere", UNSURE_DENIALS_MAX)],
)
def test_a_root_insists_after_enough_denials(contact: str, code: Any, times: int):
    search, absence, _ = searching()
    for count in range(1, times + 1):
        assert not search.insists
        search.refused(contact, Refusal(code, ""), absence)
        assert search.insists is (count == times)
    search.arrived()
    assert not search.insists


def test_a_contact_that_is_not_ready_has_not_denied_anything():
    search, absence, _ = searching()
    for _ in range(20):
        search.refused("0", Refusal("not-ready", ""), absence)
    assert not search.insists


# ---- what a broker that is asked answers


def code_of(answer: Found | Refusal) -> str:
    return answer.code if isinstance(answer, Refusal) else "kept" if answer.kept else "not kept"


@pytest.mark.parametrize(
    ("view", "seek", "standing", "code"),
    [
        (view_of("0"), Seek((("0", 1),), keeper="0"), Standing(1, True, True), "kept"),
        (view_of("0"), Seek((("0", 1),), keeper="0"), SERVES, "late"),
        (view_of("0"), Seek((("0", 1),), keeper="0"), Standing(2, True, True), "moved"),
        (view_of("0"), Seek((("0", 1),), insists=True, keeper="0"), SERVES, "not kept"),
        (view_of("0"), Seek((("0", 1),), insists=True, keeper="0"), Standing(1, False, False), "late"),
        # The keeper is around here, or nobody here knows that it is dead.
        (view_of("2", KEEPER), Seek((("2", 1), ("0", 1)), insists=True, keeper="0"), SERVES, "elsewhere"),
        (view_of("2"), Seek((("2", 1), ("0", 1)), keeper="0"), SERVES, "elsewhere"),
        # Of two parts that look for each other the one with the larger name joins.
        (view_of("0", lost=(OTHER,)), Seek((("0", 1),), insists=True, keeper="0"), SERVES, "not kept"),
        (view_of("5", lost=(OTHER,)), Seek((("5", 1),), insists=True, keeper="5"), SERVES, "late"),
        # It is below the one that asks, or in the same tree.
        (view_of("5", Contact("1", 1, "")), Seek((("5", 1),), insists=True, keeper="5"), SERVES, "late"),
        (view_of("5", Contact("1", 1, "")), Seek((("5", 1),), True, "5", "1"), SERVES, "same-tree"),
        (view_of("5", Contact("1", 1, "")), Seek((("5", 1),), root="1"), SERVES, "same-tree"),
        # It only asks what became of the others.
        (view_of("5", lost=(Contact("1", 1, ""),)), Seek((("5", 1),), root="1"), SERVES, "kept"),
        (view_of("5", Contact("9", 1, "")), Seek((("5", 1),), root="1"), SERVES, "apart"),
    ],
)
def test_an_answer_follows_from_what_is_asked_and_how_the_broker_stands(
    view: TreeView, seek: Seek, standing: Standing, code: str
):
    assert code_of(answer_to(seek, "1", view, standing)) == code


def test_a_contact_that_knows_the_keeper_to_be_dead_denies_for_sure():
    view = view_of("2")
    view.bury("0", 1)
    assert code_of(answer_to(Seek((("2", 1), ("0", 1)), keeper="0"), "1", view, SERVES)) == "late"
    assert code_of(answer_to(Seek((("2", 1), ("0", 1)), True, "0"), "1", view, SERVES)) == "not kept"


# ---- what is kept meanwhile


def test_an_heir_looks_for_those_whom_the_dead_root_looked_for_and_says_that_its_diary_is_not_whole():
    absences = Absences(1000)
    absences.inherit((KEEPER, OTHER), 5.0)
    absence = absences.of_parent()
    assert absence is not None
    assert (absence.parent, absence.whole, [*absence.missing]) == ("0", False, ["0", "2"])


def test_other_brokers_of_the_lost_part_are_the_last_resort():
    absence = Absence("0", (KEEPER,), 0, 0.0)
    absence.missing = {"2": Twig("2", "broker", 1, "there"), "c": Twig("c", "client", 1, "")}
    assert [one.name for one in absence.last_resorts("1", "9")] == ["2", "9"]
    assert [one.name for one in absence.last_resorts("1", "0")] == ["2"]
