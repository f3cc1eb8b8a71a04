"""How far durable subscriptions are, as repositories tell each other: whoever comes back is to go on anywhere.

The repository that steers a subscriber hears its acknowledgements, and so do the others, as far as they are there and
nothing gets lost (`dissemination`). What one of them has missed, since it was away or is new, it is told here: which
subscriptions there are, and for those that are equally far what they have had of each publisher's lives. Sequence
numbers would not do: they mean something to their owner, and to whoever remembers what lies under them.

A repository tells its siblings what has changed since they were told, one that has just begun everything, and all of it
again now and then, for tidings get lost. Of a subscription that was begun anew it tells no more than the name, unless
it steers it: what it believes may be from before.
"""

from collections.abc import Mapping

from holdfast.protocols.narada.dissemination import Dissemination, Subscription
from holdfast.protocols.narada.events import RANGES_MAX, Cut, Lacks, Tidings, life_of, number_of
from holdfast.protocols.narada.had import had
from holdfast.protocols.narada.members import Member
from holdfast.protocols.narada.participant import Effects

NAMES_MAX, CUTS_MAX = 1024, 8
"""What is told at once: so many subscriptions of each position, and so many positions."""
AGAIN_BEATS = 4
"""After so many beats everything is told again."""


class Telling:
    """The tidings of one stream at one repository."""

    def __init__(self, dissemination: Dissemination, members: Mapping[str, Member]) -> None:
        self._dissemination, self._keeping, self._members = dissemination, dissemination.keeping, members
        self._heard: dict[str, tuple[Cut, Lacks]] = {}
        """While we catch up: what we were told last of a subscription. We may not have those messages yet."""

    # --------------------------------------------------------------------------------------------------------- telling

    def tell(self, repository: str, now: float, begins: bool = False) -> Effects:
        """A sibling is there: tell it what it may not know. `begins` if it knows only what it has stored."""
        member, beat_s = self._members.get(repository), self._keeping.config.beat_s
        if member is None or (now - member.told_at < beat_s / 2 and not begins):
            return []
        if begins or now - member.told_all_at >= AGAIN_BEATS * beat_s:
            member.told, member.told_all_at = {}, now
        member.told_at = now
        keeping, told = self._keeping, member.told
        return [
            keeping.say_to(repository, Tidings(keeping.stream, keeping.name, *self._had(sync), tuple(names)))
            for sync, names in self._news(told).items()
        ]

    def tell_all(self, now: float) -> Effects:
        """We are about to go: tell everybody everything."""
        return [effect for name in list(self._members) for effect in self.tell(name, now, begins=True)]

    def _news(self, told: dict[str, int]) -> dict[int, list[tuple[str, int]]]:
        """By position, who is there now and was not when it was last told."""
        found: dict[int, list[tuple[str, int]]] = {}
        for one in self._dissemination.subscriptions.values():
            position = self._position(one)
            if told.get(one.name) == position:
                continue
            names = found.get(position)
            if names is None and len(found) < CUTS_MAX:
                names = found[position] = []
            if names is not None and len(names) < NAMES_MAX:
                names.append((one.name, one.since_ns))
                told[one.name] = position
        return found

    def _position(self, one: Subscription) -> int:
        return one.sync if not one.anew or one.steering == self._keeping.name else 0

    def _had(self, sync: int) -> tuple[Cut, Lacks]:
        """What whoever is there has had, and what of that is not here: it may be missing there, too."""
        cut, _ = had(self._keeping, sync) if sync else ((), ())
        lacks: list[tuple[str, int, int]] = []
        for publisher, cat in cut:
            chain = self._keeping.chains[publisher, life_of(cat)]
            low, high = chain.forgotten + 1, number_of(cat)
            parts = chain.stored.new_part(low, high) if low <= high else []
            lacks += [(publisher, chain.cat(first), chain.cat(last)) for first, last in parts]
        return (cut, tuple(lacks)) if len(lacks) <= RANGES_MAX else ((), ())

    # --------------------------------------------------------------------------------------------------------- hearing

    def on_tidings(self, event: Tidings) -> None:
        table, ended = self._dissemination, self._dissemination.ended
        for name, since_ns in event.subscriptions:
            if ended.is_over(name, since_ns):
                continue  # It has not heard of that yet.
            one = table.subscriptions.get(name) or table.hear_of(name, since_ns, event.repository)
            if one is None or (one.anew and one.steering != event.repository):
                continue
            table.jump(one, event.cut, event.lacks)
            if event.cut and (not self._keeping.serving or self._heard):
                self._heard[name] = event.cut, event.lacks

    def look_again(self) -> None:
        """More is stored here: what we were told of it counts now."""
        keeping = self._keeping
        for name, told in self._heard.items():
            one = self._dissemination.subscriptions.get(name)
            if one is not None and not one.anew:
                self._dissemination.jump(one, *told)
        if keeping.serving and not (keeping.staged or keeping.committing or keeping.places):
            # We have what we missed.
            self._heard.clear()
