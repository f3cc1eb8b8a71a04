"""Direct dependencies: what a message must wait for, at each broker, and nothing that follows from it anyway.

`barriers[k]` holds, for every broker k, the messages (as sender and number) that must be delivered at k before the next
one that we send there: those in our past that are destined to k and that no other one in our past, destined to k too,
depends on. `delivered[l][k]` is the highest number of l that we know to be delivered at k: what is there is no obstacle
and is forgotten.

How we come to know. When a message of j arrives that depends on (l, x), and x was destined to j, then j has delivered
it: whatever is in j's past and was meant for j was delivered at j first. And `barriers[j]` holds (l, x) only if it was
destined to j.
"""

from collections.abc import Iterable

Identity = tuple[str, int]
Barriers = dict[str, dict[str, int]]
"""By broker, the number of the message of each sender that it must have."""
Past = dict[str, int]


class Dependencies:
    """The matrix `Delivered` and the vector `CB` of one broker."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent = 0
        self.barriers: Barriers = {}
        self.delivered: dict[str, dict[str, int]] = {}

    def is_delivered(self, sender: str, serial: int, at: str) -> bool:
        return self.delivered.get(sender, {}).get(at, 0) >= serial

    def send(self, targets: Iterable[str]) -> tuple[int, Barriers]:
        """Our next message goes to these: its number, and all barriers as they are before it."""
        self.sent += 1
        before = {broker: dict(row) for broker, row in self.barriers.items() if row}
        for target in targets:
            # It depends on all that was there, so it alone is a direct dependency from now on.
            self.barriers[target] = {self.name: self.sent}
        return self.sent, before

    def obstacle(self, barriers: Barriers) -> Identity | None:
        """The first message that must be delivered here before one with these barriers."""
        for sender, serial in barriers.get(self.name, {}).items():
            if not self.is_delivered(sender, serial, self.name):
                return sender, serial
        return None

    def deliver(self, sender: str, serial: int, targets: Iterable[str], barriers: Barriers, past: Past) -> None:
        """A message of that sender is delivered here; `past` is the latest of each sender in its barriers."""
        self._know(sender, serial, self.name)
        self._learn_of(sender, past)
        receivers = set(targets)
        for broker, row in barriers.items():
            if broker not in receivers and broker != self.name:
                self._depend(broker, row)
        everywhere = self.delivered.get(sender, {})
        for broker in sorted(receivers):
            if broker != self.name:
                # What the message itself waits for there need not be waited for by name any more.
                row = barriers.get(broker, {})
                own = {one: last for one, last in self.barriers.get(broker, {}).items() if last > row.get(one, 0)}
                if serial > own.get(sender, 0) and everywhere.get(broker, 0) < serial:
                    own[sender] = serial
                self.barriers[broker] = own
        self.barriers.pop(self.name, None)
        self._forget_delivered(sender)

    def _depend(self, broker: str, row: dict[str, int]) -> None:
        own = self.barriers.setdefault(broker, {})
        for sender, serial in row.items():
            if serial > own.get(sender, 0) and not self.is_delivered(sender, serial, broker):
                own[sender] = serial

    def _learn_of(self, sender: str, past: Past) -> None:
        """Of what we wait for on the sender's behalf, everything in its past was delivered there."""
        for other, serial in self.barriers.get(sender, {}).items():
            if past.get(other, 0) >= serial:
                self._know(other, serial, sender)

    def _know(self, sender: str, serial: int, at: str) -> None:
        row = self.delivered.setdefault(sender, {})
        row[at] = max(serial, row.get(at, 0))

    def _forget_delivered(self, broker: str) -> None:
        row = self.barriers.get(broker, {})
        for sender, serial in list(row.items()):
            if self.is_delivered(sender, serial, broker):
                del row[sender]


def past_of(barriers: Barriers) -> Past:
    """The latest message of each sender that somebody must have: all of them are in the past."""
    past: Past = {}
    for row in barriers.values():
        for sender, serial in row.items():
            if serial > past.get(sender, 0):
                past[sender] = serial
    return past
