"""A name is one session in the whole tree at a time: the later one takes it over, and the earlier client is told.

No message depends on it: what a session publishes is known by its identity (`model.identities`), so that messages of
two sessions under one name are never taken for each other, wherever and whenever they are. This part sees to it that
two such sessions do not last.

A broker tells its neighbours of every session of a named client that begins with it or ends there, and passes on what
is news. So all know the latest session of each name, and a broker that has an earlier one ends it, with the sentence
for its client. Two brokers that become neighbours tell each other of all sessions that they know to be there: whatever
was not heard during a repair, or on the other side of a parted network, is heard then. News are what makes an entry
later, so telling ends, on a tree and on a mesh alike.

Bound: `NAMES_MAX` names, of which the one that was mentioned the longest ago is forgotten first. A name that was
forgotten may have two sessions for longer; no message is lost for it.

Invariants: of the sessions here that have one name, none is earlier than the latest that was heard of.
"""

from collections.abc import Callable, Iterable

from holdfast.model.identities import is_tagged, name_of
from holdfast.model.messages import Refusal, SessionMessage
from holdfast.model.name_messages import PRESENCES_MAX, Named, Presence
from holdfast.protocols.hub import Hub
from holdfast.protocols.node import Report

NAMES_MAX = 10_000
UNENDED_MAX = 8
"""Of how many earlier sessions of a name it is remembered that nobody has heard of their end."""


class _Entry:
    """The latest session of a name, and how far all of them have numbered, as far as is known."""

    __slots__ = ("last", "latest", "unended")

    def __init__(self, latest: Presence) -> None:
        self.latest, self.last = latest, latest.last
        self.unended: list[str] = []


