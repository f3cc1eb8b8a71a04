"""Those who only ask a broker something: whoever gave its question up and asks again is heard anew."""

from holdfast.model.messages import WIRE_VERSION, Data, Hello, Join, Move, Refusal, SessionMessage, Twig, Welcome
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger.repairing_broker import RepairingBroker
from holdfast.protocols.node import Send

EPOCH = 5


def root() -> RepairingBroker:
    broker = RepairingBroker(BrokerConfig("0", tolerance=1), 7)
    broker.start(0.0)
    return broker


def greet(broker: RepairingBroker, resume: bool = False, received: int = 0) -> Welcome | Refusal:
    """1 says hello; what it is answered."""
    broker.peer_up("1", 0.0)
    hello = Hello(WIRE_VERSION, "1", "broker", "holdfast", EPOCH, resume, received, 1 << 20)
    frames = [effect.frame for effect in broker.receive("1", hello, 0.0) if isinstance(effect, Send)]
    return next(frame for frame in frames if isinstance(frame, Welcome | Refusal))


def say(broker: RepairingBroker, message: SessionMessage) -> None:
    broker.receive("1", Data(1, message), 0.0)


def test_who_gave_its_question_up_and_asks_again_begins_at_the_first_message():
    broker = root()
    greet(broker)
    say(broker, Move("doubt", 1, "1"))
    broker.peer_down("1", 0.1)
    answer = greet(broker)
    assert isinstance(answer, Welcome)
    assert answer.received == 0


def test_who_resumes_its_session_goes_on_behind_what_was_heard():
    broker = root()
    greet(broker)
    say(broker, Join(Twig("1", "broker", EPOCH, ""), "", (), {}, (), 0, 0))
    broker.peer_down("1", 0.1)
    answer = greet(broker, resume=True)
    assert isinstance(answer, Welcome)
    assert answer.received == 1


def test_who_was_taken_in_is_not_forgotten_by_a_hello():
    broker = root()
    greet(broker)
    say(broker, Join(Twig("1", "broker", EPOCH, ""), "", (), {}, (), 0, 0))
    assert "1" in broker.interests.neighbours
    broker.peer_down("1", 0.1)
    greet(broker)
    assert broker.hub.links["1"].received == 1
