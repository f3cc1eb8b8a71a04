"""What brokers write down: at changes only, before anybody hears of them, and enough to come back."""

import msgspec
import pytest

from holdfast.model.batches import make_batch
from holdfast.model.errors import LocalMisuse
from holdfast.model.guarantees import CAUSAL
from holdfast.model.messages import WIRE_VERSION, Data, Hello, Publish, Subscribe, Welcome
from holdfast.model.terms import Contact
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.durable import CONTACTS_MAX, Kept, Notebook, kept_in
from holdfast.protocols.ginger import GingerBroker
from holdfast.protocols.node import Effects, Persist, Send
from holdfast.protocols.publishers import DURABLE_MAX, NUMBERS_AHEAD, PublisherMemory

CREDIT = 1 << 30
SOME = (Contact("a", 1, "h:1"), Contact("b", 2, "h:2"))


def writes(effects: Effects) -> dict[str, bytes]:
    return {effect.key: effect.value for effect in effects if isinstance(effect, Persist)}


class Desk:
    """A broker that is all alone with its clients, and its disk."""

    def __init__(self, pairs: dict[str, bytes], epoch: int = 7, durable: bool = True) -> None:
        self.pairs = pairs
        self.broker = GingerBroker(BrokerConfig("b0", durable=durable), epoch)
        if pairs:
            self.broker.restore(dict(pairs))
        self.numbers: dict[str, int] = {}
        self.started = self._enter(self.broker.start(0.0))

    def _enter(self, effects: Effects) -> Effects:
        for key, value in writes(effects).items():
            self.pairs[key] = value
        return effects

    def attach(self, client: str) -> Welcome:
        hello = Hello(WIRE_VERSION, client, "client", "holdfast", 1, False, 0, CREDIT)
        frames = [one.frame for one in self._enter(self.broker.receive(client, hello, 0.0)) if isinstance(one, Send)]
        assert isinstance(frames[0], Welcome)
        return frames[0]

    def publish(self, client: str, first: int, count: int = 1) -> Effects:
        return self.say(client, Publish(make_batch(client, first, "t", CAUSAL, [b"x"] * count)))

    def say(self, client: str, message: Publish | Subscribe) -> Effects:
        self.numbers[client] = self.numbers.get(client, 0) + 1
        return self._enter(self.broker.receive(client, Data(self.numbers[client], message), 0.0))


def test_nobody_hears_from_an_epoch_that_is_not_written_down():
    started = Desk({}).started
    assert started[0] == Persist("epoch", msgspec.msgpack.encode(7))


def test_whoever_is_not_durable_writes_nothing():
    desk = Desk({}, durable=False)
    desk.attach("alice")
    desk.publish("alice", 1)
    desk.broker.stop(1.0)
    assert desk.pairs == {}


def test_numbers_are_reserved_before_a_publication_goes_on_and_rarely():
    desk = Desk({})
    desk.attach("bob")
    desk.say("bob", Subscribe(1, "t", ""))
    desk.attach("alice")
    effects = desk.publish("alice", 1)
    [at] = [at for at, one in enumerate(effects) if isinstance(one, Persist)]
    [passed] = [at for at, one in enumerate(effects) if isinstance(one, Send) and isinstance(one.frame, Data)]
    assert at < passed
    assert kept_in(desk.pairs).numbered == {"alice": (1 + NUMBERS_AHEAD, False)}
    assert all(writes(desk.publish("alice", first)) == {} for first in range(2, 50))
    first, written = 50, 0
    while first <= 3 * NUMBERS_AHEAD:
        written += bool(writes(desk.publish("alice", first, 4096)))
        first += 4096
    assert written == 2


def test_a_publisher_goes_on_behind_what_its_broker_had_reserved_before_a_crash():
    before = Desk({})
    assert before.attach("alice").published == 0
    before.publish("alice", 1, 5)
    after = Desk(before.pairs, epoch=8)
    welcome = after.attach("alice")
    assert (welcome.published, welcome.exact) == (5 + NUMBERS_AHEAD, False)
    assert writes(after.publish("alice", 6 + NUMBERS_AHEAD)).keys() == {"numbered:alice"}
    assert (after.attach("carol").published, after.attach("dan").exact) == (0, True)


def test_whoever_left_in_order_knows_exactly_how_far_everybody_is():
    before = Desk({})
    before.attach("alice")
    before.publish("alice", 1, 5)
    before._enter(before.broker.stop(1.0))
    before._enter(before.broker.settle(1.0))
    assert kept_in(before.pairs).numbered == {"alice": (5, True)}
    welcome = Desk(before.pairs, epoch=8).attach("alice")
    assert (welcome.published, welcome.exact) == (5, True)


def test_a_publisher_that_comes_with_its_own_count_is_believed():
    memory = PublisherMemory(durable=True)
    memory.restore({"alice": (1000, False), "bob": (3, True)})
    assert memory.uncertain == {"alice"}
    memory.resume("alice", 4)
    assert (memory.last("alice"), memory.uncertain) == (4, set())
    memory.resume("bob", 0)
    assert memory.take("bob", 1, 1) == (1, 1)


def test_beyond_the_bound_the_one_that_was_silent_the_longest_is_forgotten_on_disk_too():
    memory = PublisherMemory(publishers_max=2, durable=True)
    for name in ("a", "b", "c"):
        memory.take(name, 1, 1)
    assert memory.due == {"a": 0, "b": 1 + NUMBERS_AHEAD, "c": 1 + NUMBERS_AHEAD}
    assert PublisherMemory(durable=True)._publishers_max == DURABLE_MAX


def test_an_epoch_is_greater_than_the_last_one_or_refused():
    desk = Desk({})
    with pytest.raises(LocalMisuse, match="was in epoch 7 cannot begin again in epoch 7"):
        Desk(desk.pairs, epoch=7)


def test_a_tree_is_written_when_it_changes_and_the_last_one_known_is_kept():
    notebook = Notebook(durable=True)
    [first] = notebook.tree(SOME)
    assert kept_in({"tree": writes([first])["tree"]}) == Kept(tree=SOME)
    assert notebook.tree(SOME) == notebook.tree(()) == []
    [second] = notebook.tree([Contact(f"n{n}", n, "") for n in range(2 * CONTACTS_MAX)])
    assert len(kept_in({"tree": writes([second])["tree"]}).tree) == CONTACTS_MAX
    assert notebook.left() == [Persist("tree", b"")]
    assert notebook.left() == []


@pytest.mark.parametrize("pairs", [{"epoch": b"\xa1x"}, {"tree": b"\x91\x01"}, {"numbered:a": b"\xff"}, {"epoch": b""}])
def test_what_is_not_a_brokers_is_refused(pairs: dict[str, bytes]):
    with pytest.raises(LocalMisuse, match="cannot be understood"):
        kept_in(pairs)
