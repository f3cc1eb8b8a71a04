"""Routing tables: who wants what, found by topic.

Problem: a broker holds up to a hundred thousand subscriptions and looks up the topic of every batch that passes.

Idea: patterns lie in a trie by levels, `+` and `#` being children like any other, since no legal topic has them as a
level. A look-up follows at most two children a level (the literal one and `+`) and collects `#` on the way, so it
visits what matches so far and never what does not; for a reserved topic, which no wildcard in the first level matches,
it begins at the second. What was found is kept in a bounded cache; the topics in the cache
lie in a trie of their own, so that a change drops exactly the topics that the changed pattern matches, by walking the
pattern through that trie, and leaves the others warm. A cached topic thus costs one look-up in a dict, without a
version to check.

Where many content filters lie at one place of the trie, a `PredicateIndex` finds those that want a message: `takers` of
a batch costs as much as there are destinations that get it, and hardly more with many filters that do not match. A
change of a filter changes the index of its place; what is cached of a topic names places, not filters, so that it is
soon found again. `route` tells everything about a topic, filter by filter: it is the definition of who wants what.

Invariants: no trie has a childless node without content; every cached route is what a fresh look-up would find; every
order that can be seen is sorted, so that two tables with the same content answer alike however they came by it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from holdfast.model.batches import Attributes, Batch, Choice
from holdfast.model.errors import LocalMisuse
from holdfast.model.filters import Filter, parse_filter
from holdfast.model.topics import EVERYTHING, check_pattern, check_topic, is_reserved
from holdfast.protocols.predicate_index import PredicateIndex

CACHED_TOPICS_MAX = 4096
CACHED_WEIGHT_MAX = 262_144  # destinations and filters in all cached routes together; the oldest routes go first
INDEXED_MIN = 8
"""With so many filters at one place an index costs less than asking each."""

Route = dict[str, tuple[Filter, ...] | None]
Takers = Mapping[str, Choice]
"""The destinations that want some of a batch, sorted, and which of its messages."""


class RoutingTable:
    """Who wants what: (pattern, where) -> destinations, found by topic.

    `where` is a content filter's text, "" for none. Patterns, topics and filters that are not legal are refused with a
    `TopicError` or a `FilterError`, and then nothing has changed.
    """

    __slots__ = (
        "_cache",
        "_held",
        "_interests",
        "_listing_cache",
        "_listings",
        "_root",
        "_routes",
        "_size",
        "evaluated",
        "version",
        "visited",
    )

    def __init__(self, cached_topics_max: int = CACHED_TOPICS_MAX, cached_weight_max: int = CACHED_WEIGHT_MAX) -> None:
        self.version = 0
        """Increases with every change."""
        self.visited = 0
        """Trie nodes that look-ups outside the cache have visited so far: what routing costs, apart from any clock."""
        self.evaluated = 0
        """Filters that were evaluated for messages so far, each time."""
        self._root = _Node()
        self._interests: dict[tuple[str, str], _Interest] = {}
        self._held: dict[str, set[tuple[str, str]]] = {}
        self._size = 0
        self._cache: _TopicCache[Route] = _TopicCache(cached_topics_max, cached_weight_max, _weight)
        self._routes = self._cache.kept  # the same dict, one attribute closer for the hot path
        self._listing_cache: _TopicCache[_Listing] = _TopicCache(cached_topics_max, cached_weight_max, _Listing.weight)
        self._listings = self._listing_cache.kept

    def __len__(self) -> int:
        """The number of (pattern, where, destination) entries."""
        return self._size

    def route(self, topic: str) -> Route:
        """Destinations that want the topic, sorted: with None all of it, else what any of the filters matches.

        The answer is shared with later calls: look at it, do not change it.
        """
        route = self._routes.get(topic)
        return self._look_up(topic) if route is None else route

    def takers(self, batch: Batch) -> Takers:
        """The destinations that want some of the batch, sorted, each with what it wants of it.

        The answer is shared with later calls: look at it, do not change it.
        """
        listing = self._listings.get(batch.topic)
        if listing is None:
            listing = self._listed(batch.topic)
        if not listing.filtered:
            return listing.everything
        if len(batch.attributes) <= 1:
            return self._wanting(listing, batch.attributes_of(0))
        batch.verify()
        chosen: dict[str, list[int]] = {}
        for number, attributes in enumerate(batch.attributes):
            for destination in self._picky(listing, attributes):
                chosen.setdefault(destination, []).append(number)
        takers: dict[str, Choice] = {
            name: None if len(numbers) == batch.count else numbers for name, numbers in chosen.items()
        }
        takers.update(listing.everything)
        return dict(sorted(takers.items(), key=_by_name))

    def takers_of(self, topic: str, attributes: Attributes) -> Takers:
        """The same for one message with these attributes."""
        listing = self._listing(topic)
        return self._wanting(listing, attributes) if listing.filtered else listing.everything

    def choice(self, destination: str, batch: Batch) -> Choice:
        """What one destination wants of the batch."""
        return self.takers(batch).get(destination, ())

    def destinations(self, topic: str) -> list[str]:
        """Those with any interest in the topic, filters disregarded, sorted."""
        listing = self._listing(topic)
        return (
            sorted({name for names in listing.named() for name in names}) if listing.filtered else [*listing.everything]
        )

    def wants(self, destination: str, topic: str) -> bool:
        """Whether the destination has any interest in the topic, filters disregarded."""
        return any(destination in names for names in self._listing(topic).named())

    def is_wanted(self, topic: str) -> bool:
        """Whether somebody has any interest in the topic, filters disregarded."""
        return any(self._listing(topic).named())

    def is_wanted_besides(self, destination: str, topic: str) -> bool:
        """Whether somebody else has any interest in the topic, filters disregarded."""
        return any(len(names) > (destination in names) for names in self._listing(topic).named())

    def add(self, pattern: str, where: str, destination: str) -> bool:
        """Adds an interest of the destination; True if it did not have it yet."""
        interest = self._interests.get((pattern, where))
        if interest is None:
            interest = self._new_interest(pattern, where)
        elif interest.has(destination):
            return False
        insort(interest.destinations, destination)
        interest.count(destination, 1)
        self._held.setdefault(destination, set()).add((pattern, where))
        self._size += 1
        self._changed(pattern)
        return True

    def remove(self, pattern: str, where: str, destination: str) -> bool:
        """Removes an interest of the destination; True if it had it."""
        interest = self._interests.get((pattern, where))
        if interest is None or not interest.has(destination):
            return False
        del interest.destinations[bisect_left(interest.destinations, destination)]
        interest.count(destination, -1)
        if not interest.destinations:
            self._drop_interest(pattern, where)
        held = self._held[destination]
        held.discard((pattern, where))
        if not held:
            del self._held[destination]
        self._size -= 1
        self._changed(pattern)
        return True

    def remove_destination(self, destination: str) -> list[tuple[str, str]]:
        """Removes every interest of the destination and returns what it had, sorted."""
        had = self.interests(destination)
        for pattern, where in had:
            self.remove(pattern, where, destination)
        return had

    def interests(self, destination: str) -> list[tuple[str, str]]:
        """The destination's (pattern, where) pairs, sorted."""
        return sorted(self._held.get(destination, ()))

    def sources(self, pattern: str, where: str) -> tuple[str, ...]:
        """The destinations that have exactly this interest, sorted."""
        interest = self._interests.get((pattern, where))
        return () if interest is None else tuple(interest.destinations)

    def distinct(self) -> list[tuple[str, str]]:
        """Every (pattern, where) that somebody has, sorted."""
        return sorted(self._interests)

    def check_invariants(self) -> None:
        """Raises AssertionError when the table contradicts itself; for tests, since it looks at everything."""
        pairs = {(key, name) for key, interest in self._interests.items() for name in interest.destinations}
        assert pairs == {(key, name) for name, held in self._held.items() for key in held}, "indexes disagree"
        assert len(pairs) == self._size, "the count is off"
        nodes = [self._root]
        for node in nodes:
            assert node is self._root or not node.is_empty(), "an empty node was not pruned"
            nodes.extend((node.children or {}).values())
        ends = {id(interest) for node in nodes for interest in node.interests()}
        assert ends == {id(interest) for interest in self._interests.values()}, "the trie and the index disagree"
        for node in nodes:
            node.check_invariants()
        self._cache.check_invariants()
        self._listing_cache.check_invariants()
        for topic, route in self._routes.items():
            assert route == self._found(topic), f"the cached route of {topic!r} is stale"
        for topic, listing in self._listings.items():
            fresh = _Listing(self._matching(topic.split("/")))
            assert (listing.everything, listing.filtered) == (fresh.everything, fresh.filtered), f"{topic!r} is stale"

    # ------------------------------------------------------------------------------------------------ changing

    def _new_interest(self, pattern: str, where: str) -> _Interest:
        check_pattern(pattern)
        wanted = parse_filter(where) if where else None
        node = self._root
        for level in pattern.split("/"):
            node = node.child(level)
        interest = node.put(where, wanted)
        self._interests[pattern, where] = interest
        return interest

    def _drop_interest(self, pattern: str, where: str) -> None:
        del self._interests[pattern, where]
        levels = pattern.split("/")
        path = [self._root]
        for level in levels:
            path.append(path[-1].child(level))
        path[-1].drop(where)
        # From the leaf up, whatever became empty goes: a table that has shrunk is as small as one that never grew.
        for parent, level in zip(reversed(path[:-1]), reversed(levels), strict=True):
            if not parent.prune(level):
                break

    def _changed(self, pattern: str) -> None:
        self.version += 1
        self._cache.forget(pattern)
        self._listing_cache.forget(pattern)

    # ------------------------------------------------------------------------------------------------ looking up

    def _look_up(self, topic: str) -> Route:
        route = self._found(check_topic(topic))
        self._cache.keep(topic, route)
        return route

    def _listing(self, topic: str) -> _Listing:
        listing = self._listings.get(topic)
        return self._listed(topic) if listing is None else listing

    def _listed(self, topic: str) -> _Listing:
        listing = _Listing(self._matching(check_topic(topic).split("/")))
        self._listing_cache.keep(topic, listing)
        return listing

    def _wanting(self, listing: _Listing, attributes: Attributes) -> Takers:
        picky = self._picky(listing, attributes)
        if not listing.everything:
            return dict.fromkeys(sorted(picky))
        return dict.fromkeys(sorted([*listing.everything, *picky])) if picky else listing.everything

    def _picky(self, listing: _Listing, attributes: Attributes) -> set[str]:
        """The destinations that want such a message by a filter of theirs, and do not want everything anyway."""
        wanting: set[str] = set()
        for node in listing.filtered:
            for interest in self._asked(node, attributes):
                wanting.update(interest.destinations)
        return wanting.difference(listing.everything) if listing.everything else wanting

    def _asked(self, node: _Node, attributes: Attributes) -> list[_Interest]:
        """The interests with filters whose pattern ends there, and that want such a message."""
        index = node.index
        if index is None:
            filtered = node.filtered or {}
            self.evaluated += len(filtered)
            return [one for one in filtered.values() if one.filter is None or one.filter.matches(attributes)]
        before = index.evaluated
        found = index.matching(attributes)
        self.evaluated += index.evaluated - before
        return found

    def _found(self, topic: str) -> Route:
        wanted: dict[str, dict[str, Filter] | None] = {}
        for node in self._matching(topic.split("/")):
            for interest in node.interests():
                if interest.filter is None:
                    wanted.update(dict.fromkeys(interest.destinations))
                    continue
                for destination in interest.destinations:
                    filters = wanted.setdefault(destination, {})
                    if filters is not None:  # else it has all of the topic already
                        filters[interest.filter.text] = interest.filter
        return {destination: _distinct(filters) for destination, filters in sorted(wanted.items(), key=_by_name)}

    def _matching(self, levels: list[str]) -> list[_Node]:
        """The nodes at which patterns that match end, if any ends there."""
        rests: list[_Node] = []
        reached = [self._root]
        below = self._root.children or {}
        if (child := below.get(EVERYTHING)) is not None:
            rests.append(child)
        if is_reserved(levels[0]):
            # No wildcard in the first level matches these.
            self.visited += 1
            reached, levels = [below[levels[0]]] if levels[0] in below else [], levels[1:]
        for level in levels:
            self.visited += len(reached)
            further: list[_Node] = []
            for node in reached:
                children = node.children
                if children is None:
                    continue
                if (child := children.get(level)) is not None:
                    further.append(child)
                if (child := children.get("+")) is not None:
                    further.append(child)
                if (child := children.get("#")) is not None:
                    rests.append(child)
            reached = further
        # 'a/#' matches 'a' as well: what remains may be nothing.
        rests += [node.children["#"] for node in reached if node.children is not None and "#" in node.children]
        self.visited += len(reached) + len(rests)
        return reached + rests


