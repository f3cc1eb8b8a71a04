"""The promises judged word by word, pair by pair and slowly: what the real checkers are compared with."""

from itertools import product

from holdfast.model.filters import parse_filter
from holdfast.model.guarantees import CAUSAL, FIFO, RANKS, TOTAL
from holdfast.model.topics import matches
from holdfast.model.trace import Event

Identity = tuple[str, int]
KINDS = ("lost", "duplicated", "created", "fifo", "causal", "total")


def judge_slowly(events: list[Event]) -> dict[str, int]:
    """The number of deliveries and of faults of each kind."""
    counts = dict.fromkeys(("deliveries", *KINDS), 0)
    for run in {event.run for event in events}:
        for kind, count in Reference([event for event in events if event.run == run]).counts().items():
            counts[kind] += count
    return counts


def identity(event: Event) -> Identity:
    return event.publisher, event.seq


class Reference:
    """One run."""

    def __init__(self, events: list[Event]) -> None:
        self.nodes = sorted({event.node for event in events})
        self.history = {
            node: sorted((event for event in events if event.node == node), key=lambda event: event.index)
            for node in self.nodes
        }
        self.published: dict[Identity, Event] = {}
        for node in self.nodes:
            for event in self.history[node]:
                if event.event == "publish":
                    self.published.setdefault(identity(event), event)

    def counts(self) -> dict[str, int]:
        order = {node: [identity(event) for event in self.arrived(node)] for node in self.nodes}
        return {
            "deliveries": sum(len(self.deliveries(node)) for node in self.nodes),
            "lost": sum(
                self.is_owed(node, message) and message not in self.ever_delivered(node)
                for node, message in product(self.nodes, self.published)
            ),
            "duplicated": sum(len(self.deliveries(node)) - len(self.ever_delivered(node)) for node in self.nodes),
            "created": sum(len(self.ever_delivered(node)) - len(order[node]) for node in self.nodes),
            "fifo": self.fifo(order),
            "causal": self.causal(order),
            "total": self.total(order),
        }

    # ------------------------------------------------------------------------------------------------- deliveries

    def deliveries(self, node: str) -> list[Event]:
        return [event for event in self.history[node] if event.event == "deliver"]

    def ever_delivered(self, node: str) -> set[Identity]:
        return {identity(event) for event in self.deliveries(node)}

    def firsts(self, node: str) -> list[Event]:
        found: dict[Identity, Event] = {}
        for event in self.deliveries(node):
            found.setdefault(identity(event), event)
        return list(found.values())

    def arrived(self, node: str) -> list[Event]:
        return [event for event in self.firsts(node) if not self.is_created(node, event)]

    def is_created(self, node: str, event: Event) -> bool:
        source = self.published.get(identity(event))
        if source is None or source.topic != event.topic or source.guarantee != event.guarantee:
            return True
        if set(source.keys) != set(event.keys):
            return True
        return not any(
            self.wants(row, source) and not self.ended_between(node, row, event) for row in self.subscription_rows(node)
        )

    def subscription_rows(self, node: str) -> list[Event]:
        """Rows that prove a subscription: what is unsubscribed had been subscribed to, recorded or not."""
        return [row for row in self.history[node] if row.event in ("subscribe", "unsubscribe")]

    def ended_between(self, node: str, row: Event, delivery: Event) -> bool:
        """Whether the subscription that the row is about had ended, for good or until a later row, at the delivery."""
        rows = self.history[node]
        at, then = rows.index(row), rows.index(delivery)
        if row.event == "unsubscribe":
            return at < then
        return any(
            other.event == "unsubscribe" and (other.topic, other.where) == (row.topic, row.where)
            for other in rows[at:then]
        )

    @staticmethod
    def wants(row: Event, source: Event) -> bool:
        return matches(row.topic, source.topic) and (
            not row.where or parse_filter(row.where).matches(source.attributes)
        )

    def is_owed(self, node: str, message: Identity) -> bool:
        source = self.published[message]
        rows = self.history[node]
        for at, row in enumerate(rows):
            if row.event != "subscribe" or not self.wants(row, source):
                continue
            if self.lasts_already(node, row, at):
                continue
            left = any(
                later.event == "unsubscribe" and (later.topic, later.where) == (row.topic, row.where)
                for later in rows[at:]
            )
            same_time = row.time == source.time and node == source.node and row.index < source.index
            if not left and (row.time < source.time or same_time):
                return True
        return False

    def lasts_already(self, node: str, row: Event, at: int) -> bool:
        """Whether the subscription is there already, so that the row changes nothing."""
        pair = (row.topic, row.where)
        about = [one for one in self.history[node][:at] if (one.topic, one.where) == pair]
        verbs = [one.event for one in about if one.event in ("subscribe", "unsubscribe")]
        return verbs[-1:] == ["subscribe"]

    # ------------------------------------------------------------------------------------------------------ order

    def rank(self, message: Identity) -> int:
        return RANKS[self.published[message].guarantee]

    def fifo(self, order: dict[str, list[Identity]]) -> int:
        return sum(
            self.rank(message) >= FIFO
            and any(
                late[0] == message[0] and late[1] < message[1] and self.rank(late) >= FIFO
                for late in delivered[place + 1 :]
            )
            for delivered in order.values()
            for place, message in enumerate(delivered)
        )

    def causal(self, order: dict[str, list[Identity]]) -> int:
        pasts = self.pasts()
        return sum(
            self.rank(message) >= CAUSAL
            and any(
                late[0] != message[0] and late in pasts[message] and self.rank(late) >= CAUSAL
                for late in delivered[place + 1 :]
            )
            for delivered in order.values()
            for place, message in enumerate(delivered)
        )

    def pasts(self) -> dict[Identity, set[Identity]]:
        pasts: dict[Identity, set[Identity]] = {message: set() for message in self.published}
        while True:
            grown = {message: self.past(message, pasts) for message in self.published}
            if grown == pasts:
                return pasts
            pasts = grown

    def past(self, message: Identity, pasts: dict[Identity, set[Identity]]) -> set[Identity]:
        source = self.published[message]
        known: set[Identity] = set()
        if source.past is not None:
            known.update(source.past.items())
        else:
            for event in self.history[source.node]:
                if event is source:
                    break
                original = self.published.get(identity(event))
                if original is None or RANKS[original.guarantee] < CAUSAL:
                    continue
                if event.event == "deliver" or event is original:
                    known |= {identity(event), *pasts[identity(event)]}
        return {one for one in self.published if any(one[0] == two[0] and one[1] <= two[1] for two in known)}

    def total(self, order: dict[str, list[Identity]]) -> int:
        offences: set[tuple[Identity, str]] = set()
        for message, other in product(self.published, self.published):
            if not self.is_judged(message, other):
                continue
            nodes = [node for node in self.nodes if message in order[node] and other in order[node]]
            first = {node: order[node].index(other) < order[node].index(message) for node in nodes}
            votes = list(first.values())
            if not votes:
                continue
            right = votes[0] if votes.count(True) == votes.count(False) else votes.count(True) > votes.count(False)
            offences |= {(message, node) for node in nodes if first[node] is not right}
        return len(offences)

    def is_judged(self, message: Identity, other: Identity) -> bool:
        one, two = self.published[message], self.published[other]
        if message == other or self.rank(message) < TOTAL or one.topic != two.topic or not {*one.keys} & {*two.keys}:
            return False
        return self.rank(other) < TOTAL or other < message
