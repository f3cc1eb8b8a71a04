"""The desk of the designated broker: requests that are under way, who waits for them, and which subscribers are there.

A request is done when its change is in force, f others have it, and every site that has to know of it does. It is
known by its subscriber and number: one that comes again, by another broker, is not carried out again.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

from holdfast.model.messages import Interest, SessionMessage
from holdfast.model.site_messages import Announce, Announced, Change, SiteAnswer
from holdfast.protocols.sesdad.announcements import Announcements
from holdfast.protocols.sesdad.designation import EPOCH_BITS
from holdfast.protocols.sesdad.routes import Routes
from holdfast.protocols.sesdad.sites import is_subscriber


class Waiter(Struct, frozen=True):
    """Somebody waits for a request."""

    version: int
    relay: str
    change: Change


class Desk:
    """Requests at the designated broker. `submit` has changes made, `tell` answers another broker or ourselves."""

    def __init__(
        self,
        announcements: Announcements,
        submit: Callable[[list[Change]], None],
        tell: Callable[[str, SessionMessage], None],
    ) -> None:
        self._announcements, self._submit, self._tell = announcements, submit, tell
        self._asked: dict[tuple[str, int], dict[str, None]] = {}
        """By subscriber and number: the brokers that have passed a request on."""
        self._waiters: list[Waiter] = []
        self._wholes: dict[tuple[str, int], Announce] = {}
        self._latest: dict[str, int] = {}
        """By site: the number of its latest announcement that was brought to us."""
        self.present: dict[str, set[str]] = {}
        """The brokers with which each subscriber has a session."""
        self._absent_since: dict[str, float] = {}

    def begin(self, subscribers: set[str], now: float) -> None:
        """We are designated from now on: requests come again, and those who are there are named again."""
        self._asked.clear()
        self._waiters.clear()
        self._wholes.clear()
        self._latest.clear()
        self.present = {name: set() for name in subscribers}
        self._absent_since = dict.fromkeys(subscribers, now)

    # ------------------------------------------------------------------------------------------------------- requests

    def ask(self, relay: str, change: Change, after: int, routes: Routes, version: int) -> None:
        """A broker passes the request of a client on; `version` is the last state that changed the routing table.

        It is not taken before the one `after` which it comes, since a number tells that all up to it are done:
        1. Request 1 comes when we are not designated yet, and nobody hears it. 2. Request 2 comes, and is carried out.
        3. Request 1 is said again, and counts as done: its subscription would be confirmed, and never be in force.
        """
        key, done = (change.subscriber, change.token), routes.done.get(change.subscriber, 0)
        if change.token <= done:
            self._wait(Waiter(version, relay, change))
        elif key in self._asked:
            self._asked[key][relay] = None
        elif after <= done or (change.subscriber, after) in self._asked:
            self._asked[key] = {relay: None}
            self._submit([change])

    def announced(self, relay: str, message: Announce, routes: Routes, version: int) -> None:
        """A broker passes on what another site wants.

        What an earlier designated broker of that site has said counts for nothing behind the word of a later one:
        1. The announcement of epoch 1, which tells all, is proposed. 2. The one of epoch 0 comes by a slower way, and
        its turn is next: all that it does not name would be taken back.
        """
        token = message.epoch << EPOCH_BITS | message.number
        last = Change("n", message.site, token)
        key = (message.site, token)
        if key in self._asked:
            self._asked[key][relay] = None
            return
        if token <= max(routes.done.get(message.site, 0), self._latest.get(message.site, 0)):
            self._wait(Waiter(version, relay, last))
            return
        self._latest[message.site] = token
        self._asked[key] = {relay: None}
        if message.whole:
            self._wholes[key] = message
            self._submit([last])
        else:
            self._submit(_changes_of(message, message.wanted, message.unwanted, token))

    def expand(self, change: Change, routes: Routes) -> list[Change]:
        """What a whole announcement changes, now that its turn has come."""
        message = self._wholes.pop((change.subscriber, change.token), None)
        if message is None:
            return [change]
        before, wanted = set(routes.table.interests(message.site)), set(message.wanted)
        return _changes_of(message, sorted(wanted - before), sorted(before - wanted), change.token)

    def _wait(self, waiter: Waiter) -> None:
        """A request that comes again at every beat waits once for each broker that brings it."""
        if all((one.relay, one.change) != (waiter.relay, waiter.change) for one in self._waiters):
            self._waiters.append(waiter)

    def in_force(self, changes: tuple[Change, ...], version: int) -> None:
        """These changes are in force here."""
        for change in changes:
            for relay in self._asked.pop((change.subscriber, change.token), ()):
                self._waiters.append(Waiter(version, relay, change))

    def answer(self, confirmed: int) -> None:
        """Answer whatever is done, if that state is confirmed."""
        left = []
        for waiter in self._waiters:
            change = waiter.change
            source = "" if is_subscriber(change.subscriber) else change.subscriber
            if waiter.version > confirmed or not self._announcements.known_everywhere(waiter.version, source):
                left.append(waiter)
            elif source:
                epoch, number = change.token >> EPOCH_BITS, change.token & (1 << EPOCH_BITS) - 1
                self._tell(waiter.relay, Announced(source, epoch, number))
            else:
                self._tell(waiter.relay, SiteAnswer(change.subscriber, change.token, change.number))
        self._waiters = left

    # ----------------------------------------------------------------------------------------------------- attendance

    def attend(self, broker: str, present: tuple[str, ...], absent: tuple[str, ...], routes: Routes) -> None:
        """These subscribers have a session with that broker; those have not any more."""
        for name in present:
            self.present.setdefault(name, set()).add(broker)
            self._absent_since.pop(name, None)
        gone = []
        for name in absent:
            there = self.present.get(name, set())
            there.discard(broker)
            if not there:
                self.present.pop(name, None)
                self._absent_since.pop(name, None)
                gone.append(name)
        self._dismiss(gone, routes)

    def lost(self, broker: str, now: float) -> None:
        """A broker is lost; who had a session with nobody else may be on its way to another one."""
        for name, there in self.present.items():
            there.discard(broker)
            if not there:
                self._absent_since.setdefault(name, now)

    def dismiss_absent(self, before: float, routes: Routes) -> None:
        """Those who have had no session since that time are gone."""
        gone = [name for name, since in self._absent_since.items() if since <= before]
        for name in gone:
            del self._absent_since[name]
            self.present.pop(name, None)
        self._dismiss(gone, routes)

    def _dismiss(self, gone: list[str], routes: Routes) -> None:
        changes = [Change("g", name) for name in gone if name in routes.done or routes.table.interests(name)]
        if changes:
            self._submit(changes)

    def waiting_for(self) -> list[str]:
        asked = [f"the change that {subscriber} asks for to be in force" for subscriber, _ in self._asked]
        return asked + [f"everybody to know what {one.change.subscriber} wants" for one in self._waiters]


def _changes_of(
    message: Announce, wanted: Iterable[Interest], unwanted: Iterable[Interest], token: int
) -> list[Change]:
    """The changes of an announcement, with its number on the last of them."""
    changes = [Change("a", message.site, 0, *interest) for interest in wanted]
    changes += [Change("r", message.site, 0, *interest) for interest in unwanted]
    return [*changes, Change("n", message.site, token)]
