"""Schedules written by hand, for what random ones meet once in a hundred thousand runs.

Each plays one story with the brokers that it is given and returns the world at rest. The trees are small: `r` is the
root, letters go down from there. Clients are named after their brokers: `c_b` is at `b`.
"""

from random import Random

from holdfast.model.guarantees import CAUSAL, TOTAL
from holdfast.protocols.config import BrokerConfig, ClientConfig, LinkConfig
from holdfast.protocols.ginger import GingerBroker
from holdfast.protocols.moving import MovingClient
from holdfast.simulation.checkers import check
from tests.support.interleavings import Client, World
from tests.support.storms import MakeBroker, premature_confirmations

KEY = ("k",)


class Stage:
    """A tree of brokers with a client at each, and the commands of a story."""

    def __init__(self, tree: dict[str, str | None], make: MakeBroker, link: LinkConfig | None = None) -> None:
        self.world = World(Random(1))
        self.link = link or LinkConfig()
        for name, parent in tree.items():
            self.world.add_broker(make(BrokerConfig(name, parent, link=self.link), 1))
            self.world.drain()
        for name in tree:
            self.come(name)
        self.world.drain()
        self._sessions = 1

    def come(self, broker: str, session: int = 1) -> Client:
        """The client of that broker begins a session, maybe not its first."""
        client = MovingClient(ClientConfig(f"c_{broker}", link=self.link), session)
        return self.world.add_client(client, broker)

    def client(self, broker: str) -> Client:
        return self.world.clients[f"c_{broker}"]

    def subscribe(self, topic: str, *brokers: str) -> None:
        for broker in brokers:
            client, name = self.client(broker), f"c_{broker}"
            client.interests.append((topic, ""))
            self.world.enter(name, client.node.subscribe(topic, "", self.world.now(name))[1])

    def unsubscribe(self, topic: str, broker: str) -> None:
        client, name = self.client(broker), f"c_{broker}"
        client.interests.remove((topic, ""))
        self.world.enter(name, client.node.unsubscribe(topic, "", self.world.now(name))[1])

    def publish(self, broker: str, topic: str, guarantee: int, keys: tuple[str, ...] = KEY) -> int:
        client, name = self.client(broker), f"c_{broker}"
        seq = client.node.publish(topic, b"x", guarantee, keys)
        self.world.enter(name, client.node.settle(self.world.now(name)))
        return seq

    def confirm(self, broker: str, topic: str, seq: int) -> None:
        client, name = self.client(broker), f"c_{broker}"
        token, effects = client.node.confirm(topic, seq, self.world.now(name))
        client.confirming[token] = seq
        self.world.enter(name, effects)

    def vanish(self, broker: str) -> None:
        """The client of that broker crashes: its connection is reset, and nobody says goodbye."""
        self.world.lose(f"c_{broker}")

    def stop(self, name: str) -> None:
        self.world.enter(name, self.world.nodes[name].stop(self.world.now(name)))

    def flow(self, *held: tuple[str, str]) -> None:
        """Everything moves as far as it can, except over these directions."""
        self.world.held = set(held)
        self.world.drain()


def complaints(world: World) -> list[str]:
    """What is wrong with a world at rest."""
    verdict = check(world.events)
    faults = [kind for kind, count in verdict.faults.items() if count]
    return world.complaints() + faults + premature_confirmations(world)


# ---------------------------------------------------------------------------------------------------------- cuts


def crossed_cuts(make: MakeBroker = GingerBroker) -> World:
    """Two cuts of different topics, each acknowledged first where the other awaits a child that is outside it.

    1. A total message on t and one on u are under way; the markers to e and to d are slow.
    2. b has nobody below who wants t and acknowledges its cut; b2 the same for u.
    3. e, outside t, publishes on t; that waits at b for the end of t's cut. d publishes on u, which waits at b2.
    4. e and d get their markers. Their acknowledgements stand behind what waits.
    """
    stage = Stage({"r": None, "b": "r", "b2": "r", "e": "b", "d": "b2"}, make)
    stage.subscribe("t", "b", "d")
    stage.subscribe("u", "e", "b2")
    stage.flow()
    slow = ("b", "e"), ("b2", "d")
    stage.publish("r", "t", TOTAL)
    stage.flow(*slow)
    stage.publish("b", "u", TOTAL)
    stage.flow(*slow)
    stage.publish("e", "t", CAUSAL)
    stage.publish("d", "u", CAUSAL)
    stage.flow(*slow)
    stage.flow()
    return stage.world


def changing_participants(make: MakeBroker = GingerBroker) -> World:
    """Two cuts of one topic, with a child that left between them in one place and one that joined in another.

    1. m is under way on k; its marker to e is slow. e unsubscribes, and its broker b learns it. e2 subscribes.
    2. n is under way on l: if e is outside it, b acknowledges it at once, as b2 had acknowledged m without e2.
    3. e publishes on l, e2 on k; then they acknowledge what they are in, behind that.
    """
    stage = Stage({"r": None, "b": "r", "b2": "r", "e": "b", "e2": "b2"}, make)
    stage.subscribe("t", "b", "b2", "e", "r")
    stage.flow()
    slow = ("b", "e"), ("b2", "e2")
    stage.publish("r", "t", TOTAL, ("k",))
    stage.flow(*slow)
    stage.unsubscribe("t", "e")
    stage.subscribe("t", "e2")
    stage.flow(*slow)
    stage.publish("b", "t", TOTAL, ("l",))
    stage.flow(*slow)
    stage.publish("e", "t", CAUSAL, ("l",))
    stage.publish("e2", "t", CAUSAL, ("k",))
    stage.flow(*slow)
    stage.flow()
    return stage.world


