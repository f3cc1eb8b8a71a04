"""Clients that were busy while their broker died, and what is kept for them until they come.

The problem: a client whose broker died has to join the repair, and the repair cannot wait for long: until it has ended,
nothing passes on the links under repair. But a client that computes for five seconds, or a laptop that was suspended,
is ordinary, and its session is good for half a minute. The idea: the repair ends without it (after `join_s`), and the
coordinator keeps all that it went by: its own side of the lost link, and what each joiner has said. When the client
comes, the same settlement is worked out once more with what the client says added to it, as if it had been there, and
the client alone is handed what it lacks. What was processed since follows, in the order in which it was processed.

In its place a stand-in wants what the lost broker wanted: so the messages still come here, and a publisher's question
whether everybody has a message is not answered before the client has come or is given up. Only two things are not
certain any more when the client comes:
- the lost broker may have released a total batch to it alone. If others have got, or would get, that batch behind
  another total one on its keys, the client's session is lost, and it is told so;
- that batch, or a weaker message that has reached the client alone, may stand on the other side of each other for
  everybody else: weaker messages of which that is so are reported as `crossed`, like those of a minority.

Bounds: a case ends with the time that sessions are kept, or when `bytes_max` are kept for it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.identities import name_of
from holdfast.model.messages import Interest, Twig, Unstable
from holdfast.protocols.ginger.absences import OwnHistory
from holdfast.protocols.ginger.joiners import Joiner
from holdfast.protocols.records import RecordId

CASES_MAX = 64


class Account(Struct, frozen=True):
    """What a late client says: its records, what it has processed, and whether it wants a batch."""

    records: list[Unstable]
    processed: Mapping[str, int]
    wants: Callable[[Batch], bool]

    def had_before(self, other: Batch, batch: Batch) -> bool:
        """Whether the client has the other batch, and got it before this one; what it keeps no longer came first."""
        if self.processed.get(other.publisher, 0) < other.last:
            return False
        order = [(one.batch.publisher, one.batch.first) for one in self.records]
        place = (other.publisher, other.first)
        return place not in order or order.index(place) < order.index((batch.publisher, batch.first))


class LateCase:
    """One lost broker, whose loss is repaired, and its clients that have not come."""

    def __init__(self, lost: str, stand_in: str, clients: Mapping[str, Twig], until_s: float) -> None:
        self.lost, self.stand_in, self.clients, self.until_s = lost, stand_in, dict(clients), until_s
        self.joined: dict[str, Joiner] = {}
        """Those who came in time, with what they said."""
        self.history: OwnHistory | None = None
        self.known: dict[RecordId, Batch] = {}
        """What the repair was about."""
        self.heard: dict[str, int] = {}
        self.unheard: tuple[RecordId, ...] = ()
        self.orders: list[list[RecordId]] = []
        """The records of each member of the repair: those that it had, in its order, then those that it was handed."""
        self.interests: tuple[Interest, ...] = ()
        self.since: deque[tuple[Batch, int]] = deque()
        """What was processed since, with its place in the processing order."""
        self._shared: set[RecordId] = set()
        """Those of them that somebody else wanted, too."""
        self.bytes = 0

    def keep(
        self,
        mine: OwnHistory,
        joined: Mapping[str, Joiner],
        known: Mapping[RecordId, Batch],
        numbers: dict[RecordId, int],
    ) -> None:
        """What the repair, which ends now, went by; `numbers` are the places that it has given to its records."""
        self.joined, self.known = dict(joined), dict(known)
        self.history = OwnHistory(mine.entries, mine.batches, {**mine.numbers, **numbers}, mine.requests)
        self.bytes = sum(batch.cost_bytes for batch in known.values())

    def note(self, batch: Batch, number: int, shared: bool = True) -> None:
        self.since.append((batch, number))
        if shared:
            self._shared.add((batch.publisher, batch.first))
        self.bytes += batch.cost_bytes

    def contradicts(self, client: Account, processed: Mapping[str, int], is_wanted: Callable[[Batch], bool]) -> bool:
        """Whether the client has a total batch that everybody else has got behind another one, or would get now."""
        for batch in self._alone(client, processed):
            differs = batch.guarantee == TOTAL and (self._is_shared(batch) or is_wanted(batch))
            if differs and any(self._conflicts(batch, client, total=True)):
                return True
        return any(one.guarantee == TOTAL == other.guarantee for one, other in self._reversed(client))

    def crossed(self, client: Account, processed: Mapping[str, int]) -> list[Batch]:
        """Weaker messages that stand on another side of a total one for the client than for everybody else."""
        found: dict[RecordId, Batch] = {}
        for batch in self._alone(client, processed):
            total = batch.guarantee == TOTAL
            conflicts = list(self._conflicts(batch, client, total=not total))
            for weaker in conflicts if total else [batch] if conflicts else []:
                found[weaker.publisher, weaker.first] = weaker
        return [*{**found, **self.out_of_order(client)}.values()]

    def out_of_order(self, client: Account) -> dict[RecordId, Batch]:
        """What the repair has handed to somebody on another side of a total message than the client has it."""
        pairs = [pair for pair in self._reversed(client) if TOTAL in (one.guarantee for one in pair)]
        weaker = [one for pair in pairs for one in pair if one.guarantee != TOTAL]
        return {(one.publisher, one.first): one for one in weaker}

    def _reversed(self, client: Account) -> Iterator[tuple[Batch, Batch]]:
        """Pairs that the client has, or would get, the other way round than somebody who has been at the repair.

        1. c3#1 and c2#1, which is total, turn at 0 for c1 and c5. c1 is busy; c5 has yet to get them. 0 dies.
        2. 1 hands both to c5. Which was first, c1 alone could say: c5 gets c2#1 before c3#1.
        3. c1 comes, and has c3#1 before c2#1. c3#1 takes no part in the order of its keys; if it is total, too, c1 can
           not go on.
        """
        has = [(one.batch.publisher, one.batch.first) for one in client.records if one.flag == "r" and one.batch.keys]
        for order in self.orders:
            for batch in (self.known[one] for one in has if one in order and one in self.known):
                earlier = order[: order.index((batch.publisher, batch.first))]
                for other in (self.known[one] for one in earlier if one in self.known):
                    is_behind = not client.had_before(other, batch) and self._gets(client, other)
                    if is_behind and _share_a_key(batch, other):
                        yield other, batch

    @staticmethod
    def _gets(client: Account, batch: Batch) -> bool:
        return client.processed.get(batch.publisher, 0) >= batch.last or client.wants(batch)

    def _alone(self, client: Account, processed: Mapping[str, int]) -> Iterator[Batch]:
        """What the client has received with keys, and others have got since the repair, or have not got."""
        for one in client.records:
            batch, record_id = one.batch, (one.batch.publisher, one.batch.first)
            unknown = batch.last > processed.get(batch.publisher, 0) and record_id not in self.known
            if one.flag == "r" and batch.keys and (unknown or record_id in self._shared):
                yield batch

    def _conflicts(self, batch: Batch, client: Account, total: bool) -> Iterator[Batch]:
        """What others have before that batch, on a key of it, and the client has not: total batches, or weaker ones.

        1. The top of a topic, 1, turns m1 and m2 for busy, and dies before anybody else has heard of it.
        2. Both climb again, and turn above, in the same order. busy has both: nothing is wrong.
        """
        lacked = [one for one in self.known.values() if client.processed.get(one.publisher, 0) < one.last]
        before = [one for one in (*lacked, *self._before(batch, client)) if self._is_shared(one)]
        found = (one for one in before if (one.guarantee == TOTAL) is total and _share_a_key(batch, one))
        return (one for one in found if self._gets(client, one))

    def _is_shared(self, batch: Batch) -> bool:
        """Whether anybody but late clients has it since the repair, or has had it there.

        1. c1 has c0#1, which is total, for c1 alone. Both are late. c2#1, on the same key, turns for c1 alone.
        2. c0 comes, and c0#1 turns again, for c1 alone. Nobody has the two the other way round: c1 may go on.
        """
        record_id = (batch.publisher, batch.first)
        placed = self.history is not None and self.history.numbers.get(record_id, 0) > 0
        return record_id in self._shared or placed or any(record_id in order for order in self.orders)

    def _before(self, batch: Batch, client: Account) -> Iterator[Batch]:
        """What was processed since the repair, and before that batch, and did not come before it to the client."""
        for other, _ in self.since:
            if (other.publisher, other.first) == (batch.publisher, batch.first):
                return
            if not client.had_before(other, batch):
                yield other


class LateClients:
    """The cases of one broker."""

    def __init__(self, bytes_max: int, keep_s: float) -> None:
        self._bytes_max, self.keep_s = bytes_max, keep_s
        self._cases: dict[str, LateCase] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._cases)

    def begin(self, lost: str, clients: Mapping[str, Twig], interests: Iterable[Interest], now: float) -> LateCase:
        """These clients of a lost broker have not come."""
        self._serial += 1
        stand_in = f"(late clients of {lost}, {self._serial})"
        case = self._cases[stand_in] = LateCase(lost, stand_in, clients, now + self.keep_s)
        case.interests = tuple(interests)
        return case

    def of(self, client: str, epoch: int) -> LateCase | None:
        """Where that client is waited for."""
        for case in self._cases.values():
            twig = case.clients.get(client)
            if twig is not None and twig.epoch == epoch:
                return case
        return None

    def before(self, client: str, epoch: int) -> LateCase | None:
        """Where an earlier life of that client is waited for, which has begun anew."""
        for case in self._cases.values():
            twig = case.clients.get(client)
            if twig is not None and twig.epoch < epoch:
                return case
        return None

    def note(self, batch: Batch, number: int, wanted: Mapping[str, object]) -> None:
        """A batch is processed; `wanted` has the stand-ins that want it."""
        for stand_in, case in self._cases.items():
            if stand_in in wanted and case.history is not None:
                case.note(batch, number, any(name != stand_in for name in wanted))

    def over(self, now: float) -> list[LateCase]:
        """Cases that have lasted too long, or cost too much; of too many, the first."""
        found = [one for one in self._cases.values() if now >= one.until_s or one.bytes > self._bytes_max]
        more = len(self._cases) - len(found) - CASES_MAX
        return found + [one for one in self._cases.values() if one not in found][: max(0, more)]

    @property
    def is_too_much(self) -> bool:
        return any(case.bytes > self._bytes_max for case in self._cases.values())

    def end(self, case: LateCase) -> None:
        self._cases.pop(case.stand_in, None)

    def status(self) -> dict[str, dict[str, object]]:
        """By client: the broker that it has lost, and how much is kept for it and the others of that one."""
        return {
            name_of(client): {"lost": case.lost, "bytes": case.bytes}
            for case in self._cases.values()
            for client in case.clients
        }


def _share_a_key(one: Batch, other: Batch) -> bool:
    return one.topic == other.topic and not set(one.key_set()).isdisjoint(other.key_set())
