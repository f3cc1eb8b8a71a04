"""Clients that have not come to the repair of their broker in time, and may still come.

What is kept for them, and for how long, is a case of `late_clients`.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from holdfast.model.batches import Batch
from holdfast.model.messages import (
    Join,
)
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.ginger.joiners import Joiner
from holdfast.protocols.ginger.late_clients import Account, LateCase
from holdfast.protocols.last_numbers import Ahead, put_together
from holdfast.protocols.node import Report
from holdfast.protocols.records import RecordId
from holdfast.protocols.routing import RoutingTable

if TYPE_CHECKING:
    from holdfast.protocols.ginger.repairing_broker import RepairingBroker


def wants_of(join: Join) -> Callable[[Batch], bool]:
    """Whether a client that joins wants a batch, and is owed it."""
    table, name = RoutingTable(), join.twig.name
    for interest in set(join.interests) - set(join.unconfirmed):
        table.add(*interest, name)
    return lambda batch: name in table.takers(batch)


def account_of(joiner: Joiner) -> Account:
    """What a late client that takes part in its repair now has said."""
    return Account(joiner.records, joiner.join.processed, wants_of(joiner.join))


class LateSessions:
    """The clients that one broker waits for, after it has repaired the loss of theirs."""

    def __init__(self, broker: "RepairingBroker") -> None:
        self._broker = broker
        self._hub = broker.hub
        self._log = broker.log
        self._interests = broker.interests
        self._turning = broker.healing_turning
        self._confirmations = broker.confirmations
        self._late = broker.late
        self._dropped_for: set[str] = set()
        """Clients given up while they were away, with messages for them: they may be elsewhere (see `holes`)."""

    def late_case(self, name: str, join: Join, ahead: list[Ahead]) -> LateCase | None:
        """Where that client is waited for, if its session can go on."""
        outlived = self._late.before(name, join.twig.epoch)
        if outlived is not None:
            self._give_up_late(outlived, name)
        case = self._late.of(name, join.twig.epoch)
        if case is None:
            return None

        def is_wanted(batch: Batch) -> bool:
            """By somebody else, who has not said to have it."""
            others = self._interests.table.takers(batch).keys() - {name, case.stand_in}
            return any(one not in case.joined or not case.joined[one].has_processed(batch) for one in others)

        account = Account(*put_together(ahead, join.processed), wants_of(join))
        if case.contradicts(account, self._broker.data_path.processed, is_wanted):
            self._give_up_late(case, name)
            return None
        return case

    def _give_up_late(self, case: LateCase, client: str) -> None:
        """That client's session is lost, and it will be told so if it comes."""
        case.clients.pop(client, None)
        self._broker.given_up.note(client, case.interests, self._broker.now)
        if not case.clients:
            self._end_late(case)

    def _end_late(self, case: LateCase) -> None:
        """Nothing is kept for the clients of that case any more."""
        for name in sorted(case.clients):
            self._broker.given_up.note(name, case.interests, self._broker.now)
            detail = f"what {name} may lack since {case.lost} was lost is kept no longer"
            self._hub.out.append(Report("gap", peer=name, detail=detail))
            self._dropped_for.add(name)
        self._late.end(case)
        self._interests.drop(case.stand_in)
        self._confirmations.drop(case.stand_in)
        self._turning.pump()

    def stand_in_for(self, flush: Flush) -> LateCase:
        """Somebody wants from now on what the lost broker wanted, in the place of its clients that have not come."""
        table = self._interests.table
        case = self._late.begin(flush.key, flush.late, table.interests(flush.key), self._broker.now)
        for interest in case.interests:
            table.add(*interest, case.stand_in)
        self._hub.out.append(Report("late", peer=flush.key, detail=", ".join(sorted(flush.late))))
        return case

    def hand_over_since(self, case: LateCase, joined: Mapping[str, Joiner]) -> None:
        """What was processed since the repair that these clients have missed."""
        for joiner in joined.values():
            for batch in case.crossed(account_of(joiner), self._broker.data_path.processed):
                self._hub.out.append(Report("crossed", batch=batch))
        for name in joined:
            for batch, number, parts in self.missed(case, name):
                record = self._log.find((batch.publisher, batch.first))
                if record is None:
                    record = self._log.append_unplaced(batch)
                    record.number = number
                else:
                    self._log.append_again(record)
                self._broker.data_path.deliver_record(name, record, parts)

    def out_of_order(self, case: LateCase, joined: Mapping[str, Joiner]) -> set[RecordId]:
        """What these late clients have on another side of a total message than those who have come in time."""
        return {one for joiner in joined.values() for one in case.out_of_order(account_of(joiner))}

    def missed(self, case: LateCase, client: str) -> list[tuple[Batch, int, list[Batch]]]:
        """What was processed since the repair and what that client wants of it."""
        found = []
        for batch, number in case.since:
            parts = batch.chosen(self._interests.table.choice(client, batch))
            if parts:
                found.append((batch, number, parts))
        return found

    def no_longer_late(self, case: LateCase, joined: Collection[str]) -> None:
        for name in joined:
            case.clients.pop(name, None)
        wants = self._interests.table.wants
        self._confirmations.replace(case.stand_in, tuple(joined), wants, bool(case.clients))
        if not case.clients:
            self._end_late(case)

    def drop(self, client: str) -> None:
        """That client was given up while it was away, with messages for it: it may be elsewhere (see `holes`)."""
        self._dropped_for.add(client)

    def settle(self, now: float) -> None:
        """End the cases whose time is over, and tell the clients that were given up, wherever they are."""
        broker = self._broker
        if len(broker.late):
            under_way = [flush.case for flush in broker.repairs.flushes]
            for case in broker.late.over(now):
                if case not in under_way:
                    self._end_late(case)
        if self._dropped_for:
            reason = f"{broker.name} has given up sessions that were away, with messages for them"
            broker.holes.announce_about(self._dropped_for, reason)
            self._dropped_for.clear()
