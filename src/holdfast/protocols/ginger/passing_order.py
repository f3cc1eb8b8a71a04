"""What a lost broker has passed on before what, as far as it is certain.

A broker sends everything that it processes at once to all who want it, so each of its neighbours has received a part of
its processing order, in that order. And it has received what a neighbour sent in the order in which that was sent. Both
tell what it had processed, and passed by, when it passed on something else:

- Who has received b from it and lacks an a that it had before b did not want a in time. It is not owed a, and coming
  now a would come too late.
- If somebody has forgotten b, then all that the lost broker had before b is stable: everybody has it who was to.

Only what went by when a link was in use counts. What was handed over when it was opened was not in processing order.
"""

from collections.abc import Iterable, Mapping, Sequence

from holdfast.protocols.ginger.merge import Contribution, Flag
from holdfast.protocols.records import RecordId


class PassingOrder:
    """The processing order of one lost broker, from the histories of its links.

    `heard` tells from which entry on each participant's history counts; whoever is not in it says nothing.
    """

    def __init__(self, histories: Mapping[str, Sequence[Contribution]], heard: Mapping[str, int]) -> None:
        self._bits: dict[RecordId, int] = {}
        self._records: list[RecordId] = []
        self._earlier: list[int] = []
        self._received: dict[str, int] = {}
        for who, start in sorted(heard.items()):
            self._learn(who, histories[who], start)

    def _learn(self, who: str, entries: Sequence[Contribution], start: int) -> None:
        gone_by, received = [0], 0
        for place, (record_id, flag, after, _) in enumerate(entries):
            bit = 0 if place < start or flag.is_request else self._bit(record_id)
            if bit and flag is Flag.RECEIVED:
                self._earlier[bit.bit_length() - 1] |= received
                received |= bit
            if bit and (flag is Flag.SENT or after <= place):
                self._earlier[bit.bit_length() - 1] |= gone_by[min(after, place)] & ~bit
            gone_by.append(gone_by[-1] | bit)
        self._received[who] = received

    def _bit(self, record_id: RecordId) -> int:
        if record_id not in self._bits:
            self._bits[record_id] = 1 << len(self._records)
            self._records.append(record_id)
            self._earlier.append(0)
        return self._bits[record_id]

    def before(self, records: Iterable[RecordId]) -> set[RecordId]:
        """Everything that it had processed before some of these, if it has processed these."""
        wanted = 0
        for record_id in records:
            wanted |= self._bits.get(record_id, 0)
        return self._set_of(self._all_before(wanted))

    def passed_by(self, who: str) -> set[RecordId]:
        """What it had processed before something that this participant has received, and has not given to it."""
        received = self._received.get(who, 0)
        return self._set_of(self._all_before(received) & ~received)

    def _all_before(self, bits: int) -> int:
        reached, to_visit = 0, bits
        while to_visit:
            further = 0
            while to_visit:
                further |= self._earlier[(to_visit & -to_visit).bit_length() - 1]
                to_visit &= to_visit - 1
            to_visit = further & ~reached
            reached |= further
        return reached

    def _set_of(self, bits: int) -> set[RecordId]:
        found = set()
        while bits:
            found.add(self._records[(bits & -bits).bit_length() - 1])
            bits &= bits - 1
        return found
