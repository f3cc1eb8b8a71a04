"""Recordings for tests: messages whose payload says who they are."""

from pathlib import Path

from holdfast.model.batches import Message
from holdfast.model.filters import Value
from holdfast.model.guarantees import GUARANTEES
from holdfast.storage.recordings import RecordingWriter

BEGAN_NS = 1_800_000_000_000_000_000


def message(number: int) -> Message:
    """Message `number` of the world: of one of three publishers, on one of four topics."""
    # A total message that names no key has the empty one when it arrives.
    keys = (f"k{number % 5}",) if number % 10 == 0 else ("",) if number % 4 == 3 else ()
    attributes: dict[str, Value] = {"amount": number, "city": "Lisbon", "big": number > 100} if number % 10 == 0 else {}
    return Message(
        f"bank/{number % 4}",
        f'{{"number": {number}}}'.encode(),
        f"teller-{number % 3}",
        number // 3 + 1,
        GUARANTEES[number % 4],
        keys,
        attributes,
    )


def record(path: Path, first: int, count: int, lot: int = 7) -> Path:
    """Append messages first.. to a recording, a few in each frame."""
    with RecordingWriter(path) as writer:
        for start in range(first, first + count, lot):
            lots = [message(number) for number in range(start, min(start + lot, first + count))]
            writer.append(lots, BEGAN_NS + start * 1_000_000)
            writer.flush(sync=False)
    return path
