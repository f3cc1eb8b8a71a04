"""What a broker has waited for too long, in words, for people who look at its log.

A tree that is whole, and in which nobody fails any more, comes to rest within a few times the silence after which a
connection is given up. Whatever is waited for ten times as long is worth a sentence: once, and again if it is waited
for anew. Reasons name what they wait for (a broker, a batch), so one that lasts is one that does not move.
"""

from collections.abc import Iterable

SILENCES = 10
ORDINARY = "to become stable"
"""Records that become stable are under way at any time, and say nothing."""
REASONS_MAX = 1000


class Watchdog:
    """The reasons of one broker to wait, and since when it has them."""

    def __init__(self, silence_s: float) -> None:
        self._limit_s = SILENCES * silence_s
        self._since: dict[str, float] = {}
        self._told: set[str] = set()

    def look(self, reasons: Iterable[str], now: float) -> list[str]:
        """What is waited for now; returns what has been for too long, and was not said yet."""
        waited = [reason for reason in reasons if ORDINARY not in reason][:REASONS_MAX]
        self._since = {reason: self._since.get(reason, now) for reason in waited}
        self._told &= self._since.keys()
        late = [one for one, since in self._since.items() if now - since >= self._limit_s and one not in self._told]
        self._told.update(late)
        return late
