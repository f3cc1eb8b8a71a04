"""Two ends of a link over connections that lose random suffixes: each end gets exactly what the other sent."""

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.model.batches import make_batch
from holdfast.model.costs import cost_bytes
from holdfast.model.messages import Ack, ConfirmAck, Data, Frame, Publish, SessionMessage
from holdfast.protocols.config import LinkConfig
from holdfast.protocols.links import Link, LinkState

CONFIG = LinkConfig(window_bytes=300, ack_frames=3)
SIZE_MAX = 500


class End:
    """A link, what its node sent and got, and the frames on their way to the other end."""

    def __init__(self, name: str, dialler: bool) -> None:
        self.link = Link(name, "broker", 1, dialler, CONFIG, 0.0)
        self.wire: deque[Frame] = deque()
        self.sent: list[SessionMessage] = []
        self.got: list[SessionMessage] = []
        self.plate: deque[SessionMessage] = deque()

    def send(self, message: SessionMessage) -> None:
        self.sent.append(message)
        data = self.link.send(message)
        if data is not None:
            self.wire.append(data)

    def take(self, frame: Frame) -> None:
        if isinstance(frame, Data):
            message = self.link.on_data(frame)
            if message is not None:
                self.got.append(message)
                self.plate.append(message)
        elif isinstance(frame, Ack):
            self.wire += self.link.on_ack(frame.received, frame.credit, 0.0)

    def eat(self) -> None:
        if self.plate:
            self.link.consume(self.plate.popleft())

    def acknowledge(self, eager: bool, grant: bool = True) -> None:
        ack = self.link.acknowledgement(grant, eager)
        if ack is not None:
            self.wire.append(ack)


class Session(RuleBasedStateMachine):
    """Hello and Welcome are exchanged in one step: what can be lost around them is the business of the hub's tests."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = End("left", True), End("right", False)
        self._connect()

    def _connect(self) -> None:
        left, right = (end.link for end in self.ends)
        left.opening()
        hello = left.received, left.credit_in
        welcome = right.received, right.credit_in
        self.ends[1].wire += right.open(*hello, 0.0)
        self.ends[0].wire += left.open(*welcome, 0.0)

    @rule(side=st.integers(0, 1), size=st.integers(0, SIZE_MAX))
    def send(self, side: int, size: int) -> None:
        end = self.ends[side]
        number = len(end.sent) + 1
        end.send(Publish(make_batch("p", number, "t", 0, [bytes(size)])) if size else ConfirmAck(number))

    @rule(side=st.integers(0, 1), count=st.integers(1, 4))
    def deliver(self, side: int, count: int) -> None:
        for _ in range(min(count, len(self.ends[side].wire))):
            self.ends[1 - side].take(self.ends[side].wire.popleft())

    @rule(side=st.integers(0, 1), count=st.integers(1, 4))
    def eat(self, side: int, count: int) -> None:
        for _ in range(count):
            self.ends[side].eat()

    @rule(side=st.integers(0, 1), eager=st.booleans(), grant=st.booleans())
    def acknowledge(self, side: int, eager: bool, grant: bool) -> None:
        self.ends[side].acknowledge(eager, grant)

    @rule(survivors=st.tuples(st.integers(0, 5), st.integers(0, 5)), backlog=st.integers(0, 2))
    def lose_the_connection(self, survivors: tuple[int, int], backlog: int) -> None:
        """In each direction a prefix arrives and the rest is lost; meanwhile the nodes go on sending."""
        for side, count in enumerate(survivors):
            self.deliver(side, count)
        for end in self.ends:
            end.wire.clear()
            end.link.closed()
        for side in range(2):
            for _ in range(backlog):
                self.send(side, 0)
        self._connect()

    @invariant()
    def each_end_has_a_prefix_of_what_the_other_sent(self) -> None:
        for end, other in zip(self.ends, reversed(self.ends), strict=True):
            assert end.got == other.sent[: len(end.got)]

    @invariant()
    def memory_is_bounded_by_the_window(self) -> None:
        for end in self.ends:
            end.link.check_invariants()
            under_way = end.link.sent
            assert not under_way or under_way[-1].start - under_way[0].start < CONFIG.window_bytes
            assert sum(map(cost_bytes, list(end.plate)[:-1])) < CONFIG.window_bytes

    def teardown(self) -> None:
        """From any state, everything arrives if the connection holds and the nodes eat."""
        for _ in range(500):
            for side, end in enumerate(self.ends):
                self.deliver(side, 10)
                self.eat(1 - side, 10)
                end.acknowledge(eager=True)
            if not any(end.link.sent or end.link.waiting or end.wire or end.plate for end in self.ends):
                break
        for end, other in zip(self.ends, reversed(self.ends), strict=True):
            assert end.link.state is LinkState.OPEN
            assert end.got == other.sent
            assert end.link.unacknowledged_bytes == 0


TestSession = Session.TestCase
TestSession.settings = settings(max_examples=150, stateful_step_count=40)
