"""What the subscriptions of one client want to happen when they are not read, as its broker has to know it.

A client may have several subscriptions with the same pattern and filter; the broker knows them as one, which wants what
the strictest of them wants. What the subscriptions have dropped in the client's own process is counted here, so that
the broker can be told, for people to see.
"""

from collections.abc import Iterable

from holdfast.model.messages import Interest, Subscribe
from holdfast.model.slow_messages import SLOW_S, Slow

STRICTEST_FIRST: tuple[Slow, ...] = ("block", "disconnect", "drop-oldest", "drop-newest")


class Wishes:
    """By pattern and filter: how each subscription is to be treated. `None` stands for one that spills."""

    def __init__(self) -> None:
        self._wishes: dict[Interest, list[tuple[Slow | None, float]]] = {}
        self._dropped: dict[Interest, int] = {}
        self._untold: dict[Interest, None] = {}
        self.spilling: dict[Interest, None] = {}
        """Those of which the broker may leave out what is not taken in time: somebody else has it for us."""

    def add(self, interest: Interest, slow: Slow | None, slow_s: float = SLOW_S) -> None:
        self._wishes.setdefault(interest, []).append((slow, slow_s))
        self._changed(interest)

    def remove(self, interest: Interest, slow: Slow | None) -> bool:
        """Take one of that kind back, or the latest if there is none of it; whether the broker has to be told."""
        wishes = self._wishes.get(interest, [])
        before = self.subscribe(0, interest)
        place = next((place for place, wish in enumerate(wishes) if wish[0] == slow), -1)
        if wishes:
            del wishes[place]
        if not wishes:
            self.forget(interest)
            return False
        self._changed(interest)
        return self.subscribe(0, interest) != before

    def forget(self, interest: Interest) -> None:
        for memory in (self._wishes, self._dropped, self._untold, self.spilling):
            memory.pop(interest, None)

    def _changed(self, interest: Interest) -> None:
        self.spilling.pop(interest, None)
        if all(slow is None for slow, _ in self._wishes[interest]):
            self.spilling[interest] = None

    def subscribe(self, token: int, interest: Interest) -> Subscribe:
        """What to tell a broker about these subscriptions."""
        wishes = self._wishes.get(interest, [])
        if wishes and interest in self.spilling:
            return Subscribe(token, *interest, spills=True)
        slow: Slow = next((one for one in STRICTEST_FIRST if any(wish == one for wish, _ in wishes)), "block")
        slow_s = min((seconds for wish, seconds in wishes if wish == slow), default=SLOW_S)
        return Subscribe(token, *interest, slow=slow, slow_s=slow_s, dropped=self._dropped.get(interest, 0))

    def all_if_special(self) -> Iterable[Subscribe]:
        """What a new broker has to be told about all subscriptions; nothing if all of them block."""
        told = [self.subscribe(0, interest) for interest in self._wishes]
        return told if any(one.spills or one.slow != "block" for one in told) else []

    def dropped(self, interest: Interest, count: int) -> None:
        """The client has dropped so many messages of these subscriptions itself."""
        if interest in self._wishes:
            self._dropped[interest] = self._dropped.get(interest, 0) + count
            self._untold[interest] = None

    def untold(self) -> list[Subscribe]:
        """What the broker has to be told about what was dropped since it was told last."""
        untold, self._untold = self._untold, {}
        return [self.subscribe(0, interest) for interest in untold]

    def that_drop(self) -> list[Interest]:
        """Those of which a broker may drop something."""
        return [one for one in self._wishes if self.subscribe(0, one).slow in ("drop-oldest", "drop-newest")]
