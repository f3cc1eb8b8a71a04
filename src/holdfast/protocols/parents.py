"""Which of several brokers makes the best parent.

Near ones first: every hop is paid by every message. Then those that answer quickly, in classes that double, so that a
little jitter decides nothing; then those that want most of what the newcomer's side wants, since what both want travels
once; then those with the fewest neighbours and the least waiting to be sent. Names decide what is left, so that
everybody who knows the same comes to the same end.
"""

from collections.abc import Iterable

from msgspec import Struct

ROUND_TRIP_CLASS_S = 0.001
"""Round trips shorter than this are all alike."""


class Candidate(Struct, frozen=True):
    """A broker that may become somebody's parent, as far as it is known."""

    name: str
    hops: int = 1
    round_trip_s: float = 0.0
    common_topics: int = 0
    """How many interests of those who look for a parent it has, too."""
    degree: int = 0
    """How many brokers are its neighbours."""
    backlog_bytes: int = 0
    """What waits to be sent to it: whoever is slow gets nobody in addition."""

    def has_room(self, degree_max: int) -> bool:
        return not degree_max or self.degree < degree_max


def rank(candidates: Iterable[Candidate], degree_max: int = 0) -> list[Candidate]:
    """Those that have room, the best first; whoever has something waiting comes behind all that have not."""
    return sorted((one for one in candidates if one.has_room(degree_max)), key=_key)


def _key(one: Candidate) -> tuple[bool, int, int, int, int, int, str]:
    quickness = int(one.round_trip_s / ROUND_TRIP_CLASS_S).bit_length()
    return one.backlog_bytes > 0, one.hops, quickness, -one.common_topics, one.degree, one.backlog_bytes, one.name
