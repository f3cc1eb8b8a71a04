"""Random failures for a delta-fault-tolerant tree: at most delta nodes are not operational at any moment.

A node that was failed counts until it has had time to recover. Each class brings about one kind of moment: chains of
adjacent nodes and scattered ones, nodes that come and go, failures in the midst of joins, of subscriptions and of the
recovery of others, whole chains that return at once, clients that are out of reach. In `stay` nobody returns before
every operation has completed; in `beyond` one node too many is failed in a row, and then one of them returns.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import ClassVar

from holdfast.protocols.neighbourhoods import Neighbourhood
from holdfast.simulation.faults import (
    Attach,
    Command,
    Crash,
    Freeze,
    Join,
    Publish,
    Recover,
    Subscribe,
    Thaw,
    Unsubscribe,
    When,
)
from holdfast.simulation.trees import Parents

DELTA_CLASSES = (
    "chain",
    "scatter",
    "oscillate",
    "joining",
    "subscribing",
    "recovering",
    "returning",
    "clients",
    "stay",
    "beyond",
)
AWAY_S = (0.02, 0.2, 1.0, 3.0)
RECOVERED_S = 14.0
"""After so long a node that came back counts as operational: longer than it waits for another that is failed."""
MIDST = ("Multicast", "Multicast", "Multicast", "Conf", "RoutingPart", "Greeting", "Status", "Hello", "SubscribeAck")
JOINED_S = 20.0
"""By then the clients of the beginning have joined."""
STAY_S = 60.0
"""How long nobody returns, where nobody does: everything else has to be done by then."""
Timed = tuple[float, Command]


class DeltaFailures:
    """Makes up who is failed when, in one scenario."""

    def __init__(
        self,
        chance: Random,
        tree: Parents,
        clients: list[str],
        topics: list[str],
        tolerance: int,
        begin_s: float,
        span_s: float,
    ) -> None:
        self.chance, self.tree, self.clients, self.topics, self.tolerance = chance, tree, clients, topics, tolerance
        self.begin_s, self.span_s = begin_s, span_s
        edges = [(parent, name) for name, parent in tree.items() if parent is not None]
        self._near = Neighbourhood(next(iter(tree)), edges)

    def entries(self, failure: str) -> Iterator[Timed]:
        yield from self._classes[failure](self)

    def _moment(self) -> float:
        return max(0.0, self.begin_s + self.span_s * self.chance.uniform(-0.2, 1.1))

    def _away_s(self) -> float:
        return self.chance.choice(AWAY_S) * self.chance.uniform(0.5, 1.5)

    def _chain_of(self, count: int) -> list[str]:
        """So many brokers, each next to another one of them, in a row where that is possible."""
        ends = self.chance.sample(list(self.tree), 2) if len(self.tree) > 1 else list(self.tree) * 2
        path = [ends[0], *self._near.paths(ends[0])[ends[1]]]
        at = self.chance.randrange(len(path))
        row = path[at : at + count] or path[:count]
        while len(row) < min(count, len(self.tree)):
            near = [one for here in row for one in self._near.neighbours(here) if one not in row]
            row.append(self.chance.choice(near))
        return row[:count]

    def _some(self) -> int:
        """How many fail at once: mostly as many as may."""
        return self.chance.choice((self.tolerance, self.tolerance, self.chance.randint(1, self.tolerance)))

    def _fail(self, node: str, time_s: float) -> Timed:
        if self.chance.random() < 0.6:
            return time_s, Crash(node)
        within_s = self.span_s + 1.0
        return time_s, When(node, self.chance.choice(MIDST), Crash(node), self.chance.randint(1, 10), within_s)

    def _away(self, nodes: list[str], time_s: float) -> Iterator[Timed]:
        """These fail at that time, more or less, and return one by one."""
        last_s = time_s
        for node in nodes:
            fails_s = time_s + self.chance.choice((0.0, 0.0, 0.01, 0.1)) * self.chance.random()
            back_s = fails_s + self.span_s + 1.0 + self._away_s()
            if self.chance.random() < 0.15:
                yield fails_s, Freeze(node)
                yield back_s, Thaw(node)
            else:
                at_s, command = self._fail(node, fails_s)
                if isinstance(command, Crash):
                    back_s = fails_s + self._away_s()
                yield at_s, command
                yield back_s, Recover(node)
            last_s = max(last_s, back_s)
        self._until_s = last_s + RECOVERED_S

    def _chain(self) -> Iterator[Timed]:
        time_s = self._moment()
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            yield from self._away(self._chain_of(self._some()), time_s)
            time_s = self._until_s

    def _scatter(self) -> Iterator[Timed]:
        time_s = self._moment()
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            yield from self._away(self.chance.sample(list(self.tree), min(self._some(), len(self.tree))), time_s)
            time_s = self._until_s

    def _oscillate(self) -> Iterator[Timed]:
        """The same nodes fail and return, again and again, also before they have recovered."""
        for node in self._chain_of(self.tolerance):
            time_s = self._moment()
            for _ in range(self.chance.randint(2, 6)):
                yield time_s, Crash(node)
                time_s += self.chance.choice((0.001, 0.03, 0.1, 0.5)) * self.chance.uniform(0.5, 1.5)
                yield time_s, Recover(node)
                time_s += self.chance.choice((0.005, 0.03, 0.1, 0.5, 2.0)) * self.chance.uniform(0.5, 1.5)

    def _joining(self) -> Iterator[Timed]:
        """A broker joins, with clients, while others nearby fail."""
        above, time_s = self.chance.choice(list(self.tree)), self._moment()
        yield time_s, Join("new1", above)
        for number in range(self.chance.randint(0, 2)):
            client = f"n1.{number}@new1"
            yield time_s, Attach(client)
            yield time_s, Subscribe(client, self.chance.choice((*self.topics, "#")))
            yield time_s, Publish(client, self.chance.choice(self.topics), b"", "fifo")
        near = [above, *self._near.neighbours(above)]
        yield from self._away(self.chance.sample(near, min(len(near), self._some())), time_s + self._soon_s())

    def _soon_s(self) -> float:
        return self.chance.choice((0.0, 0.005, 0.02, 0.1)) * self.chance.uniform(0.2, 1.5)

    def _subscribing(self) -> Iterator[Timed]:
        """Nodes fail in the midst of a subscription that goes through them, and publications follow."""
        client, time_s = self.chance.choice(self.clients), self._moment()
        nodes = self._chain_of(self._some())
        yield time_s, Subscribe(client, self.chance.choice((*self.topics, "#")), self.chance.choice(("", "n > 4")))
        for node in nodes:
            word = self.chance.choice(("Multicast", "Conf", "SubscribeAck"))
            yield max(0.0, time_s - 0.01), When(node, word, Crash(node), self.chance.randint(1, 4), 1.0)
            yield time_s + 1.0 + self._away_s(), Recover(node)

    def _recovering(self) -> Iterator[Timed]:
        """One fails while another one recovers; with a tolerance of 1, the same one does."""
        nodes, time_s = self._chain_of(self.tolerance), self._moment()
        back_s = time_s + self._away_s()
        for node in nodes:
            yield time_s, Crash(node)
        first, *others = nodes
        yield back_s, Recover(first)
        yield from ((back_s + 2.0 + self._away_s(), Recover(node)) for node in others)
        again_s = back_s + 8.0 + RECOVERED_S
        word = self.chance.choice(("Greeting", "Multicast", "Conf", "RoutingPart"))
        yield back_s, When(first, word, Crash(first), self.chance.randint(1, 4), 1.0)
        yield back_s + 1.5, Recover(first)
        yield again_s, Crash(self.chance.choice(nodes))
        for node in nodes:
            yield again_s + 1.0, Recover(node)

    def _returning(self) -> Iterator[Timed]:
        """A chain fails, and returns at one moment: each recovers by way of others that recover, too."""
        nodes, time_s = self._chain_of(self.tolerance), self._moment()
        back_s = time_s + self._away_s()
        for node in nodes:
            yield time_s, Crash(node)
            yield back_s + self.chance.choice((0.0, 0.0, 0.005, 0.05)), Recover(node)

    def _clients(self) -> Iterator[Timed]:
        """Clients are out of reach for a while, and so are brokers."""
        away = self.chance.randint(1, self.tolerance)
        time_s = self._moment()
        for client in self.chance.sample(self.clients, min(away, len(self.clients))):
            since_s = time_s + self._soon_s()
            yield since_s, Freeze(client)
            yield since_s + self._away_s(), Thaw(client)
        if self.tolerance > away:
            yield from self._away(self._chain_of(self.tolerance - away), time_s + self._soon_s())

    def _stay(self) -> Iterator[Timed]:
        """Nobody returns for a long time: all that is asked has to be done without them."""
        # A client that has not joined knows one broker alone: that one is not lost for good before.
        time_s = max(self._moment(), JOINED_S)
        kind = self.chance.choice(("chain", "scatter"))
        some = min(self.tolerance, len(self.tree) - 1)
        nodes = self._chain_of(some)
        if kind == "scatter":
            nodes = self.chance.sample(list(self.tree), some)
        for node in nodes:
            yield time_s + self._soon_s(), Crash(node)
            yield time_s + STAY_S, Recover(node)
        yield from self._operations([one for one in self.tree if one not in nodes], time_s)

    def _operations(self, there: list[str], time_s: float) -> Iterator[Timed]:
        """Everything that can be asked for, before, while and after others fail: also by clients of failed brokers."""
        clients = list(self.clients)
        if self.chance.random() < 0.3:
            yield time_s + self._soon_s(), Join("new1", self.chance.choice(there))
        for number in range(self.chance.randint(0, 2)):
            clients.append(f"late{number}@{self.chance.choice(there)}")
            yield time_s + self._soon_s(), Attach(clients[-1])
        for _ in range(self.chance.randint(3, 12)):
            client, at_s = (
                self.chance.choice(clients),
                time_s + self.chance.choice((0.01, 0.3, 3.0)) * self.chance.random(),
            )
            pattern, where = self.chance.choice((*self.topics, "#")), self.chance.choice(("", "", "n > 4"))
            asked = self.chance.random()
            if asked < 0.5:
                yield (
                    at_s,
                    Publish(client, self.chance.choice(self.topics), b"", "fifo", (), {"n": self.chance.randint(0, 9)}),
                )
            else:
                yield at_s, Subscribe(client, pattern, where)
                if asked > 0.8:
                    yield at_s + self._soon_s(), Unsubscribe(client, pattern, where)

    def _beyond(self) -> Iterator[Timed]:
        """One too many fails in a row: whatever needs that way waits until one of them is back."""
        nodes, time_s = self._chain_of(self.tolerance + 1), self._moment()
        for node in nodes:
            yield time_s + self._soon_s(), Freeze(node)
            yield time_s + 4.0 + self._away_s(), Thaw(node)

    _classes: ClassVar[dict[str, Callable[["DeltaFailures"], Iterator[Timed]]]] = {
        "chain": _chain,
        "scatter": _scatter,
        "oscillate": _oscillate,
        "joining": _joining,
        "subscribing": _subscribing,
        "recovering": _recovering,
        "returning": _returning,
        "clients": _clients,
        "stay": _stay,
        "beyond": _beyond,
    }
