"""Real brokers and clients under any interleaving that the driver's contract (`protocols.node`) allows.

There is no clock that orders things here, and no latency: whatever waits somewhere is a *move*, and any move may be the
next one. Frames move in the order of their connection, everything else as it likes: dials, settling, timers, the
consumption of what was delivered. So schedules come up that a simulated network would show once in a million runs.

A connection that is reset loses a suffix of each direction, and each end learns of it behind what is left. Timers fire
when nothing else can move, or at random; each node has a clock of its own, which moves when one of its timers fires.
"""

from collections import Counter, deque
from collections.abc import Callable
from random import Random

from holdfast.model.batches import Batch
from holdfast.model.messages import Frame, Hello
from holdfast.model.trace import Event, Recorder
from holdfast.protocols.clients import GIVE_UP_TIMER, ClientNode
from holdfast.protocols.ginger import GingerBroker
from holdfast.protocols.hub import BEAT_TIMER, Hub
from holdfast.protocols.node import (
    Attached,
    CancelTimer,
    Completed,
    Connect,
    Deliver,
    Disconnect,
    Effects,
    Ended,
    Failed,
    Node,
    Report,
    Send,
    SetTimer,
)

IDLE_TIMERS = (BEAT_TIMER, GIVE_UP_TIMER)
"""Timers that run without anything being under way."""
SPEEDS = (0.1, 0.3, 1.0, 1.0, 3.0)
TIMER_SPEED = 0.05
SLOW_SPEED = 0.05
BEAT_CHANCE = 0.002
"""How often a move is a heartbeat, while anything else can move."""
MOVES_MAX = 200_000
BROKER = "broker"

Route = tuple[str, str, str]
"""What moves: `("frame", sender, receiver)`, `("dial", node, peer)`, `("settle" or "eat", node, "")`, or
`("timer", node, name)`."""


class Stuck(AssertionError):  # noqa: N818 - it says what happened
    """Something is left that nothing will ever move."""


class Connection:
    """Two queues, one a sender; `None` in a queue is the end of that direction."""

    def __init__(self, dialler: str, acceptor: str) -> None:
        self.dialler, self.acceptor = dialler, acceptor
        self.introduced = False
        self.queues: dict[str, deque[Frame | None]] = {dialler: deque(), acceptor: deque()}
        self.ended: set[str] = set()

    @property
    def over(self) -> bool:
        return len(self.ended) == 2 and not any(self.queues.values())

    def other(self, name: str) -> str:
        return self.acceptor if name == self.dialler else self.dialler

    def send(self, sender: str, frame: Frame) -> None:
        if sender not in self.ended:
            self.queues[sender].append(frame)

    def finish(self, sender: str) -> None:
        """Nothing more comes from this end; the other end learns it behind what was sent."""
        if sender not in self.ended:
            self.ended.add(sender)
            self.queues[sender].append(None)

    def close(self, name: str) -> None:
        """This end closes: what it sent arrives, what is on its way to it is for nobody."""
        self.finish(name)
        self.ended.add(self.other(name))
        self.queues[self.other(name)].clear()

    def reset(self, chance: Random) -> None:
        """A suffix of each direction is lost, and each end will learn of the end."""
        for sender, queue in self.queues.items():
            if sender not in self.ended:
                for _ in range(chance.randint(0, len(queue))):
                    queue.pop()
                self.finish(sender)


Move = tuple[Route, Connection | None]


class Client:
    """A client and the application above it: how fast it takes what it gets, and what it does then."""

    def __init__(self, node: ClientNode, home: str, recorder: Recorder) -> None:
        self.node, self.home, self.recorder = node, home, recorder
        self.slow = False
        self.closing = False
        self.ended: Ended | None = None
        self.attached = False
        self.plate: deque[Batch] = deque()
        self.interests: list[tuple[str, str]] = []
        self.topics: dict[int, str] = {}
        self.confirming: dict[int, int] = {}
        self.completed: list[int] = []
        self.failed: list[Failed] = []
        self.delivered: list[tuple[str, int]] = []


