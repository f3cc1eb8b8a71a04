"""Filters that cover others, and fewer filters to match: the recipients of every message stay the same."""

from random import Random

import pytest

from holdfast.model.errors import FilterError
from holdfast.model.filters import Value, parse_filter
from holdfast.model.topics import matches
from holdfast.protocols import coverage
from holdfast.protocols.coverage import covers, merge, merger_of, wider_patterns, witness
from holdfast.protocols.delta.fewer_filters import SWEPT, FewerFilters
from holdfast.protocols.routing import RoutingTable

LITERALS = ("1", "2", "3", "2.5", "'a'", "'ab'", "'b'", "true", "false")
VALUES = (0, 1, 2, 3, 2.5, 1.5, float("nan"), -1, 10, "", "a", "ab", "abc", "b", "c", True, False)
PATTERNS = ("a", "a/b", "a/#", "#", "+", "+/b", "a/+", "~r", "~r/#")
TOPICS = ("a", "b", "a/b", "a/c", "c/b", "a/b/c", "~r", "~r/x")


def random_term(chance: Random) -> str:
    name, literal = chance.choice("xyz"), chance.choice(LITERALS)
    operator = chance.choice(("=", "=", "!=", "<", "<=", ">", ">="))
    forms = (
        *(f"{name} {operator} {literal}",) * 6,
        f"{name} in ({literal}, {chance.choice(LITERALS)})",
        f"{name} not in ({literal})",
        f"{name} startswith {chance.choice(LITERALS[4:7])}",
        f"exists {name}",
        f"not {name} = {literal}",
    )
    return chance.choice(forms)


def random_filter(chance: Random, terms_max: int = 3) -> str:
    while True:
        text = " and ".join(random_term(chance) for _ in range(chance.choice((1, min(2, terms_max), terms_max))))
        if terms_max > 1 and chance.random() < 0.2:
            text += f" or {random_term(chance)}"
        try:
            parse_filter(text)
        except FilterError:
            continue
        return text


def random_attributes(chance: Random) -> dict[str, Value]:
    return {name: chance.choice(VALUES) for name in "xyz" if chance.random() < 0.8}


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("x > 1", "x > 2"),
        ("x >= 1", "x > 1"),
        ("x != 1", "x > 1"),
        ("x <= 3", "x < 3 and y = 1"),
        ("x > 1", "x = 2.5"),
        ("x > 1", "x in (2, 3)"),
        ("exists x", "x startswith 'a'"),
        ("name startswith 'a'", "name startswith 'ab'"),
        ("x > 1 or y = 2", "y = 2 and z = 3"),
        ("x in (1, 2, 3)", "x = 1 or x = 3"),
    ],
)
def test_a_filter_covers_one_that_wants_less(wide: str, narrow: str):
    assert covers(parse_filter(wide).condition, parse_filter(narrow).condition)
    assert not covers(parse_filter(narrow).condition, parse_filter(wide).condition)


@pytest.mark.parametrize(
    ("one", "other"), [("x > 1", "x > 'a'"), ("x != 1", "x = true"), ("x = 1", "x = true"), ("x > 1", "y > 2")]
)
def test_filters_of_different_kinds_do_not_cover_each_other(one: str, other: str):
    assert not covers(parse_filter(one).condition, parse_filter(other).condition)


def wrong_covers(seed: int) -> list[tuple[str, str]]:
    """Pairs of which the first is said to cover the second, though a message tells them apart."""
    chance, found = Random(seed), []
    for _ in range(2000):
        terms_max = chance.choice((1, 3))
        wide, narrow = random_filter(chance, terms_max), random_filter(chance, terms_max)
        one, other = parse_filter(wide), parse_filter(narrow)
        if covers(one.condition, other.condition):
            messages = [random_attributes(chance) for _ in range(40)]
            found += [(wide, narrow) for message in messages if other.matches(message) and not one.matches(message)]
    return found


def test_what_is_covered_wants_nothing_that_the_cover_does_not_want():
    assert wrong_covers(1) == []


def test_a_wrong_implication_is_found(monkeypatch):
    monkeypatch.setattr(coverage, "_is_wider", lambda wide, narrow: wide.value != narrow.value)
    assert wrong_covers(1) != []


def test_a_witness_is_a_message_that_the_filter_wants():
    chance, found = Random(2), 0
    for _ in range(500):
        wanted = parse_filter(random_filter(chance))
        seen = witness(wanted.condition)
        found += seen is not None
        assert seen is None or wanted.matches(seen)
    assert found > 350


