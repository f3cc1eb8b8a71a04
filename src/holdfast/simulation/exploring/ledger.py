"""What judges see of the order of rows of different clients: which messages are owed to whom.

A message is owed to a client whose subscription was confirmed before it was published. That alone of the order of
their rows matters to a judge, and only until the client has the message. So this is what a world keeps of it.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.model.topics import matches
from holdfast.protocols.node import Report
from holdfast.simulation.exploring.canonical import digest_of
from holdfast.simulation.exploring.machines import Cast
from holdfast.simulation.faults import Publish, Subscribe

PUBLISHED: Final = 1
MARKED: Final = 2
VISIBLE: Final = ("publish", "subscribe", "crossed")
"""Rows that have a place among those of other hosts."""

Debt = tuple[str, str, int]
"""A message that a client must get: client, publisher and number."""
Debts = tuple[Debt, ...]
Placed = tuple[str, int]
"""A row by its host and its number."""


class DebtLedger:
    """The rows of a stage by number, and what each of them makes of what is owed."""

    def __init__(self, casts: Iterable[Cast]) -> None:
        clients = [one for one in casts if not one.is_broker]
        self.watchers = {one.name: _watchers(one, clients) for one in clients}
        """By client, which other ones subscribe to what it publishes."""
        self.watched = frozenset[str]().union(*self.watchers.values())
        self.rows: list[Report] = []
        self._numbers: dict[bytes, int] = {}

    def number_of(self, row: Report) -> int:
        key = digest_of(row)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.rows)
            self.rows.append(row)
        return number

    def seen_of(self, host: str, row: Report) -> int:
        """What a judge sees of a row: nothing, if no other client publishes there, or subscribes."""
        if row.event == "publish":
            return PUBLISHED if self.watchers.get(host) else 0
        return MARKED if row.event == "subscribe" and host in self.watched else 0

    def owed_after(self, owed: Debts, order: Iterable[Placed], host: str, row: Report) -> Debts:
        """What is owed after a row, and those before it."""
        batch = row.batch
        if batch is None:
            return owed
        if row.event == "deliver":
            paid = range(batch.first, batch.last + 1)
            return tuple(one for one in owed if one[:2] != (host, batch.publisher) or one[2] not in paid)
        if row.event != "publish":
            return owed
        subscribed = {one for one, number in order if one != host and self._wants(number, batch.topic)}
        debts = [(one, batch.publisher, seq) for one in subscribed for seq in range(batch.first, batch.last + 1)]
        return tuple(sorted({*owed, *debts}))

    def _wants(self, number: int, topic: str) -> bool:
        row = self.rows[number]
        return row.event == "subscribe" and matches(row.pattern, topic)


def _watchers(cast: Cast, clients: Iterable[Cast]) -> frozenset[str]:
    """The other clients that subscribe to what a client publishes."""
    topics = {command.topic for command in cast.script if isinstance(command, Publish)}
    return frozenset(
        one.name
        for one in clients
        for command in one.script
        if one is not cast and isinstance(command, Subscribe) and any(matches(command.pattern, to) for to in topics)
    )
