"""A world with an intruder in it: a peer that says well-typed words in any order, beside honest brokers and clients.

The intruder is a node like any other, driven by a host of the simulator: it dials, says hello as a client or as a
broker, and from then on says what its forger makes. Honest nodes must not raise because of it, whatever its kind; and
if it is a client, every promise to the honest clients must be kept.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from random import Random
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.direct_messages import Enlist
from holdfast.model.errors import LocalMisuse
from holdfast.model.hole_messages import Hole
from holdfast.model.messages import (
    LAP,
    WIRE_VERSION,
    Ack,
    Confirm,
    ConfirmAck,
    Data,
    Frame,
    Goodbye,
    Hello,
    Join,
    Kind,
    Levels,
    Open,
    Ping,
    Publish,
    Rejected,
    SessionMessage,
    Subscribe,
    SubscribeAck,
    Twig,
    Unstable,
    Unsubscribe,
    UnsubscribeAck,
    View,
    Welcome,
)
from holdfast.model.name_messages import Recall, Recalled
from holdfast.model.trace import Event
from holdfast.protocols.border import Border, Place
from holdfast.protocols.clients import ClientNode
from holdfast.protocols.config import BrokerConfig, ClientConfig
from holdfast.protocols.edges import EdgeBroker
from holdfast.protocols.moving import MovingClient
from holdfast.protocols.node import Connect, Disconnect, Effects, Send, SetTimer
from holdfast.protocols.registry import find_protocol, make_broker
from holdfast.simulation.applications import ClientHost
from holdfast.simulation.checkers import Verdict, check
from holdfast.simulation.faults import Confirm as ConfirmLatest
from holdfast.simulation.faults import Crash, Cut, Heal
from holdfast.simulation.faults import Join as JoinBelow
from holdfast.simulation.faults import Publish as PublishOne
from holdfast.simulation.faults import Subscribe as SubscribeTo
from holdfast.simulation.hosts import Host
from holdfast.simulation.world import Simulation
from tests.support.forgeries import ALL_FRAMES, ALL_MESSAGES, Forger

MALLORY = "mallory"
BROKERS = ("0", "1", "2", "3", "4")
FROM_CLIENTS: tuple[type[Struct], ...] = (Publish, Subscribe, Unsubscribe, Confirm, ConfirmAck, Recall)
TO_CLIENTS: tuple[type[Struct], ...] = (
    *(Publish, SubscribeAck, UnsubscribeAck, Confirm, ConfirmAck, Recalled, Rejected),
    *(Open, View, Hole),
)
TO_BE_LET_IN: tuple[type[Struct], ...] = (*FROM_CLIENTS, Unstable, Join)
TREE = "0-1 0-2 1-3 1-4"
BUSY_S = 6.0
GUARANTEES = ("eventual", "fifo", "causal", "total")


class _Session:
    """What the intruder remembers of one connection."""

    def __init__(self, name: str, kind: Kind, session: int) -> None:
        self.name, self.kind, self.session = name, kind, session
        self.open = False
        self.words: Sequence[type[Struct]] = FROM_CLIENTS if kind == "client" else ALL_MESSAGES
        """What it says mostly."""
        self.waits = False
        """Whether it has asked to be let in, and waits for that, mostly."""
        self.sent = self.received = 0


class Intruder:
    """The node. See `protocols.node.Node`."""

    def __init__(self, chance: Random, forger: Forger, kind: Kind, targets: list[str], names: list[str]) -> None:
        self.name, self._chance, self._forger, self._kind, self._targets = MALLORY, chance, forger, kind, targets
        self._names = names
        """Under which it says hello."""
        self.from_neighbours: Sequence[type[Struct]] = ALL_MESSAGES
        """What brokers of the protocol say to each other."""
        self.from_visitors: Sequence[type[Struct]] = ALL_MESSAGES
        """What brokers say that are not let in yet."""
        self.tolerance = 0
        """What it says of itself when somebody takes it for a broker."""
        self._sessions: dict[str, _Session] = {}
        self._last_session = 1
        self.quiet = False
        self.said: set[type[Struct]] = set()
        """The types of what it has said in sessions in which it was let in, or needed not be."""
        self.let_in = 0
        self._polite = chance.random() < 0.5
        """Whether it acknowledges and answers questions."""

    # ------------------------------------------------------------------------------------------------ entry points

    def start(self, now: float) -> Effects:  # noqa: ARG002
        return [Connect(self._chance.choice(self._targets)), SetTimer("mischief", 0.05)]

    def peer_up(self, peer: str, now: float) -> Effects:  # noqa: ARG002
        if self.quiet:
            return [Disconnect(peer, "enough")]
        chance = self._chance
        self._last_session += chance.choice((0, 1, 1, 1))
        name = chance.choice(self._names)
        session = self._sessions[peer] = _Session(name, self._kind, self._last_session)
        self._forger.own = name
        hello = Hello(WIRE_VERSION, name, self._kind, "holdfast", self._last_session, False, 0, 1 << 20)
        if chance.random() < 0.05:
            hello = replace(self._forger.struct(Hello), version=WIRE_VERSION, node=name, kind=self._kind)
        session.session = hello.session
        return [Send(peer, hello)]

    def peer_down(self, peer: str, now: float) -> Effects:  # noqa: ARG002
        self._sessions.pop(peer, None)
        return []

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:  # noqa: ARG002
        self._forger.hear(frame)
        if isinstance(frame, Hello):
            return self._welcome(peer, frame)
        session = self._sessions.get(peer)
        if session is None:
            return []
        if isinstance(frame, Welcome):
            session.open, session.sent = True, frame.received
            begins_well = self._chance.random() < 0.8
            if session.kind == "broker":
                session.words = self.from_visitors if frame.tolerance else self.from_neighbours
            if frame.tolerance and session.kind == "client" and not begins_well:
                session.words = TO_BE_LET_IN
            return self._first_words(peer, session, frame.tolerance) if begins_well else []
        if isinstance(frame, Data):
            session.received += 1
            if isinstance(frame.message, Open):
                session.waits = False
                self.let_in += 1
                session.words = FROM_CLIENTS if session.kind == "client" else self.from_neighbours
                return [self._say(peer, session, Subscribe(1, "#", ""))]
            if self._polite and isinstance(frame.message, Confirm):
                return [self._say(peer, session, ConfirmAck(frame.message.token))]
            if self._polite and not session.received % 8:
                return [Send(peer, Ack(session.received, 1 << 40))]
        return []

    def _welcome(self, peer: str, hello: Hello) -> Effects:
        """Somebody takes us for a broker."""
        session = self._sessions[peer] = _Session(self.name, "broker", hello.session)
        session.open = True
        session.words = self.from_neighbours if hello.kind == "broker" else TO_CLIENTS
        welcome = Welcome(self.name, hello.received, 1 << 20, 0, "ginger", (0, 1, 2, 3), 1 << 20, self.tolerance)
        if self._chance.random() < 0.2:
            welcome = replace(self._forger.struct(Welcome), node=self.name)
        answers: Effects = [Send(peer, welcome)]
        if self.tolerance and self._chance.random() < 0.8:
            answers.append(self._say(peer, session, self._forger.struct(Open)))
        return answers

    def _first_words(self, peer: str, session: _Session, tolerance: int) -> Effects:
        """What an honest peer of that kind would begin with."""
        words: list[SessionMessage] = []
        if tolerance:
            twig = Twig(session.name, session.kind, session.session, "mallory")
            words.append(Join(twig, "", (), {}, (), 0, 0))
            session.waits = True
        elif session.kind == "broker" and self._chance.random() < 0.5:
            words.append(replace(self._forger.struct(Enlist), number=self._chance.choice((0, 1))))
        elif session.kind == "client":
            words.append(Subscribe(1, "#", ""))
        return [self._say(peer, session, word) for word in words]

    def timer(self, name: str, now: float) -> Effects:  # noqa: ARG002
        if self.quiet:
            return [Disconnect(peer, "enough") for peer in self._sessions]
        chance = self._chance
        effects: Effects = [SetTimer("mischief", chance.choice((0.001, 0.02, 0.1)))]
        for peer, session in list(self._sessions.items()):
            if session.open and (not session.waits or chance.random() < 0.02):
                for _ in range(chance.choice((1, 1, 2, 5, 20))):
                    effects += self._mischief(peer, session)
        if chance.random() < 0.2 or not self._sessions:
            target = chance.choice(self._targets)
            effects += [Disconnect(target, "begins anew"), Connect(target)]
            self._sessions.pop(target, None)
        return effects

    def _mischief(self, peer: str, session: _Session) -> Effects:
        chance, forger, draw = self._chance, self._forger, self._chance.random()
        if draw < 0.93:
            words = session.words if chance.random() < 0.98 else ALL_MESSAGES
            message = forger.message(words)
            self.said.add(type(message))
            return [self._say(peer, session, message)]
        if draw < 0.94:
            return [Send(peer, Data(chance.randrange(LAP), forger.message()))]
        if draw < 0.96:
            return [Send(peer, forger.struct(Levels))]
        if draw < 0.98:
            return [Send(peer, forger.struct(chance.choice((Ack, Ping))))]
        if draw < 0.99:
            return [Send(peer, Goodbye("enough"))]
        return [Send(peer, forger.struct(chance.choice(ALL_FRAMES)))]

    @staticmethod
    def _say(peer: str, session: _Session, message: SessionMessage) -> Send:
        session.sent += 1
        return Send(peer, Data(session.sent % LAP, message))

    def settle(self, now: float) -> Effects:  # noqa: ARG002
        return []

    def stop(self, now: float) -> Effects:  # noqa: ARG002
        return []

    def check_invariants(self) -> None:
        """Nobody expects anything of it."""

    def waiting_for(self) -> list[str]:
        return []


def learn_words(intruder: Intruder, protocol: str, tolerance: int) -> None:
    """Let the intruder know what brokers of that protocol say to each other."""
    intruder.tolerance = tolerance
    table = _border_of(protocol, tolerance)
    intruder.from_neighbours = _sorted(table[Place.NEIGHBOUR])
    intruder.from_visitors = _sorted(table.get(Place.VISITOR, table[Place.NEIGHBOUR]))


def _border_of(protocol: str, tolerance: int) -> Border:
    edges = (("0", "1"),)
    config = BrokerConfig("0", tolerance=tolerance, edges=edges if find_protocol(protocol).hops else ())
    return cast("EdgeBroker", make_broker(protocol, config, 1)).border


def _sorted(words: Iterable[type[Struct]]) -> list[type[Struct]]:
    return sorted(words, key=lambda kind: kind.__name__)


class IntrudedWorld:
    """Honest brokers with honest clients, an intruder, and what happens to them, all drawn from one seed."""

    def __init__(
        self, protocol: str, tolerance: int, kind: Kind, seed: int, names: tuple[str, ...] = (MALLORY,)
    ) -> None:
        self._chance = Random(f"{protocol} {tolerance} {kind} {seed}")
        self.kind, self.names = kind, names
        repairs = protocol == "ginger" and tolerance > 0
        # A broker with too many neighbours moves children: the intruder may be one of those that a move concerns.
        degree_max = self._chance.choice((0, 3)) if repairs else 0
        config = BrokerConfig("*", brokers=5 if repairs else 0, degree_max=degree_max)
        self.sim = Simulation(
            TREE,
            protocol,
            seed,
            tolerance=tolerance,
            broker=config,
            replay=f"IntrudedWorld({protocol!r}, {tolerance}, {kind!r}, {seed}, {names!r}).run()",
        )
        self._plan(protocol, tolerance)
        forger = Forger(self._chance, [*self.sim.tree, "alice", "bob", "carol"], MALLORY)
        brokers = list(self.sim.tree)
        self.intruder = Intruder(self._chance, forger, kind, brokers, list(names))
        sim = self.sim
        learn_words(self.intruder, protocol, tolerance)
        self._host = Host(
            MALLORY,
            sim.network,
            sim._disk(MALLORY),
            sim.reports,
            sim._chance_for(MALLORY),
            lambda _: self.intruder,
            is_broker=kind == "broker",
        )
        if kind == "broker":
            self._have_some_below(protocol)

    def _have_some_below(self, protocol: str) -> None:
        """Two clients and, where brokers join trees, a broker turn to the intruder: they know nobody else."""
        sim = self.sim
        makers = {"dave": MovingClient, "erin": ClientNode}
        for name, make in makers.items():
            config = ClientConfig(name, MALLORY)
            host = ClientHost(
                name,
                MALLORY,
                sim.network,
                sim._disk(name),
                sim.reports,
                sim._chance_for(name),
                partial(make, config),
            )
            host.commands.extend((SubscribeTo(name, "#"), PublishOne(name, "a", b"x"), ConfirmLatest(name, "a")))
            sim.kernel.at(0.2, Host.start, host)
        if find_protocol(protocol).hops is None:
            sim.at(0.2, JoinBelow("below", MALLORY))

    def _plan(self, protocol: str, tolerance: int) -> None:
        chance, sim = self._chance, self.sim
        ranks = find_protocol(protocol).guarantees
        guarantees = [GUARANTEES[rank] for rank in ranks]
        for client, pattern in (("alice@3", "a/#"), ("bob@2", "#"), ("carol@0", "orders")):
            sim.at(0.0, SubscribeTo(client, pattern))
        number = 0
        while number < 60:
            client, topic = chance.choice(("alice@3", "bob@2", "carol@0")), chance.choice(("a", "a/b", "orders"))
            number += 1
            guarantee = chance.choice(guarantees)
            keys = ("k",) if chance.random() < 0.5 else ()
            sim.at(chance.uniform(0.5, BUSY_S), PublishOne(client, topic, b"%d" % number, guarantee, keys))
        for client in ("alice@3", "carol@0"):
            sim.at(BUSY_S, PublishOne(client, "orders", b"last", guarantees[0]))
            sim.at(BUSY_S, ConfirmLatest(client, "orders"))
        if tolerance and protocol == "ginger":
            sim.at(chance.uniform(0.5, BUSY_S), chance.choice((Crash("1"), Crash("4"), Cut("0", "1"), Crash("0"))))
            sim.at(BUSY_S, Heal())

    def run(self, quiet: bool | None = None) -> "IntrudedWorld":
        """Let the intruder do harm, then let it go, and wait for peace: a client leaves nothing behind."""
        sim = self.sim
        sim.kernel.at(0.1, lambda _: self._host.start())
        sim.run_for(BUSY_S)
        self.intruder.quiet = True
        sim.run_for(2.0)
        self._host.crash()
        if quiet or (quiet is None and self.kind == "client"):
            sim.run_until_quiet(limit_s=200.0)
        else:
            sim.run_for(60.0)
        return self

    def survives(self) -> bool:
        """The same; whether no broker had to end on purpose.

        A LoCaMu broker ends if a neighbour knows more of it than it does itself: its journal is lost, or the neighbour
        lies, and nobody can tell.
        """
        try:
            self.run()
        except LocalMisuse as misuse:
            if self.kind == "client" or "has lost what it wrote down" not in str(misuse):
                raise
            return False
        return True

    def verdict(self) -> Verdict:
        """Of everything that honest clients published."""
        honest: list[Event] = [event for event in self.sim.events if event.publisher not in self.names]
        return check(honest)

    def reports(self, event: str) -> list[Any]:
        return [report for _, _, report in self.sim.reports if report.event == event]
