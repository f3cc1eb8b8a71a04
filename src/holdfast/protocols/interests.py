"""Who wants what, and who knows it: subscriptions that are confirmed by every broker.

A subscription travels over the whole tree, so that every broker knows in which directions a topic is wanted (thesis,
section 3.4); the brokers with a wanted topic on two sides, or a client that wants it, are the topic's subtree. Between
two neighbours an interest `(pattern, where)` is announced once, however many clients behind share it: it is announced
to a neighbour as long as somebody *else* has it. State depends on the distinct interests, not on the clients.

Confirmation runs back the same way: an announcement is confirmed when the neighbour has confirmed it, and a request is
answered when every announcement that it needs is confirmed. So a subscriber that was answered gets everything that is
published anywhere from then on. Taking back works alike.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from holdfast.model.batches import Batch
from holdfast.model.messages import (
    Interest,
    Interests,
    SessionMessage,
    Subscribe,
    SubscribeAck,
    Unsubscribe,
    UnsubscribeAck,
)
from holdfast.model.topics import EVERYTHING, matches
from holdfast.protocols.routing import RoutingTable, Takers

ALL = (EVERYTHING, "")
"""What is asked for on behalf of those out of reach, too: they may have been answered long ago."""
INTERESTS_PER_MESSAGE = 250
INTEREST_CHARACTERS_PER_MESSAGE = 1 << 14
"""A neighbour takes so many in at a time, in some ten milliseconds, and does something else in between."""


class _Request:
    """A source's request, answered when as many neighbours as it waits for have answered."""

    __slots__ = ("answer", "interest", "is_new", "remaining", "source")

    def __init__(self, source: str, interest: Interest, answer: SessionMessage, is_new: bool = False) -> None:
        self.source, self.interest, self.answer, self.remaining = source, interest, answer, 0
        self.is_new = is_new
        """Whether nobody there has wanted this before: then nobody was told yet that it is known everywhere."""


class _Announcement:
    """One thing said to one neighbour: an interest announced, or one taken back."""

    __slots__ = ("confirmed", "interest", "peer", "waiters")

    def __init__(self, peer: str, interest: Interest) -> None:
        self.peer, self.interest, self.confirmed = peer, interest, False
        self.waiters: list[_Request] = []


