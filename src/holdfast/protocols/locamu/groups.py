"""Who wants what: groups that change while messages flow.

A group is a topic; its members are the brokers whose clients want it. In the thesis groups are fixed (003, 6.2). Here a
broker whose first client wants a pattern says so in a `Notice` to *all* brokers, in causal order with everything else
and exactly once. Each broker counts, for each broker nearby on the way back, how many brokers behind that one want the
pattern: the routing tables of section 3.2.2, with state that depends on the patterns and the neighbourhood alone.

A subscription counts from its *completion* on, when every broker has processed its notice: then it is confirmed, and
from then on its client is given what matches. What is processed here before that is not delivered for it, so nobody
sees a message that some brokers routed here and others, who did not know yet, routed past.
"""

from collections.abc import Iterable

from msgspec import Struct

from holdfast.model.batches import Batch
from holdfast.model.messages import Interest
from holdfast.model.relay_messages import Notice
from holdfast.protocols.routing import RoutingTable

Waiter = tuple[str, int]
"""A client and the token of its request."""


class Want(Struct):
    """One interest of our own clients."""

    serial: int
    """The notice that announced it."""
    complete: bool = False
    clients: list[str] = []


class GroupsImage(Struct):
    """All of it, for the disk."""

    wants: list[tuple[Interest, Want]] = []
    counts: list[tuple[Interest, dict[str, int]]] = []


class Groups:
    """The interests of our own clients, and those behind each broker nearby."""

    def __init__(self) -> None:
        self.local = RoutingTable()
        self.remote = RoutingTable()
        self.wants: dict[Interest, Want] = {}
        self._counts: dict[Interest, dict[str, int]] = {}

    # --------------------------------------------------------------------------------------------------- our clients

    def add(self, client: str, interest: Interest) -> bool:
        """A client wants this; whether others have to be told."""
        want = self.wants.get(interest)
        if want is None:
            self.wants[interest] = Want(0, False, [client])
            return True
        if client not in want.clients:
            want.clients.append(client)
        if want.complete:
            self.local.add(*interest, client)
        return False

    def drop(self, client: str, interest: Interest) -> bool:
        """A client wants this no more; whether others have to be told."""
        want = self.wants.get(interest)
        if want is None or client not in want.clients:
            return False
        want.clients.remove(client)
        self.local.remove(*interest, client)
        if want.clients:
            return False
        del self.wants[interest]
        return True

    def interests_of(self, client: str) -> list[Interest]:
        return sorted(interest for interest, want in self.wants.items() if client in want.clients)

    def completed(self, interest: Interest, serial: int) -> None:
        """Every broker knows of the notice with that serial: if it still holds, it is in force now."""
        want = self.wants.get(interest)
        if want is not None and want.serial == serial:
            want.complete = True
            for client in want.clients:
                self.local.add(*interest, client)

    # ------------------------------------------------------------------------------------------------- other brokers

    def heard(self, notice: Notice, behind: Iterable[str]) -> None:
        """Somebody behind these brokers wants a pattern, or wants it no more."""
        interest = (notice.pattern, notice.where)
        counts = self._counts.setdefault(interest, {})
        for name in behind:
            counts[name] = counts.get(name, 0) + (1 if notice.what == "s" else -1)
            if counts[name] > 0:
                self.remote.add(*interest, name)
            else:
                self.remote.remove(*interest, name)
            if not counts[name]:
                # A newcomer may hear that somebody wants a pattern no more before it hears that it did.
                del counts[name]
        if not counts:
            del self._counts[interest]

    def members(self, batch: Batch | None, notice: Notice | None) -> set[str]:
        """Those nearby behind whom, or at whom, a message is wanted; the way that it came is not looked at."""
        if batch is not None:
            return set(self.remote.takers(batch))
        return set(self.remote.destinations(notice.pattern)) if notice is not None else set()

    def seen_from(self, near: Iterable[str], own: str, neighbours: Iterable[str]) -> GroupsImage:
        """The same for a new leaf below us, which is near those: behind us are we, and everybody else."""
        found = []
        for interest in dict.fromkeys((*self._counts, *self.wants)):
            counts = self._counts.get(interest, {})
            all_of_us = sum(counts.get(name, 0) for name in neighbours) + (interest in self.wants)
            behind = {name: counts[name] for name in near if name in counts}
            if all_of_us:
                behind[own] = all_of_us
            if behind:
                found.append((interest, behind))
        return GroupsImage([], found)

    # ------------------------------------------------------------------------------------------------------- the disk

    def image(self) -> GroupsImage:
        return GroupsImage(list(self.wants.items()), list(self._counts.items()))

    def restore(self, image: GroupsImage) -> None:
        for interest, want in image.wants:
            self.wants[interest] = want
            if want.complete:
                for client in want.clients:
                    self.local.add(*interest, client)
        for interest, counts in image.counts:
            self._counts[interest] = counts
            for name, count in counts.items():
                if count > 0:
                    self.remote.add(*interest, name)

    def check_invariants(self) -> None:
        for interest, counts in self._counts.items():
            assert all(counts.values()), f"{interest} is counted where nobody wants it: {counts}"
