"""What of a stream may be forgotten, and what is said of it when it is gone.

The driver knows the times and sizes of what is stored and says what has expired (`Repository.forgotten`); here is said
how far that may go. A place that is set aside is never passed, nor what is on its way into the store, and unless the
setting says otherwise nothing that a durable subscriber has not acknowledged. For each life of a publisher it is
remembered up to which number its messages were forgotten, so that others can be told: a sibling, which would wait for
them in vain, and a subscriber that had not read them, which gets a gap.
"""

from collections.abc import Iterable

from holdfast.protocols.narada.dissemination import Dissemination
from holdfast.protocols.narada.events import Cut, life_of, number_of
from holdfast.protocols.narada.keeping import Keeping
from holdfast.protocols.narada.participant import Discard, Effects


class Retaining:
    """The retention of one stream at one repository."""

    def __init__(self, keeping: Keeping, dissemination: Dissemination) -> None:
        self.keeping, self.dissemination = keeping, dissemination
        self._before = 0

    def limit(self, keep_unread: bool) -> int:
        """The sequence number below which everything may go."""
        keeping = self.keeping
        limits = [keeping.next]
        limits += [place.first for _, place in keeping.place_rows()]
        limits += [entry.first for entry in (*keeping.staged, *keeping.committing)]
        if keep_unread:
            limits += [one.sync + 1 for one in self.dissemination.subscriptions.values()]
        return min(limits)

    def forget(self, before: int, whose: Cut) -> Effects:
        """Everything below goes; these are the last that go of each life of each publisher."""
        keeping = self.keeping
        if before <= keeping.kept:
            return []
        count, self._before = before - keeping.kept, before
        keeping.forget(before)
        for publisher, cat in whose:
            keeping.forget_life(publisher, life_of(cat), number_of(cat))
        return [keeping.report("forgotten", f"{count} messages, below {before}")]

    def has_changes(self) -> bool:
        return bool(self._before)

    def changes(self) -> Effects:
        """What the next commit forgets."""
        before, self._before = self._before, 0
        return [Discard(self.keeping.stream, before)] if before else []


def last_of_each(identities: Iterable[tuple[str, int]]) -> Cut:
    """The highest catenation number of each life of each publisher."""
    highest: dict[tuple[str, int], int] = {}
    for publisher, cat in identities:
        who = (publisher, life_of(cat))
        highest[who] = max(highest.get(who, 0), cat)
    return tuple((publisher, cat) for (publisher, _), cat in highest.items())
