"""Messages under way through one node: the paper's ProcessingList, its timestamps, and what is kept for the failed.

A node numbers what it passes on. An *entry* is one message from its first copy until all its destinations behind this
node have confirmed it. Destinations that are clients and failed do not hold a confirmation up: the entry says who is
`lacking`, and is kept for them by every node that knows them.
"""

from collections.abc import Iterable

from holdfast.model.batches import Batch
from holdfast.model.delta_messages import Change, Multicast, Visit
from holdfast.protocols.delta.repeats import WINDOW, CopyNumbers

Key = tuple[str, int, int]


class Entry:
    """One message at one node."""

    __slots__ = (
        "batch",
        "begun",
        "came",
        "change",
        "covered",
        "done",
        "hidden",
        "key",
        "lacking",
        "later",
        "number",
        "open",
        "senders",
        "sent",
        "targets",
        "turned",
        "visited",
        "waits",
    )

    def __init__(
        self, number: int, key: Key, batch: Batch | None, change: Change | None, visited: tuple[Visit, ...]
    ) -> None:
        self.number, self.key, self.batch, self.change, self.visited = number, key, batch, change, visited
        self.targets: dict[str, None] = {}
        """Destinations that have yet to confirm."""
        self.done: set[str] = set()
        self.lacking: dict[str, None] = {}
        """Clients that are failed, and for whom it is kept."""
        self.hidden: dict[str, None] = {}
        """Others of whom somebody behind us said so."""
        self.sent: dict[str, set[str]] = {}
        """To whom it was given, for which destinations."""
        self.senders: dict[tuple[str, int], None] = {}
        """Who has given it to us, under which number, and waits for the confirmation."""
        self.begun: set[str] = set()
        """The directions in which it has gone."""
        self.later: dict[str, int] = {}
        """By direction, the number under which it went there, if that is a later one than its own."""
        self.open = True
        self.came = ""
        """Who gave us the first copy."""
        self.covered: set[str] = set()
        """At a publisher: failed brokers for which somebody has stood in."""
        self.turned: set[str] = set()
        """Clients of a failed broker for which we stand in: their copy comes as if straight from the publisher."""
        self.waits = False
        """Whether it goes nowhere until its destinations were looked up again."""

    @property
    def stands_in(self) -> bool:
        """Whether it is a later copy of its publisher's, and for clients of failed brokers alone."""
        return self.batch is not None and bool(self.key[1])


def key_of(message: Multicast) -> Key:
    """What the copies of one message have in common."""
    if message.batch is not None:
        return (message.batch.publisher, 0, message.batch.first)
    assert message.change is not None, "a multicast carries a batch or a change"
    return (message.change.source, message.change.life, message.change.serial)


class Passage:
    """The entries of one node, in the order of their numbers."""

    def __init__(self, name: str, tolerance: int) -> None:
        self.name, self.hops, self.life = name, tolerance + 1, 0
        self.entries: dict[int, Entry] = {}
        self._keys: dict[Key, Entry] = {}
        self._later: dict[int, Entry] = {}
        self.sent: dict[str, int] = {}
        """By receiver, the highest number that went there."""
        self.sent_last = 0
        self.came = CopyNumbers()
        self.last = 0

    def find(self, key: Key) -> Entry | None:
        return self._keys.get(key)

    def numbered(self, number: int) -> Entry | None:
        return self.entries.get(number) or self._later.get(number)

    def number_towards(self, entry: Entry, direction: str, hop: str, before: int) -> int:
        """The number under which an entry goes to that hop, on the way to which number `before` was the highest so far.

        1. An entry cannot go on: too many are failed in a row. 2. Many later ones go the same way. 3. The first can go
        on, and would be taken for a repeat there. So it goes under a new number, the same in all of that direction.
        """
        number = entry.later.get(direction, entry.number)
        if direction not in entry.begun and number < before - WINDOW // 2:
            self.last += 1
            number = entry.later[direction] = self.last
            self._later[number] = entry
        entry.begun.add(direction)
        self.sent[hop] = max(number, self.sent.get(hop, 0))
        self.sent_last = max(number, self.sent_last)
        return number

    def place_towards(self, entry: Entry, direction: str, before: int) -> int:
        """Where an entry stands among those that go to a hop: those that begin now come last."""
        number = entry.later.get(direction, entry.number)
        return number if direction in entry.begun or number >= before - WINDOW // 2 else self.last + number

    def add(self, key: Key, batch: Batch | None, change: Change | None, visited: tuple[Visit, ...]) -> Entry:
        self.last += 1
        entry = self.entries[self.last] = self._keys[key] = Entry(self.last, key, batch, change, visited)
        return entry

    def drop(self, entry: Entry) -> None:
        self.entries.pop(entry.number, None)
        for number in entry.later.values():
            self._later.pop(number, None)
        if self._keys.get(entry.key) is entry:
            del self._keys[entry.key]

    def trail(self, entry: Entry, number: int, between: tuple[str, ...], client: bool = False) -> tuple[Visit, ...]:
        """The last hops of a copy that skips those between us and its receiver; for a client one more.

        1. A stand-in gives a client a copy that has no number but the publisher's. 2. Those that it stood in for run
        again, as many as are told, and pass their own copy on: the publisher's number is one hop further back.
        """
        skipped = tuple((name, 0, 0) for name in between)
        return (*entry.visited, (self.name, self.life, number), *skipped)[-self.hops - client :]

    def unsend(self, peer: str) -> None:
        """The session with that peer is over: what it has not confirmed must be given again, to it or to others."""
        for entry in self.entries.values():
            entry.sent.pop(peer, None)
            for sender in [one for one in entry.senders if one[0] == peer]:
                del entry.senders[sender]

    def give_again(self, peer: str) -> None:
        """That peer recovers, and discards what is not guided: it must be given everything again."""
        for entry in self.entries.values():
            entry.sent.pop(peer, None)

    def forget_senders(self, names: Iterable[str]) -> None:
        """These will send again what they gave us: until then no confirmation is due to them."""
        gone = frozenset(names)
        for entry in self.entries.values():
            for sender in [one for one in entry.senders if one[0] in gone]:
                del entry.senders[sender]

    def forget_node(self, name: str) -> list[Entry]:
        """That node has left; returns what waited for it."""
        self.sent.pop(name, None)
        waited = []
        for entry in list(self.entries.values()):
            if name in entry.targets or name in entry.lacking:
                entry.targets.pop(name, None)
                entry.lacking.pop(name, None)
                waited.append(entry)
        return waited

    def under_way(self) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.open]

    def check_invariants(self) -> None:
        for number, entry in self.entries.items():
            assert number == entry.number, f"entry {entry.number} is filed as {number}"
            assert entry.open or entry.lacking, f"entry {number} is complete and kept for nobody"
        assert list(self.entries) == sorted(self.entries), "entries are out of order"
