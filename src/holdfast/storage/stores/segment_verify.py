"""Whether the segments of a store still say what was written to them."""

from collections.abc import Callable, Iterator

from holdfast.model.ranges import Range, joined, without
from holdfast.storage.stores.segment_files import SegmentFiles
from holdfast.storage.stores.segment_index import SegmentIndex, read_index
from holdfast.storage.stores.segment_records import Harmed
from holdfast.storage.stores.segment_scan import LOST_RECORD, Contents
from holdfast.storage.stores.store import Damage


def damages_of(
    files: SegmentFiles, active: int, state: Contents, mark: tuple[int, int], kept_now: Callable[[], dict[str, int]]
) -> list[Damage]:
    """Read everything; what was mended or forgotten since is no damage any more."""
    found: list[Damage] = [_general(note, tail=True) for note in state.notes]
    sound: dict[str, list[Range]] = {}
    suspects: list[Damage] = []
    harmed: list[tuple[int, Damage]] = []
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
        try:
            contents = files.contents(number)
        except FileNotFoundError:
            # It was forgotten a moment ago.
            continue
        suspects += _compared(contents, contents.index if index is None else index, sound)
        if index is None:
            harmed.append((number, _general(f"the index of {files.name(number)} is missing or harmed")))
            harmed += [(number, damage) for damage in _unknown(files.name(number), contents.harmed)]
    found += _in_the_last(files, active, state, mark, sound, suspects)
    if not suspects and not harmed:
        return found
    # Only now: of what was mended, the mended one may have been forgotten, and gone, while the harmed one was read.
    kept = kept_now()
    covered = {stream: joined(spans) for stream, spans in sound.items()}
    found += [damage for number, damage in harmed if not files.is_forgotten(number, kept)]
    found += [
        damage
        for damage in suspects
        if damage.last >= kept.get(damage.stream, 1)
        and without((damage.first, damage.last), covered.get(damage.stream, ()))
    ]
    return found


def _in_the_last(
    files: SegmentFiles,
    active: int,
    state: Contents,
    mark: tuple[int, int],
    sound: dict[str, list[Range]],
    suspects: list[Damage],
) -> Iterator[Damage]:
    """The segment that is being written, or was when somebody who only reads opened the store."""
    try:
        contents = files.last_contents(active, mark[1] if mark[0] == active else 0) if active else Contents()
    except FileNotFoundError:
        return
    suspects += _compared(contents, state.index, sound)
    yield from _unknown(files.name(active), contents.harmed)
    for record in contents.blank:
        yield _general(f"the commit at byte {record.at:,} of {files.name(active)} has lost its pairs")


def _compared(contents: Contents, expected: SegmentIndex, sound: dict[str, list[Range]]) -> Iterator[Damage]:
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