class World:
    """Nodes, connections and timers; `step` makes one move that chance picks, `drain` goes on until all is quiet."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.nodes: dict[str, Node] = {}
        self.hubs: dict[str, Hub] = {}
        self.clients: dict[str, Client] = {}
        self.brokers: dict[str, GingerBroker] = {}
        self.clocks: dict[str, float] = {}
        self.events: list[Event] = []
        self.reports: list[tuple[str, Report]] = []
        self.confirmed: list[tuple[int, str, int]] = []
        self.moves = 0
        self.held: set[tuple[str, str]] = set()
        """Directions (sender, receiver) that do not move: for schedules written by hand."""
        self.away: set[str] = set()
        """Nodes that nobody can dial, and that reach nobody when they dial."""
        self.after_delivery: Callable[[Client], None] = lambda _: None
        self._current: dict[tuple[str, str], Connection] = {}
        self._connections: dict[Connection, None] = {}
        self._due: dict[tuple[str, str], float] = {}
        self._possible: dict[Move, float] = {}
        """What may happen next, and how fast it is."""
        self._speeds: dict[Route, float] = {}

    # ----------------------------------------------------------------------------------------------------- nodes

    def add_broker(self, node: GingerBroker) -> None:
        self.brokers[node.name] = node
        self._add(node)

    def add_client(self, node: ClientNode, home: str) -> Client:
        """A client whose broker is `home`. Its history goes on if the name has been here before."""
        older = self.clients.get(node.name)
        recorder = older.recorder if older is not None else Recorder("interleaving", node.name)
        client = self.clients[node.name] = Client(node, home, recorder)
        self._add(node)
        return client

    def _add(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.hubs[node.name] = _hub_of(node)
        self.clocks[node.name] = self.chance.uniform(0.0, 1000.0)
        self.enter(node.name, node.start(self.clocks[node.name]))

    def now(self, name: str) -> float:
        return self.clocks[name]

    def touch(self, name: str) -> None:
        """Something was handed to that node: it is to be settled."""
        self._offer(("settle", name, ""))

    def enter(self, name: str, effects: Effects) -> None:
        """Carry out what an entry point of that node returned."""
        self.carry_out(name, effects)
        if name in self.nodes:
            self.touch(name)
            self.nodes[name].check_invariants()

    # --------------------------------------------------------------------------------------------------- effects

    def carry_out(self, name: str, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Send(peer, frame):
                    connection = self._current.get((name, self._real(name, peer)))
                    if connection is not None:
                        connection.send(name, frame)
                        self._refresh(connection)
                case Connect(peer):
                    self._offer(("dial", name, self._real(name, peer)))
                case Disconnect(peer, _):
                    self._disconnect(name, self._real(name, peer))
                case SetTimer(timer, after_s):
                    self._due[name, timer] = self.clocks[name] + after_s
                    if timer not in IDLE_TIMERS:
                        self._offer(("timer", name, timer))
                case CancelTimer(timer):
                    self._due.pop((name, timer), None)
                    self._withdraw(("timer", name, timer))
                case Report():
                    self._report(name, effect)
                case _:
                    self._for_application(self.clients[name], effect)

    def _real(self, name: str, peer: str) -> str:
        return self.clients[name].home if name in self.clients else peer

    def _known_as(self, name: str, peer: str) -> str:
        return BROKER if name in self.clients else peer

    def _disconnect(self, name: str, peer: str) -> None:
        self._withdraw(("dial", name, peer))
        connection = self._current.pop((name, peer), None)
        if connection is not None:
            connection.close(name)
            self._refresh(connection)

    def _report(self, name: str, report: Report) -> None:
        self.reports.append((name, report))
        client = self.clients.get(name)
        if client is not None:
            rows = client.recorder.record(self.moves, report.event, report.batch, report.pattern, report.where)
            self.events += rows
            if report.event == "publish":
                client.topics.update((row.seq, row.topic) for row in rows)
        elif report.event == "stopped":
            self._remove(name)

    def _for_application(self, client: Client, effect: object) -> None:
        match effect:
            case Deliver(batch):
                client.plate.append(batch)
                self._offer(("eat", client.node.name, ""))
                client.delivered += [(batch.publisher, seq) for seq in range(batch.first, batch.last + 1)]
            case Completed(token):
                client.completed.append(token)
                seq = client.confirming.pop(token, 0)
                if seq:
                    self.confirmed.append((self.moves, client.node.name, seq))
            case Attached():
                client.attached = True
            case Failed():
                client.failed.append(effect)
            case Ended():
                self._end(client, effect)
            case _:
                pass

    def _end(self, client: Client, ended: Ended) -> None:
        """The session is over, and with it its subscriptions: what is published from now on is not owed."""
        client.ended = ended
        for pattern, where in client.interests:
            self.events += client.recorder.record(self.moves, "unsubscribe", None, pattern, where)
        self._remove(client.node.name)

    def _remove(self, name: str) -> None:
        del self.nodes[name], self.hubs[name]
        self.brokers.pop(name, None)
        for key in [key for key in self._due if key[0] == name]:
            del self._due[key]
        for route, connection in list(self._possible):
            if connection is None and route[1] == name:
                self._withdraw(route)

    # ----------------------------------------------------------------------------------------------------- moves

    def _offer(self, route: Route, connection: Connection | None = None) -> None:
        if (route, connection) not in self._possible:
            speed = self._speeds.get(route)
            if speed is None:
                speed = self._speeds[route] = self._new_speed(route)
            self._possible[route, connection] = speed

    def _withdraw(self, route: Route, connection: Connection | None = None) -> None:
        self._possible.pop((route, connection), None)

    def _refresh(self, connection: Connection) -> None:
        """Offer what this connection can move now."""
        for sender, queue in connection.queues.items():
            route = ("frame", sender, connection.other(sender))
            if queue:
                self._offer(route, connection)
            else:
                self._withdraw(route, connection)
        if connection.over:
            self._connections.pop(connection, None)

    def _new_speed(self, route: Route) -> float:
        speed = self.chance.choice(SPEEDS)
        if route[0] == "timer":
            return speed * TIMER_SPEED
        return speed * SLOW_SPEED if route[0] == "eat" and self.clients[route[1]].slow else speed

    def step(self, beats: bool = True) -> bool:
        """Make one move; false if there is none."""
        if beats and self.chance.random() < BEAT_CHANCE:
            self.fire(self.chance.choice(list(self.nodes)), BEAT_TIMER)
            return True
        moves = list(self._possible)
        if self.held:
            moves = [move for move in moves if move[0][0] != "frame" or move[0][1:] not in self.held]
        if not moves:
            return False
        self.make(self.chance.choices(moves, [self._possible[move] for move in moves])[0])
        return True

    def make(self, move: Move) -> None:
        self.moves += 1
        (kind, name, other), connection = move
        if connection is not None:
            self._move_frame(connection, name, other)
            return
        del self._possible[move]
        if kind == "dial":
            self._move_dial(name, other)
        elif kind == "eat":
            self.eat(self.clients[name])
        elif kind == "timer":
            self.fire(name, other)
        else:
            self.carry_out(name, self.nodes[name].settle(self.clocks[name]))
            if name in self.nodes:
                self.nodes[name].check_invariants()

    def fire(self, name: str, timer: str) -> None:
        due = self._due.pop((name, timer))
        self._withdraw(("timer", name, timer))
        self.clocks[name] = max(self.clocks[name], due)
        self.enter(name, self.nodes[name].timer(timer, self.clocks[name]))

    def eat(self, client: Client) -> None:
        """The application takes one batch, and does with it what it does."""
        client.node.consumed(client.plate.popleft())
        if client.plate:
            self._offer(("eat", client.node.name, ""))
        self.touch(client.node.name)
        self.after_delivery(client)

    def _move_dial(self, name: str, peer: str) -> None:
        if peer not in self.nodes or self.away & {name, peer}:
            self.enter(name, self.nodes[name].peer_down(self._known_as(name, peer), self.clocks[name]))
            return
        connection = Connection(name, peer)
        self._connections[connection] = None
        self._adopt(name, peer, connection)
        self.enter(name, self.nodes[name].peer_up(self._known_as(name, peer), self.clocks[name]))

    def _adopt(self, name: str, peer: str, connection: Connection) -> None:
        older = self._current.pop((name, peer), None)
        if older is not None:
            older.close(name)
            self._refresh(older)
            self.enter(name, self.nodes[name].peer_down(self._known_as(name, peer), self.clocks[name]))
        self._current[name, peer] = connection

    def _move_frame(self, connection: Connection, sender: str, receiver: str) -> None:
        frame = connection.queues[sender].popleft()
        if receiver not in self.nodes:
            connection.close(receiver)
        self._refresh(connection)
        if receiver not in self.nodes:
            return
        if not connection.introduced and receiver == connection.acceptor and isinstance(frame, Hello):
            connection.introduced = True
            self._adopt(receiver, sender, connection)
        if self._current.get((receiver, sender)) is not connection:
            return
        node, peer, now = self.nodes[receiver], self._known_as(receiver, sender), self.clocks[receiver]
        if frame is None:
            connection.finish(receiver)
            self._refresh(connection)
            del self._current[receiver, sender]
            self.enter(receiver, node.peer_down(peer, now))
        else:
            self.enter(receiver, node.receive(peer, frame, now))

    # ---------------------------------------------------------------------------------------------------- faults

    def open_connections(self) -> list[Connection]:
        return [one for one in self._connections if not one.ended]

    def break_connection(self, connection: Connection) -> None:
        """It is reset: a suffix of each direction is lost, and each end will learn of it behind what is left."""
        connection.reset(self.chance)
        self._refresh(connection)

    def reset(self, one: str, other: str) -> None:
        """Reset the connections between two nodes."""
        for connection in self.open_connections():
            if set(connection.queues) == {one, other}:
                self.break_connection(connection)

    def lose(self, name: str) -> None:
        """A client is gone without a word; its connections are reset."""
        client = self.clients[name]
        self.reset(name, client.home)
        self._end(client, Ended(True, "it crashed"))

    def pass_time(self, seconds: float) -> None:
        """So much time passes for everybody, and every heart beats; then all comes to rest again."""
        for name in list(self.nodes):
            self.clocks[name] += seconds
            if name in self.nodes:
                self.fire(name, BEAT_TIMER)
        self.drain()

    # ---------------------------------------------------------------------------------------------------- the end

    def drain(self) -> None:
        """Move until nothing is left but timers that always run."""
        for _ in range(MOVES_MAX):
            if not self.step(beats=False):
                return
        raise Stuck(f"still moving after {MOVES_MAX} moves: {self.complaints()}")

    def complaints(self) -> list[str]:
        """What is not as it should be when all is quiet."""
        found = [f"{name} waits for {what}" for name, node in self.nodes.items() for what in node.waiting_for()]
        for name, hub in self.hubs.items():
            for link in hub.links.values():
                if link.sent or link.waiting:
                    found.append(f"{name} keeps {len(link.sent)} + {len(link.waiting)} messages for {link.peer}")
                elif link.consumed_bytes != link.received_bytes:
                    unconsumed = link.received_bytes - link.consumed_bytes
                    found.append(f"{name} has not consumed {unconsumed} bytes of {link.peer}")
        for name, broker in self.brokers.items():
            table = broker.interests.table
            wanting = {one for interest in table.distinct() for one in table.sources(*interest)}
            strangers = wanting - self.hubs[name].links.keys()
            found += [f"{name} keeps interests of {stranger}, which is gone" for stranger in sorted(strangers)]
        published = [(row.publisher, row.seq) for row in self.events if row.event == "publish"]
        found += [f"{one} was published twice" for one, count in Counter(published).items() if count > 1]
        for name, client in self.clients.items():
            found += [f"{name} was refused {one}" for one in client.failed]
            if client.ended is not None and not client.ended.clean:
                found.append(f"{name} ended: {client.ended.reason}")
        return found


def _hub_of(node: Node) -> Hub:
    hub = getattr(node, "hub", None) or getattr(node, "_hub", None)
    assert isinstance(hub, Hub), f"{node.name} has no hub"
    return hub
