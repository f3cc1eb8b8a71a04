"""What a LoCaMu broker writes down: wherever a crash cuts the writes off, what is read is a prefix of what happened."""

from holdfast.model.relay_messages import Notice
from holdfast.protocols.locamu.copies import Copy
from holdfast.protocols.locamu.core import CoreImage
from holdfast.protocols.locamu.journal import RECORDS_MAX, Began, Finished, Image, LocamuJournal, Record, Took
from holdfast.protocols.node import Persist


def stored(writes: list[Persist]) -> dict[str, bytes]:
    pairs: dict[str, bytes] = {}
    for write in writes:
        if write.value:
            pairs[write.key] = write.value
        else:
            pairs.pop(write.key, None)
    return pairs


def records(count: int) -> list[Record]:
    copy = Copy(("a", "b"), {"b": {"c": 1}}, {("a", "b"): 2}, notice=Notice("s", "g"))
    return [Began("alice", 7), Took(copy), *(Finished(number) for number in range(count - 2))]


def test_records_are_read_in_their_order():
    journal, said = LocamuJournal(), records(15)
    image, found = LocamuJournal().read(stored([journal.write(record) for record in said]))
    assert image is None
    assert found == said


def test_a_crash_while_an_image_is_written_loses_nothing():
    journal, said = LocamuJournal(), records(RECORDS_MAX)
    before = [journal.write(record) for record in said]
    full = [journal.is_full]
    image = Image(journal.last, CoreImage(serial=RECORDS_MAX), {"alice": 3}, [])
    effects = [effect for effect in journal.replace(image) if isinstance(effect, Persist)]
    assert [*full, journal.is_full] == [True, False]
    after = [journal.write(Finished(9_999))]
    for cut in range(len(effects) + 1):
        found_image, found = LocamuJournal().read(stored(before + effects[:cut]))
        if not cut:
            assert (found_image, found) == (None, said)
        else:
            assert (found_image, found) == (image, [])
    assert LocamuJournal().read(stored(before + effects + after)) == (image, [Finished(9_999)])


def test_numbers_go_on_after_a_crash():
    journal = LocamuJournal()
    pairs = stored([journal.write(record) for record in records(5)])
    again = LocamuJournal()
    again.read(pairs)
    assert again.write(Finished(1)).key == journal.write(Finished(1)).key
