"""Reports of consumed positions between repositories, so that a subscriber that comes back goes on at any of them.

The steering repository of a subscriber receives its acknowledgements, and so do the other repositories, unless they
are away or an acknowledgement is lost (`dissemination`). The event `Tidings` tells a repository what it missed: the
names of subscriptions, and the consumed position of each (`consumed_position`), by publishers' lives, since sequence
numbers mean nothing to another repository. The receiver keeps the position with the subscription, moves its own sync
as far as it knows the places of these messages, and tells the subscriber the position when the subscriber comes back.

A repository reports to a sibling what has changed since the last report; to one that has just begun it reports
everything; and every few beats it repeats everything, since reports get lost. Of a subscription that was begun anew a
repository reports the name alone, unless it steers the subscriber: the position that it knows may be from before.
"""

from collections.abc import Mapping

from holdfast.protocols.narada.consumed_position import NOTHING, ConsumedPosition, merged_position
from holdfast.protocols.narada.dissemination import Dissemination
from holdfast.protocols.narada.events import Out, Tidings
from holdfast.protocols.narada.participant import Effects
from holdfast.protocols.narada.siblings import Sibling
from holdfast.protocols.narada.subscription import Subscription

Told = tuple[ConsumedPosition, Out]

NAMES_MAX, ACCOUNTS_MAX = 1024, 8
"""Bounds of one report: subscriptions with the same position, and different positions."""
AGAIN_BEATS = 4
"""After so many beats everything is reported again."""


class PositionReports:
    """The reports of one stream at one repository."""

    def __init__(self, dissemination: Dissemination, members: Mapping[str, Sibling]) -> None:
        self._dissemination, self._stream_state, self._members = dissemination, dissemination.stream_state, members

    # --------------------------------------------------------------------------------------------------------- telling

    def tell(self, repository: str, now: float, begins: bool = False) -> Effects:
        """Report to a sibling what it may not know. `begins`: it has just begun, and knows only what it has stored."""
        member, beat_s = self._members.get(repository), self._stream_state.config.beat_s
        if member is None or (now - member.told_at < beat_s / 2 and not begins):
            return []
        if begins or now - member.told_all_at >= AGAIN_BEATS * beat_s:
            member.told, member.told_all_at = {}, now
        member.told_at = now
        stream_state = self._stream_state
        return [
            stream_state.say_to(
                repository, Tidings(stream_state.stream, stream_state.name, *account, tuple(names), out)
            )
            for (account, out), names in self._news(member.told).items()
        ]

    def tell_all(self, now: float) -> Effects:
        """Report everything to all siblings: this repository is about to leave."""
        return [effect for name in list(self._members) for effect in self.tell(name, now, begins=True)]

    def _news(self, told: dict[str, Told]) -> dict[Told, list[tuple[str, int]]]:
        """Subscriptions whose position differs from the last one reported, grouped by position."""
        found: dict[Told, list[tuple[str, int]]] = {}
        for one in self._dissemination.subscriptions.values():
            account = self._account(one)
            if told.get(one.name) == account:
                continue
            names = found.get(account)
            if names is None and len(found) < ACCOUNTS_MAX:
                names = found[account] = []
            if names is not None and len(names) < NAMES_MAX:
                names.append((one.name, one.since_ns))
                told[one.name] = account
        return found

    def _account(self, one: Subscription) -> Told:
        if one.anew and one.steering != self._stream_state.name:
            return NOTHING, ()
        self._dissemination.note_consumed(one)
        return merged_position(one.consumed, one.beyond), one.out

    # --------------------------------------------------------------------------------------------------------- hearing

    def on_tidings(self, event: Tidings) -> None:
        table, ended = self._dissemination, self._dissemination.ended
        for name, since_ns in event.subscriptions:
            if ended.is_over(name, since_ns):
                continue  # The sibling has not heard of this end yet.
            one = table.subscriptions.get(name) or table.hear_of(name, since_ns, event.repository)
            if one is not None and (not one.anew or one.steering == event.repository):
                one.hear_out(event.out)
                table.hear_consumed(one, (event.cut, event.lacks))

    def look_again(self) -> None:
        """More messages are stored here: positions that siblings reported may be translated further now."""
        for one in self._dissemination.subscriptions.values():
            if one.consumed[0] and one.sync < self._stream_state.end:
                self._dissemination.jump(one, *one.consumed)
