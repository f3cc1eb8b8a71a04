"""Random workloads for `interleavings`: a tree of brokers, clients that come and go, and connections that break.

A seed stands for one run. `weather` draws what the run is like; `Storm.blow` makes it happen; `Storm.complaints` judges
it when everything has come to rest. Nothing that a client was promised depends on the weather.
"""

from collections.abc import Callable
from random import Random

from msgspec import Struct

from holdfast.model.filters import parse_filter
from holdfast.model.topics import matches
from holdfast.model.trace import Event
from holdfast.protocols.clients import ClientNode
from holdfast.protocols.config import BrokerConfig, ClientConfig, LinkConfig
from holdfast.protocols.ginger import GingerBroker
from holdfast.protocols.moving import MovingClient
from holdfast.simulation.checkers import Verdict, check
from tests.support.interleavings import Client, Stuck, World

FOREVER_S = 1e9
ACTIONS_MAX = 500
"""Everybody may be gone or waiting before all publications are made."""
INTERESTS = (
    ("t/a", ""),
    ("t/+", ""),
    ("#", ""),
    ("u", ""),
    ("t/b", ""),
    ("t/a", "n > 1"),
    ("t/#", "n = 0"),
)
TINY = LinkConfig(window_bytes=300, backlog_bytes_max=600, ack_frames=4, silence_s=FOREVER_S)
ROOMY = LinkConfig(silence_s=FOREVER_S)
IMPATIENT = LinkConfig(window_bytes=2000, backlog_bytes_max=4000, silence_s=3.0)

MakeBroker = Callable[[BrokerConfig, int], GingerBroker]
MakeClient = Callable[[ClientConfig, int], ClientNode]


class Weather(Struct, frozen=True):
    """What one run is like; rates are per action."""

    brokers: int
    clients: int
    publications: int
    topics: tuple[str, ...]
    keys: tuple[str, ...]
    interests: tuple[tuple[str, str], ...] = INTERESTS
    guarantees: tuple[int, int, int, int] = (2, 1, 2, 3)
    """How often each is picked, from the weakest to the strongest."""
    link: LinkConfig = ROOMY
    in_order: bool = True
    """Brokers start parents first, one after the other; else all at once, with the first clients."""
    subscribe_first: bool = True
    hurry: float = 0.3
    """How often an action follows the one before without anything moving in between."""
    react: float = 0.0
    churn: float = 0.0
    confirm: float = 0.02
    reset: float = 0.0
    leave: float = 0.0
    slow: float = 0.0
    spread: bool = False
    """A client at every broker, before any gets a second one."""
    freeze: float = 0.0
    """How often other directions than before stand still, and everything else goes as far as it can."""


def weather(chance: Random) -> Weather:
    """Something of everything, or much of something."""
    return chance.choice((mixed, mixed, crossing, shifting, coming_and_going))(chance)


def mixed(chance: Random) -> Weather:
    pick = chance.choice
    return Weather(
        brokers=chance.randint(1, 9),
        clients=chance.randint(2, 6),
        publications=chance.randint(5, 60),
        topics=("t/a", "t/b", "u")[: pick((1, 2, 2, 3))],
        keys=("k0", "k1", "k2", "k3")[: pick((1, 2, 4))],
        link=pick((ROOMY, ROOMY, TINY, IMPATIENT)),
        in_order=chance.random() < 0.5,
        subscribe_first=chance.random() < 0.5,
        react=pick((0.0, 0.3, 0.6)),
        churn=pick((0.0, 0.05, 0.2)),
        reset=pick((0.0, 0.0, 0.03, 0.1)),
        leave=pick((0.0, 0.0, 0.05)),
        slow=pick((0.0, 0.0, 0.3)),
    )


def crossing(chance: Random) -> Weather:
    """Topics whose subtrees overlap in part, and total messages on all of them at once."""
    return Weather(
        brokers=chance.randint(4, 9),
        clients=chance.randint(5, 9),
        publications=chance.randint(20, 60),
        topics=("t/a", "t/b", "u"),
        keys=("k0",),
        interests=(("t/a", ""), ("t/b", ""), ("u", "")),
        guarantees=(1, 1, 2, 4),
        link=chance.choice((ROOMY, ROOMY, TINY)),
        hurry=chance.choice((0.3, 0.7)),
        react=chance.choice((0.0, 0.3)),
        spread=True,
        freeze=chance.choice((0.0, 0.1, 0.3)),
    )


def shifting(chance: Random) -> Weather:
    """One topic whose subtree never stands still."""
    return Weather(
        brokers=chance.randint(3, 7),
        clients=chance.randint(3, 6),
        publications=chance.randint(20, 60),
        topics=("t/a",),
        keys=("k0", "k1"),
        interests=(("t/a", ""),),
        guarantees=(1, 0, 1, 3),
        in_order=True,
        subscribe_first=False,
        hurry=0.5,
        churn=chance.choice((0.3, 0.5)),
        leave=chance.choice((0.0, 0.1)),
        freeze=chance.choice((0.0, 0.1, 0.3)),
    )


