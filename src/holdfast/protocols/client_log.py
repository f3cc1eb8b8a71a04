"""What a client keeps of what it published and received, for the repair of its broker's loss."""

from collections import deque
from collections.abc import Collection
from typing import Literal

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import Levels
from holdfast.protocols.records import Record, RecordId
from holdfast.protocols.stability import StabilityLog

HERE = "broker"
"""The one neighbour that a client has, whoever that is at the time."""


class ClientLog(StabilityLog):
    """A log with one link, whose owner is told by nobody when a total batch that it asked for is released.

    It follows from the levels: its broker has processed the batch, or knows that it was released for others. If the
    client has by then got all that the broker had sent, and not this one, it did not want it in time. Until it knows
    that, the brokers keep what they know of the release:
    1. c5 asks for a total batch that nobody near it wants. It is released, and 1, on its way, forgets that.
    2. c5 wants the topic from now on. Its broker and the next one die, and it comes to 1 and says what it asked for.
    3. 1 cannot tell whether it was released when c5 did not want it, or for c5 alone, by the broker that is dead.

    Levels overtake what waits for credit: so it counts how much had been sent when the levels were told.
    """

    def __init__(self, levels: int, client: str) -> None:
        super().__init__(levels)
        self._client = client
        self._own: deque[Record] = deque()
        """The records of what this client has published, the first ones of which may be forgotten."""
        self._waiting: deque[Record] = deque()
        self.climbed: set[RecordId] = set()
        """Of what is kept, what may have gone up from its broker, and not spread from there."""
        self._told: deque[tuple[int, int]] = deque()
        """Up to where the broker had what we sent, and how much it had sent to us by then."""

    def link(self, peer: str, sent: int = 0, received: int = 0) -> None:
        super().link(peer, sent, received)
        self._told.clear()

    def append(self, batch: Batch, pending: bool = False) -> Record:
        record = super().append(batch, pending)
        if batch.publisher == self._client:
            self._own.append(record)
        return record

    def first_kept(self) -> int | None:
        """The number of the first publication of this client that is kept."""
        while self._own and not self._own[0].copies:
            self._own.popleft()
        return self._own[0].batch.first if self._own else None

    def publish(self, batch: Batch) -> None:
        climbs = batch.guarantee == TOTAL or bool(batch.keys) or bool(self._waiting)
        record = self.append(batch, pending=climbs)
        if climbs:
            self._waiting.append(record)
            self.climbed.add(record.record_id)
        self.asked(record, HERE)

    def on_levels(self, peer: str, levels: Levels) -> None:
        super().on_levels(peer, levels)
        flow = self.flows[peer]
        if self._waiting and (not self._told or self._told[-1][0] < flow.acked[0]):
            self._told.append((flow.acked[0], flow.marked[0]))

    def survey(self) -> dict[str, Levels]:
        flow = self.flows[HERE]
        while self._told and self._told[0][1] <= flow.received:
            self._release_up_to(self._told.popleft()[0])
        return super().survey()

    def _forget_first(self) -> None:
        record = self._log[0]
        super()._forget_first()
        # What its new broker had not taken was published again, as another record: that one may climb still.
        if not record.copies and self.find(record.record_id) is None:
            self.climbed.discard(record.record_id)

    def _release_up_to(self, reached: int) -> None:
        while self._waiting and self._waiting[0].outs.get(HERE, 0) <= reached:
            self.released(self._waiting.popleft())


def flag_of(record: Record, client: str, climbed: Collection[RecordId]) -> Literal["s", "r", "t", "d"]:
    """What that client had to do with a record. What it published and got back it has received, like anyone else."""
    if record.batch.publisher != client or HERE in record.ins:
        return "r"
    if record.record_id not in climbed:
        return "s"
    return "t" if record.pending else "d"
