"""What a broker keeps for those who did not come when a lost neighbour's place was filled.

The problem: a neighbour that is lost may be dead, or out of reach with everybody behind it; nobody can tell. Those that
do not join the repair may return much later, having heard nothing meanwhile, and with news of their own. The idea: the
broker keeps a diary of all that it processes from the moment of the loss on, whatever the topic, since those out of
reach may come to want what nobody wanted there before. Whoever returns is settled with like in a repair: the diary is
this broker's side of the history, what the other has kept is its side.

There is one diary for all absences; each begins at its own place in it. It is bounded in time and in bytes: beyond
that an absence is given up, and whoever returns is told that messages are missing.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from holdfast.model.batches import Batch
from holdfast.model.messages import Interest, Twig
from holdfast.model.receipt_messages import NAMES_MAX, Finding
from holdfast.model.terms import Contact
from holdfast.protocols.ginger.merge import Contribution, Flag
from holdfast.protocols.records import RecordId
from holdfast.protocols.routing import RoutingTable
from holdfast.protocols.stability import StabilityLog

TOPICS_SHOWN_MAX = 3
REFUSALS_MAX = 8
"""So often, two seconds apart, one of the missing may take us for dead before it counts as being elsewhere."""


class OwnHistory(Struct, frozen=True):
    """What a broker has itself to do with the records of one link, in that link's order.

    `numbers` are the places of these records in its processing order. `requests` are total batches of which only the
    request went by on the link; the log may forget them, and yet who returns has to say that they are done:
    1. 0 asks 1 for a batch, and 1 asks 2, which releases it and tells 1. Before 1 can tell 0, the network is parted.
    2. 1 has nobody left to tell, and forgets the record. Somebody who wants the topic subscribes at 0.
    3. 1 returns. If it does not say that the batch is done, 0, which is its root now, releases it a second time.
    """

    entries: list[Contribution]
    batches: dict[RecordId, Batch]
    numbers: dict[RecordId, int]
    requests: dict[RecordId, Batch]

    def batch_of(self, record_id: RecordId) -> Batch | None:
        """The batch of that entry, whatever went by of it."""
        return self.batches.get(record_id, self.requests.get(record_id))


NOTHING = OwnHistory([], {}, {}, {})

AGAIN = " (lost before)"
"""What the name of a neighbour has besides, for the absence of an earlier loss."""


class Absence:
    """One lost neighbour, and who of those behind it did not come to its repair."""

    __slots__ = (
        "_busy",
        "_refusals",
        "_turn",
        "contacts",
        "doubt",
        "earlier_root",
        "history",
        "key",
        "lacks",
        "missing",
        "parent",
        "refused_s",
        "since_s",
        "start",
        "to_parent",
        "told",
        "unaccounted",
        "whole",
    )

    def __init__(self, key: str, contacts: tuple[Contact, ...], start: int, since_s: float) -> None:
        self.key, self.contacts, self.start, self.since_s = key, contacts, start, since_s
        """`contacts`: where the lost ones may be found."""
        self.history = NOTHING
        """What was unstable on the link with the lost neighbour."""
        self.missing: dict[str, Twig] = {}
        self.lacks = False
        """Whether it is known that there is something out of reach which our part lacks."""
        self.unaccounted: list[Interest] = []
        """What was wanted behind the lost neighbour, and by nobody who is known to have come in its place."""
        self.doubt = RoutingTable()
        """What is wanted out of reach, on topics whose top may be there: total messages may have turned there."""
        self.parent = ""
        """Whom we have lost first, if that was our parent."""
        self.to_parent = False
        """Whether the lost neighbour was our parent, so that we have to look for it."""
        self.whole = True
        """Whether the diary has all that was processed in our part since; not if an earlier root of it is lost."""
        self.earlier_root = ""
        """That root, if it may be alive: it has what the diary lacks."""
        self.refused_s: float | None = None
        """Since when it is known that nobody listens where the lost neighbour was."""
        self.told = False
        """Whether subscribers were told that the diary of the other side may be gone."""
        self._refusals: Counter[str] = Counter()
        """How often each of the missing could be reached, and took us for dead."""
        self._busy: set[str] = set()
        """Who has another turn, since it could not answer when it was asked."""
        self._turn = 0

    @property
    def brokers_missing(self) -> bool:
        """Whether others than the lost neighbour itself may be out of reach with clients of their own."""
        return any(twig.kind == "broker" and twig.name != self.key for twig in self.missing.values())

    def knows(self, name: str) -> bool:
        """Whether that broker is one of those who may be found."""
        return any(contact.name == name for contact in self.contacts)

    def last_resorts(self, own: str, parent: str | None) -> tuple[Contact, ...]:
        """Other brokers of the lost part: the one that we have lost may be dead by the time that we can be heard.

        1. 1 has lost 0, and looks for it. The network is whole again, and 0 crashes: 2 is the root in its place.
        2. If 1 asks 0 alone, nobody answers it, and there are two trees for ever.
        """
        known = {contact.name for contact in self.contacts} | {own}
        missing = [twig for twig in self.missing.values() if twig.kind == "broker" and twig.name not in known]
        others = [Contact(twig.name, twig.epoch, twig.address) for twig in missing]
        if parent is not None and parent not in known and all(one.name != parent for one in others):
            others.append(Contact(parent, 0, ""))
        return tuple(others)

    def next_missing(self) -> tuple[Contact, ...]:
        """The next in turn of the brokers that are missing behind the lost neighbour, if any is."""
        brokers = [twig for twig in self.missing.values() if twig.kind == "broker" and not self.knows(twig.name)]
        if not brokers:
            return ()
        self._turn += 1
        twig = brokers[self._turn % len(brokers)]
        return (Contact(twig.name, twig.epoch, twig.address),)

    def is_over(self, name: str, back: Collection[str]) -> bool:
        """That node is in our tree again, and these with it: nobody looks for them. Returns whether all are found.

        A lost parent may come with a broker that has taken it in:
        1. 2 has lost 0, 1 and 3, and looks for all three. 3, which has taken 0 in, comes to 2. 1 is dead.
        2. If 2 went on with its search, it would ask 0 for ever, which is below it.
        A lost child that comes with another broker has begun anew there: those that were below it may still be missing.
        """
        self.missing = {one: twig for one, twig in self.missing.items() if one not in back}
        self.contacts = tuple(one for one in self.contacts if one.name not in back)
        if self.to_parent and (self.key in back or not self.contacts):
            return True
        return name == self.key or not self.missing

    def doubts(self, interests: Iterable[Interest]) -> None:
        """These are wanted out of reach, and what orders them may be there."""
        for interest in interests:
            self.doubt.add(*interest, self.key)

    def go_by(self, key: str) -> None:
        """The neighbour of that name is lost once more, and gives its name to the absence that begins now."""
        doubted, self.key = self.doubted, key
        self.no_longer_doubted()
        self.doubts(doubted)

    def no_longer_doubted(self) -> None:
        self.doubt = RoutingTable()

    @property
    def doubted(self) -> list[Interest]:
        return self.doubt.interests(self.key)

    def has_refused_often(self, name: str) -> bool:
        """One of the missing takes us for dead once more: whether it had time enough to come by itself."""
        self._refusals[name] += 1
        return self._refusals[name] >= REFUSALS_MAX

    def concerns(self, name: str) -> bool:
        return name == self.key or name in self.missing

    def had_its_turn(self, name: str) -> None:
        """All the others are asked before that one is asked again."""
        self._behind(len(self.contacts), name)

    def could_not_answer(self, name: str) -> None:
        """Who was busy asking us something when its turn came has another turn, behind one other.

        Without that: 1. It asks us as often as its turn comes, and cannot answer each time. 2. The others, who are
        asked in case it is dead, deny that they keep anything for us. 3. We begin anew, while it keeps what we lack.
        If it is busy again, all the others go first: two that are always busy do not keep them from their turns.
        """
        if name in self._busy:
            self._busy.discard(name)
            self.had_its_turn(name)
        else:
            self._busy.add(name)
            self._behind(1, name)

    def _behind(self, count: int, name: str) -> None:
        others = [contact for contact in self.contacts if contact.name != name]
        again = [contact for contact in self.contacts if contact.name == name]
        self.contacts = (*others[:count], *again, *others[count:])


class Absences:
    """The absences of one broker and their diary."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._all: dict[str, Absence] = {}
        self._diary: deque[tuple[Batch, int]] = deque()
        self._first = 0
        """How many pages were torn out at the front of the diary."""
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Absence]:
        return iter(list(self._all.values()))

    def begin(self, key: str, contacts: tuple[Contact, ...], now: float) -> Absence | None:
        """A neighbour is lost: from now on everything is written down. Returns the absence of an earlier loss of it."""
        earlier = self._set_aside(key)
        self._all[key] = Absence(key, contacts, self._first + len(self._diary), now)
        return earlier

    def _set_aside(self, key: str) -> Absence | None:
        """Those whom the earlier loss of a broker has left missing stay missing when it is lost again.

        1. 0 loses 4, and misses 5 and bob, who are behind it. 4 begins anew, and 0 takes it in.
        2. 0 loses 4 again. Nobody is behind it now but those who were missed before.
        3. If this loss took the place of the first, 0 would keep nothing more for 5, and confirm what bob never gets.
        """
        earlier = self._all.pop(key, None)
        if earlier is None:
            return None
        earlier.missing.pop(key, None)
        if not earlier.missing:
            return None
        name = key + AGAIN
        while name in self._all:
            name += AGAIN
        earlier.go_by(name)
        self._all[name] = earlier
        return earlier

    def find(self, key: str) -> Absence | None:
        return self._all.get(key)

    def look_for(self, contact: Contact, now: float) -> None:
        """That broker will not look for us, so we look for it, with what was kept for it if it was missed here."""
        absence = self._all.get(contact.name)
        if absence is None or not absence.missing:
            self.inherit((contact,), now)
        else:
            absence.to_parent, absence.parent, absence.contacts = True, contact.name, (contact,)

    def inherit(self, lost: tuple[Contact, ...], now: float) -> Absence:
        """The root of our part has died, and its diary with it. We look for those whom it looked for."""
        absence = Absence(lost[0].name, lost, self._first + len(self._diary), now)
        absence.to_parent, absence.whole, absence.parent = True, False, lost[0].name
        absence.missing = {one.name: Twig(one.name, "broker", one.epoch, one.address) for one in lost}
        return self._all.setdefault(absence.key, absence)

    def unite(self, absence: Absence) -> list[str]:
        """Whom an earlier root of our part looked for, and whom we have lost ourselves, are looked for together.

        1. 1 has lost 0, and is the root of its part. 1 falls silent: 2 is its heir, and misses a client of 1.
        2. 1 begins anew, and says so: that client has come by itself. 0 is still to be found.

        Returns the keys of the absences that are one with this one now.
        """
        others = [one for one in self._all.values() if one.to_parent and one is not absence]
        for other in others:
            absence.missing.update(other.missing)
            absence.doubts(other.doubted)
            self.end(other)
        return [other.key for other in others]

    def let_go(self, absence: Absence) -> None:
        """Too much is kept, or for too long: the diary of this absence begins anew, with a hole in it.

        Requests for total batches stay: whoever has asked waits until it is known what became of them.
        """
        before = absence.history
        asked = [(rid, flag, 0, number) for rid, flag, _, number in before.entries if flag.is_request]
        batches = {rid: batch for rid, *_ in asked if (batch := before.batch_of(rid)) is not None}
        absence.history, absence.whole, absence.earlier_root = OwnHistory(asked, {}, {}, batches), False, ""
        absence.start = self._first + len(self._diary)
        self._tear_out()

    def of(self, name: str) -> Absence | None:
        """The absence in which that node is missing."""
        return next((one for one in self._all.values() if one.missing and one.concerns(name)), None)

    def of_parent(self) -> Absence | None:
        """The absence that made us the root of our part."""
        return next((one for one in self._all.values() if one.missing and one.to_parent), None)

    def doubted(self) -> list[Interest]:
        """What may have its top out of reach."""
        return sorted({interest for absence in self._all.values() for interest in absence.doubted})

    def doubts(self, held: Collection[str], now: float, absent_s: float) -> list[str]:
        """In words, on which of these topics total messages wait since their top may be out of reach, and alive."""
        found = []
        for absence in self._all.values():
            topics = sorted(topic for topic in held if absence.missing and absence.doubt.is_wanted(topic))
            if topics:
                left_s = max(0.0, absence.since_s + absent_s - now)
                found.append(
                    f"{absence.key}, which may be alive and out of reach, and may have ordered total messages on "
                    f"{', '.join(topics[:TOPICS_SHOWN_MAX])}: for {left_s:.0f} s at most"
                )
        return found

    @property
    def any_begun(self) -> bool:
        """Whether a loss is still being repaired, so that it is not known yet who is missing."""
        return any(not one.missing for one in self._all.values())

    def sought(self, before: tuple[Contact, ...]) -> tuple[Contact, ...]:
        """Whom the root of our part looks for, in the order of `before`: whoever was lost first comes first."""
        absence = self.of_parent()
        sought = () if absence is None else absence.contacts
        return tuple(dict.fromkeys((*(one for one in before if one in sought), *sought)))

    def missing(self) -> list[str]:
        """All nodes that may be out of reach."""
        return sorted({name for absence in self._all.values() for name in absence.missing})

    def finding(self) -> Finding:
        """What is known of a message that they may lack."""
        return Finding(broken=f"out of reach: {', '.join(self.missing()[:NAMES_MAX])}")

    def note(self, batch: Batch, number: int) -> None:
        """A batch is processed, as number so and so."""
        if self._all:
            self._diary.append((batch, number))
            self.bytes += batch.cost_bytes

    def history(self, absence: Absence) -> OwnHistory:
        """Everything that this broker has to do with what the absent may lack."""
        before, pages = absence.history, list(self._diary)[absence.start - self._first :]
        batches, numbers = dict(before.batches), dict(before.numbers)
        fresh: deque[tuple[RecordId, int]] = deque()
        for batch, number in pages:
            record_id = (batch.publisher, batch.first)
            if record_id not in batches:
                fresh.append((record_id, number))
                batches[record_id] = batch
                numbers[record_id] = number
        since = {(batch.publisher, batch.first) for batch, _ in pages}
        return OwnHistory(_in_turn(before.entries, fresh, since), batches, numbers, before.requests)

    def end(self, absence: Absence) -> None:
        """Nobody is waited for any more."""
        self._all.pop(absence.key, None)
        self._tear_out()

    def _tear_out(self) -> None:
        """The pages in front of the diary that no absence needs any more."""
        start = min((one.start for one in self._all.values()), default=self._first + len(self._diary))
        while self._first < start:
            batch, _ = self._diary.popleft()
            self.bytes -= batch.cost_bytes
            self._first += 1

    def is_back(self, twig: Twig) -> None:
        """The root of a part asks to be taken in, under a later epoch than the one in which it was lost.

        It has not begun anew, as one would have that died in a later epoch (`_outlived`):
        1. 1 has lost 2, and misses c2 behind it. 2 is back as the root of its part, and dies before it is let in.
        2. If 1 took 2 for one that had begun anew, it would miss c2 no longer, and refuse it for ever.
        """
        for absence in self._all.values():
            absence.contacts = tuple(
                Contact(one.name, max(one.epoch, twig.epoch), one.address) if one.name == twig.name else one
                for one in absence.contacts
            )

    def returned(self, absence: Absence, twig: Twig) -> None:
        """That node is back, with whom it knows behind it."""
        if absence.is_over(twig.name, names_in(twig)):
            self.end(absence)

    def overdue(self, now: float, absent_s: float) -> list[Absence]:
        """Those that have lasted too long, or whose diary has grown too large: the oldest first."""
        late = [one for one in self._all.values() if one.missing and now - one.since_s > absent_s]
        if self.bytes > self._bytes_max and not late:
            late = [min(self._all.values(), key=lambda one: one.start)]
        return late


