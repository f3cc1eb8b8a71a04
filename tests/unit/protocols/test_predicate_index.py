"""The matching index: equal to the plain evaluator, whatever the filters and the messages, and cheap by count."""

import random
from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.model.filter_syntax import print_literal
from holdfast.model.filters import parse_filter
from holdfast.protocols import predicate_index
from holdfast.protocols.predicate_index import COPIES_MAX, PredicateIndex
from holdfast.protocols.predicates import Claim, holds

NAMES = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.sampled_from(["", "a", "ab", "abc", "b", "\U0010ffff", "a\U0010ffff", "1"])
NUMBERS = st.sampled_from([-1, 0, 1, 1.0, 1.5, 2, 3, 2**53, 2.0**53, 2**53 + 1, -0.0])
VALUES = st.one_of(TEXTS, NUMBERS, st.booleans())
ATTRIBUTES = st.dictionaries(NAMES, st.one_of(VALUES, st.just(nan), st.just(float("inf"))))


def compared(name, operator, value):
    return f"{name} {operator if not isinstance(value, bool) else '='} {print_literal(value)}"


TERMS = st.one_of(
    st.builds(compared, NAMES, st.just("="), VALUES),
    st.builds(compared, NAMES, st.sampled_from(["!=", "<", "<=", ">", ">="]), VALUES),
    st.builds(
        lambda name, verb, values: f"{name} {verb} ({', '.join(map(print_literal, values))})",
        NAMES,
        st.sampled_from(["in", "in", "not in"]),
        st.lists(VALUES, min_size=1, max_size=4),
    ),
    st.builds(lambda name, start: f"{name} startswith {print_literal(start)}", NAMES, TEXTS),
    st.builds(lambda name: f"exists {name}", NAMES),
    st.builds(lambda name, value: f"{name} != {print_literal(value)}", NAMES, st.booleans()),
)
TREES = st.recursive(
    TERMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map(lambda parts: " and ".join(f"({part})" for part in parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: " or ".join(f"({part})" for part in parts)),
        inner.map(lambda part: f"not ({part})"),
    ),
    max_leaves=6,
)
CONJUNCTIONS = st.lists(TERMS, min_size=1, max_size=4).map(" and ".join)
FILTERS = st.one_of(CONJUNCTIONS, CONJUNCTIONS, TREES)


@pytest.fixture(autouse=True)
def _small_buckets(monkeypatch):
    """Small enough that a few filters are parted, cut and parted again."""
    monkeypatch.setattr(predicate_index, "BUCKET_MAX", 2)


def index_of(texts):
    index: PredicateIndex[str] = PredicateIndex()
    for text in texts:
        index.add(parse_filter(text), text)
    index.check_invariants()
    return index


def plainly(texts, attributes):
    return sorted(text for text in texts if parse_filter(text).matches(attributes))


@settings(max_examples=600, deadline=None)
@given(texts=st.lists(FILTERS, max_size=40, unique=True), messages=st.lists(ATTRIBUTES, min_size=1, max_size=8))
def test_an_index_finds_what_the_plain_evaluator_finds(texts, messages):
    index = index_of(texts)
    for attributes in messages:
        assert sorted(index.matching(attributes)) == plainly(texts, attributes)


@settings(max_examples=400)
@given(text=TREES, attributes=ATTRIBUTES)
def test_a_condition_without_closures_means_what_the_plain_evaluator_says(text, attributes):
    parsed = parse_filter(text)
    assert holds(parsed.condition, attributes) is parsed.matches(attributes)


class IndexAgainstAList(RuleBasedStateMachine):
    """Whatever was added and removed in whatever order, the index is what a list of filters would be."""

    @initialize(texts=st.lists(FILTERS, max_size=25, unique=True))
    def begin(self, texts):
        predicate_index.BUCKET_MAX = 2
        self.texts = list(texts)
        self.index = index_of(texts)

    def teardown(self):
        predicate_index.BUCKET_MAX = 24

    @rule(text=FILTERS)
    def add(self, text):
        if text not in self.texts:
            self.texts.append(text)
            self.index.add(parse_filter(text), text)

    @rule(data=st.data())
    def remove(self, data):
        if self.texts:
            text = data.draw(st.sampled_from(self.texts))
            self.texts.remove(text)
            self.index.remove(parse_filter(text), text)

    @rule(attributes=ATTRIBUTES)
    def match(self, attributes):
        assert sorted(self.index.matching(attributes)) == plainly(self.texts, attributes)

    @invariant()
    def agrees(self):
        if hasattr(self, "index"):
            assert len(self.index) == len(self.texts)
            self.index.check_invariants()


TestIndexAgainstAList = IndexAgainstAList.TestCase
TestIndexAgainstAList.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def test_what_was_not_added_cannot_be_removed():
    index = index_of(["a = 1", "a = 2 and b > 3"])
    with pytest.raises(KeyError):
        index.remove(parse_filter("exists c"), "exists c")
    assert len(index) == 2


def test_an_index_that_was_emptied_is_as_small_as_a_new_one():
    texts = [f"a = {n} and b > {n % 7} and c startswith 's{n}' and exists d" for n in range(300)]
    texts += [f"b > {n} and b < {n + 3}" for n in range(300)] + [f"d != {n}" for n in range(50)]
    index = index_of(texts)
    for text in random.Random(1).sample(texts, len(texts)):
        index.remove(parse_filter(text), text)
    assert len(index) == 0
    assert index._root.is_empty


def test_a_filter_of_alternatives_is_found_once():
    index = index_of(["a = 1 or b = 2", "a = 1 or a = 1 or exists a"])
    assert sorted(index.matching({"a": 1, "b": 2})) == ["a = 1 or a = 1 or exists a", "a = 1 or b = 2"]


