"""A matching index: of many content filters, those that want a message, found by its attributes.

Problem: a hundred thousand filters wait for the messages of one topic, and some ten of them want any one message.
Asking each costs a hundred thousand evaluations a message.

Idea: a filter is a conjunction of terms (or several, if it is a disjunction: each of them is an entry of its own). A
*place* holds entries in a short list, its bucket. A bucket that overflows is parted by the attribute that tells its
entries apart best; entries that say nothing about that attribute stay. Behind an attribute an entry lies

- by value, if it names the values (`=`, `in`): one look-up in a dict finds the entries for the message's value;
- by range, if it compares (`<`, `<=`, `>`, `>=`) or asks for a prefix, which is a range of strings: blocks of entries,
  sorted by a bound, each with the window that all its ranges lie in; a message enters the blocks whose window holds its
  value;
- by presence, if all that is known is that a message without the attribute is not wanted (`exists`, `!=`, `not in`).

Behind each of these is a place again, so that `region = 'r17' and kind in ('a', 'b') and amount > 100` is found by the
region, then by the kind, then by the amount. A message walks down with what it has, and every entry that is left is
evaluated in full, with the same meaning as `Filter.matches`: what the index cannot hold (`not`, `or` within `and`)
costs an evaluation and nothing else, and the index can be wrong only by leaving out, which the tests look for.

Which attribute parts a bucket: first those with values, since one value excludes all others; then ranges, two-sided
ones before one-sided ones; then presence. Of several, the one that leaves the fewest entries to a message whose values
are as frequent as the filters' own; of equal ones the first by name.

What it costs: with values, the number of filters does not matter beyond the depth. Filters made only of comparisons are
found in blocks as long as their ranges are narrow, or only few hold; a message that satisfies the first comparison of
half of all filters walks through half of all blocks, and only the other comparisons prune within a block. Filters
without any term to hold on to (`not a = 1`) are all evaluated.

Bounds: an entry with `in` lies in as many places as it has values; the places of one entry are `COPIES_MAX` at most,
and a list that would make it more counts as presence. A disjunction has up to `FILTER_TERMS_MAX` entries.

Invariants: the way of an entry through the places depends on the entry and on the places alone, so that removing it
finds it; no place but the root is empty; a window holds every range of its block.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from math import isqrt
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct

from holdfast.model.filter_syntax import AllOf, AnyOf, Condition, Value
from holdfast.model.filters import Filter
from holdfast.protocols.predicates import HOLDS, PRESENT, TRUTHS, Attributes, Claim, Truth, claims_of

BUCKET_MAX = 24
"""So many entries are evaluated one by one before they are parted."""
COPIES_MAX = 64
"""In so many places one entry may lie because of the values in its lists."""

T = TypeVar("T")


# ------------------------------------------------------------------------------------------------------------ places


class _Entry(Struct, Generic[T], gc=False, eq=False):
    """One conjunction of a filter: a message that satisfies all its terms is wanted by the item."""

    terms: tuple[Condition, ...]
    item: T


class _Place(Generic[T]):
    """Entries that are evaluated, and behind attributes further places."""

    __slots__ = ("entries", "parted", "patience")

    def __init__(self) -> None:
        self.entries: list[_Entry[T]] = []
        self.parted: dict[str, _Parted[T]] | None = None
        self.patience = BUCKET_MAX
        """The bucket is looked at when it has more than this: more than `BUCKET_MAX` if nothing parted it last time."""

    @property
    def is_empty(self) -> bool:
        return not self.entries and not self.parted

    def all_entries(self) -> Iterator[_Entry[T]]:
        """Those here and below, each as often as it lies there."""
        yield from self.entries
        for parted in (self.parted or {}).values():
            for place in parted.places():
                yield from place.all_entries()


class _Way(NamedTuple):
    """What is known of a message that has come to a place."""

    present: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    """The attributes whose value is known."""

    def past(self, name: str, claim: Claim) -> _Way:
        """The way behind that attribute, for what was parted by such a claim."""
        return _Way(self.present | {name}, self.valued if claim.values is None else self.valued | {name})


class _Descent(Generic[T]):
    """An entry on its way down: what it says about each attribute that is not known yet."""

    __slots__ = ("claims", "entry")

    def __init__(self, entry: _Entry[T]) -> None:
        self.entry = entry
        self.claims = claims_of(entry.terms)

    def claim(self, name: str, way: _Way) -> Claim | None:
        """What still tells it apart from others on this way: nothing if it says no more than what is known."""
        claim = self.claims.get(name)
        if claim is None:
            return None
        if claim.values is not None and name not in way.valued and self._fits(claim.values, way):
            return claim
        if claim.kind is not None:
            return claim
        return None if name in way.present else PRESENT

    def _fits(self, values: tuple[Value | Truth, ...], way: _Way) -> bool:
        if len(values) == 1:
            return True
        copies = len(values)
        for name in way.valued:
            known = self.claims.get(name)
            copies *= len(known.values) if known is not None and known.values is not None else 1
        return copies <= COPIES_MAX


class _Parted(Generic[T]):
    """The entries of a place that say something about one attribute."""

    __slots__ = ("number", "numbers", "present", "texts", "values")

    def __init__(self, by_high: bool, number: int) -> None:
        self.number = number
        """Larger than those of the attributes that were parted here before."""
        self.values: dict[Value | Truth, _Place[T]] = {}
        self.numbers: _Ranges[T] = _Ranges(by_high)
        self.texts: _Ranges[T] = _Ranges(by_high)
        self.present: _Place[T] | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.values or self.numbers.size or self.texts.size or self.present)

    def ranges(self, claim: Claim) -> _Ranges[T] | None:
        """Where entries with this claim lie, if it is a range."""
        return self.numbers if claim.kind == "number" else self.texts if claim.kind == "text" else None

    def places(self) -> list[_Place[T]]:
        blocks = [block.place for ranges in (self.numbers, self.texts) for block in ranges.blocks]
        return [*self.values.values(), *blocks, *([] if self.present is None else [self.present])]

    def enter(self, value: Value, reached: list[_Place[T]]) -> int:
        """Add the places that a message with this value walks on to; how many windows were looked at."""
        if self.values:
            below = self.values.get(TRUTHS[value] if isinstance(value, bool) else value)
            if below is not None:
                reached.append(below)
        if self.present is not None:
            reached.append(self.present)
        if isinstance(value, bool):
            return 0
        return (self.texts if isinstance(value, str) else self.numbers).enter(value, reached)


class _Block(Generic[T]):
    """Entries whose ranges lie next to each other, and the window that holds all of these; `None` is no bound."""

    __slots__ = ("high", "low", "patience", "place", "size")

    def __init__(self, first: Claim) -> None:
        self.place: _Place[T] = _Place()
        self.size = 0
        self.low, self.high = first.low, first.high
        self.patience = 0
        """The size up to which no cut can be found that parts the block."""

    def widen(self, claim: Claim) -> None:
        """The window holds this range, too. It does not shrink with what leaves: a block is cut or goes in the end."""
        if self.low is not None and (claim.low is None or claim.low < self.low):
            self.low = claim.low
        if self.high is not None and (claim.high is None or claim.high > self.high):
            self.high = claim.high


class _Ranges(Generic[T]):
    """Blocks of entries, sorted by the low bounds of their ranges, or by the high ones.

    A block holds at most about twice the root of what all of them hold: then looking at every window costs about as
    much as looking into a block.
    """

    __slots__ = ("blocks", "by_high", "cuts", "size")

    def __init__(self, by_high: bool) -> None:
        self.by_high = by_high
        self.size = 0
        self.blocks: list[_Block[T]] = []
        self.cuts: list[Any] = []
        """Where each block but the first begins."""

    @property
    def block_max(self) -> int:
        return max(BUCKET_MAX, 2 * isqrt(self.size))

    def key(self, claim: Claim) -> Any:
        return claim.high if self.by_high else claim.low

    def number_of(self, claim: Claim) -> int:
        """The block in which such a range lies: the first if it has no bound on the side by which they are sorted."""
        key = self.key(claim)
        return 0 if key is None else bisect_right(self.cuts, key)

    def block_for(self, claim: Claim) -> _Block[T]:
        """The block for one more entry."""
        self.size += 1
        if not self.blocks:
            self.blocks.append(_Block(claim))
        block = self.blocks[self.number_of(claim)]
        block.size += 1
        block.widen(claim)
        return block

    def drop(self, number: int) -> None:
        """Drop an empty block: its neighbour takes its share."""
        del self.blocks[number]
        if self.cuts:
            del self.cuts[max(number - 1, 0)]

    def enter(self, value: Any, reached: list[_Place[T]]) -> int:
        """Add the places of the blocks whose window holds the value; how many windows were looked at."""
        if not self.blocks:
            return 0
        number = bisect_right(self.cuts, value)
        # Ranges without a bound on the side by which the blocks are sorted lie in the first.
        blocks = [self.blocks[0], *self.blocks[max(number, 1) :]] if self.by_high else self.blocks[: number + 1]
        for block in blocks:
            low, high = block.low, block.high
            if (low is None or low <= value) and (high is None or value <= high):
                reached.append(block.place)
        return len(blocks)


# ------------------------------------------------------------------------------------------------------- the index


class PredicateIndex(Generic[T]):
    """Items by their content filters. An item can be hashed; what was added with a filter is removed with the same."""

    __slots__ = ("_root", "_several", "evaluated", "size", "visited")

    def __init__(self) -> None:
        self.size = 0
        self.visited = 0
        """Places and windows that messages have come to so far: what matching costs, apart from any clock."""
        self.evaluated = 0
        """Entries that were evaluated for them."""
        self._root: _Place[T] = _Place()
        self._several = 0
        """How many filters have several entries."""

    def __len__(self) -> int:
        return self.size

    def matching(self, attributes: Attributes) -> list[T]:
        """The items whose filters want a message with these attributes, each once."""
        found: list[T] = []
        reached = [self._root]
        windows = evaluated = 0
        tests = HOLDS
        for place in reached:  # it grows on the way
            for entry in place.entries:
                for term in entry.terms:
                    if not tests[term.__class__](term, attributes):
                        break
                else:
                    found.append(entry.item)
            evaluated += len(place.entries)
            if place.parted is not None:
                for value, parted in _met(place.parted, attributes):
                    windows += parted.enter(value, reached)
        self.visited += len(reached) + windows
        self.evaluated += evaluated
        return list(dict.fromkeys(found)) if self._several else found

    def add(self, wanted: Filter, item: T) -> None:
        entries = _entries(wanted, item)
        self.size += 1
        self._several += len(entries) > 1
        for entry in entries:
            _add(self._root, _Descent(entry), NOWHERE)

    def remove(self, wanted: Filter, item: T) -> None:
        """Remove what was added so; a `KeyError` if it was not."""
        entries = _entries(wanted, item)
        for entry in entries:
            _remove(self._root, _Descent(entry), NOWHERE)
        self.size -= 1
        self._several -= len(entries) > 1

    def check_invariants(self) -> None:
        """Raises AssertionError when the index contradicts itself; for tests, since it looks at everything."""
        _check(self._root, NOWHERE)


NOWHERE = _Way()


def _entries(wanted: Filter, item: T) -> list[_Entry[T]]:
    condition = wanted.condition
    alternatives = condition.conditions if isinstance(condition, AnyOf) else (condition,)
    return [_Entry(one.conditions if isinstance(one, AllOf) else (one,), item) for one in alternatives]


def _met(parted: dict[str, _Parted[T]], attributes: Attributes) -> Iterator[tuple[Value, _Parted[T]]]:
    """The attributes that are parted here and that the message has, by the shorter way."""
    if len(parted) <= len(attributes):
        for name, one in parted.items():
            value = attributes.get(name)
            if value is not None:
                yield value, one
    else:
        for name, value in attributes.items():
            if name in parted:
                yield value, parted[name]


# ------------------------------------------------------------------------------------------------- adding, removing


def _turn(place: _Place[T], descent: _Descent[T], way: _Way) -> tuple[str, Claim] | None:
    """Behind which attribute the entry lies, if not here: the one that was parted first, of those that it names."""
    parted = place.parted
    if parted is None:
        return None
    names: Iterable[str] = parted
    if len(descent.claims) < len(parted):
        # A long filter with an attribute of its own in each alternative would be compared with all of them otherwise.
        names = sorted((name for name in descent.claims if name in parted), key=lambda name: parted[name].number)
    for name in names:
        claim = descent.claim(name, way)
        if claim is not None:
            return name, claim
    return None


def _add(place: _Place[T], descent: _Descent[T], way: _Way) -> None:
    turn = _turn(place, descent, way)
    if turn is not None:
        _add_behind(place, turn, descent, way)
        return
    place.entries.append(descent.entry)
    if len(place.entries) > place.patience:
        _part(place, way)


def _add_behind(place: _Place[T], turn: tuple[str, Claim], descent: _Descent[T], way: _Way) -> None:
    name, claim = turn
    assert place.parted is not None, "an entry goes behind an attribute of a place that is not parted"
    parted = place.parted[name]
    further = way.past(name, claim)
    if claim.values is not None:
        for value in claim.values:
            below = parted.values.get(value)
            if below is None:
                below = parted.values[value] = _Place()
            _add(below, descent, further)
        return
    ranges = parted.ranges(claim)
    if ranges is None:
        parted.present = parted.present or _Place()
        _add(parted.present, descent, further)
        return
    block = ranges.block_for(claim)
    if block.size > max(ranges.block_max, block.patience):
        # It is cut before it is parted: a bucket that can be cut by this attribute need not be parted by another.
        block.place.entries.append(descent.entry)
        _cut(ranges, ranges.number_of(claim), name, further)
    else:
        _add(block.place, descent, further)


def _remove(place: _Place[T], descent: _Descent[T], way: _Way) -> None:
    turn = _turn(place, descent, way)
    if turn is not None:
        _remove_behind(place, turn, descent, way)
        return
    item, terms = descent.entry.item, descent.entry.terms
    for number, entry in enumerate(place.entries):
        if entry.item is item and entry.terms == terms:
            del place.entries[number]
            return
    raise KeyError(item)


def _remove_behind(place: _Place[T], turn: tuple[str, Claim], descent: _Descent[T], way: _Way) -> None:
    name, claim = turn
    assert place.parted is not None, "an entry is sought behind an attribute of a place that is not parted"
    parted = place.parted[name]
    further = way.past(name, claim)
    if claim.values is not None:
        for value in claim.values:
            _remove(parted.values[value], descent, further)
            if parted.values[value].is_empty:
                del parted.values[value]
    elif (ranges := parted.ranges(claim)) is not None:
        number = ranges.number_of(claim)
        block = ranges.blocks[number]
        _remove(block.place, descent, further)
        block.size -= 1
        ranges.size -= 1
        if not block.size:
            ranges.drop(number)
    elif parted.present is not None:
        _remove(parted.present, descent, further)
        if parted.present.is_empty:
            parted.present = None
    # What has become empty goes: an index that has shrunk is as small as one that never grew.
    if parted.is_empty:
        del place.parted[name]
        place.parted = place.parted or None


# ---------------------------------------------------------------------------------------------------------- parting


def _part(place: _Place[T], way: _Way) -> None:
    """The bucket has overflowed: what says something about the most telling attribute goes behind it."""
    descents = [_Descent(entry) for entry in place.entries]
    name = _most_telling(descents, way)
    if name is None:
        place.patience = 2 * len(place.entries)
        return
    if place.parted is None:
        place.parted = {}
    number = place.parted[next(reversed(place.parted))].number + 1 if place.parted else 0
    place.parted[name] = _Parted(_is_by_high(descents, name), number)
    place.entries = []
    place.patience = BUCKET_MAX
    for descent in descents:
        claim = descent.claim(name, way)
        if claim is None:
            place.entries.append(descent.entry)
        else:
            _add_behind(place, (name, claim), descent, way)


def _most_telling(descents: list[_Descent[T]], way: _Way) -> str | None:
    """The attribute that parts these entries best; `None` if none does."""
    best: tuple[int, float, str] | None = None
    said: dict[str, list[Claim]] = {}
    for descent in descents:
        for name in descent.claims:
            claim = descent.claim(name, way)
            if claim is not None:
                said.setdefault(name, []).append(claim)
    for name in sorted(said):
        worth = _worth(said[name], name in way.present)
        # Of equal ones the first by name.
        if worth is not None and (best is None or worth > best[:2]):
            best = (*worth, name)
    return None if best is None else best[2]


def _worth(claims: list[Claim], present: bool) -> tuple[int, float] | None:
    """How well an attribute parts entries that say this about it: the kind, and how many a message leaves behind."""
    counts: dict[Value | Truth, int] = {}
    for claim in claims:
        for value in claim.values or ():
            counts[value] = counts.get(value, 0) + 1
    if counts:
        postings = sum(counts.values())
        return 3, postings - sum(count * count for count in counts.values()) / postings
    ranges = [claim for claim in claims if claim.kind is not None]
    if len({claim.low for claim in ranges}) > 1 or len({claim.high for claim in ranges}) > 1:
        # Who has come so far by one bound of an attribute satisfies most others; a narrow range still excludes many.
        one_sided = 0.1 if present else 0.5
        return 2, sum(one_sided if claim.low is None or claim.high is None else 1.0 for claim in ranges)
    return (1, float(len(claims))) if claims and not present else None


def _is_by_high(descents: list[_Descent[T]], name: str) -> bool:
    """Whether the ranges of an attribute differ more in their high bounds than in their low ones."""
    claims = [claim for descent in descents if (claim := descent.claims.get(name)) is not None]
    return len({claim.high for claim in claims}) > len({claim.low for claim in claims})


def _cut(ranges: _Ranges[T], number: int, name: str, way: _Way) -> None:
    """Make two blocks of one that is too large, as equal as they can be."""
    block = ranges.blocks[number]
    entries = {id(entry): entry for entry in block.place.all_entries()}
    descents = [_Descent(entry) for entry in entries.values()]
    keys = [ranges.key(descent.claims[name]) for descent in descents]
    cut = _middle([key for key in keys if key is not None], keys.count(None))
    if cut is None:
        block.patience = 2 * block.size
        block.place = _Place()
        for descent in descents:
            _add(block.place, descent, way)
        return
    sides: list[list[_Descent[T]]] = [[], []]
    for key, descent in zip(keys, descents, strict=True):
        sides[key is not None and key >= cut].append(descent)
    ranges.blocks[number : number + 1] = [_filled(side, name, way) for side in sides]
    ranges.cuts.insert(number, cut)


def _middle(keys: list[Any], unbounded: int) -> Any:
    """The key nearest to the middle at which a block can be cut; `None` if all its keys are one."""
    keys.sort()
    if not keys or (not unbounded and keys[0] == keys[-1]):
        return None
    middle = keys[max(0, (len(keys) - unbounded) // 2)]
    if unbounded or middle != keys[0]:
        return middle
    return keys[bisect_right(keys, middle)]


def _filled(descents: list[_Descent[T]], name: str, way: _Way) -> _Block[T]:
    block: _Block[T] = _Block(descents[0].claims[name])
    block.size = len(descents)
    for descent in descents:
        block.widen(descent.claims[name])
        _add(block.place, descent, way)
    return block


# --------------------------------------------------------------------------------------------------------- checking


def _check(place: _Place[T], way: _Way) -> None:
    for entry in place.entries:
        assert _turn(place, _Descent(entry), way) is None, "an entry lies where it would not be looked for"
    for name, parted in (place.parted or {}).items():
        valued, present = way.past(name, Claim(())), way.past(name, PRESENT)
        assert not parted.is_empty, "an attribute was parted for nothing"
        for below in parted.values.values():
            assert not below.is_empty, "an empty place was not dropped"
            _check(below, valued)
        for ranges in (parted.numbers, parted.texts):
            _check_ranges(ranges, name, present)
        if parted.present is not None:
            assert not parted.present.is_empty, "an empty place was not dropped"
            _check(parted.present, present)


def _check_ranges(ranges: _Ranges[T], name: str, way: _Way) -> None:
    assert ranges.size == sum(block.size for block in ranges.blocks), "the count is off"
    assert len(ranges.cuts) == max(len(ranges.blocks) - 1, 0), "a cut is missing"
    assert ranges.cuts == sorted(ranges.cuts), "the blocks are out of order"
    for number, block in enumerate(ranges.blocks):
        entries = {id(entry): entry for entry in block.place.all_entries()}
        assert len(entries) == block.size > 0, "the count of a block is off"
        for entry in entries.values():
            claim = claims_of(entry.terms)[name]
            assert ranges.number_of(claim) == number, "an entry lies in the wrong block"
            assert block.low is None or (claim.low is not None and block.low <= claim.low), "a window is too small"
            assert block.high is None or (claim.high is not None and block.high >= claim.high), "a window is too small"
        _check(block.place, way)