def _in_turn(
    entries: list[Contribution], fresh: deque[tuple[RecordId, int]], since: set[RecordId]
) -> list[Contribution]:
    """What went by on the link, and what was processed `since` it was lost and did not go by, in processing order.

    What those out of reach had wanted still goes by on the link until it is known that they do not come.

    A total batch that was only asked for when the link was lost, and is released since, stands where it was released:
    1. 1 asks 0 for c2#8, and loses 0. Its part is a majority: brief#3 is published there, then c2#8 is released.
    2. If c2#8 stood where it was asked for, 0 would hand it to its clients in front of brief#3 when 1 returns.
    """
    order: list[Contribution] = []
    places = [0]
    released = {record_id for record_id, _ in fresh}
    for place, (record_id, flag, after, number) in enumerate(entries):
        if flag.is_request and record_id in released:
            places.append(len(order))
            continue
        while fresh and record_id in since and fresh[0][1] < number:
            fresh_id, fresh_number = fresh.popleft()
            order.append((fresh_id, Flag.SENT, len(order), fresh_number))
        # What was sent when all the others had gone by is behind these, too; a request stays behind what it was behind.
        earlier = len(order) if flag is Flag.SENT and after == place else places[min(after, place)]
        order.append((record_id, flag, len(order) + 1 if after > place else earlier, number))
        places.append(len(order))
    order += [(fresh_id, Flag.SENT, len(order) + place, number) for place, (fresh_id, number) in enumerate(fresh)]
    return order


def take_up(log: StabilityLog, peer: str, history: OwnHistory) -> None:
    """Put all of it back into the log: it is unstable traffic on the new link, whatever becomes of that."""
    log.link(peer)
    found = []
    for place, (record_id, flag, after, number) in enumerate(history.entries):
        record, batch = log.find(record_id), history.batch_of(record_id)
        if record is None and batch is not None:
            record = log.append(batch)
            record.number = number
        if record is not None:
            came = flag is Flag.RECEIVED or after > place
            found.append((record, place, after if flag.is_request else None, came))
    for record, place, asked_after, came in found:
        log.owe(record, peer, place, asked_after, came)
    log.owed(len(history.entries))


def epochs_in(twig: Twig) -> Iterator[tuple[str, int]]:
    """The brokers among that node and everybody known below it, each with its epoch."""
    if twig.kind == "broker":
        yield twig.name, twig.epoch
    for below in twig.twigs:
        yield from epochs_in(below)


def names_in(twig: Twig) -> set[str]:
    """That node and everybody known below it."""
    return {twig.name}.union(*(names_in(below) for below in twig.twigs))