def coming_and_going(chance: Random) -> Weather:
    """Clients that close in the midst of things and come back under their names, and connections that break."""
    return Weather(
        brokers=chance.randint(1, 5),
        clients=chance.randint(2, 5),
        publications=chance.randint(20, 50),
        topics=("t/a", "t/b"),
        keys=("k0",),
        guarantees=(1, 1, 1, 4),
        link=chance.choice((ROOMY, TINY, IMPATIENT)),
        hurry=0.5,
        churn=0.2,
        confirm=0.1,
        reset=chance.choice((0.0, 0.1)),
        leave=0.3,
    )


class Storm:
    """One random run."""

    def __init__(
        self,
        seed: int,
        make_broker: MakeBroker = GingerBroker,
        make_client: MakeClient = MovingClient,
        climate: Callable[[Random], Weather] = weather,
    ) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.weather = climate(self.chance)
        self.world = World(self.chance)
        self.world.after_delivery = self._react
        self.verdict = Verdict()
        self._make_broker, self._make_client = make_broker, make_client
        self._left = self.weather.publications
        self._incarnation = 0
        self._parents: dict[str, str | None] = {}
        self._leaving: set[str] = set()

    # ------------------------------------------------------------------------------------------------- the cast

    def blow(self) -> None:
        """Everything from the first broker's start until all is quiet again."""
        chance, world = self.chance, self.world
        self._start_brokers()
        for index in range(self.weather.clients):
            self._start_client(f"c{index}")
        if self.weather.in_order:
            world.drain()
        for client in self._present():
            if chance.random() < 0.8:
                self._subscribe(client)
        if self.weather.subscribe_first:
            world.drain()
        for _ in range(ACTIONS_MAX):
            if self._left <= 0:
                break
            self._act()
            if chance.random() < self.weather.freeze:
                self._freeze()
            if chance.random() >= self.weather.hurry:
                for _ in range(chance.choice((1, 3, 10, 40))):
                    world.step()
        world.away.clear()
        world.held.clear()
        world.drain()
        # Whose goodbye was lost with a connection is missed at last, and nobody waits for it any more.
        for _ in range(2):
            world.pass_time(FOREVER_S)

    def _next_incarnation(self) -> int:
        self._incarnation += 1
        return self._incarnation

    def _start_brokers(self) -> None:
        parents: dict[str, str | None] = {"b0": None}
        for index in range(1, self.weather.brokers):
            parents[f"b{index}"] = f"b{self.chance.randrange(index)}"
        self._parents = parents
        names = list(parents)
        if not self.weather.in_order:
            self.chance.shuffle(names)
        for name in names:
            config = BrokerConfig(
                name,
                parents[name],
                link=self.weather.link,
                session_keep_s=FOREVER_S,
                stall_s=FOREVER_S,
            )
            self.world.add_broker(self._make_broker(config, self._next_incarnation()))
            if self.weather.in_order:
                self.world.drain()

    def _start_client(self, name: str) -> None:
        older = self.world.clients.get(name)
        brokers = list(self.world.brokers)
        at = len(self.world.clients) % len(brokers) if self.weather.spread else self.chance.randrange(len(brokers))
        home = older.home if older is not None else brokers[at]
        config = ClientConfig(name, link=self.weather.link, give_up_s=FOREVER_S)
        client = self.world.add_client(self._make_client(config, self._next_incarnation()), home)
        client.slow = self.chance.random() < self.weather.slow

    def _present(self) -> list[Client]:
        return [client for client in self.world.clients.values() if not client.closing]

    # -------------------------------------------------------------------------------------------------- actions

    def _act(self) -> None:
        chance, sky = self.chance, self.weather
        if chance.random() < sky.reset:
            self._reset()
        if chance.random() < sky.leave:
            self._come_or_go()
        present = self._present()
        if not present:
            return
        client = chance.choice(present)
        lot = chance.random()
        if lot < sky.churn:
            (self._subscribe if chance.random() < 0.6 else self._unsubscribe)(client)
        elif lot < sky.churn + sky.confirm:
            self._confirm(client)
        else:
            self._publish(client)

    def _publish(self, client: Client) -> None:
        # Who comes back under an old name learns its next number when it is attached.
        if self._left <= 0 or client.closing or (client.recorder.index and not client.attached):
            return
        self._left -= 1
        chance = self.chance
        count = min(len(self.weather.keys), chance.choice((0, 1, 1, 1, 2, 3)))
        keys = tuple(sorted(chance.sample(self.weather.keys, count)))
        topic, guarantee = chance.choice(self.weather.topics), chance.choices(range(4), self.weather.guarantees)[0]
        payload = bytes(chance.choice((0, 1, 1, 50, 400)))
        client.node.publish(topic, payload, guarantee, keys, {"n": chance.randint(0, 3)})
        self.world.touch(client.node.name)
        if chance.random() < 0.7:
            self.world.enter(client.node.name, client.node.settle(self.world.now(client.node.name)))

    def _react(self, client: Client) -> None:
        if self.chance.random() < self.weather.react:
            self._publish(client)

    def _subscribe(self, client: Client) -> None:
        interest = self.chance.choice(self.weather.interests)
        if interest not in client.interests:
            client.interests.append(interest)
            name = client.node.name
            self.world.enter(name, client.node.subscribe(*interest, self.world.now(name))[1])

    def _unsubscribe(self, client: Client) -> None:
        if client.interests:
            interest = client.interests.pop(self.chance.randrange(len(client.interests)))
            name = client.node.name
            self.world.enter(name, client.node.unsubscribe(*interest, self.world.now(name))[1])

    def _confirm(self, client: Client) -> None:
        if client.topics:
            seq, name = self.chance.choice(list(client.topics)), client.node.name
            token, effects = client.node.confirm(client.topics[seq], seq, self.world.now(name))
            client.confirming[token] = seq
            self.world.enter(name, effects)

    def _reset(self) -> None:
        """A connection breaks; not that of a broker that leaves, whose goodbye would be missed for `FOREVER_S`."""
        connections = [one for one in self.world.open_connections() if not self._leaving & one.queues.keys()]
        if connections:
            self.world.break_connection(self.chance.choice(connections))

    def _freeze(self) -> None:
        """Other directions stand still from now on; the rest goes as far as it can without them."""
        directions = [
            (one, other) for one, hub in self.world.hubs.items() for other in hub.links if other in self.world.nodes
        ]
        directions += [(other, one) for one, other in directions]
        self.world.held = {pair for pair in directions if self.chance.random() < 0.2}
        if self.chance.random() < 0.7:
            # Somebody who is away redials for ever.
            for _ in range(300):
                if not self.world.step(beats=False):
                    break

    def _come_or_go(self) -> None:
        """A client closes, one comes back under its name, one is away for a while or returns, or a broker leaves."""
        chance, world = self.chance, self.world
        name = chance.choice(list(world.clients))
        client = world.clients[name]
        lot = chance.random()
        if client.ended is not None:
            if client.home in world.brokers and world.brokers[client.home].ready():
                self._start_client(name)
        elif lot < 0.4 and not client.closing:
            client.closing = True
            world.enter(name, client.node.stop(world.now(name)))
        elif lot < 0.8:
            world.away ^= {name}
            world.reset(name, client.home)
        else:
            self._stop_broker()

    def _stop_broker(self) -> None:
        """A broker without children and clients leaves."""
        needed = {self._parents[name] for name in self.world.brokers}
        needed |= {client.home for client in self.world.clients.values() if client.ended is None}
        free = [name for name, node in self.world.brokers.items() if name not in needed and node.ready()]
        if free:
            name = self.chance.choice(free)
            self._leaving.add(name)
            self.world.enter(name, self.world.brokers[name].stop(self.world.now(name)))

    # ------------------------------------------------------------------------------------------------- judgement

    def complaints(self) -> list[str]:
        """Everything that went wrong."""
        self.verdict = check(self.world.events)
        found = self.world.complaints()
        found += [f"{count} {kind}" for kind, count in self.verdict.faults.items() if count]
        return found + self.verdict.examples + premature_confirmations(self.world)


