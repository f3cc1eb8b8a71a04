"""The filters of one broker, of which fewer are matched than are known: covering and merging.

Of two filters that point to the same node, one that the other *covers* changes nothing: whatever it wants goes there
anyway. Filters to one node that differ in the values of one attribute alone are *merged*: one that names the values of
both. Both are exact: the recipients of every message are those of all filters.

What is known of filters stays whole. A broker announces every filter to every other, covered or not, and drops none; so
one that is uncovered is there at once, in the same turn in which the filter that covered it goes. It cannot be left to
neighbours to announce it again. 1. A broker has not told f further, since g covers it. 2. g is taken back: it tells f,
and then passes that on. 3. It fails between the two, and whoever goes past it tells that g is gone, and knows nothing
of f that it would have to tell. Messages for f would be lost until a broker returns.

A filter that comes is compared with those that want its witness. Whether it covers others is found out when the table
has grown by half, for a few with each that comes: so each filter is compared a few times, however many there are.
Merging makes tables smaller and matching no faster, since an index finds single values at once: it is off unless it is
asked for.
"""

from collections import deque
from collections.abc import Iterable

from holdfast.model.batches import Batch
from holdfast.model.delta_messages import Entry
from holdfast.model.filter_syntax import FILTER_CHARACTERS_MAX, Condition, print_condition
from holdfast.model.filters import Filter, Value, parse_filter
from holdfast.model.messages import Interest
from holdfast.model.topics import check_pattern
from holdfast.protocols.coverage import covers, merge, merger_of, wider_patterns, witness
from holdfast.protocols.predicate_index import PredicateIndex
from holdfast.protocols.routing import RoutingTable, Takers

MERGED_MAX = 64
"""So many filters are merged into one."""
GROWTH_MIN = 16
SWEPT = 8
"""So many filters are looked at again whenever one comes."""


class _Kept:
    """The filters to one node, with one pattern, that no other covers."""

    __slots__ = ("filters", "index", "unfiltered")

    def __init__(self) -> None:
        self.unfiltered = False
        self.filters: dict[str, Filter] = {}
        self.index: PredicateIndex[Filter] = PredicateIndex()

    def add(self, where: str) -> None:
        if where:
            wanted = self.filters[where] = parse_filter(where)
            self.index.add(wanted, wanted)
        else:
            self.unfiltered = True

    def remove(self, where: str) -> None:
        if where:
            wanted = self.filters.pop(where)
            self.index.remove(wanted, wanted)
        else:
            self.unfiltered = False

    def __bool__(self) -> bool:
        return self.unfiltered or bool(self.filters)

    def covering(self, but: str | None, wanted: Condition | None, seen: dict[str, Value] | None) -> str | None:
        """One of these, other than `but`, that covers the condition, of which there is a witness, or none."""
        if self.unfiltered and but != "":
            return ""
        if wanted is None or seen is None:
            return None
        found = [one for one in self.index.matching(seen) if one.text != but and covers(one.condition, wanted)]
        return min((one.text for one in found), default=None)


