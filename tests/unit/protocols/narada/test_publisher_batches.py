"""How a publisher puts messages together: the short way of plain ones, and the long way of all others."""

from holdfast.model.batches import Batch
from holdfast.protocols.narada import Publisher, PublisherConfig
from holdfast.protocols.narada.events import Opened, ProbeReply, encode
from holdfast.protocols.narada.participant import Effects, Emit
from holdfast.protocols.narada.steering import PROBE_TIMER
from holdfast.protocols.narada.topics import inbox_topic

CAUSAL, FIFO = 2, 1


def opened(config: PublisherConfig) -> Publisher:
    """A publisher that may publish."""
    publisher = Publisher(config, life=7)
    publisher.start(0.0)

    def tell(event: ProbeReply | Opened) -> Effects:
        inbox = inbox_topic(config.stream, config.name)
        return publisher.heard(Batch("r1", 1, inbox, 0, encode(event)), 0.0)

    tell(ProbeReply(config.stream, "r1", 1))
    publisher.timer(PROBE_TIMER, 0.1)
    tell(Opened(config.stream, "r1", 7, (), 0))
    assert publisher.state == "open"
    return publisher


def emitted(publisher: Publisher) -> list[Batch]:
    return [effect.batch for effect in publisher.settle(1.0) if isinstance(effect, Emit)]


def test_plain_messages_go_behind_the_one_before_them_and_are_numbered_on():
    publisher = opened(PublisherConfig("alice", "orders"))
    assert publisher.publish_alike("orders", b"a", CAUSAL) == 0
    assert publisher.publish("orders", b"a", CAUSAL) == 1
    assert [publisher.publish_alike("orders", one, CAUSAL) for one in (b"b", b"c")] == [2, 3]
    [batch] = emitted(publisher)
    assert batch.payload_list() == [b"a", b"b", b"c"]
    assert publisher.publish_alike("orders", b"d", CAUSAL) == 0
    assert publisher.publish("orders", b"d", CAUSAL) == 4


def test_what_is_not_alike_begins_another_batch():
    publisher = opened(PublisherConfig("alice", "orders"))
    publisher.publish("orders", b"a", CAUSAL)
    assert publisher.publish_alike("orders", b"b", FIFO) == 0
    publisher.publish("orders", b"b", FIFO, ("key",))
    # Behind one that has keys a plain one takes the long way, which gives it its place in the column.
    assert publisher.publish_alike("orders", b"c", FIFO) == 0
    publisher.publish("orders", b"c", FIFO)
    first, second = emitted(publisher)
    assert first.payload_list() == [b"a"]
    assert [(one.payload, one.keys) for one in second.messages()] == [(b"b", ("key",)), (b"c", ())]


def test_a_full_batch_and_a_full_buffer_take_nothing_more():
    publisher = opened(PublisherConfig("alice", "orders", batch_count_max=2, buffer_count_max=3))
    publisher.publish("orders", b"a", CAUSAL)
    assert publisher.publish_alike("orders", b"b", CAUSAL) == 2
    assert publisher.publish_alike("orders", b"c", CAUSAL) == 0
    publisher.publish("orders", b"c", CAUSAL)
    assert publisher.publish_alike("orders", b"d", CAUSAL) == 0
    assert not publisher.room()
    assert publisher.unsent_bytes == 3
    assert [batch.count for batch in emitted(publisher)] == [2, 1]
    assert publisher.unsent_bytes == 0


def test_attributes_of_one_message_are_its_own():
    publisher = opened(PublisherConfig("alice", "orders"))
    publisher.publish("orders", b"a", CAUSAL)
    publisher.publish("orders", b"b", CAUSAL, (), {"amount": 5})
    publisher.publish("orders", b"c", CAUSAL)
    [batch] = emitted(publisher)
    assert [one.attributes for one in batch.messages()] == [{}, {"amount": 5}, {}]
