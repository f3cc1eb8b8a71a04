"""What of a stream may be forgotten, and what is said of it when it is gone.

The driver knows the times and sizes of what is stored and says what has expired (`Repository.forgotten`); here is said
how far that may go. A place that is set aside is never passed, nor what is on its way into the store, nor what another
repository that is there does not have yet, and unless the setting says otherwise nothing that a durable subscriber has
not acknowledged: that is why repositories which do not know the same subscribers forget nothing. For each life of a
publisher it is remembered up to which number its messages were forgotten, so that others can be told: a sibling, which
would wait for them in vain, and a subscriber that had not read them, which gets a gap.
"""

from collections.abc import Iterable

from holdfast.protocols.narada.dissemination import Dissemination
from holdfast.protocols.narada.events import Cut, life_of, number_of
from holdfast.protocols.narada.gossip import GONE_BEATS, BundleGossip
from holdfast.protocols.narada.participant import Discard, Effects
from holdfast.protocols.narada.siblings import Sibling
from holdfast.protocols.narada.stream_state import RepositoryStream


class StreamRetention:
    """The retention of one stream at one repository."""

    def __init__(self, stream_state: RepositoryStream, dissemination: Dissemination, bundle: BundleGossip) -> None:
        self.stream_state, self.dissemination, self.bundle = stream_state, dissemination, bundle
        self._before = 0
        self._now = 0.0
        self._since: float | None = None
        self._patience_s = GONE_BEATS * stream_state.config.beat_s
        """After so long at the latest everybody has been heard of that is there."""

    def limit(self, keep_unread: bool) -> int:
        """The sequence number below which everything may go."""
        stream_state = self.stream_state
        limits = [stream_state.next, self._siblings_limit()]
        limits += [place.first for _, place in stream_state.place_rows()]
        limits += [entry.first for entry in (*stream_state.staged, *stream_state.committing)]
        if keep_unread:
            limits += [one.sync + 1 for one in self.dissemination.subscriptions.values()]
        return min(limits)

    def _siblings_limit(self) -> int:
        """Below this number of ours every repository that is there has everything, and knows whom it is kept for."""
        stream_state, known = self.stream_state, self.dissemination.known()
        there = [one for one in self.bundle.members.values() if self.bundle.is_there(one, self._now)]
        if not stream_state.serving or any(one.known_digest != known for one in there):
            return stream_state.kept
        return min((one.covers_us + 1 for one in there), default=stream_state.next)

    def look(self, now: float) -> None:
        """Give up the places of what somebody has forgotten, and nobody that is there has: they will not be filled."""
        self._now, self._since = now, now if self._since is None else self._since
        stream_state, members = self.stream_state, list(self.bundle.members.values())
        for chain, place in list(stream_state.place_rows()) if stream_state.serving else ():
            who = (chain.publisher, chain.life)
            for low, high in {part for one in members for part in one.said_gone(who)}:
                first, last = max(low, place.number), min(high, place.last)
                if first > last:
                    continue
                kept_by = [one for one in members if not one.has_forgotten(who, first, last)]
                if not any(self._may_have(one, chain.publisher, chain.cat(first), chain.cat(last)) for one in kept_by):
                    stream_state.give_up(chain, first, last)

    def _may_have(self, member: Sibling, publisher: str, cat_first: int, cat_last: int) -> bool:
        """Whether it has some of these, or has not told yet what lies under all of its numbers.

        1. C comes back with a place. A tells it that it has forgotten what belongs there; B has not told anything yet.
        2. C gives the place up. B tells that it has the message; C gets it, behind what its publisher said later.
        """
        if member.table.places_of(publisher, cat_first, cat_last):
            return True
        there = self.bundle.is_there(member, self._now) or self._now - (self._since or 0.0) < self._patience_s
        return there and not member.is_explained()

    def forget(self, before: int, whose: Cut) -> Effects:
        """Everything below goes; these are the last that go of each life of each publisher."""
        stream_state = self.stream_state
        if before <= stream_state.kept:
            return []
        count, self._before = before - stream_state.kept, before
        stream_state.forget(before)
        for publisher, cat in whose:
            stream_state.forget_life(publisher, life_of(cat), number_of(cat))
        return [stream_state.report("forgotten", f"{count} messages, below {before}")]

    def has_changes(self) -> bool:
        return bool(self._before)

    def changes(self) -> Effects:
        """What the next commit forgets."""
        before, self._before = self._before, 0
        return [Discard(self.stream_state.stream, before)] if before else []


def last_of_each(identities: Iterable[tuple[str, int]]) -> Cut:
    """The highest catenation number of each life of each publisher."""
    highest: dict[tuple[str, int], int] = {}
    for publisher, cat in identities:
        who = (publisher, life_of(cat))
        highest[who] = max(highest.get(who, 0), cat)
    return tuple((publisher, cat) for (publisher, _), cat in highest.items())
