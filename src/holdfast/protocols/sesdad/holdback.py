"""A subscriber's hold-back queue: what came too early waits for its turn (report, section 4.1).

A message that is `eventual` need not wait: it is handed over at once, and its number counts when its turn comes.
"""

from holdfast.model.batches import Batch
from holdfast.model.guarantees import EVENTUAL
from holdfast.protocols.sesdad.retransmission import InVain

HELD_MAX = 65_536
"""So many units of one publisher wait; later ones are not taken, and come again."""


class HoldBack:
    """What has come of one publisher, by the numbers of the last hop."""

    __slots__ = ("_ahead", "_held", "in_vain", "next")

    def __init__(self) -> None:
        self.next = 1
        self.in_vain = InVain()
        self._held: dict[int, Batch] = {}
        self._ahead: dict[int, int] = {}
        """Units that were handed over before their turn: first and last number."""

    @property
    def prefix(self) -> int:
        """Everything up to this number has come."""
        return self.next - 1

    @property
    def has_gap(self) -> bool:
        return bool(self._held or self._ahead)

    def take(self, number: int, batch: Batch) -> list[Batch]:
        """What may be handed over now that this has come; nothing of it if it came before."""
        if number < self.next or number in self._held or number in self._ahead:
            return []
        if number > self.next:
            if batch.guarantee == EVENTUAL:
                self._ahead[number] = number + batch.count - 1
                return [batch]
            if len(self._held) < HELD_MAX:
                self._held[number] = batch
            return []
        self.next += batch.count
        return [batch, *self._following()]

    def _following(self) -> list[Batch]:
        """What was waiting for its turn, which has come."""
        found = []
        while self.next in self._held or self.next in self._ahead:
            batch = self._held.pop(self.next, None)
            if batch is not None:
                found.append(batch)
                self.next += batch.count
            else:
                self.next = self._ahead.pop(self.next) + 1
        return found

    def missing(self) -> tuple[int, int]:
        """The first numbers that are missing; there are some if there is a gap."""
        return self.next, min((*self._held, *self._ahead)) - 1