def _by_name(item: tuple[str, object]) -> str:
    return item[0]


def _distinct(filters: dict[str, Filter] | None) -> tuple[Filter, ...] | None:
    """Sorted by text; of filters that differ in spelling alone, one."""
    if filters is None:
        return None
    return tuple(dict.fromkeys(filters[text] for text in sorted(filters)))


class _Interest:
    """One (pattern, where), and the destinations that have it, sorted."""

    __slots__ = ("_counts", "destinations", "filter")

    def __init__(self, wanted: Filter | None, counts: dict[str, int] | None) -> None:
        self.filter = wanted
        self.destinations: list[str] = []
        self._counts = counts

    def has(self, destination: str) -> bool:
        index = bisect_left(self.destinations, destination)
        return index < len(self.destinations) and self.destinations[index] == destination

    def count(self, destination: str, difference: int) -> None:
        """The destination has one filter more at this place, or one less."""
        if self._counts is not None:
            count = self._counts[destination] = self._counts.get(destination, 0) + difference
            if not count:
                del self._counts[destination]


class _Node:
    """A place in the trie of patterns. Most have one interest or a few children: empty dicts would outweigh them."""

    __slots__ = ("children", "filtered", "index", "picky", "unfiltered")

    def __init__(self) -> None:
        self.children: dict[str, _Node] | None = None
        self.unfiltered: _Interest | None = None
        self.filtered: dict[str, _Interest] | None = None
        self.index: PredicateIndex[_Interest] | None = None
        """Finds the filtered ones, if they are many."""
        self.picky: dict[str, int] | None = None
        """Of each destination with filters here, how many it has."""

    def interests(self) -> list[_Interest]:
        """The interests whose pattern ends here."""
        found = [] if self.unfiltered is None else [self.unfiltered]
        return found if self.filtered is None else [*found, *self.filtered.values()]

    def child(self, level: str) -> _Node:
        """The child of that name, made if it is not there."""
        if self.children is None:
            self.children = {}
        node = self.children.get(level)
        if node is None:
            node = self.children[level] = _Node()
        return node

    def put(self, where: str, wanted: Filter | None) -> _Interest:
        """A new interest whose pattern ends here."""
        if wanted is None:
            self.unfiltered = _Interest(None, None)
            return self.unfiltered
        if self.filtered is None:
            self.filtered, self.picky = {}, {}
        interest = self.filtered[where] = _Interest(wanted, self.picky)
        if self.index is not None:
            self.index.add(wanted, interest)
        elif len(self.filtered) == INDEXED_MIN:
            self.index = PredicateIndex()
            for one in self.filtered.values():
                if one.filter is not None:
                    self.index.add(one.filter, one)
        return interest

    def drop(self, where: str) -> None:
        if not where:
            self.unfiltered = None
        elif self.filtered is not None:
            interest = self.filtered.pop(where)
            if self.index is not None and interest.filter is not None:
                self.index.remove(interest.filter, interest)
            if len(self.filtered) < INDEXED_MIN // 2:
                self.index = None
            if not self.filtered:
                self.filtered = self.picky = None

    def check_invariants(self) -> None:
        """Raises AssertionError when the place contradicts itself; for tests."""
        counts: dict[str, int] = {}
        for interest in (self.filtered or {}).values():
            for destination in interest.destinations:
                counts[destination] = counts.get(destination, 0) + 1
        assert counts == (self.picky or {}), "the filters of a destination are not counted right"
        if self.index is not None:
            assert self.index.size == len(self.filtered or ()), "the index has not what is here"
            self.index.check_invariants()

    def prune(self, level: str) -> bool:
        """Removes the child of that name if nothing is in it or below it; True if it went."""
        if self.children is None or not self.children[level].is_empty():
            return False
        del self.children[level]
        self.children = self.children or None
        return True

    def is_empty(self) -> bool:
        return self.children is None and self.unfiltered is None and self.filtered is None


