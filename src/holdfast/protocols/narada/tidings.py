"""How far durable subscriptions are, as repositories tell each other: whoever comes back is to go on anywhere.

The repository that steers a subscriber hears its acknowledgements, and so do the others, as far as they are there and
nothing gets lost (`dissemination`). What one of them has missed, since it was away or is new, it is told here: which
subscriptions there are, and what they have had of each publisher's lives. Sequence numbers would not do: they mean
something to their owner, and to whoever remembers what lies under them. What is told is kept with the subscription. It
moves our own sync as far as we know where those messages lie, and is told to the subscriber when it comes back.

A repository tells its siblings what has changed since they were told, one that has just begun everything, and all of it
again now and then, for tidings get lost. Of a subscription that was begun anew it tells no more than the name, unless
it steers it: what it believes may be from before.
"""

from collections.abc import Mapping

from holdfast.protocols.narada.dissemination import Dissemination
from holdfast.protocols.narada.events import Out, Tidings
from holdfast.protocols.narada.had import NOTHING, Had, both
from holdfast.protocols.narada.members import Member
from holdfast.protocols.narada.participant import Effects
from holdfast.protocols.narada.subscription import Subscription

Told = tuple[Had, Out]

NAMES_MAX, ACCOUNTS_MAX = 1024, 8
"""What is told at once: so many subscriptions that have had the same, and so many that have not."""
AGAIN_BEATS = 4
"""After so many beats everything is told again."""


class Telling:
    """The tidings of one stream at one repository."""

    def __init__(self, dissemination: Dissemination, members: Mapping[str, Member]) -> None:
        self._dissemination, self._keeping, self._members = dissemination, dissemination.keeping, members

    # --------------------------------------------------------------------------------------------------------- telling

    def tell(self, repository: str, now: float, begins: bool = False) -> Effects:
        """A sibling is there: tell it what it may not know. `begins` if it knows only what it has stored."""
        member, beat_s = self._members.get(repository), self._keeping.config.beat_s
        if member is None or (now - member.told_at < beat_s / 2 and not begins):
            return []
        if begins or now - member.told_all_at >= AGAIN_BEATS * beat_s:
            member.told, member.told_all_at = {}, now
        member.told_at = now
        keeping = self._keeping
        return [
            keeping.say_to(repository, Tidings(keeping.stream, keeping.name, *account, tuple(names), out))
            for (account, out), names in self._news(member.told).items()
        ]

    def tell_all(self, now: float) -> Effects:
        """We are about to go: tell everybody everything."""
        return [effect for name in list(self._members) for effect in self.tell(name, now, begins=True)]

    def _news(self, told: dict[str, Told]) -> dict[Told, list[tuple[str, int]]]:
        """By what they have had, those of whom it was not told yet."""
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
        if one.anew and one.steering != self._keeping.name:
            return NOTHING, ()
        self._dissemination.note_had(one)
        return both(one.had, one.beyond), one.out

    # --------------------------------------------------------------------------------------------------------- hearing

    def on_tidings(self, event: Tidings) -> None:
        table, ended = self._dissemination, self._dissemination.ended
        for name, since_ns in event.subscriptions:
            if ended.is_over(name, since_ns):
                continue  # It has not heard of that yet.
            one = table.subscriptions.get(name) or table.hear_of(name, since_ns, event.repository)
            if one is not None and (not one.anew or one.steering == event.repository):
                one.hear_out(event.out)
                table.hear_had(one, (event.cut, event.lacks))

    def look_again(self) -> None:
        """More is stored here: what we were told of that counts now."""
        for one in self._dissemination.subscriptions.values():
            if one.had[0] and one.sync < self._keeping.end:
                self._dissemination.jump(one, *one.had)