def moved_root(make: MakeBroker = GingerBroker) -> World:
    """A batch waits at the root of its topic's subtree, and the root moves up meanwhile."""
    stage = Stage({"r": None, "b": "r", "d": "b", "e": "b", "b2": "r"}, make)
    stage.subscribe("t", "d", "e")
    stage.flow()
    slow = (("b", "e"),)
    stage.publish("d", "t", TOTAL)
    stage.publish("b", "t", TOTAL)
    stage.flow(*slow)
    stage.subscribe("t", "b2")
    stage.flow(*slow)
    stage.publish("b2", "t", TOTAL)
    stage.flow(*slow)
    stage.flow()
    return stage.world


# ------------------------------------------------------------------------------------------------------- departures


def leaf_leaves_a_cut(make: MakeBroker = GingerBroker) -> World:
    """A broker leaves while the marker of a cut is on its way to it.

    Its parent would have known that it wants nothing any more, had that not waited behind a publication.
    """
    stage = Stage({"r": None, "b": "r", "e": "b", "d": "b"}, make)
    stage.subscribe("t", "r", "b")
    stage.subscribe("u", "d", "e")
    stage.flow()
    slow = ("b", "r")
    stage.publish("r", "t", TOTAL)
    stage.flow(slow)
    stage.publish("e", "t", CAUSAL)
    stage.stop("c_e")
    stage.flow(slow)
    stage.stop("e")
    stage.flow(slow, ("e", "b"))
    stage.publish("d", "u", TOTAL)
    stage.flow(slow, ("e", "b"))
    stage.flow()
    return stage.world


def leaf_leaves_its_publications(make: MakeBroker = GingerBroker) -> World:
    """A broker leaves whose client's last publication waits at its parent for the end of a cut."""
    stage = Stage({"r": None, "b": "r", "e": "b", "d": "b", "d2": "r"}, make)
    stage.subscribe("t", "d", "d2")
    stage.flow()
    slow = (("r", "d2"),)
    stage.publish("r", "t", TOTAL)
    stage.flow(*slow)
    stage.publish("e", "t", CAUSAL)
    stage.stop("c_e")
    stage.flow(*slow)
    stage.stop("e")
    stage.flow(*slow)
    stage.flow()
    return stage.world


# --------------------------------------------------------------------------------------------------------- receipts


def receipt_of_a_total_batch(make: MakeBroker = GingerBroker) -> World:
    """A publisher asks whether its total batch is everywhere while that climbs past the broker of a subscriber."""
    stage = Stage({"r": None, "b": "r", "d": "b", "x": "r"}, make)
    stage.subscribe("t", "d", "x")
    stage.flow()
    seq = stage.publish("b", "t", TOTAL)
    stage.confirm("b", "t", seq)
    # It has turned at the root, and comes down. d could answer by now.
    stage.flow(("r", "b"))
    stage.flow(("b", "d"))
    stage.flow()
    return stage.world


# --------------------------------------------------------------------------------------------------------- sessions


def number_in_a_lane(make: MakeBroker = GingerBroker) -> World:
    """A client returns under its name while an accepted publication of its last session still waits at its edge."""
    stage = Stage({"r": None, "b": "r", "d": "r"}, make)
    stage.subscribe("t", "b", "d")
    stage.flow()
    slow = ("r", "d"), ("r", "b")
    stage.publish("b", "t", TOTAL)
    stage.publish("b", "t", CAUSAL)
    stage.stop("c_b")
    stage.flow(*slow)
    stage.come("b", session=2)
    stage.flow(*slow)
    stage.publish("b", "t", CAUSAL)
    stage.flow(*slow)
    stage.flow()
    return stage.world


def request_in_a_lane(make: MakeBroker = GingerBroker) -> World:
    """A client closes while a subscription of its session waits at its edge, behind a publication that waits."""
    stage = Stage({"r": None, "b": "r", "d": "r"}, make)
    stage.subscribe("t", "d")
    stage.flow()
    slow = (("r", "b"),)
    stage.publish("b", "t", TOTAL)
    stage.publish("b", "t", CAUSAL)
    stage.subscribe("u", "b")
    stage.stop("c_b")
    stage.flow(*slow)
    stage.flow()
    return stage.world


def answer_of_the_last_session(make: MakeBroker = GingerBroker) -> World:
    """A subscription is answered after its client has begun anew, whose first request has the same number."""
    stage = Stage({"r": None, "b": "r", "d": "b", "x": "r"}, make)
    stage.subscribe("t", "d")
    stage.flow(("r", "b"))
    stage.subscribe("t", "b")
    stage.flow(("r", "b"))
    stage.vanish("b")
    stage.flow(("r", "b"))
    stage.come("b", session=2)
    stage.flow(("r", "b"))
    stage.subscribe("u", "b")
    # The answer to the first session's request comes; the new one's request has not reached anybody yet.
    stage.flow(("b", "r"))
    stage.publish("x", "u", CAUSAL)
    stage.flow(("b", "r"))
    stage.flow()
    return stage.world
