"""Log lines that repeat are counted, not repeated.

The first line of a kind is written at once. Of those that are the same, apart from fields that differ each time such as
a port, the second, fourth, eighth... is written, with how many there have been (`times`): a thousand make ten lines. A
line that has not come for `QUIET_S` is a first one again.
"""

from collections import OrderedDict

QUIET_S = 60.0
KINDS_MAX = 512
"""Of so many kinds of lines it is remembered how often they came; the one that came least recently is forgotten."""
PASSING = frozenset({"address"})
"""Fields that differ between lines which say the same: every connection comes from a port of its own."""


class Repeats:
    """How often each line came. Time is given, so that nothing here looks at a clock."""

    def __init__(self, quiet_s: float = QUIET_S, kinds_max: int = KINDS_MAX) -> None:
        self._quiet_s, self._kinds_max = quiet_s, kinds_max
        self._kinds: OrderedDict[tuple[object, ...], tuple[int, float]] = OrderedDict()

    def count(self, event: str, fields: dict[str, object], now: float) -> int:
        """How often the line has come, if it is to be written now; 0 if it is only counted."""
        kind = (event, *((name, repr(value)) for name, value in fields.items() if name not in PASSING))
        times, last = self._kinds.pop(kind, (0, now))
        if now - last >= self._quiet_s:
            times = 0
        times += 1
        self._kinds[kind] = (times, now)
        if len(self._kinds) > self._kinds_max:
            self._kinds.popitem(last=False)
        return times if times & (times - 1) == 0 else 0