@pytest.mark.parametrize("pattern", [*PATTERNS, "a/b/c/d/e", "a/+/c/d/#"])
def test_wider_patterns_match_all_that_the_pattern_matches(pattern: str):
    wider = list(wider_patterns(pattern))
    assert pattern in wider
    for topic in (*TOPICS, "a/b/c/d/e", "a/x/c/d"):
        if matches(pattern, topic):
            assert all(matches(one, topic) for one in wider)


def test_filters_that_differ_in_the_values_of_one_attribute_are_one():
    one, other = (merger_of(parse_filter(text).condition) for text in ("y > 1 and x = 1", "y > 1 and x in (2, 'a')"))
    assert one is not None
    assert other is not None
    assert one[0] == other[0]
    assert one[2] == other[2]
    assert merge("x", (*one[1], *other[1]), one[2]) == parse_filter("y > 1 and x in (1, 2, 'a')").condition
    assert merger_of(parse_filter("x = 1 and y = 2").condition) is None


def differences(seed: int, merges: bool, few: FewerFilters | None = None) -> int:
    """How often the fewer filters have other recipients than all of them, while filters come and go."""
    chance, found = Random(seed), 0
    few, every = few or FewerFilters(merges), RoutingTable()
    known: list[tuple[str, str, str]] = []
    for _ in range(120):
        if known and chance.random() < 0.35:
            entry = known.pop(chance.randrange(len(known)))
            assert few.remove(*entry) == every.remove(*entry)
        else:
            where = random_filter(chance) if chance.random() < 0.85 else ""
            entry = (chance.choice(PATTERNS), where, chance.choice("mn"))
            added = every.add(*entry)
            assert few.add(*entry) == added
            known += [entry] if added else []
        few.check_invariants()
        for _ in range(5):
            topic, attributes = chance.choice(TOPICS), random_attributes(chance)
            found += dict(few.matched.takers_of(topic, attributes)) != dict(every.takers_of(topic, attributes))
    assert few.distinct() == every.distinct()
    assert len(few) == len(every) >= len(few.matched)
    return found


@pytest.mark.parametrize("merges", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_fewer_filters_have_the_recipients_of_all_after_each_change(seed: int, merges: bool):
    assert differences(seed, merges) == 0


def test_a_cover_that_goes_without_uncovering_others_is_found(monkeypatch):
    original = FewerFilters._place

    def never_again(self: FewerFilters, entry: tuple[str, str, str]) -> None:
        if entry in self._above or entry not in lost:
            original(self, entry)

    lost: set[tuple[str, str, str]] = set()
    few = FewerFilters()
    few.add("t", "x > 0", "n")
    few.add("t", "x > 1", "n")
    lost.add(("t", "x > 1", "n"))
    monkeypatch.setattr(FewerFilters, "_place", never_again)
    few.remove("t", "x > 0", "n")
    assert not few.matched.takers_of("t", {"x": 2})
    with pytest.raises(AssertionError, match="neither matched nor covered"):
        few.check_invariants()


def test_wide_filters_that_come_last_leave_little_to_match():
    few = FewerFilters()
    for number in range(100, 0, -1):
        few.add("t", f"x > {number}", "n")
    assert len(few) == 100
    assert len(few.matched) < 40
    few.add("t", "", "n")
    for number in range(40):
        few.add("t", f"y > {number}", "n")
    assert len(few.matched) == 1


def test_filters_of_another_node_are_left_alone():
    few = FewerFilters()
    few.add("t", "", "m")
    few.add("t", "x > 1", "n")
    assert dict(few.matched.takers_of("t", {"x": 2})) == {"m": None, "n": None}


def test_values_of_one_attribute_are_merged_and_parted_again():
    few = FewerFilters(merges=True)
    for number in range(60):
        few.add("t", f"x = {number}", "n")
    assert len(few.matched) < 30
    few.remove("t", "x = 3", "n")
    assert not few.matched.takers_of("t", {"x": 3})
    assert few.matched.takers_of("t", {"x": 4})
    few.check_invariants()


def test_no_filter_that_comes_has_all_others_looked_at(monkeypatch):
    """A broker that looked at 50,000 filters in one turn would be held failed."""
    looked = []
    covering = FewerFilters._covering

    def counted(self: FewerFilters, entry: tuple[str, str, str]) -> tuple[str, str, str] | None:
        looked.append(entry)
        return covering(self, entry)

    monkeypatch.setattr(FewerFilters, "_covering", counted)
    table, most = FewerFilters(), 0
    for number in range(2000):
        looked.clear()
        table.add("t", f"customer = '{number}'", "n")
        most = max(most, len(looked))
    assert most == 1 + SWEPT
