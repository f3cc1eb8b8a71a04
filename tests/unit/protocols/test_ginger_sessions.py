"""Sessions of clients at a broker that takes part in repairs: what they leave there when they end."""

from itertools import count

from holdfast.model.messages import (
    WIRE_VERSION,
    Data,
    Goodbye,
    Hello,
    Join,
    Kind,
    Refusal,
    SessionMessage,
    Subscribe,
    Twig,
)
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger.repairing_broker import RepairingBroker
from holdfast.protocols.given_up import REMEMBERED_S
from holdfast.protocols.hub import BEAT_TIMER
from holdfast.protocols.node import Send
from tests.support.state import entries_of

KEEP_S = BrokerConfig("*").session_keep_s


class Broker:
    """A root, spoken to by raw peers."""

    def __init__(self, tolerance: int = 1) -> None:
        self.machine = RepairingBroker(BrokerConfig("0", tolerance=tolerance), 7)
        self.machine.start(0.0)
        self.now = 0.0
        self._epochs = count(100)
        self._numbers: dict[str, int] = {}

    def join(self, name: str, kind: Kind = "client") -> int:
        """That peer begins a session and is taken in; its epoch."""
        epoch = next(self._epochs)
        self._numbers[name] = 0
        self.machine.peer_up(name, self.now)
        hello = Hello(WIRE_VERSION, name, kind, "holdfast", epoch, False, 0, 1 << 30)
        self.machine.receive(name, hello, self.now)
        self.say(name, Join(Twig(name, kind, epoch, ""), "", (), {}, (), 0, 0))
        return epoch

    def say(self, name: str, message: SessionMessage) -> None:
        self._numbers[name] += 1
        self.machine.receive(name, Data(self._numbers[name] % 128, message), self.now)

    def leave(self, name: str) -> None:
        """It says goodbye."""
        self.machine.receive(name, Goodbye("done"), self.now)
        self.machine.peer_down(name, self.now)
        self.machine.settle(self.now)

    def expire(self, *names: str) -> None:
        """They are killed, and do not come back."""
        for name in names:
            self.machine.peer_down(name, self.now)
        self.now += KEEP_S + 0.1
        self.machine.timer(BEAT_TIMER, self.now)
        self.machine.settle(self.now)


def test_a_name_that_returns_does_not_inherit_the_spill_marks_of_its_last_session():
    broker = Broker()
    for depart in (broker.leave, broker.expire):
        broker.join("alice")
        broker.say("alice", Subscribe(1, "t", "", spills=True))
        broker.machine.slow_readers.left_out["alice"] = 5
        assert broker.machine.slow_readers.clients() == ["alice"]
        depart("alice")
        assert broker.machine.slow_readers.clients() == []
        assert broker.machine.status()["left_out"] == {}


def test_a_client_that_returns_after_its_session_has_expired_hears_that_it_is_over():
    broker = Broker()
    epoch = broker.join("alice")
    broker.expire("alice")
    hello = Hello(WIRE_VERSION, "alice", "client", "holdfast", epoch, True, 1, 1 << 20)
    broker.machine.peer_up("alice", broker.now)
    effects = broker.machine.receive("alice", hello, broker.now)
    answers = [effect.frame for effect in effects if isinstance(effect, Send)]
    assert [answer.code for answer in answers if isinstance(answer, Refusal)] == ["excluded"]


def test_a_client_that_leaves_is_not_held_for_a_broker_of_its_name():
    # A client may be named like a broker elsewhere; that one is not dead because the client has closed.
    broker = Broker()
    broker.join("1")
    broker.leave("1")
    assert broker.machine.view.dead() == ()


def test_a_thousand_clients_that_came_and_went_leave_nothing():
    broker = Broker()
    broker.join("first")
    broker.expire("first")
    broker.expire()
    before = entries_of(broker.machine)
    for wave in range(10):
        names = [f"client-{wave}-{place}" for place in range(100)]
        for name in names:
            broker.join(name)
            broker.say(name, Subscribe(1, f"t/{name}", ""))
        for name in names[:50]:
            broker.leave(name)
        broker.expire(*names[50:])
        broker.now += KEEP_S
        broker.machine.timer(BEAT_TIMER, broker.now)
    # Receipts name those who were given up, for a while.
    broker.now += 2 * REMEMBERED_S
    broker.machine.timer(BEAT_TIMER, broker.now)
    assert entries_of(broker.machine) == before
