"""What a broker of LoCaMu is told and cannot be: the session ends with a sentence, and the broker serves on."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.batches import SEQ_MAX, Batch, pack_lengths
from holdfast.model.errors import PeerViolation
from holdfast.model.local_tree_messages import EDGES_MAX, Farewell, Surroundings
from holdfast.model.messages import WIRE_VERSION, Data, Hello, SessionMessage
from holdfast.model.relay_messages import Notice, Relay, Standing
from holdfast.model.wire import HEADER_BYTES, decode, encode
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.locamu import LocamuBroker
from holdfast.protocols.locamu.copies import Copy, reaches
from holdfast.protocols.locamu.exchange import TICK_TIMER
from holdfast.protocols.locamu.headers import Encoder, LinkTerms
from holdfast.protocols.neighbourhoods import Edge, Neighbourhood
from holdfast.protocols.node import Disconnect, Persist, Report, Send

EDGES: tuple[Edge, ...] = (("a", "b"), ("b", "c"), ("c", "d"), ("b", "e"), ("c", "f"), ("d", "g"))
REACH = reaches(1)
BATCH = Batch("eve", 1, "t", 2, b"x")


def hello_of(peer: str, session: int = 7) -> Hello:
    return Hello(WIRE_VERSION, peer, "broker", "holdfast", session, False, 0, 1000)


def broker_with(*peers: str) -> LocamuBroker:
    """Broker c, and sessions with those."""
    broker = LocamuBroker(BrokerConfig("c", edges=EDGES, tolerance=1), 1)
    broker.start(0.0)
    for peer in peers:
        broker.receive(peer, hello_of(peer), 0.1)
    return broker


def violation(broker: LocamuBroker, peer: str, message: SessionMessage) -> str:
    """What the broker says of the message; empty if it takes it. Either way it is in order afterwards."""
    link = broker.hub.links[peer]
    effects = [*broker.receive(peer, Data(link.received + 1, message), 0.2), *broker.settle(0.2)]
    broker.check_invariants()
    said = [one.detail for one in effects if isinstance(one, Report) and one.event == "violation"]
    assert bool(said) is any(isinstance(one, Disconnect) for one in effects)
    return said[0] if said else ""


def header(copy: Copy, edges: tuple[Edge, ...] = EDGES) -> bytes:
    """As d would encode it for c."""
    return Encoder(LinkTerms(Neighbourhood("d", edges), "c", "d", REACH), "d").encode(copy)[0]


def relay(copy: Copy, edges: tuple[Edge, ...] = EDGES) -> Relay:
    return Relay(header(copy, edges), BATCH, None)


MARKS = {"d": {"c": 1, "f": 1}}


def test_a_copy_that_can_be_is_taken():
    broker = broker_with("d")
    assert violation(broker, "d", relay(Copy(("g", "d"), MARKS, {}))) == ""
    assert broker.durable.core.column() == {"d": 1}


@pytest.mark.parametrize(
    ("copy", "problem"),
    [
        (Copy(("d",), {"d": {"c": 0}}, {}), "numbers are from 1 to 9223372036854775807, not as in {'d': {'c': 0}}"),
        (Copy(("d",), {"d": {"c": -5}}, {}), "numbers are from 1 to"),
        (Copy(("d",), {"d": {"c": 1 << 63}}, {}), "numbers are from 1 to"),
        (Copy(("d",), {"d": {"c": 1 << 70}}, {}), "a figure of 64 bits has more than 10 bytes"),
        (Copy(("g", "d"), MARKS, {}, {"g": {"d": -1}}), "numbers are from 1 to"),
        (Copy(("d",), MARKS, {("d", "f"): -1}), "its past has -1 of d for f"),
        (Copy(("d",), MARKS, {("g", "d"): 1 << 63}), "its past has 9223372036854775808 of g for d"),
        (Copy(("d",), {}, {}), "d has no number of it for c"),
        (Copy(("d",), {"d": {"f": 1}}, {}), "d has no number of it for c"),
        (Copy(("b", "c", "d"), {"d": {"g": 1}}, {}), "nothing comes to c along b c d"),
        (Copy(("f", "c"), {"c": {"d": 1}}, {}), "nothing comes to c along f c"),
    ],
)
def test_a_header_that_cannot_be_ends_the_session_and_not_the_broker(copy: Copy, problem: str):
    broker = broker_with("d")
    said = violation(broker, "d", relay(copy))
    assert said.startswith("d sent a header of ")
    assert problem in said
    assert "d" not in broker.hub.links
    assert not broker.durable.core.past
    broker.receive("d", hello_of("d", session=8), 0.3)
    assert violation(broker, "d", relay(Copy(("d",), MARKS, {}))) == ""


def test_a_figure_without_an_end_is_not_read_to_it():
    assert "more than 1 bytes" in violation(broker_with("d"), "d", Relay(b"\0\3" + b"\x80" * 60_000, BATCH, None))


def test_a_path_of_more_brokers_than_anybody_keeps_is_refused():
    edges = (*EDGES[:4], ("d", "p"), ("p", "q"), ("d", "r"), ("r", "s"))
    broker = broker_with("d")
    assert violation(broker, "d", Surroundings(edges)) == ""
    long = Copy(("q", "p", "d", "r"), {"r": {"c": 1}}, {})
    assert "nothing comes to c along q p d r" in violation(broker, "d", relay(long, edges))


def star(leaves: int) -> tuple[Edge, ...]:
    return (("d", "c"), *(("d", f"n{number}") for number in range(leaves)))


def chain(length: int) -> tuple[Edge, ...]:
    return (("d", "c"), ("d", "n0"), *((f"n{number}", f"n{number + 1}") for number in range(length)))


@pytest.mark.parametrize(
    ("edges", "problem"),
    [
        (star(EDGES_MAX - 1), "with more than 262144 pairs of brokers"),
        (star(520), "with more than 262144 pairs of brokers"),
        (chain(EDGES_MAX - 2), "16380 brokers that are more than 3 edges away from it"),
        ((*star(1), ("n0", "c")), "that are no tree"),
        ((*star(1), ("p", "q")), "that do not hang together with it"),
        ((("d", "p"),), "in which c is not"),
    ],
)
def test_surroundings_that_cannot_be_end_the_session_at_once(edges: tuple[Edge, ...], problem: str):
    """Reading them for all pairs would take hours, and for all paths of a chain gigabytes."""
    broker = broker_with("d")
    said = violation(broker, "d", Surroundings(edges))
    assert said.startswith("d described ")
    assert said.endswith(problem)
    assert "d" not in broker.hub.links


@pytest.mark.parametrize("edges", [star(500), chain(2)])
def test_surroundings_that_can_be_are_taken(edges: tuple[Edge, ...]):
    assert violation(broker_with("d"), "d", Surroundings(edges)) == ""


def test_more_edges_than_anybody_has_do_not_come_through_the_wire():
    frames = [encode(Data(1, Surroundings(star(leaves))))[HEADER_BYTES:] for leaves in (EDGES_MAX - 1, EDGES_MAX)]
    assert decode(frames[0]) == Data(1, Surroundings(star(EDGES_MAX - 1)))
    with pytest.raises(PeerViolation):
        decode(frames[1])


@pytest.mark.parametrize("path", [("q",), ("q", "d"), ("b", "d"), ("f", "d")])
def test_a_copy_along_a_path_that_is_not_in_the_tree_is_refused(path: tuple[str, ...]):
    """The sender describes another tree than there is."""
    edges = (("d", "c"), ("d", "q"), ("d", "b"), ("d", "f"))
    broker = broker_with("d")
    assert violation(broker, "d", Surroundings(edges)) == ""
    said = violation(broker, "d", relay(Copy(path, {path[-1]: {"c": 1}}, {}), edges))
    assert said == f"d sent a copy by way of {' '.join(path)}, which does not lead here"


def test_what_waited_until_its_path_was_gone_is_dropped():
    """A copy of a message of g that nobody has, and that is to be processed when g has left."""
    broker, encoder = broker_with("d"), Encoder(LinkTerms(Neighbourhood("d", EDGES), "c", "d", REACH), "d")
    waits, _ = encoder.encode(Copy(("g",), {"g": {"c": 1}}, {("d", "c"): 1}))
    gone, _ = encoder.encode(Copy(("d",), MARKS, {}))
    assert violation(broker, "d", Relay(waits, BATCH, None)) == ""
    assert len(broker.exchange.buffer) == 1
    assert violation(broker, "d", Relay(gone, None, Notice("g", "g"))) == ""
    assert "g" not in broker.durable.core.near
    assert not broker.exchange.buffer


FORMULA = "attributes that cannot be > ("


@pytest.mark.parametrize(
    ("notice", "problem"),
    [
        (Notice("s", "a/#/b"), "a/#/b"),
        (Notice("u", "a/#/b"), "a/#/b"),
        (Notice("s", "t", FORMULA), FORMULA),
        (Notice("c", "a/+"), "a/+"),
        (Notice("j", "n" * 129, "", "d"), "a broker's name has at most 128 characters, not 129"),
        (Notice("l", "c"), "that c leaves the tree, which only c can say"),
        (Notice("g", "c"), "that c leaves the tree, which only c can say"),
    ],
)
def test_a_notice_that_cannot_be_ends_the_session_and_is_not_written_down(notice: Notice, problem: str):
    broker = broker_with("d")
    said = violation(broker, "d", Relay(header(Copy(("d",), MARKS, {})), None, notice))
    assert said.startswith("d relayed what cannot be: ")
    assert problem in said
    assert broker.durable.journal.last == 1, "something but its own birth was written down"


@pytest.mark.parametrize("notice", [Notice("s", "a/#", "price > 3"), Notice("c", "t"), Notice("j", "new", "", "d")])
def test_a_notice_that_can_be_is_taken(notice: Notice):
    assert violation(broker_with("d"), "d", Relay(header(Copy(("d",), MARKS, {})), None, notice)) == ""


def test_a_copy_of_a_batch_and_a_notice_at_once_is_refused():
    said = violation(broker_with("d"), "d", Relay(header(Copy(("d",), MARKS, {})), BATCH, Notice("s", "t")))
    assert said == "d relayed what cannot be: a copy is of a batch or of a notice, not of both"


@pytest.mark.parametrize(
    ("batch", "problem"),
    [
        (Batch("eve", 1, "t", 2, b"xyz", count=2), "2 equal messages in 3 payload bytes"),
        (Batch("eve", 1, "t", 2, b"xyz", count=2, lengths=b"xyz"), "2 messages but 3 bytes of lengths"),
        (
            Batch("eve", 1, "t", 2, b"xyz", count=2, lengths=pack_lengths([1, 3])),
            "do not add up to its 3",
        ),
        (Batch("eve", 1, "t", 2, b"xyz", count=3, keys=(("k",),) * 2), "3 messages but 2 entries of keys"),
        (
            Batch("eve", 1, "t", 2, b"xyz", count=3, attributes=({"a": 1}, {"a": 1}, {"a": 1}, {"a": 1})),
            "but 4 entries of attributes",
        ),
        (Batch("eve", SEQ_MAX, "t", 2, b"xyz", count=3), f"numbers its messages past {SEQ_MAX}"),
        (Batch("eve", 1, "a/+", 2, b"x"), "a/+"),
    ],
)
def test_a_batch_that_cannot_be_ends_the_session_and_is_not_written_down(batch: Batch, problem: str):
    broker = broker_with("d")
    said = violation(broker, "d", Relay(header(Copy(("d",), MARKS, {})), batch, None))
    assert said.startswith("d relayed what cannot be: ")
    assert problem in said
    assert "d" not in broker.hub.links
    assert broker.durable.journal.last == 1, "something but its own birth was written down"


def test_a_notice_of_a_kind_that_there_is_not_does_not_come_through_the_wire():
    frame = encode(Data(1, Relay(b"", None, Notice("s", "t"))))[HEADER_BYTES:]
    assert decode(frame) == Data(1, Relay(b"", None, Notice("s", "t")))
    with pytest.raises(PeerViolation):
        decode(frame.replace(b"\xa1s", b"\xa1?"))


@pytest.mark.parametrize("name", ["a", "b", "d"])
def test_nobody_but_a_leaf_below_somebody_is_ever_gone(name: str):
    """The root of what is known here, and those in the middle."""
    broker = broker_with("d")
    assert violation(broker, "d", Relay(header(Copy(("d",), MARKS, {})), None, Notice("g", name))) == ""
    assert broker.durable.core.near.edges == EDGES


@pytest.mark.parametrize("peer", ["d", "f", "g"])
def test_nobody_is_let_go_of_whom_nobody_has_heard_that_it_leaves(peer: str):
    """A child with somebody below it, a leaf that has not said that it leaves, a leaf below somebody else."""
    broker = broker_with(peer)
    said = violation(broker, peer, Farewell())
    assert said == f"{peer} said farewell, but c has heard of no leaf {peer} below it that leaves"
    assert broker.durable.journal.last == 1, "something but its own birth was written down"
    assert broker.durable.core.near.edges == EDGES


def test_nobody_lets_its_parent_go():
    broker = LocamuBroker(BrokerConfig("c", edges=(("d", "c"),), tolerance=1), 1)
    broker.start(0.0)
    broker.receive("d", hello_of("d"), 0.1)
    assert violation(broker, "d", Farewell()).startswith("d said farewell, but")
    assert "d" in broker.durable.core.near


@pytest.mark.parametrize(("leaf", "peer"), [("d", "d"), ("g", "g")])
def test_who_is_no_leaf_below_us_is_not_let_go_whatever_was_heard(leaf: str, peer: str):
    broker = broker_with("d", "g")
    assert violation(broker, "d", Relay(header(Copy(("d",), MARKS, {})), None, Notice("l", leaf))) == ""
    assert violation(broker, peer, Farewell()).startswith(f"{peer} said farewell, but")
    assert broker.durable.core.near.edges == EDGES


def test_a_leaf_that_has_said_that_it_leaves_is_let_go_after_a_crash_of_its_parent_too():
    config, hello = BrokerConfig("c", edges=EDGES[:-1], tolerance=1), hello_of("d")
    broker = LocamuBroker(config, 1)
    broker.start(0.0)
    broker.receive("d", hello, 0.1)
    assert violation(broker, "d", Relay(header(Copy(("d",), MARKS, {}), EDGES[:-1]), None, Notice("l", "d"))) == ""
    broker.durable.compact()
    disk = {one.key: one.value for one in broker.hub.take() if isinstance(one, Persist) and one.value}
    again = LocamuBroker(config, 2)
    again.restore(disk)
    again.start(1.0)
    again.receive("d", hello, 1.1)
    effects = again.receive("d", Data(1, Farewell()), 1.2)
    assert Report("left", peer="d") in effects
    assert list(again.durable.core.local_tree.gone) == ["d"]


def test_whoever_comes_with_another_birth_is_not_listened_to():
    broker = broker_with("d")
    assert violation(broker, "d", Standing({}, 0, 0, birth=5)) == ""
    broker.receive("d", hello_of("d", session=8), 0.3)
    said = violation(broker, "d", Standing({"c": 0, "g": 7}, 0, 0, birth=6))
    assert said.startswith("d has lost what it wrote down: c knows it by the birth 5, and it has 6.")
    assert "d" not in broker.hub.links
    assert not broker.exchange.peers["d"].column
    broker.receive("d", hello_of("d", session=9), 0.4)
    assert violation(broker, "d", Standing({}, 0, 0, birth=5)) == ""


def test_a_birth_is_told_in_the_first_standing_of_a_session_and_no_other():
    broker = broker_with("d")
    violation(broker, "d", Standing({}, 0, 0, birth=5))
    effects = broker.receive("d", hello_of("d", session=8), 0.3)
    assert violation(broker, "d", relay(Copy(("d",), MARKS, {}))) == ""
    effects += broker.timer(TICK_TIMER, 0.4)
    frames = [one.frame.message for one in effects if isinstance(one, Send) and isinstance(one.frame, Data)]
    assert [one for one in frames if isinstance(one, Standing)] == [
        Standing({}, 0, 0, birth=1, known=5),
        Standing({"d": 1}, 1, 0),
    ]


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


FIGURES = st.one_of(st.integers(0, 8), st.integers(0, 8), st.integers(0, 1 << 71))
HEADERS = st.one_of(st.binary(max_size=40), st.lists(FIGURES, max_size=24).map(lambda row: b"".join(map(varint, row))))
NAMES = st.sampled_from("abcdefgpq")
TREES = st.lists(st.tuples(NAMES, NAMES), max_size=8).map(lambda edges: Surroundings((("d", "c"), *edges)))
KINDS = st.sampled_from("sucjlg")
NOTICES = st.builds(Notice, KINDS, st.one_of(NAMES, st.text("ab/+#~", min_size=1)), st.text("a<(1", max_size=4), NAMES)
GOOD = st.sampled_from([header(Copy(("d",), MARKS, {})), header(Copy(("g", "d"), {"d": {"c": 1, "b": 1, "f": 1}}, {}))])
COPIES = st.builds(Relay, st.one_of(GOOD, HEADERS), st.sampled_from([BATCH, None]), st.none() | NOTICES)


@given(st.lists(st.one_of(TREES, COPIES, COPIES), min_size=1, max_size=5))
@settings(max_examples=300, deadline=None)
def test_whatever_copies_come_the_broker_lives(messages: list[SessionMessage]):
    broker = broker_with("d")
    for message in messages:
        if "d" not in broker.hub.links or not broker.hub.links["d"].is_open:
            broker = broker_with("d")
        violation(broker, "d", message)