def premature_confirmations(world: World) -> list[str]:
    """Confirmations that came although a client lacked a message that it was owed by then."""
    published = {(row.publisher, row.seq): row for row in world.events if row.event == "publish"}
    found = []
    for moment, publisher, seq in world.confirmed:
        row = published[publisher, seq]
        for name in world.clients:
            history = [one for one in world.events if one.node == name and one.time <= moment]
            has_it = any(one.event == "deliver" and (one.publisher, one.seq) == (publisher, seq) for one in history)
            if not has_it and _owed(history, row):
                found.append(f"{publisher}#{seq} was confirmed to be everywhere, but {name} does not have it")
    return found


def _owed(history: list[Event], row: Event) -> bool:
    wanting: set[tuple[str, str]] = set()
    for one in history:
        if one.event == "subscribe" and one.time < row.time:
            wanting.add((one.topic, one.where))
        elif one.event == "unsubscribe":
            wanting.discard((one.topic, one.where))
    return any(
        matches(pattern, row.topic) and (not where or parse_filter(where).matches(row.attributes))
        for pattern, where in wanting
    )


def blow(seed: int, make_broker: MakeBroker = GingerBroker, make_client: MakeClient = MovingClient) -> list[str]:
    """Run one seed and say what went wrong: nothing, one hopes."""
    storm = Storm(seed, make_broker, make_client)
    try:
        storm.blow()
    except Stuck as stuck:
        return [str(stuck)]
    return storm.complaints()