class _CachedLevel:
    """A place in the trie of cached topics."""

    __slots__ = ("children", "topic")

    def __init__(self) -> None:
        self.children: dict[str, _CachedLevel] = {}
        self.topic: str | None = None


class _Listing:
    """What a look-up finds: the destinations that want everything, sorted, and the places with filters."""

    __slots__ = ("everything", "filtered")

    def __init__(self, nodes: list[_Node]) -> None:
        whole = [node.unfiltered.destinations for node in nodes if node.unfiltered is not None]
        names = whole[0] if len(whole) == 1 else sorted({name for names in whole for name in names})
        self.everything: dict[str, Choice] = dict.fromkeys(names)
        self.filtered = [node for node in nodes if node.filtered is not None]

    def named(self) -> list[Mapping[str, object]]:
        """The destinations with any interest, some of them several times."""
        return [self.everything, *(node.picky or {} for node in self.filtered)]

    def weight(self) -> int:
        """What it counts in the cache."""
        return 1 + len(self.everything) + len(self.filtered)


K = TypeVar("K")


class _TopicCache(Generic[K]):
    """What was found by topic, at most so many and so heavy; at the bound those kept longest are forgotten."""

    __slots__ = ("_root", "_weigh", "_weight", "kept", "topics_max", "weight_max")

    def __init__(self, topics_max: int, weight_max: int, weigh: Callable[[K], int]) -> None:
        if topics_max < 0 or weight_max < 0:
            raise LocalMisuse(
                f"A routing table was made to cache {topics_max} topics of weight {weight_max}; both are 0 or more, "
                "0 meaning that nothing is cached. It was not made."
            )
        self.topics_max = topics_max
        self.weight_max = weight_max
        self.kept: OrderedDict[str, K] = OrderedDict()
        self._weigh = weigh
        self._weight = 0
        self._root = _CachedLevel()

    def keep(self, topic: str, found: K) -> None:
        """Keeps what was found for a topic of which nothing is kept yet."""
        weight = self._weigh(found)
        if self.topics_max == 0 or weight > self.weight_max:
            return  # there is no room that forgetting others could make
        self.kept[topic] = found
        self._weight += weight
        self._place(topic).topic = topic
        while len(self.kept) > self.topics_max or self._weight > self.weight_max:
            self._drop(next(iter(self.kept)))

    def forget(self, pattern: str) -> None:
        """Forgets what was found for every topic that the pattern matches."""
        if not self.kept:
            return
        if pattern[-1] != "#" and "+" not in pattern:
            if pattern in self.kept:
                self._drop(pattern)
            return
        for topic in self._matching(pattern):
            self._drop(topic)

    def check_invariants(self) -> None:
        """Raises AssertionError when the cache contradicts itself or is over a bound; for tests."""
        assert len(self.kept) <= self.topics_max, "too many topics are cached"
        assert self._weight == sum(map(self._weigh, self.kept.values())) <= self.weight_max, "the weight is off"
        assert sorted(_topics_below([self._root])) == sorted(self.kept), "the trie and what is kept disagree"
        places = [self._root]
        for place in places:
            assert place is self._root or place.children or place.topic, "an empty place was not pruned"
            places.extend(place.children.values())

    def _matching(self, pattern: str) -> list[str]:
        if pattern == EVERYTHING:
            return list(self.kept)
        reached, levels = [self._root], pattern.split("/")
        if levels[0] in ("+", "#"):
            reached = [child for name, child in self._root.children.items() if not is_reserved(name)]
            levels = levels if levels[0] == "#" else levels[1:]
        for level in levels:
            if level == "#":
                return _topics_below(reached)
            if level == "+":
                reached = [child for place in reached for child in place.children.values()]
            else:
                reached = [place.children[level] for place in reached if level in place.children]
        return [place.topic for place in reached if place.topic is not None]

    def _place(self, topic: str) -> _CachedLevel:
        place = self._root
        for level in topic.split("/"):
            below = place.children.get(level)
            if below is None:
                below = place.children[level] = _CachedLevel()
            place = below
        return place

    def _drop(self, topic: str) -> None:
        self._weight -= self._weigh(self.kept.pop(topic))
        levels = topic.split("/")
        path = [self._root]
        for level in levels:
            path.append(path[-1].children[level])
        path[-1].topic = None
        for parent, level in zip(reversed(path[:-1]), reversed(levels), strict=True):
            child = parent.children[level]
            if child.children or child.topic is not None:
                break
            del parent.children[level]


def _topics_below(places: list[_CachedLevel]) -> list[str]:
    topics: list[str] = []
    places = list(places)
    while places:
        place = places.pop()
        if place.topic is not None:
            topics.append(place.topic)
        places.extend(place.children.values())
    return topics


def _weight(route: Route) -> int:
    """What a route counts in the cache: its topic, its destinations and their filters."""
    return 1 + len(route) + sum(len(filters) for filters in route.values() if filters is not None)