class NameBook:
    """The sessions of named clients, as one broker knows them.

    `neighbours` are the brokers to tell, `send` tells one of them, `end` ends a session of our own with the refusal for
    its client, and `last` is the highest number that is known here of an identity.
    """

    def __init__(
        self,
        broker: str,
        neighbours: Callable[[], Iterable[str]],
        send: Callable[[str, SessionMessage], None],
        end: Callable[[str, Refusal], None],
        last: Callable[[str], int],
    ) -> None:
        self._broker, self._neighbours, self._send, self._end, self._last = broker, neighbours, send, end, last
        self._entries: dict[str, _Entry] = {}
        self._here: dict[str, list[str]] = {}
        """Our own sessions, by name."""

    # ------------------------------------------------------------------------------------------------- our clients

    def refusal(self, identity: str) -> Refusal | None:
        """Why this session may not begin here, or go on: a later one has the name."""
        entry = self._entries.get(name_of(identity))
        if entry is None or not is_tagged(identity) or entry.latest.identity <= identity:
            return None
        return _taken(entry.latest)

    def opened(self, identity: str) -> None:
        """A session is one of ours from now on: it began here, or has moved here."""
        if not is_tagged(identity):
            return
        here = self._here.setdefault(name_of(identity), [])
        if identity not in here:
            here.append(identity)
        self._tell(self._learn([Presence(identity, self._broker)]), "")
        self._take_over(name_of(identity))

    def ended(self, identity: str) -> None:
        """A session of ours is over for good."""
        name = name_of(identity)
        here = self._here.get(name, [])
        if identity not in here:
            return
        here.remove(identity)
        if not here:
            del self._here[name]
        self._tell(self._learn([Presence(identity, self._broker, True, self._last(identity))]), "")

    # -------------------------------------------------------------------------------------------------- neighbours

    def greet(self, peer: str) -> None:
        """A broker has become our neighbour: tell it of the sessions that are there, as far as we know."""
        present = [entry.latest for entry in self._entries.values() if not entry.latest.ended]
        for at in range(0, len(present), PRESENCES_MAX):
            self._send(peer, Named(tuple(present[at : at + PRESENCES_MAX])))

    def hear(self, peer: str, named: Named) -> None:
        """A neighbour has told us of sessions."""
        news = self._learn(named.entries)
        self._tell(news, peer)
        better = [self._entries[name_of(one.identity)].latest for one in named.entries if self._is_outdone(one)]
        if better:
            self._send(peer, Named(tuple(better)))
        for one in news:
            self._take_over(name_of(one.identity))

    def _is_outdone(self, told: Presence) -> bool:
        """Whether a later session has begun, of which the neighbour has not heard; it may have ended again.

        1. alice#1 is at 4, which is cut off. alice#3 begins at 0 and ends. 4 comes back, and tells 0 of alice#1.
        2. 2 begins anew, and has forgotten alice#3. alice#2 begins there, which any other broker would refuse.
        3. 0 tells nobody of alice#2, since that is no news to it: it knows a later one. If it told neither 4 nor 2 of
           alice#3, both sessions would go on.
        """
        entry = self._entries.get(name_of(told.identity))
        return entry is not None and entry.latest.identity > told.identity and not told.ended

    def _learn(self, presences: Iterable[Presence]) -> list[Presence]:
        """Note what is new, and return that."""
        news = []
        for one in presences:
            if not is_tagged(one.identity):
                continue
            name = name_of(one.identity)
            entry = self._entries.pop(name, None)
            if entry is None:
                entry = _Entry(one)
                news.append(one)
            elif _note(entry, one):
                news.append(one)
            self._entries[name] = entry
            if len(self._entries) > NAMES_MAX:
                del self._entries[next(iter(self._entries))]
        return news

    def _tell(self, news: list[Presence], source: str) -> None:
        if news:
            for peer in list(self._neighbours()):
                if peer != source:
                    self._send(peer, Named(tuple(news)))

    def _take_over(self, name: str) -> None:
        """End those of our sessions that are earlier than the latest that has this name."""
        entry = self._entries.get(name)
        for identity in list(self._here.get(name, ())):
            if entry is not None and identity < entry.latest.identity:
                self._end(identity, _taken(entry.latest))

    # ----------------------------------------------------------------------------------------------------- numbers

    def highest(self, identity: str) -> int:
        """The highest number that is known here of any session with the name of this one."""
        name = name_of(identity)
        entry = self._entries.get(name)
        known = [name, *self._here.get(name, ())]
        if entry is not None:
            known += [entry.latest.identity, *entry.unended]
        return max(entry.last if entry is not None else 0, *(self._last(one) for one in known))

    def is_last(self, identity: str) -> bool:
        """Whether every earlier session of the name is known to have ended, and none is later."""
        entry = self._entries.get(name_of(identity))
        if entry is None:
            return True
        return entry.latest.identity <= identity and not any(one != identity for one in entry.unended)

    # -------------------------------------------------------------------------------------------------- inspection

    def check_invariants(self) -> None:
        for name, here in self._here.items():
            entry = self._entries.get(name)
            assert here, f"{self._broker} has no session named {name}, and counts it"
            if entry is not None:
                assert min(here) >= entry.latest.identity, (
                    f"{min(here)} goes on, though {entry.latest.identity} is later"
                )


def taking_from(hub: Hub, before: Callable[[str], None] = lambda _: None) -> Callable[[str, Refusal], None]:
    """How sessions of this hub end when a later one has their name; `before` that, somebody hears of it."""

    def end(client: str, refusal: Refusal) -> None:
        before(client)
        hub.out.append(Report("taken", peer=client, detail=refusal.reason))
        hub.end(client, refusal.reason, refusal=refusal)

    return end


def _note(entry: _Entry, one: Presence) -> bool:
    """Whether that says something new of the name."""
    latest = entry.latest
    grown = one.last > entry.last
    entry.last = max(entry.last, one.last)
    if one.identity > latest.identity:
        if not latest.ended:
            entry.unended = [*entry.unended, latest.identity][-UNENDED_MAX:]
        entry.latest = one
    elif one.identity == latest.identity:
        if latest.ended or not one.ended:
            return grown
        entry.latest = one
    elif one.ended and one.identity in entry.unended:
        entry.unended.remove(one.identity)
    else:
        return grown
    if one.ended and grown:
        # It has used numbers of its own: whatever earlier ones go on with is far behind them.
        entry.unended = [earlier for earlier in entry.unended if earlier > one.identity]
    return True


def _taken(latest: Presence) -> Refusal:
    sentence = f"another client connected as {name_of(latest.identity)} at {latest.home}"
    return Refusal("taken", sentence, latest.identity)
