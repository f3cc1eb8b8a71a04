"""What happened in a run of reliable topics, as its applications and stores saw it: what the checkers judge."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from msgspec import Struct

from holdfast.model.reliable import Entry
from holdfast.protocols.narada.events import life_of, number_of
from holdfast.protocols.narada.participant import StreamGap

Identity = tuple[str, int, int]
"""Publisher, life and number."""


class PublishedMessage(Struct, frozen=True):
    topic: str
    payload: bytes
    time_s: float


class AcknowledgedUpTo(Struct, frozen=True):
    publisher: str
    life: int
    number: int
    """Everything up to it."""
    level: str
    copies: int
    short: tuple[int, ...] = ()
    """Which of those that were not acknowledged before had been stored by fewer repositories."""


class ReleasedMessage(Struct, frozen=True):
    life: int
    """Of the subscriber."""
    identity: Identity
    repository: str
    topic: str
    payload: bytes
    stable: bool
    """Whether the repository had stored it by then."""
    time_s: float


class Discarded(Struct, frozen=True):
    """Messages that a repository forgot."""

    repository: str
    identities: tuple[Identity, ...]
    age_s: float
    """How long ago they were stored there."""
    weight_bytes: int
    """What everything weighed that was kept there from them on."""


class ApplicationAnswer(Struct, frozen=True):
    """What happened to a message that is acknowledged by itself: `handed`, `acked`, `nacked` or `confirmed`."""

    what: str
    life: int
    """Of the subscriber."""
    identity: Identity
    count: int = 0
    """How often it was handed out, as its subscriber says."""
    repository: str = ""
    """The one that confirmed it, or steered."""
    time_s: float = 0.0
    """When it was handed out, or may come again."""


class GapTold(Struct, frozen=True):
    """A subscriber was told that these were forgotten before it got them."""

    life: int
    identities: tuple[Identity, ...]
    releases: int
    """How many messages had been released to it by then."""


class ReliableHistory:
    """Everything that was published, acknowledged, stored and released, in order."""

    def __init__(self) -> None:
        self.publications: dict[Identity, PublishedMessage] = {}
        self.acknowledgements: list[AcknowledgedUpTo] = []
        self._acknowledged: dict[tuple[str, int], int] = {}
        self.after: dict[tuple[str, int], tuple[int, ...]] = {}
        """By publisher and life: the catenation numbers of earlier lives that come before it."""
        self.lives: dict[tuple[str, int], int] = {}
        self.releases: dict[str, list[ReleasedMessage]] = defaultdict(list)
        self.gaps: dict[str, list[tuple[str, int, int, int]]] = defaultdict(list)
        self.rejections: list[tuple[str, int, int, bool]] = []
        self.had: dict[str, set[Identity]] = {}
        """By subscriber that was away until everything was at rest: what it was known to have had then."""
        self.beginnings: dict[str, list[tuple[int, str, float]]] = defaultdict(list)
        self.began: dict[str, int] = {}
        """Which of these counts, if not the first: those who knew of the earlier ones were away, so it began again."""
        self.knew: Callable[[str, float], bool] = lambda *_: True
        """Whether a repository that is there has known a subscription since before that time."""
        """By subscriber: in which of its lives, by which repository and when it was let in."""
        self.ends: list[tuple[str, str]] = []
        """Subscriptions that were ended, and which repository said so."""
        self.given_up: set[Identity] = set()
        """What an operator gave up, at any repository."""
        self.excused: set[Identity] = set()
        """What of it nobody had been told to be stored by then."""
        self.ruined: set[Identity] = set()
        """What was damaged in a store whether or not another repository had it."""
        self.discards: list[Discarded] = []
        self.gaps_told: dict[str, list[GapTold]] = defaultdict(list)
        """By subscriber: what retention took before it was read."""
        self.damage_told: dict[str, set[Identity]] = defaultdict(set)
        """By subscriber: what it was told is damaged, and lost."""
        self.answers: dict[str, list[ApplicationAnswer]] = defaultdict(list)
        """By subscriber whose application acknowledges each message: what was handed out, acknowledged, and so on."""
        self.stores: dict[str, set[Identity]] = defaultdict(set)
        """By repository: what was ever committed there."""

    def published(self, name: str, host_life: int, number: int, topic: str, payload: bytes, now: float) -> None:
        self.publications[name, self.lives.get((name, host_life), host_life), number] = PublishedMessage(
            topic, payload, now
        )

    def opened(self, name: str, host_life: int, life: int, past: tuple[int, ...]) -> None:
        if life != host_life:
            for key in [key for key in self.publications if key[:2] == (name, host_life)]:
                self.publications[name, life, key[2]] = self.publications.pop(key)
            self.lives[name, host_life] = life
        self.after[name, life] = past

    def acknowledged(self, name: str, host_life: int, number: int, level: str, copies: int) -> None:
        life = self.lives.get((name, host_life), host_life)
        before = self._acknowledged.get((name, life), 0)
        self._acknowledged[name, life] = max(before, number)
        short = tuple(one for one in range(before + 1, number + 1) if self._copies((name, life, one)) < copies)
        self.acknowledgements.append(AcknowledgedUpTo(name, life, number, level, copies, short))

    def _copies(self, identity: Identity) -> int:
        return sum(identity in stored for stored in self.stores.values())

    def give_up(self, identity: Identity) -> None:
        self.given_up.add(identity)
        if identity[2] > self._acknowledged.get(identity[:2], 0):
            self.excused.add(identity)

    def rejected(self, name: str, life: int, first: int, definite: bool) -> None:
        self.rejections.append((name, life, first, definite))

    def begun(self, name: str, life: int, repository: str, now: float, started_s: float) -> None:
        if self.beginnings[name] and not self.knew(name, started_s):
            self.began[name] = len(self.beginnings[name])
        self.beginnings[name].append((life, repository, now))

    def beginning_s(self, name: str, anew: bool) -> float:
        """When a subscription began, for good."""
        return self.beginnings[name][-1 if anew else self.began.get(name, 0)][2]

    def ended(self, subscription: str, repository: str) -> None:
        self.ends.append((subscription, repository))

    def committed(self, repository: str, entry: Entry) -> None:
        self.stores[repository].update(identities(entry))

    def released(self, name: str, life: int, repository: str, entry: Entry, now: float) -> None:
        stored = self.stores[repository]
        payloads = entry.batch.payload_list()
        for identity, payload in zip(identities(entry), payloads, strict=True):
            one = ReleasedMessage(life, identity, repository, entry.batch.topic, payload, identity in stored, now)
            self.releases[name].append(one)

    def handed_out(self, name: str, life: int, repository: str, entry: Entry, count: int, now: float) -> None:
        # It may be handed out long after it was released, or again, when somebody else steers.
        having = [one for one, stored in self.stores.items() if identities(entry)[0] in stored]
        self.released(name, life, having[0] if having else repository, entry, now)
        self.answers[name].append(ApplicationAnswer("handed", life, identities(entry)[0], count, repository, now))

    def acked(self, name: str, life: int, whose: Iterable[tuple[str, int]]) -> None:
        self.answers[name] += [ApplicationAnswer("acked", life, identity_of(*one)) for one in whose]

    def nacked(self, name: str, life: int, whose: tuple[str, int], until_s: float) -> None:
        self.answers[name].append(ApplicationAnswer("nacked", life, identity_of(*whose), time_s=until_s))

    def confirmed(self, name: str, life: int, whose: Iterable[tuple[str, int]], repository: str) -> None:
        done = [ApplicationAnswer("confirmed", life, identity_of(*one), repository=repository) for one in whose]
        self.answers[name] += done

    def gap(self, name: str, own_life: int, gap: StreamGap) -> None:
        publisher, life, low, high = gap.publisher, life_of(gap.first), number_of(gap.first), number_of(gap.last)
        self.gaps[name].append((publisher, life, low, high))
        if gap.damaged:
            self.damage_told[name].update((publisher, life, number) for number in range(low, high + 1))
        if gap.forgotten:
            missing = tuple((publisher, life, number) for number in range(low, high + 1))
            self.gaps_told[name].append(GapTold(own_life, missing, len(self.releases[name])))

    def gapped(self, name: str) -> set[Identity]:
        """What a subscriber was told that it will not come, for whatever reason."""
        return {
            (publisher, life, number)
            for publisher, life, first, last in self.gaps[name]
            for number in range(first, last + 1)
        }

    def forgotten(self) -> set[Identity]:
        """What retention took, at any repository."""
        return {identity for discard in self.discards for identity in discard.identities}


def identity_of(publisher: str, cat: int) -> Identity:
    return publisher, life_of(cat), number_of(cat)


def identities(entry: Entry) -> list[Identity]:
    life, number = life_of(entry.cat), number_of(entry.cat)
    return [(entry.publisher, life, number + index) for index in range(entry.count)]
