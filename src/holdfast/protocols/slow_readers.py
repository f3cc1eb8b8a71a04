"""Clients that do not take what they asked for, and what each of their subscriptions wants to happen then.

What a client does not take lies on its link. A client whose process runs takes everything: what its application does
not read waits there, subscription by subscription (`client.subscriptions`). So a link fills up when the process stands
still, the network is too slow for it, or one of its subscriptions blocks. Each subscription has said what its broker is
to do then:

`block`         nothing is dropped, and publishers wait. Whoever takes nothing for `stall_s` loses the session.
`disconnect`    nothing is dropped, and nobody waits: the session ends when the link has been full for `slow_s`, or when
                more lies there than is kept for a client that is away.
`drop-oldest`   while half of what a link may hold lies there, the oldest messages make room for new ones.
`drop-newest`   while half of what a link may hold lies there, new messages are left out.
spills          (durable subscriptions, and repositories) new messages are left out, and nobody needs to be told: what
                the subscriber did not hear it gets from a repository.

In the place of what is dropped stands a `Skipped`, which says how much each subscription misses. Where several
subscriptions of one client want a message, it is treated as the first of them in this list says.

What was delivered to a client is counted at both ends (`protocols.stability`). A message that is left out was never
counted; one that is dropped later was, so the `Skipped` in its place counts for it.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from holdfast.model.batches import Batch
from holdfast.model.filters import parse_filter
from holdfast.model.identities import name_of
from holdfast.model.messages import Interest, Publish, SessionMessage, Subscribe, Unsubscribe
from holdfast.model.slow_messages import SKIPPED_MAX, Skipped
from holdfast.model.topics import matches
from holdfast.protocols.links import Link

SPILL = "spill"
STRICTEST_FIRST = ("block", "disconnect", "drop-oldest", "drop-newest", SPILL)
DROPPING = ("drop-oldest", "drop-newest")


class Wish(Struct, frozen=True):
    """What one subscription of a client wants."""

    policy: str
    slow_s: float
    dropped: int = 0
    """How many of its messages the client itself says to have dropped."""


class SlowReaders:
    """The clients of one broker: what each subscribes to, and what is done when it does not take it."""

    def __init__(self, links: Mapping[str, Link], backlog_bytes_max: int) -> None:
        self._links, self._backlog_bytes_max = links, backlog_bytes_max
        self._bytes_max = backlog_bytes_max // 2
        self._clients: dict[str, dict[Interest, Wish]] = {}
        self._full_since: dict[str, float] = {}
        self.left_out: dict[str, int] = {}
        """By client: how many messages were left out that it gets from somebody else."""
        self.dropped: dict[str, int] = {}
        """By client: how many deliveries were dropped here."""
        self.dropped_total = 0
        """The same of all clients, with those that have gone, and what clients have dropped themselves."""
        self.ended_total = 0
        """How many subscriptions clients have ended because their applications did not read."""

    # ------------------------------------------------------------------------------------------------ subscriptions

    def note(self, client: str, message: Subscribe | Unsubscribe) -> None:
        """A client subscribes, says again how, or takes its last such subscription back."""
        wishes, interest = self._clients.setdefault(client, {}), (message.pattern, message.where)
        if isinstance(message, Subscribe):
            before = wishes.get(interest)
            policy = SPILL if message.spills else message.slow
            if message.spills and message.token and before is not None:
                # Another subscription of the client wants the same. It says so itself (token 0) when that has ended.
                policy = before.policy
            wishes[interest] = Wish(policy, message.slow_s, message.dropped)
            self.dropped_total += max(0, message.dropped - (before.dropped if before is not None else 0))
        else:
            wishes.pop(interest, None)
            self.ended_total += message.slow

    def forget(self, client: str) -> None:
        for memory in (self._clients, self._full_since, self.left_out, self.dropped):
            memory.pop(client, None)

    def clients(self) -> list[str]:
        """Those of whom something is remembered."""
        return sorted(self._clients.keys() | self._full_since.keys() | self.left_out.keys() | self.dropped.keys())

    def are_waited_for(self, client: str) -> bool:
        """Whether publishers wait for that client when its link is full: some subscription of it blocks."""
        wishes = self._clients.get(client)
        return not wishes or any(wish.policy in ("block", SPILL) for wish in wishes.values())

    def wishes(self) -> dict[str, list[tuple[Interest, Wish]]]:
        """What is known, for the disk."""
        return {client: list(wishes.items()) for client, wishes in self._clients.items() if wishes}

    def restore(self, wishes: Mapping[str, Iterable[tuple[Interest, Wish]]]) -> None:
        self._clients = {client: dict(entries) for client, entries in wishes.items()}

    # ----------------------------------------------------------------------------------------------------- dropping

    def leaves_out(self, client: str, batch: Batch) -> bool:
        """Whether a batch is not sent to that client, which has enough to take; older ones may make room for it."""
        link = self._links.get(client)
        if link is None or link.backlog_bytes <= self._bytes_max:
            return False
        policy = self._policy(client, batch.topic)
        if policy == SPILL:
            self.left_out[client] = self.left_out.get(client, 0) + batch.count
            return True
        if policy not in DROPPING:
            return False
        if policy == "drop-oldest" and self._make_room(client, link):
            return False
        link.skip(self._account(client, batch))
        return True

    def _policy(self, client: str, topic: str) -> str:
        """What is done with a message to that topic; nothing special if no subscription is known that wants it."""
        policies = {wish.policy for _, wish in self._wanting(client, topic)}
        return next((policy for policy in STRICTEST_FIRST if policy in policies), "block")

    def _wanting(self, client: str, topic: str) -> Iterator[tuple[Interest, Wish]]:
        return (one for one in self._clients.get(client, {}).items() if matches(one[0][0], topic))

    def _make_room(self, client: str, link: Link) -> bool:
        """Drop the oldest half of what waits and may be dropped; whether there is room again."""

        def account(message: SessionMessage) -> Skipped | None:
            if not isinstance(message, Publish) or self._policy(client, message.batch.topic) != "drop-oldest":
                return None
            return self._account(client, message.batch, places=1)

        return link.drop_oldest(self._bytes_max // 2, account) and link.backlog_bytes <= self._bytes_max

    def _account(self, client: str, batch: Batch, places: int = 0) -> Skipped:
        """What a client misses with that batch."""
        entries = []
        for (pattern, where), wish in self._wanting(client, batch.topic):
            if wish.policy != SPILL:
                parts = batch.matching((parse_filter(where),) if where else None)
                if count := sum(part.count for part in parts):
                    entries.append((pattern, where, count))
        self.dropped[client] = self.dropped.get(client, 0) + batch.count
        self.dropped_total += batch.count
        numbers = ((batch.publisher, batch.last),)
        return Skipped(tuple(entries[:SKIPPED_MAX]), numbers, places, len(entries) > SKIPPED_MAX)

    # ------------------------------------------------------------------------------------------------ disconnecting

    def too_slow(self, now: float) -> list[tuple[str, str]]:
        """Clients whose links have been full for longer than some subscription of theirs allows, and the reason."""
        self._full_since = {peer: self._full_since.get(peer, now) for peer in self._full()}
        found = []
        for client, since in self._full_since.items():
            limit_s = self._patience_s(client)
            if limit_s is not None and now - since >= limit_s:
                backlog_bytes = self._links[client].backlog_bytes
                found.append((client, f"{client} was behind for {now - since:.1f} s, now by {backlog_bytes} bytes"))
        return found

    def _full(self) -> list[str]:
        """Clients that would be disconnected some time, and have much to take; they still have until half is taken."""
        full = []
        for client, wishes in self._clients.items():
            link = self._links.get(client)
            bytes_max = self._bytes_max if client in self._full_since else self._backlog_bytes_max
            if link is not None and link.backlog_bytes > bytes_max and wishes:
                full.append(client)
        return full

    def _patience_s(self, client: str) -> float | None:
        wishes = self._clients[client].values()
        return min((wish.slow_s for wish in wishes if wish.policy == "disconnect"), default=None)

    # --------------------------------------------------------------------------------------------------- inspection

    def status(self) -> dict[str, object]:
        """By client that is behind, or has dropped something: how far, by which policies, and how much it misses."""
        found: dict[str, object] = {}
        for client, wishes in sorted(self._clients.items()):
            link = self._links.get(client)
            behind_bytes = link.backlog_bytes if link is not None else 0
            dropped = self.dropped.get(client, 0) + sum(wish.dropped for wish in wishes.values())
            if behind_bytes > self._bytes_max or dropped:
                policies = {wish.policy for wish in wishes.values()}
                found[name_of(client)] = {"bytes": behind_bytes, "policies": sorted(policies), "dropped": dropped}
        return found