def test_a_number_a_text_and_a_truth_are_three_values():
    index = index_of(["a = 1", "a = '1'", "a = true", "a = false", "a = 0", "a in (true, 0)"])
    assert index.matching({"a": 1.0}) == ["a = 1"]
    assert index.matching({"a": "1"}) == ["a = '1'"]
    assert sorted(index.matching({"a": True})) == ["a = true", "a in (true, 0)"]
    assert sorted(index.matching({"a": 0})) == ["a = 0", "a in (true, 0)"]


# ---------------------------------------------------------------------------------------------- what it costs, counted


def mixed(chance, regions):
    """A filter of three predicates; with a region for every hundred of them, some five match a message."""
    kinds = ", ".join(f"'k{chance.randrange(20)}'" for _ in range(2))
    return f"region = 'r{chance.randrange(regions)}' and amount > {chance.randrange(1000)} and kind in ({kinds})"


def counted(texts, messages):
    """What a message costs on average: entries evaluated, places and windows visited; and how many filters match."""
    index: PredicateIndex[int] = PredicateIndex()
    for number, text in enumerate(texts):
        index.add(parse_filter(text), number)
    found = sum(len(index.matching(message)) for message in messages)
    return tuple(count / len(messages) for count in (index.evaluated, index.visited, found))


@pytest.fixture
def real_buckets(monkeypatch):
    monkeypatch.setattr(predicate_index, "BUCKET_MAX", 24)


@pytest.mark.usefixtures("real_buckets")
@pytest.mark.parametrize("order", ["as drawn", "by region", "by amount"])
def test_ten_times_as_many_filters_cost_a_message_no_more_when_as_many_match(order):
    cost = {}
    for count, regions in ((1_000, 10), (10_000, 100)):
        chance = random.Random(7)
        texts = [mixed(chance, regions) for _ in range(count)]
        if order == "by region":
            texts.sort()
        elif order == "by amount":
            texts.sort(key=lambda text: int(text.split()[6]))
        messages = [
            {"region": f"r{chance.randrange(regions)}", "amount": chance.randrange(1000), "kind": f"k{number % 20}"}
            for number in range(100)
        ]
        cost[count] = counted(texts, messages)
    evaluated, visited, found = cost[10_000]
    assert 3 < found < 12
    assert evaluated < 40, "of ten thousand"
    assert visited < 20
    assert evaluated < 2 * cost[1_000][0]


@pytest.mark.usefixtures("real_buckets")
def test_narrow_ranges_are_found_without_evaluating_the_others():
    chance = random.Random(3)
    lows = sorted(chance.randrange(100_000) for _ in range(5_000))
    texts = [f"price >= {low} and price < {low + 100}" for low in lows]
    evaluated, visited, found = counted(texts, [{"price": chance.randrange(100_000)} for _ in range(50)])
    assert found < 10
    assert evaluated < 150, "of five thousand, added in ascending order"
    assert visited < 200


@pytest.mark.usefixtures("real_buckets")
def test_filters_of_comparisons_alone_are_found_if_few_of_each_hold():
    chance = random.Random(3)
    texts = [" and ".join(f"{name} > {chance.random() * 100:.3f}" for name in "abc") for _ in range(5_000)]
    evaluated, visited, found = counted(texts, [{"a": 20, "b": 20, "c": 20}])
    assert found < 80
    assert evaluated + visited < 1_200, "of five thousand; each comparison alone holds for a thousand"


@pytest.mark.usefixtures("real_buckets")
def test_filters_that_share_no_attribute_with_a_message_cost_it_nothing():
    texts = [f"a{n % 500} != {n} and not b = {n}" for n in range(2_000)]
    evaluated, _, _ = counted(texts, [{"x": 1}])
    assert evaluated <= 24


@pytest.mark.usefixtures("real_buckets")
def test_what_an_index_cannot_hold_is_evaluated():
    texts = [f"not a = {n}" for n in range(100)]
    assert counted(texts, [{"a": 5}])[0] == 100
    assert counted(texts, [{"a": 5}])[2] == 99


@pytest.mark.usefixtures("real_buckets")
def test_an_entry_lies_in_a_bounded_number_of_places_however_many_values_it_lists():
    listed = ", ".join(map(str, range(40)))
    index: PredicateIndex[str] = PredicateIndex()
    texts = [f"a in ({listed}) and b in ({listed}) and c in ({listed}) and d = {n}" for n in range(200)]
    texts += [f"a in ({', '.join(map(str, range(n, n + 600)))})" for n in range(100)]
    for text in texts:
        index.add(parse_filter(text), text)
    assert sum(1 for _ in index._root.all_entries()) <= len(texts) * COPIES_MAX
    assert len(index.matching({"a": 39, "b": 5, "c": 1, "d": 7})) == 1 + 40


def test_long_filters_with_attributes_of_their_own_cost_the_same_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
):
    """A client may subscribe with a megabyte of filters: what one more costs must not grow with those before it."""
    asked = 0

    class Counting(predicate_index._Descent[int]):
        def claim(self, name: str, way: predicate_index._Way) -> Claim | None:
            nonlocal asked
            asked += 1
            return super().claim(name, way)

    monkeypatch.setattr(predicate_index, "_Descent", Counting)
    index, costs = PredicateIndex[int](), list[int]()
    for number in range(24):
        before = asked
        index.add(parse_filter(" or ".join(f"a{number}x{place} = 1" for place in range(60))), number)
        costs.append(asked - before)
    assert max(costs[12:]) < 2 * max(costs[:12])
    assert index.matching({"a7x3": 1}) == [7]
