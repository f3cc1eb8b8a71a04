"""A damaged store, put right with the help of a sibling: another repository of the bundle, or a copy.

Siblings number messages each in their own way, so what is damaged is asked for by its identity and put back under the
sequence numbers that it had here. Where even the identity is lost, whatever the sibling has and this store has not is
put into the one gap into which it fits, if there is exactly one: anything else would be a guess about the order. If
the youngest commits are lost, what the sibling has beyond the rest is appended, under numbers that were never used.
"""

from collections.abc import Iterator

from msgspec import Struct

from holdfast.model.ranges import Range, joined, without
from holdfast.model.reliable import Entry, Level
from holdfast.storage.stores.buffered import EVERYTHING
from holdfast.storage.stores.store import Damage, Store

READ_BYTES = 1 << 20


class Mended(Struct, frozen=True):
    """What was wrong, what is wrong still, and how many messages came back."""

    found: list[Damage]
    left: list[Damage]
    messages: int


def mend_from(store: Store, sibling: Store) -> Mended:
    """Put right what can be put right, commit it, and look again."""
    found = store.verify()
    if not found:
        return Mended([], [], 0)
    streams = sorted({*store.streams(), *(damage.stream for damage in found if damage.stream)})
    store.repair()
    before = _sound(store, streams)
    for damage in found:
        if damage.publisher:
            store.mend(damage.stream, list(_in_its_place(damage, sibling)))
    store.commit(Level.FSYNCED)
    if any(not damage.publisher for damage in found):
        for stream in streams:
            _fill_gaps(store, sibling, stream)
        store.commit(Level.FSYNCED)
    if any(damage.tail for damage in found):
        for stream in sorted({*streams, *sibling.streams()}):
            _append_tail(store, sibling, stream)
        store.commit(Level.FSYNCED)
    return Mended(found, store.verify(), _sound(store, streams) - before)


def _in_its_place(damage: Damage, sibling: Store) -> Iterator[Entry]:
    cat_last = damage.cat + damage.last - damage.first
    for entry in sibling.by_identity(damage.stream, damage.publisher, damage.cat, cat_last, EVERYTHING):
        yield entry.moved(damage.first + entry.cat - damage.cat)


def _entries(store: Store, stream: str) -> Iterator[Entry]:
    first, following = store.bounds(stream)
    while first < following and (some := store.read(stream, first, following, READ_BYTES)):
        yield from some
        first = some[-1].last + 1


def _sound(store: Store, streams: list[str]) -> int:
    return sum(entry.count for stream in streams for entry in _entries(store, stream))


def _fill_gaps(store: Store, sibling: Store, stream: str) -> None:
    gaps = _gaps(store, stream)
    if not gaps:
        return
    offered: dict[Range, list[Entry]] = {}
    for missing in _missing(store, sibling, stream):
        fitting = [gap for gap in gaps if _may_hold(store, stream, gap, missing)]
        if len(fitting) == 1:
            offered.setdefault(fitting[0], []).append(missing)
    for (first, last), entries in offered.items():
        if sum(entry.count for entry in entries) == last - first + 1:
            at = first
            for entry in entries:
                store.mend(stream, [entry.moved(at)])
                at += entry.count


def _append_tail(store: Store, sibling: Store, stream: str) -> None:
    missing = [entry for entry in _missing(store, sibling, stream) if not _has_later(store, stream, entry)]
    store.mend(stream, [])
    # What was lost is among what is missing: so many numbers may have been used that nobody remembers.
    at = store.bounds(stream)[1] + sum(entry.count for entry in missing)
    for entry in missing:
        store.append(stream, [entry.moved(at)])
        at += entry.count


def _has_later(store: Store, stream: str, entry: Entry) -> bool:
    return bool(store.by_identity(stream, entry.publisher, entry.cat_last + 1, EVERYTHING, 1))


def _gaps(store: Store, stream: str) -> list[Range]:
    kept, following = store.bounds(stream)
    return without((kept, following - 1), joined((entry.first, entry.last) for entry in _entries(store, stream)))


def _missing(store: Store, sibling: Store, stream: str) -> Iterator[Entry]:
    """What the sibling has and the store has not, in the sibling's order."""
    for entry in _entries(sibling, stream):
        has = store.by_identity(stream, entry.publisher, entry.cat, entry.cat_last, EVERYTHING)
        for cat_first, cat_last in without((entry.cat, entry.cat_last), [(one.cat, one.cat_last) for one in has]):
            yield entry.cat_part(cat_first, cat_last)


def _may_hold(store: Store, stream: str, gap: Range, entry: Entry) -> bool:
    """Whether the gap has room, behind what its publisher published before and before what she published after."""
    before = store.by_identity(stream, entry.publisher, 1, entry.cat - 1, EVERYTHING) if entry.cat > 1 else []
    after = store.by_identity(stream, entry.publisher, entry.cat_last + 1, EVERYTHING, 1)
    if before and before[-1].last > gap[0]:
        return False
    if after and after[0].first < gap[1]:
        return False
    return gap[1] - gap[0] + 1 >= entry.count
