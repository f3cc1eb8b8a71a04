"""Whether the segments of a store still say what was written to them."""

from collections.abc import Iterator

from holdfast.storage.stores.segment_files import SegmentFiles
from holdfast.storage.stores.segment_index import SegmentIndex, read_index
from holdfast.storage.stores.segment_records import Harmed
from holdfast.storage.stores.segment_scan import LOST_RECORD, Contents, scan
from holdfast.storage.stores.spans import Span, joined, without
from holdfast.storage.stores.store import Damage


def damages_of(files: SegmentFiles, active: int, state: Contents, mark: tuple[int, int]) -> list[Damage]:
    """Read everything; what was mended since is no damage any more."""
    found: list[Damage] = [_general(note, tail=True) for note in state.notes]
    sound: dict[str, list[Span]] = {}
    suspects: list[Damage] = []
    for number, summaries in files.missing().items():
        found.append(_general(f"{files.name(number)} is missing"))
        found += [
            Damage(
                stream=stream, first=one.first, last=one.last, what="some of these were in the segment that is missing"
            )
            for stream, one in summaries.items()
        ]
    for number in files.full():
        index = read_index(files.index_path(number))
        if index is None:
            found.append(_general(f"the index of {files.name(number)} is missing or harmed"))
        contents = files.contents(number)
        suspects += _compared(contents, contents.index if index is None else index, sound)
        if index is None:
            found += _unknown(files.name(number), contents.harmed)
    if active:
        contents = scan(files.data(active), active, mark[1] if mark[0] == active else 0)
        suspects += _compared(contents, state.index, sound)
        found += _unknown(files.name(active), contents.harmed)
        found += [
            _general(f"the commit at byte {record.at:,} of {files.name(active)} has lost its pairs")
            for record in contents.blank
        ]
    covered = {stream: joined(spans) for stream, spans in sound.items()}
    kept = state.kept
    found += [
        damage
        for damage in suspects
        if damage.last >= kept.get(damage.stream, 1)
        and without((damage.first, damage.last), covered.get(damage.stream, ()))
    ]
    return found


def _compared(contents: Contents, expected: SegmentIndex, sound: dict[str, list[Span]]) -> Iterator[Damage]:
    """What a segment was to have and has not; what it has is added to `sound`."""
    harmed = {(damage.stream, damage.first): damage for damage in contents.damages}
    for stream, index in expected.items():
        there = {head.first for head, _, _ in contents.index[stream].entries()} if stream in contents.index else set()
        for head, _, _ in index.entries():
            damage = harmed.get((stream, head.first))
            if damage is not None:
                yield damage
            elif head.first in there:
                sound.setdefault(stream, []).append((head.first, head.last))
            else:
                yield Damage(
                    stream=stream,
                    first=head.first,
                    last=head.last,
                    what=LOST_RECORD,
                    publisher=head.publisher,
                    cat=head.cat,
                )


def _unknown(name: str, harmed: list[Harmed]) -> Iterator[Damage]:
    for one in harmed:
        yield _general(f"bytes {one.at:,} to {one.end - 1:,} of {name} are harmed beyond recognition")


def _general(what: str, tail: bool = False) -> Damage:
    return Damage(stream="", first=0, last=0, what=what, tail=tail)