class FewerFilters:
    """Who wants what: (pattern, where) -> nodes, of which only those that count are matched."""

    def __init__(self, merges: bool = False) -> None:
        self._merges = merges
        self.matched = RoutingTable()
        """What is looked at for messages."""
        self._nodes: dict[Interest, dict[str, None]] = {}
        self._held: dict[str, dict[Interest, None]] = {}
        self._size = 0
        self._kept: dict[str, dict[str, _Kept]] = {}
        """By node and pattern."""
        self._above: dict[Entry, Entry] = {}
        """Of each filter that is covered, one that covers it."""
        self._below: dict[Entry, dict[Entry, None]] = {}
        self._merged: dict[Entry, Entry] = {}
        """Of each filter that is merged with others, what is matched in its place."""
        self._members: dict[Entry, dict[Entry, None]] = {}
        self._uses: dict[Entry, int] = {}
        self._grown = 0
        self._due: deque[Entry] = deque()
        """Filters of which it is to be found out whether later ones cover them."""

    # ------------------------------------------------------------------------------------------------------- known

    def __len__(self) -> int:
        return self._size

    def sources(self, pattern: str, where: str) -> tuple[str, ...]:
        """The nodes that have exactly this interest, sorted."""
        return tuple(sorted(self._nodes.get((pattern, where), ())))

    def distinct(self) -> list[Interest]:
        """Every (pattern, where) that somebody has, sorted."""
        return sorted(self._nodes)

    def interests(self, node: str) -> list[Interest]:
        """What goes to that node, sorted."""
        return sorted(self._held.get(node, ()))

    def takers(self, batch: Batch) -> Takers:
        return self.matched.takers(batch)

    # ----------------------------------------------------------------------------------------------------- changes

    def add(self, pattern: str, where: str, node: str) -> bool:
        """Whether that was not known."""
        nodes = self._nodes.get((pattern, where))
        if nodes is not None and node in nodes:
            return False
        check_pattern(pattern)
        if where:
            parse_filter(where)
        self._nodes.setdefault((pattern, where), {})[node] = None
        self._held.setdefault(node, {})[pattern, where] = None
        self._size += 1
        self._place((pattern, where, node))
        self._grown += 1
        if self._grown > max(GROWTH_MIN, len(self.matched) // 2) and not self._due:
            self._compact()
        self._sweep()
        return True

    def remove(self, pattern: str, where: str, node: str) -> bool:
        """Whether that was known; whatever it covered counts from now on."""
        if node not in self._nodes.get((pattern, where), ()):
            return False
        entry = (pattern, where, node)
        self._unlist(entry)
        above = self._above.pop(entry, None)
        if above is not None:
            self._uncover(above, entry)
            return True
        self._kept[node][pattern].remove(where)
        for one in list(self._below.pop(entry, ())):
            del self._above[one]
            self._place(one)
        self._drop_kept(entry)
        return True

    def _unlist(self, entry: Entry) -> None:
        pattern, where, node = entry
        interest = (pattern, where)
        del self._nodes[interest][node]
        if not self._nodes[interest]:
            del self._nodes[interest]
        del self._held[node][interest]
        if not self._held[node]:
            del self._held[node]
        self._size -= 1

    def _drop_kept(self, entry: Entry) -> None:
        """That filter is not matched any more."""
        pattern, _, node = entry
        if not self._kept[node][pattern]:
            del self._kept[node][pattern]
        if not self._kept[node]:
            del self._kept[node]
        self._unmatch(entry)

    def _uncover(self, above: Entry, entry: Entry) -> None:
        del self._below[above][entry]
        if not self._below[above]:
            del self._below[above]

    def _place(self, entry: Entry) -> None:
        """It is covered, or it is matched."""
        above = self._covering(entry)
        if above is not None:
            self._cover(above, entry)
            return
        pattern, where, node = entry
        self._kept.setdefault(node, {}).setdefault(pattern, _Kept()).add(where)
        self._use(entry)

    def _cover(self, above: Entry, entry: Entry) -> None:
        self._above[entry] = above
        self._below.setdefault(above, {})[entry] = None

    def _covering(self, entry: Entry) -> Entry | None:
        """One that is matched and covers that one."""
        pattern, where, node = entry
        kept = self._kept.get(node)
        if kept is None:
            return None
        wanted = parse_filter(where).condition if where else None
        seen = witness(wanted) if wanted is not None else None
        for wider in wider_patterns(pattern):
            there = kept.get(wider)
            if there is None:
                continue
            found = there.covering(where if wider == pattern else None, wanted, seen)
            if found is not None:
                return (wider, found, node)
        return None

    # ---------------------------------------------------------------------------------------------------- matched

    def _use(self, matched: Entry) -> None:
        self._uses[matched] = self._uses.get(matched, 0) + 1
        self.matched.add(*matched)

    def _disuse(self, matched: Entry) -> None:
        self._uses[matched] -= 1
        if not self._uses[matched]:
            del self._uses[matched]
            self.matched.remove(*matched)

    def _unmatch(self, entry: Entry) -> None:
        """Match it no longer: by itself, or as one of several."""
        unit = self._merged.pop(entry, None)
        if unit is None:
            self._disuse(entry)
            return
        rest = self._members.pop(unit)
        for one in rest:
            self._merged.pop(one, None)
        del rest[entry]
        self._merge(list(rest))
        self._disuse(unit)

    def _compact(self) -> None:
        """Look for filters that later ones cover, and for those that can be merged.

        A few at a time: a broker that has 50,000 would stand still for seconds.
        """
        self._grown = 0
        self._due.extend((pattern, where, node) for node, kept in self._kept.items() for pattern, where in _texts(kept))
        if self._merges:
            while self._due:
                self._sweep()
            self._merge_alike()

    def _sweep(self) -> None:
        for _ in range(min(SWEPT, len(self._due))):
            entry = self._due.popleft()
            pattern, where, node = entry
            if entry in self._above or node not in self._nodes.get((pattern, where), ()):
                continue
            above = self._covering(entry)
            if above is None:
                continue
            for one in [entry, *self._below.pop(entry, ())]:
                self._cover(above, one)
            self._kept[node][pattern].remove(where)
            self._drop_kept(entry)

    def _merge_alike(self) -> None:
        """Merge those that are alike but for the values of one attribute."""
        alike: dict[tuple[str, str, str, str], list[Entry]] = {}
        for node, kept in self._kept.items():
            for pattern, there in kept.items():
                for where, wanted in there.filters.items():
                    merger = merger_of(wanted.condition)
                    if merger is not None and (pattern, where, node) not in self._merged:
                        others = " and ".join(print_condition(one) for one in merger[2])
                        alike.setdefault((node, pattern, merger[0], others), []).append((pattern, where, node))
        for entries in alike.values():
            for at in range(0, len(entries), MERGED_MAX):
                some = entries[at : at + MERGED_MAX]
                if len(some) > 1 and self._merge(some):
                    for one in some:
                        self._disuse(one)

    def _merge(self, entries: list[Entry]) -> bool:
        """Match one filter in place of these, or each by itself if that is too long; whether it is one."""
        unit = _merged(entries)
        if unit is None or unit in self._members:
            for one in entries:
                self._use(one)
            return False
        self._use(unit)
        self._members.setdefault(unit, {}).update(dict.fromkeys(entries))
        self._merged.update(dict.fromkeys(entries, unit))
        return True

    def check_invariants(self) -> None:
        """Raises AssertionError when the table contradicts itself."""
        known = {(pattern, where, node) for (pattern, where), nodes in self._nodes.items() for node in nodes}
        assert len(known) == self._size, "the count is off"
        kept = {(pattern, where, node) for node, one in self._kept.items() for pattern, where in _texts(one)}
        assert kept | set(self._above) == known, "a filter is neither matched nor covered"
        assert not kept & set(self._above), "a filter is matched and covered"
        assert set(self._above.values()) <= kept, "a filter is covered by one that is not matched"
        units = {self._merged.get(one, one) for one in kept}
        assert units == set(self._uses), "what is matched is not what is kept"
        assert len(units) == len(self.matched), "the table matches something else"
        self.matched.check_invariants()


def _texts(kept: dict[str, _Kept]) -> Iterable[Interest]:
    for pattern, there in kept.items():
        if there.unfiltered:
            yield pattern, ""
        yield from ((pattern, where) for where in there.filters)


def _merged(entries: list[Entry]) -> Entry | None:
    """The one filter for these, which are alike but for the values of one attribute; `None` if it is too long."""
    mergers = [merger_of(parse_filter(where).condition) for _, where, _ in entries]
    found = [one for one in mergers if one is not None]
    if len(entries) < 2 or len(found) < len(entries):
        return None
    values = tuple(value for one in found for value in one[1])
    text = print_condition(merge(found[0][0], values, found[0][2]))
    if len(text) > FILTER_CHARACTERS_MAX:
        return None
    pattern, _, node = entries[0]
    return (pattern, text, node)
