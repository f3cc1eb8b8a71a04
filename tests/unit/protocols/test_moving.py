"""A client that may move: nothing that it sends goes ahead of its joining."""

from holdfast.model.batches import PAYLOAD_BYTES_MAX, make_batch
from holdfast.model.guarantees import FIFO
from holdfast.model.messages import Data, Join, Publish, SessionMessage, Subscribe, Welcome
from holdfast.protocols.config import ClientConfig
from holdfast.protocols.moving import MovingClient
from holdfast.protocols.node import Effects, Send

CREDIT = 1 << 30


def welcome(tolerance: int) -> Welcome:
    return Welcome("b0", 0, CREDIT, 0, "ginger", (0, 1, 2, 3), PAYLOAD_BYTES_MAX, tolerance)


def said(effects: Effects) -> list[SessionMessage]:
    frames = [effect.frame for effect in effects if isinstance(effect, Send)]
    return [frame.message for frame in frames if isinstance(frame, Data)]


def busy_before_it_is_attached() -> MovingClient:
    client = MovingClient(ClientConfig("alice"), 7)
    client.start(0.0)
    client.peer_up("broker", 0.0)
    client.publish("t", b"x", FIFO)
    client.subscribe("t", "", 0.0)
    client.settle(0.0)
    return client


BATCH = make_batch("alice", 1, "t", FIFO, [b"x"])


def test_where_brokers_repair_their_tree_a_client_joins_before_it_publishes_or_asks():
    """A subscription that overtook it was confirmed, and nothing was delivered to it until the client had joined."""
    client = busy_before_it_is_attached()
    assert client.backlog_bytes >= BATCH.cost_bytes
    [join] = said(client.receive("broker", welcome(tolerance=1), 0.0))
    assert isinstance(join, Join)
    assert join.published == 0
    assert join.interests == (("t", ""),)


def test_where_they_do_not_it_sends_what_it_has_when_it_is_welcome():
    client = busy_before_it_is_attached()
    assert said(client.receive("broker", welcome(tolerance=0), 0.0)) == [Publish(BATCH), Subscribe(1, "t", "")]
    client.publish("t", b"x", FIFO)
    assert said(client.settle(0.0)) == [Publish(make_batch("alice", 2, "t", FIFO, [b"x"]))]
