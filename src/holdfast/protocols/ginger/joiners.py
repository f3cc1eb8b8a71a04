"""Somebody who joins a repair, as the broker that takes it in sees it."""

from collections.abc import Iterable, Mapping

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import Join, Unstable
from holdfast.protocols.ginger.merge import Flag
from holdfast.protocols.records import RecordId


class Joiner:
    """Somebody who asks to be taken in, with what it knows."""

    __slots__ = ("_held", "_held_last", "_not_for_it", "join", "records", "taken")

    def __init__(self, join: Join, records: list[Unstable]) -> None:
        self.join, self.records = join, records
        own = [one.batch.last for one in records if one.batch.publisher == join.twig.name]
        self.taken = max([join.published, *own])
        """Of a client: everything that it published up to this number is taken."""
        self._note_held()

    def copy(self) -> "Joiner":
        """The same joiner, of which more may be found out."""
        copied = Joiner(self.join, list(self.records))
        copied.taken = self.taken
        return copied

    def _note_held(self) -> None:
        self._held = {(one.batch.publisher, one.batch.first) for one in self.records}
        done = [one.batch for one in self.records if one.flag == "d" and self.is_client]
        self._not_for_it = {(batch.publisher, batch.first) for batch in done}
        """Of a client: what it published, and what was released when it did not want it. It may want it now."""
        self._held_last = last_of(one.batch for one in self.records)

    def see_wholes(self, wholes: Mapping[str, list[Batch]]) -> None:
        """Of a client: what it has of a total batch stands for all of it.

        1. A batch of c3#1 and c3#2 is released by its root, which dies. Its client wanted c3#2 alone, and has it.
        2. The others know of the batch by its first message. To them c3#2 must show that c3#1 is released, too.

        And if it has the first messages alone, the others are owed the rest as well.
        """
        seen: set[RecordId] = set()
        for place, one in enumerate(self.records):
            batch = one.batch
            if batch.guarantee != TOTAL or batch.publisher == self.join.twig.name:
                continue
            whole = next((all_ for all_ in wholes.get(batch.publisher, ()) if _is_part(batch, all_)), None)
            if whole is None or (batch.publisher, whole.first) in seen:
                continue
            if whole.first == batch.first or (batch.publisher, whole.first) not in self._held:
                self.records[place] = Unstable(one.flag, whole, one.after, one.number)
                seen.add((batch.publisher, whole.first))
        self._note_held()

    @property
    def is_client(self) -> bool:
        return self.join.twig.kind == "client"

    def has_received(self, record_id: RecordId) -> bool:
        """Whether it says to have the record from the lost broker."""
        return any(one.flag == "r" and (one.batch.publisher, one.batch.first) == record_id for one in self.records)

    def has_processed(self, batch: Batch) -> bool:
        return self.join.processed.get(batch.publisher, 0) >= batch.last

    def has_begun(self, batch: Batch) -> bool:
        """Whether it has some of the batch: a client may want no more of it."""
        return self.join.processed.get(batch.publisher, 0) >= batch.first

    def has_forgotten(self, batch: Batch) -> bool:
        """Whether this joiner shows that everybody who was to have the batch has it.

        It has forgotten something of that publisher, the batch itself or a later one, and nobody forgets that before
        all that the dead broker had passed earlier is stable. Whoever lacks it has not wanted it in time.
        """
        publisher = batch.publisher
        if (publisher, batch.first) in self._held:
            return False
        if self.is_client and publisher == self.join.twig.name:
            return batch.last <= self.join.published
        return self.has_processed(batch) and batch.last > self._held_last.get(publisher, 0)

    def done_by_the_lost(self) -> list[Batch]:
        """Of a broker: what it had asked the lost one for, and knows to be done.

        1. 10, which is outside the topic's subtree, asks 6, its root, for a total batch.
        2. 6 delivers it, tells 10 that it is done, and dies; its clients have not got it yet.
        3. Only 10 has the batch, and will not ask for it again.
        """
        done = [one.batch for place, one in enumerate(self.records) if one.flag == "d" and one.after <= place]
        return [] if self.is_client else done

    def asked_in_vain(self) -> list[RecordId]:
        """Of a broker: what the lost one had asked it for, and what was done without it."""
        done = [one for place, one in enumerate(self.records) if one.flag == "d" and one.after > place]
        return [(one.batch.publisher, one.batch.first) for one in done]

    def uses(self, one: Unstable) -> bool:
        """Whether a contribution is taken; a client sends again what is not."""
        return not self.is_client or one.batch.publisher != self.join.twig.name or one.batch.last <= self.taken

    def processed_in_order(self) -> list[RecordId]:
        """What it says to have processed of its records, in its order; a client's own message has to come back."""
        flags = ("r",) if self.is_client else ("r", "s")
        passed = [one for one in self.records if one.flag in flags and one.number > 0]
        return [(one.batch.publisher, one.batch.first) for one in sorted(passed, key=lambda one: one.number)]

    def places(self) -> dict[RecordId, tuple[int, bool]]:
        """The place of each of its records on the new link, and whether only its request is there."""
        found: dict[RecordId, tuple[int, bool]] = {}
        for place, one in enumerate(self.records, 1):
            if self.uses(one):
                # Several records of a client may be parts of one batch: the first has its place.
                asked = not self.is_client and Flag(one.flag).is_request
                found.setdefault((one.batch.publisher, one.batch.first), (place, asked))
        return found

    def lacks_of(self, batch: Batch) -> Batch | None:
        """What of a batch it has not processed."""
        own = self.is_client and self.join.twig.name == batch.publisher
        if own and (batch.publisher, batch.first) in self._not_for_it:
            return None
        last = self.join.processed.get(batch.publisher, 0)
        if own or last < batch.first:
            return batch if last < batch.last else None
        return batch.part(last + 1, batch.last) if last < batch.last else None


def _is_part(batch: Batch, whole: Batch) -> bool:
    return whole.first <= batch.first <= whole.last and batch.count < whole.count


def last_of(batches: Iterable[Batch]) -> dict[str, int]:
    """The highest number of each publisher."""
    last: dict[str, int] = {}
    for batch in batches:
        last[batch.publisher] = max(batch.last, last.get(batch.publisher, 0))
    return last
