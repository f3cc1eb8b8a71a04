"""Counting the brokers of a part: who may order total messages, and who waits for the answer."""

from holdfast.model.messages import Census, Counted, SessionMessage
from holdfast.protocols.ginger.census import CensusTaker

Said = list[tuple[str, SessionMessage]]


def taker(brokers: int) -> tuple[CensusTaker, Said]:
    said: Said = []
    return CensusTaker(brokers, lambda peer, message: said.append((peer, message))), said


def test_a_root_that_is_alone_has_a_majority_of_one_and_of_nothing():
    assert _root(1).majority
    assert _root(0).majority
    assert not _root(2).majority
    assert _root(2).minority


def test_half_is_no_majority():
    root = _root(4)
    root.on_census("a", Census(1, 1), None, ["a"])
    assert root.minority
    root.on_census("a", Census(2, 2), None, ["a"])
    assert root.majority


def test_a_change_of_the_verdict_is_told_to_all_children_and_answers_the_one_that_asked():
    root, said = taker(3)
    root.recount(None, [])
    root.on_census("a", Census(7, 1), None, ["a", "b"])
    assert said == [("a", Counted(0, True, 3)), ("b", Counted(0, True, 3)), ("a", Counted(7, True, 3))]


def test_who_has_lost_a_child_relies_on_no_older_verdict():
    inner, said = taker(3)
    inner.recount("p", [])
    inner.on_counted(Counted(1, True, 3), [])
    assert _verdict(inner) == "majority"
    inner.on_census("c", Census(1, 1), "p", ["c"])
    inner.on_counted(Counted(2, True, 3), ["c"])
    inner.lose("c")
    inner.recount("p", [])
    assert _verdict(inner) == "unknown"
    assert said[-1] == ("p", Census(3, 1))
    inner.on_counted(Counted(3, False, 3), [])
    assert _verdict(inner) == "minority"


def test_an_answer_for_an_older_census_answers_only_those_that_it_counted():
    inner, said = taker(5)
    inner.on_census("a", Census(1, 1), "p", ["a", "b"])
    inner.on_census("b", Census(1, 1), "p", ["a", "b"])
    said.clear()
    inner.on_counted(Counted(1, True, 5), ["a", "b"])
    assert said == [("a", Counted(1, True, 5))]
    assert not inner.is_answered


def test_a_newcomer_has_no_vote_and_learns_how_many_have_one():
    newcomer, said = taker(0)
    newcomer.recount("p", [])
    assert said == [("p", Census(1, 0))]
    newcomer.on_counted(Counted(1, False, 3), [])
    assert newcomer.brokers == 3
    assert newcomer.minority


def _root(brokers: int) -> CensusTaker:
    root, _ = taker(brokers)
    root.recount(None, [])
    return root


def _verdict(one: CensusTaker) -> str:
    return "majority" if one.majority else "minority" if one.minority else "unknown"