class InterestMap:
    """The routing table of a broker, and its announcements to each neighbour."""

    def __init__(self, send: Callable[[str, SessionMessage], None]) -> None:
        self.table = RoutingTable()
        self.neighbours: dict[str, None] = {}
        self._send = send
        self._tokens = 0
        self._announced: dict[str, dict[Interest, _Announcement]] = {}
        self._open: dict[int, _Announcement] = {}
        self._stalled: list[_Request] = []

    # ------------------------------------------------------------------------------------------------ neighbours

    def join(self, peer: str, tell: bool) -> None:
        """A neighbour whose session begins. The older one tells it (`tell`) all that is wanted on its side."""
        self.neighbours[peer] = None
        known = list(self.table.distinct()) if tell else []
        # The newcomer serves nobody before it has heard all of this, so nothing here waits for its answer.
        announced = self._announced[peer] = {}
        for interest in known:
            announced[interest] = _Announcement(peer, interest)
            announced[interest].confirmed = True
        if tell:
            parts = portions(known)
            for number, part in enumerate(parts, 1):
                self._send(peer, Interests(part, complete=number == len(parts)))

    def learn(self, peer: str, entries: Iterable[Interest]) -> None:
        for pattern, where in entries:
            self.table.add(pattern, where, peer)

    # -------------------------------------------------------------------------------------------------- requests

    def subscribe(self, source: str, message: Subscribe) -> None:
        interest = (message.pattern, message.where)
        is_new = self.table.add(*interest, source)
        request = _Request(source, interest, SubscribeAck(message.token), is_new)
        for peer in self.neighbours:
            if peer != source:
                self._await(self._announce(peer, interest), request)
        self._answer_if_done(request)

    def unsubscribe(self, source: str, message: Unsubscribe) -> None:
        interest = (message.pattern, message.where)
        request = _Request(source, interest, UnsubscribeAck(message.token))
        if self.table.remove(*interest, source):
            for announcement in self._withdraw(interest):
                self._await(announcement, request)
        self._answer_if_done(request)

    def drop(self, source: str) -> None:
        """A client or neighbour whose session is over: what it wanted is taken back, what it owes is not waited for.

        What it asked is not answered any more: the next session under its name would take the answer for its own.
        """
        self.neighbours.pop(source, None)
        self._announced.pop(source, None)
        for announcement in self._open.values():
            announcement.waiters = [request for request in announcement.waiters if request.source != source]
        for token, announcement in list(self._open.items()):
            if announcement.peer == source:
                del self._open[token]
                self._confirm(announcement)
        for interest in self.table.remove_destination(source):
            self._withdraw(interest)

    def is_news(self, topic: str) -> bool:
        """Whether a neighbour that wants the topic has not confirmed to know that somebody else does, too."""
        return any(
            self.table.wants(said.peer, topic) and matches(said.interest[0], topic) for said in self._open.values()
        )

    def on_ack(self, token: int) -> None:
        announcement = self._open.pop(token, None)
        if announcement is not None:
            self._confirm(announcement)

    @property
    def waiting(self) -> dict[str, int]:
        """How many answers each neighbour owes."""
        owed: dict[str, int] = {}
        for announcement in self._open.values():
            owed[announcement.peer] = owed.get(announcement.peer, 0) + 1
        return owed

    def _awaited(self) -> dict[str, set[Interest]]:
        """Of each source the subscriptions that are new and not answered yet."""
        waiting: dict[str, set[Interest]] = {}
        for request in (*self._stalled, *(one for asked in self._open.values() for one in asked.waiters)):
            if request.is_new and request.interest != ALL:
                waiting.setdefault(request.source, set()).add(request.interest)
        return waiting

    def unconfirmed(self, peer: str) -> tuple[Interest, ...]:
        """What others than this neighbour want, and nobody of them was told yet that it is known everywhere."""
        waiting = self._awaited()
        found = []
        for interest in {one for interests in waiting.values() for one in interests}:
            sources = [source for source in self.table.sources(*interest) if source != peer]
            if sources and all(interest in waiting.get(source, ()) for source in sources):
                found.append(interest)
        return tuple(sorted(found))

    def confirmed_takers(self) -> Callable[[Batch], Takers]:
        """Who wants some of a batch, apart from new subscriptions that are not answered yet: those are owed nothing."""
        waiting = self._awaited()
        if not waiting:
            return self.table.takers
        rest = RoutingTable()
        for source, interests in waiting.items():
            for interest in self.table.interests(source):
                if interest not in interests:
                    rest.add(*interest, source)

        def takers(batch: Batch) -> Takers:
            others = {peer: choice for peer, choice in self.table.takers(batch).items() if peer not in waiting}
            return {**others, **rest.takers(batch)}

        return takers

    # --------------------------------------------------------------------------------------------------- repairs

    def suspend(self, peer: str) -> None:
        """A neighbour died: what waited for its answers waits for whoever takes its place."""
        self._announced[peer] = {}
        for token, announcement in list(self._open.items()):
            if announcement.peer == peer:
                del self._open[token]
                self._stalled += announcement.waiters

    def rename(self, old: str, new: str) -> None:
        """Until the new parent opens the link, what the old one wanted is kept for it."""
        self.suspend(old)
        del self._announced[old], self.neighbours[old]
        self.neighbours[new] = None
        self._announced[new] = {}
        self.learn(new, self.table.remove_destination(old))

    def replace(self, old: str, joined: Mapping[str, Iterable[Interest]]) -> None:
        """These neighbours, with what they want, are in the place of the old one from now on."""
        if old in self.neighbours:
            self.suspend(old)
            del self._announced[old], self.neighbours[old]
        lost = self.table.remove_destination(old)
        for peer, interests in joined.items():
            self.neighbours[peer] = None
            self._announced[peer] = {}
            lost += self.table.remove_destination(peer)
            self.learn(peer, interests)
        self.announce_all()
        for interest in dict.fromkeys(lost):
            self._withdraw(interest)
        stalled, self._stalled = self._stalled, []
        for request in stalled:
            self._wait_anew(request, joined)

    def _wait_anew(self, request: _Request, joined: Iterable[str]) -> None:
        request.remaining -= 1
        if isinstance(request.answer, SubscribeAck):
            for peer in joined:
                announcement = self._announced[peer].get(request.interest)
                if announcement is not None and peer != request.source:
                    self._await(announcement, request)
        self._answer_if_done(request)

    def announced(self, peer: str) -> set[Interest]:
        """What that neighbour was told that somebody else wants."""
        return set(self._announced.get(peer, ()))

    def retract(self, peer: str, interest: Interest) -> None:
        """Take back what somebody else has told that neighbour in our name."""
        self._say(peer, Unsubscribe, interest)

    def lend(self, interests: Iterable[Interest], peer: str) -> set[Interest]:
        """From now on that neighbour gets this, too; returns what it did not want already."""
        return {interest for interest in interests if self.table.add(*interest, peer)}

    def take_back(self, interests: Iterable[Interest], peer: str) -> None:
        for interest in sorted(interests):
            if self.table.remove(*interest, peer):
                self._withdraw(interest)

    def announce_all(self) -> None:
        """Whatever somebody wants and a neighbour has not been told of yet."""
        for interest in self.table.distinct():
            sources = self.table.sources(*interest)
            for peer in self.neighbours:
                if any(source != peer for source in sources):
                    self._announce(peer, interest)

    # ------------------------------------------------------------------------------------------------ announcing

    def _announce(self, peer: str, interest: Interest) -> _Announcement:
        announced = self._announced[peer]
        announcement = announced.get(interest)
        if announcement is None:
            announcement = announced[interest] = self._say(peer, Subscribe, interest)
        return announcement

    def _withdraw(self, interest: Interest) -> list[_Announcement]:
        """Take the interest back from every neighbour for whom nobody else has it."""
        sources = self.table.sources(*interest)
        withdrawn = []
        for peer in self.neighbours:
            announcement = self._announced[peer].get(interest)
            if announcement is not None and not any(source != peer for source in sources):
                del self._announced[peer][interest]
                self._confirm(announcement)
                withdrawn.append(self._say(peer, Unsubscribe, interest))
        return withdrawn

    def _say(self, peer: str, kind: type[Subscribe] | type[Unsubscribe], interest: Interest) -> _Announcement:
        self._tokens += 1
        announcement = self._open[self._tokens] = _Announcement(peer, interest)
        self._send(peer, kind(self._tokens, *interest))
        return announcement

    @staticmethod
    def _await(announcement: _Announcement, request: _Request) -> None:
        if not announcement.confirmed:
            announcement.waiters.append(request)
            request.remaining += 1

    def _confirm(self, announcement: _Announcement) -> None:
        announcement.confirmed = True
        waiters, announcement.waiters = announcement.waiters, []
        for request in waiters:
            request.remaining -= 1
            self._answer_if_done(request)

    def _answer_if_done(self, request: _Request) -> None:
        if not request.remaining:
            self._send(request.source, request.answer)

    def check_invariants(self) -> None:
        for peer, announced in self._announced.items():
            for interest in announced:
                others = [source for source in self.table.sources(*interest) if source != peer]
                assert others, f"{interest} is announced to {peer}, but nobody else has it"


def portions(interests: Sequence[Interest]) -> list[tuple[Interest, ...]]:
    """The interests in portions that fit into a message each; one portion at least."""
    portions: list[list[Interest]] = [[]]
    characters = 0
    for pattern, where in interests:
        characters += len(pattern) + len(where)
        if len(portions[-1]) == INTERESTS_PER_MESSAGE or characters > INTEREST_CHARACTERS_PER_MESSAGE:
            portions.append([])
            characters = len(pattern) + len(where)
        portions[-1].append((pattern, where))
    return [tuple(portion) for portion in portions]
