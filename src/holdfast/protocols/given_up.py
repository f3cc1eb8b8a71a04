"""Subscribers that a broker has given up: a receipt of what was published before names them.

A session that is away is waited for. When it is given up (it was away too long, or took nothing for too long), nobody
can say any more what its application has got.

Behind a neighbour that is lost there may be subscribers that do not come to its repair, and are alive all the same:
they, too, are out of reach, and go on by themselves. For a while what they wanted counts against every receipt, also
of messages that are published later.

Bounds: the latest `GIVEN_UP_MAX` are remembered, each for `REMEMBERED_S`. Of what was published before the last one
that was forgotten, a receipt says that it is not known any more.
"""

from collections import deque
from collections.abc import Iterable
from math import inf

from holdfast.model.filters import parse_filter
from holdfast.model.messages import Confirm, Interest
from holdfast.model.receipt_messages import CLEAN, NAMES_MAX, UNKNOWN_AGE_S, Finding
from holdfast.model.topics import matches

GIVEN_UP_MAX = 256
REMEMBERED_S = 600.0
UNACCOUNTED = "(the unaccounted)"
"""The source, in a routing table, of what those wanted who did not come: questions about it must still get here."""
ON_ITS_WAY_S = 1.0
"""How long a message may be on its way to us: a subscriber that was given up this long before it is named as well."""


class GivenUp:
    """Who was given up, what it wanted, and when."""

    def __init__(self) -> None:
        self._sessions: deque[tuple[float, str, tuple[Interest, ...]]] = deque()
        self._forgotten_at = -inf
        """When the last of those was given up who are not remembered any more."""
        self._unaccounted: dict[str, tuple[float, tuple[Interest, ...]]] = {}
        """By lost neighbour: until when what was wanted behind it counts, and what that was."""

    def note(self, name: str, interests: Iterable[Interest], now: float) -> None:
        wanted = tuple(interests)
        if wanted:
            self._sessions.append((now, name, wanted))
            if len(self._sessions) > GIVEN_UP_MAX:
                self._forgotten_at = self._sessions.popleft()[0]

    def note_unaccounted(self, lost: str, interests: Iterable[Interest], until: float) -> None:
        """Nobody who has come to the repair of that loss wants this; whoever did may be out of reach."""
        wanted = tuple(interests)
        if wanted:
            self._unaccounted[lost] = (until, wanted)

    def all_accounted(self, now: float) -> bool:
        """Whether nobody is left who may be out of reach."""
        return all(until <= now for until, _ in self._unaccounted.values())

    def forget_old(self, now: float) -> None:
        self._unaccounted = {lost: one for lost, one in self._unaccounted.items() if one[0] > now}
        while self._sessions and self._sessions[0][0] < now - REMEMBERED_S:
            self._forgotten_at = self._sessions.popleft()[0]

    def since(self, asked: Confirm, age_s: float, now: float) -> Finding:
        """Those who were owed this message, published `age_s` ago, and have been given up since."""
        if age_s == UNKNOWN_AGE_S:
            return CLEAN
        oldest = now - age_s - ON_ITS_WAY_S
        if self._forgotten_at >= oldest:
            return Finding(broken="subscribers were given up since, and it is not remembered which")
        for lost, (until, wanted) in self._unaccounted.items():
            if until > now and _wants(wanted, asked):
                return Finding(broken=f"subscribers behind {lost}, which is lost, may be out of reach")
        names = [name for at, name, wanted in self._sessions if at >= oldest and _wants(wanted, asked)]
        return Finding(given_up=len(names), gone=tuple(names[:NAMES_MAX])) if names else CLEAN


def _wants(interests: Iterable[Interest], asked: Confirm) -> bool:
    for pattern, where in interests:
        if matches(pattern, asked.topic) and (not where or parse_filter(where).matches(asked.attributes)):
            return True
    return False
