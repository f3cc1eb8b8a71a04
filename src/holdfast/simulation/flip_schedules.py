"""When bits flip in a random run, on which links and how often; and messages in which there is something to alter."""

from collections.abc import Iterable, Iterator
from random import Random

from msgspec.structs import replace

from holdfast.simulation.faults import Flip, Publish, React
from holdfast.simulation.scenarios import Timed

SHARES = (0.02, 0.1, 0.3)
"""How many of the frames on a bad link are altered."""
PAYLOADS_BYTES = (0, 2, 10, 100, 1000)


def flipping(chance: Random, one: str, other: str, time_s: float, lasting_s: float) -> Iterator[Timed]:
    """A link that is bad for a while."""
    yield Timed(round(time_s, 6), Flip(one, other, chance.choice(SHARES)))
    yield Timed(round(time_s + lasting_s, 6), Flip(one, other, 0.0))


def with_payloads(chance: Random, entries: Iterable[Timed]) -> Iterator[Timed]:
    """The same timetable with something in every message that can be altered."""
    for timed in entries:
        command = timed.command
        if isinstance(command, Publish | React):
            # Text, since a scenario that is written down has nothing else.
            payload = chance.randbytes(chance.choice(PAYLOADS_BYTES) // 2).hex().encode()
            yield Timed(timed.time_s, replace(command, payload=payload))
        else:
            yield timed
