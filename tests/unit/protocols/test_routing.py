"""Routing tables, compared with a plain list of entries and the definition of matching."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.model.batches import any_match, make_batch
from holdfast.model.errors import FilterError, LocalMisuse, TopicError
from holdfast.model.filters import parse_filter
from holdfast.model.topics import matches
from holdfast.protocols.routing import RoutingTable


def table_of(*entries, **settings_):
    table = RoutingTable(**settings_)
    for pattern, where, destination in entries:
        assert table.add(pattern, where, destination)
    return table


# ---------------------------------------------------------------------------------------------------- what it answers


def test_a_topic_goes_to_whoever_has_a_pattern_that_matches():
    table = table_of(
        ("a/b", "", "one"), ("a/+", "", "two"), ("a/#", "", "three"), ("a/b/c", "", "four"), ("#", "", "five")
    )
    assert list(table.route("a/b").items()) == [("five", None), ("one", None), ("three", None), ("two", None)]
    assert table.route("a") == {"five": None, "three": None}
    assert table.route("b") == {"five": None}


def test_filters_of_one_destination_come_together_sorted_and_each_once():
    table = table_of(("a", "y > 1", "one"), ("+", "x > 1", "one"), ("#", "x > 1", "one"), ("a/#", "x>1", "one"))
    assert table.route("a") == {"one": (parse_filter("x > 1"), parse_filter("y > 1"))}


@pytest.mark.parametrize("wheres", [("", "x > 1"), ("x > 1", "")])
def test_who_wants_all_of_a_topic_gets_it_whatever_filters_it_has_besides(wheres):
    table = table_of(("a", wheres[0], "one"), ("#", wheres[1], "one"), ("a", "x > 2", "two"))
    assert table.route("a") == {"one": None, "two": (parse_filter("x > 2"),)}


def test_wanting_a_topic_disregards_filters():
    table = table_of(("a/+", "x > 1", "one"))
    assert table.wants("one", "a/b")
    assert not table.wants("one", "a")
    assert not table.wants("two", "a/b")


def test_adding_and_removing_say_whether_anything_changed():
    table = RoutingTable()
    assert table.add("a", "", "one")
    assert not table.add("a", "", "one")
    assert table.add("a", "x = 1", "one")
    assert table.add("a", "", "two")
    assert len(table) == 3
    assert not table.remove("a", "", "three")
    assert not table.remove("b", "", "one")
    assert table.remove("a", "", "one")
    assert not table.remove("a", "", "one")
    assert len(table) == 2


def test_the_version_increases_with_every_change_and_with_nothing_else():
    table = RoutingTable()
    seen = [table.version]
    for change in (
        lambda: table.add("a", "", "one"),
        lambda: table.add("a", "", "two"),
        lambda: table.remove("a", "", "one"),
    ):
        change()
        seen.append(table.version)
        change()
        table.route("a")
        assert table.version == seen[-1]
    assert sorted(set(seen)) == seen


def test_a_destination_that_goes_takes_its_interests_with_it():
    table = table_of(("b", "", "one"), ("a/+", "x = 1", "one"), ("a/+", "", "one"), ("b", "", "two"))
    assert table.remove_destination("one") == [("a/+", ""), ("a/+", "x = 1"), ("b", "")]
    assert table.remove_destination("one") == []
    assert table.distinct() == [("b", "")]
    assert table.route("b") == {"two": None}


def test_who_has_what_is_told_in_order():
    table = table_of(("b", "", "two"), ("b", "", "one"), ("a", "x = 1", "two"), ("a", "", "two"))
    assert table.sources("b", "") == ("one", "two")
    assert table.sources("a", "x=1") == ()
    assert table.interests("two") == [("a", ""), ("a", "x = 1"), ("b", "")]
    assert table.distinct() == [("a", ""), ("a", "x = 1"), ("b", "")]


@pytest.mark.parametrize(
    ("pattern", "where", "error"), [("a/#/b", "", TopicError), ("", "", TopicError), ("a", "x >", FilterError)]
)
def test_what_is_not_legal_is_refused_and_changes_nothing(pattern, where, error):
    table = table_of(("a", "", "one"))
    with pytest.raises(error):
        table.add(pattern, where, "two")
    assert not table.remove(pattern, where, "one")
    assert (len(table), table.version, table.interests("two")) == (1, 1, [])
    table.check_invariants()


def test_a_message_on_a_pattern_is_refused():
    table = table_of(("a/+", "", "one"))
    with pytest.raises(TopicError, match="wildcard"):
        table.route("a/+")


# ---------------------------------------------------------------------------------------------------- the cache


def test_a_topic_asked_again_is_not_looked_up_again():
    table = table_of(("a/+", "", "one"))
    table.route("a/b")
    visited = table.visited
    assert table.route("a/b") is table.route("a/b")
    assert table.visited == visited


def test_that_nobody_wants_a_topic_is_remembered_too():
    table = table_of(("a/+", "", "one"))
    assert table.route("b") == {}
    visited = table.visited
    assert table.route("b") == {}
    assert table.visited == visited


@pytest.mark.parametrize(
    ("pattern", "cooled"),
    [
        ("a/b", {"a/b"}),
        ("a/+", {"a/b", "a/c"}),
        ("a/#", {"a", "a/b", "a/c", "a/b/c"}),
        ("+/b/#", {"a/b", "a/b/c"}),
        ("+", {"a", "b"}),
        ("#", {"a", "b", "a/b", "a/c", "a/b/c"}),
        ("x/#", set()),
    ],
)
def test_a_change_cools_the_topics_it_concerns_and_no_others(pattern, cooled):
    topics = ["a", "b", "a/b", "a/c", "a/b/c"]
    for change in ("add", "remove"):
        table = table_of(("#", "", "two"), ("+", "", "two"))
        if change == "remove":
            table.add(pattern, "", "one")
        before = {topic: table.route(topic) for topic in topics}
        assert getattr(table, change)(pattern, "", "one")
        assert {topic for topic in topics if table.route(topic) is not before[topic]} == cooled


def test_the_cache_forgets_the_oldest_topic_at_its_bound():
    table = table_of(("+", "", "one"), cached_topics_max=2)
    first, second = table.route("a"), table.route("b")
    table.route("c")
    table.check_invariants()
    assert table.route("b") is second
    assert table.route("a") is not first
    assert table.route("a") == first


def test_the_cache_is_bounded_by_weight_as_well_as_by_topics():
    table = RoutingTable(cached_weight_max=25)
    for index in range(10):
        table.add("#", "", f"client-{index}")
    routes = {topic: table.route(topic) for topic in ("a", "b", "c")}
    table.check_invariants()
    assert table.route("c") is routes["c"]
    assert table.route("b") is routes["b"]
    assert table.route("a") is not routes["a"]


def test_a_route_too_heavy_for_the_cache_does_not_push_the_others_out():
    table = table_of(("a", "", "one"), cached_weight_max=5)
    light = table.route("a")
    for index in range(10):
        table.add("b", "", f"client-{index}")
    assert len(table.route("b")) == 10
    assert table.route("a") is light
    table.check_invariants()


def test_a_table_without_a_cache_routes_the_same():
    table = table_of(("+", "", "one"), cached_topics_max=0)
    assert table.route("a") == table.route("a") == {"one": None}
    assert table.route("a") is not table.route("a")
    with pytest.raises(LocalMisuse, match="0 or more"):
        RoutingTable(cached_topics_max=-1)


# ---------------------------------------------------------------------------------------------------- the cost


@pytest.fixture(scope="module")
def crowded():
    """A hundred thousand subscriptions: 20,000 shops, each with five patterns of the kinds people write."""
    table = RoutingTable()
    for shop in range(20_000):
        name = f"city-{shop % 100}/shop-{shop}"
        for pattern in (f"{name}/orders", f"{name}/+", f"{name}/#", f"+/shop-{shop}/orders", f"{name}/stock/+/low"):
            table.add(pattern, "", f"client-{shop % 500}")
    return table


def test_a_look_up_among_a_hundred_thousand_subscriptions_visits_a_dozen_nodes(crowded):
    assert len(crowded) == 100_000
    for shop in (0, 77, 19_999):
        before = crowded.visited
        assert crowded.route(f"city-{shop % 100}/shop-{shop}/orders") == {f"client-{shop % 500}": None}
        # The root, the city and '+', the shop below each, its four ends: nothing of the other 19,999 shops.
        assert crowded.visited - before == 9


def test_a_look_up_costs_the_same_in_a_small_table_as_in_a_large_one(crowded):
    small = table_of(
        *((pattern, "", "one") for pattern in ("city-7/shop-7/orders", "city-7/shop-7/+", "city-7/shop-7/#")),
        *((pattern, "", "one") for pattern in ("+/shop-7/orders", "city-7/shop-7/stock/+/low")),
    )
    small.route("city-7/shop-7/orders")
    before = crowded.visited
    crowded.route("city-7/shop-7/orders")
    assert crowded.visited - before == small.visited


def test_a_topic_nobody_wants_is_dismissed_at_the_first_level_that_differs(crowded):
    before = crowded.visited
    assert crowded.route("village/shop-x/orders/today") == {}
    assert crowded.visited - before == 2


def test_removing_everything_leaves_nothing_behind():
    table = RoutingTable()
    for index in range(300):
        table.add(f"a/{index}/+/#", "x = 1" if index % 2 else "", f"client-{index % 7}")
        table.route(f"a/{index}/b/c")
    for client in range(7):
        table.remove_destination(f"client-{client}")
        table.check_invariants()
    assert len(table) == 0
    assert table._root.is_empty()
    assert table.distinct() == []


# ---------------------------------------------------------------------------------------------------- against a list

LEVELS = st.sampled_from(["a", "b", "~"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=4).map("/".join)
PATTERNS = st.builds(
    lambda levels, rest: "/".join([*levels, *rest]),
    st.lists(st.sampled_from(["a", "b", "~", "+"]), min_size=1, max_size=4),
    st.sampled_from([[], [], ["#"]]),
) | st.sampled_from(["#", "~#"])
# ------------------------------------------------------------------------------------------ takers, by their filters


def on(topic, *attributes):
    return make_batch("ann", 1, topic, 0, [b"x"] * max(len(attributes), 1), attributes=attributes)


def test_takers_of_a_batch_come_with_their_choice_of_its_messages():
    table = table_of(
        ("a", "", "one"), ("a", "x > 1", "two"), ("+", "x > 2", "three"), ("a", "x > 9", "four"), ("a", "x > 0", "five")
    )
    batch = on("a", {"x": 2}, {"x": 3}, {"x": 1})
    assert list(table.takers(batch).items()) == [("five", None), ("one", None), ("three", [1]), ("two", [0, 1])]
    assert [part.count for part in batch.chosen([0, 2])] == [1, 1]
    assert table.choice("three", batch) == [1]
    assert table.choice("four", batch) == ()


def test_a_destination_that_wants_everything_anyway_is_named_once():
    table = table_of(("a", "", "one"), ("a", "x > 1", "one"), ("a", "x > 1", "two"))
    assert table.takers(on("a", {"x": 2})) == {"one": None, "two": None}
    assert table.takers(on("a", {"x": 1})) == {"one": None}


def filtered(count):
    table = RoutingTable()
    for number in range(count):
        table.add("orders", f"region = 'r{number}' and amount > {number % 7} and exists kind", f"client-{number}")
    return table


@pytest.mark.parametrize("count", [100, 3_000])
def test_a_message_is_compared_with_the_filters_that_may_match_and_no_others(count):
    table = filtered(count)
    assert list(table.takers(on("orders", {"region": "r42", "amount": 9, "kind": "k"}))) == ["client-42"]
    assert table.evaluated < 5
    assert table.takers(on("orders", {"region": "nowhere", "amount": 9, "kind": "k"})) == {}
    assert table.evaluated < 5


def test_a_message_for_nobody_costs_the_same_with_few_subscriptions_and_with_many():
    visits = []
    for count in (100, 2_000):
        table = filtered(count)
        for number in range(count):
            table.add(f"t/{number}/+", "", f"client-{number}")
        before = table.visited
        for topic in ("t/nobody/x", "nowhere", "orders"):
            assert table.takers(on(topic)) == {}
        visits.append((table.visited - before, table.evaluated))
    assert visits[0] == visits[1]


def test_filters_that_come_and_go_do_not_make_others_be_looked_at():
    table = filtered(1_000)
    table.takers(on("orders", {"region": "r1"}))
    before = table.visited
    for number in range(100):
        table.add("orders", f"region = 'r{number}' and amount < 0", "late")
        assert list(table.takers(on("orders", {"region": "r5", "amount": 9, "kind": 1}))) == ["client-5"]
    assert table.visited - before <= 300, "the walk to the place, each time"
    assert table.evaluated < 100 * 5


WHERES = st.sampled_from(["", "", "x > 1", "x>1", "y = 2", *(f"x = {n} and y > {n % 3}" for n in range(12))])
ATTRIBUTES = st.fixed_dictionaries({}, optional={"x": st.integers(0, 4), "y": st.integers(1, 3)})
DESTINATIONS = st.sampled_from(["n1", "n2", "n3"])


class TableAgainstAList(RuleBasedStateMachine):
    """Every answer of a table, cached or not, is what a walk over the list of its entries would give."""

    @initialize(cached_topics_max=st.sampled_from([0, 1, 3, 4096]), cached_weight_max=st.sampled_from([6, 4096]))
    def begin(self, cached_topics_max, cached_weight_max):
        self.table = RoutingTable(cached_topics_max, cached_weight_max)
        self.entries = []

    @rule(pattern=PATTERNS, where=WHERES, destination=DESTINATIONS)
    def add(self, pattern, where, destination):
        entry = (pattern, where, destination)
        assert self.table.add(*entry) is (entry not in self.entries)
        if entry not in self.entries:
            self.entries.append(entry)

    @rule(pattern=PATTERNS, where=WHERES, destination=DESTINATIONS)
    def remove_something(self, pattern, where, destination):
        entry = (pattern, where, destination)
        assert self.table.remove(*entry) is (entry in self.entries)
        self.entries = [each for each in self.entries if each != entry]

    @rule(data=st.data())
    def remove_what_is_there(self, data):
        if self.entries:
            self.remove_something(*data.draw(st.sampled_from(self.entries)))

    @rule(destination=DESTINATIONS)
    def remove_destination(self, destination):
        had = sorted((pattern, where) for pattern, where, name in self.entries if name == destination)
        assert self.table.interests(destination) == had
        assert self.table.remove_destination(destination) == had
        self.entries = [each for each in self.entries if each[2] != destination]

    @rule(topic=TOPICS)
    def route(self, topic):
        expected = {}
        for name in sorted({entry[2] for entry in self.entries}):
            wheres = sorted({w for pattern, w, n in self.entries if n == name and matches(pattern, topic)})
            if wheres:
                expected[name] = None if "" in wheres else tuple(dict.fromkeys(map(parse_filter, wheres)))
            assert self.table.wants(name, topic) is bool(wheres)
        assert list(self.table.route(topic).items()) == list(expected.items())
        assert self.table.destinations(topic) == list(expected)
        assert self.table.is_wanted(topic) is bool(expected)
        for name in ("n1", "n2", "n3"):
            assert self.table.is_wanted_besides(name, topic) is any(one != name for one in expected)

    @rule(topic=TOPICS, attributes=st.lists(ATTRIBUTES, min_size=1, max_size=4))
    def takers(self, topic, attributes):
        batch = make_batch("ann", 1, topic, 0, [b"x"] * len(attributes), attributes=attributes)
        wanted = {name: batch.matching(filters) for name, filters in self.table.route(topic).items()}
        found = {name: batch.chosen(choice) for name, choice in self.table.takers(batch).items()}
        assert list(found.items()) == [(name, parts) for name, parts in wanted.items() if parts]
        for one in attributes:
            alone = [
                name for name, filters in self.table.route(topic).items() if filters is None or any_match(filters, one)
            ]
            assert list(self.table.takers_of(topic, one)) == alone

    @rule(pattern=PATTERNS, where=WHERES)
    def sources(self, pattern, where):
        assert self.table.sources(pattern, where) == tuple(
            sorted(n for p, w, n in self.entries if (p, w) == (pattern, where))
        )

    @invariant()
    def agrees(self):
        if hasattr(self, "table"):
            assert len(self.table) == len(self.entries)
            assert self.table.distinct() == sorted({(pattern, where) for pattern, where, _ in self.entries})
            self.table.check_invariants()


TestTableAgainstAList = TableAgainstAList.TestCase
TestTableAgainstAList.settings = settings(max_examples=150, stateful_step_count=40)
