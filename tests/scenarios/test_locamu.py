"""LoCaMu beyond the thesis: how far identifiers reach, groups that change, what is refused, what survives."""

import pytest

from holdfast.model.guarantees import GuaranteeError
from holdfast.model.messages import Data
from holdfast.model.relay_messages import Relay
from holdfast.protocols.config import BrokerConfig, LinkConfig
from holdfast.protocols.locamu import LocamuBroker, exchange
from holdfast.protocols.locamu.copies import Copy, Reaches, reaches_of_the_thesis
from holdfast.protocols.locamu.core import Core
from holdfast.simulation.faults import (
    Command,
    Crash,
    Cut,
    Heal,
    Join,
    Publish,
    React,
    Recover,
    Slow,
    Subscribe,
    Unsubscribe,
)
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.workloads import Trouble, random_scenario
from holdfast.simulation.world import BrokerFactory, Simulation
from tests.support.locamu import IDENTIFIERS, Sent, Tree

M1, M2, M3 = b"m1", b"m2", b"m3"


class AsInTheThesis(LocamuBroker):
    """Numbers reach f+1 edges, state 2f+1; nothing is ever found to be overtaken."""

    class Rules(Core):
        def is_overtaken(self, copy: Copy) -> bool:
            super().is_overtaken(copy)
            return False

    rules = Rules

    @staticmethod
    def reaches(tolerance: int) -> Reaches:
        return reaches_of_the_thesis(tolerance)


@pytest.mark.parametrize(("make", "order"), [(LocamuBroker, [M1, M2]), (AsInTheThesis, [M2, M1])])
def test_with_two_absent_one_after_another_identifiers_must_reach_further(make: BrokerFactory, order: list[bytes]):
    """docs/protocols/locamu.md, 4: m2 hops back over the place where the ways of m1 part."""
    sim = Simulation("b-x1 x1-x2 x2-j x2-u u-t", make, tolerance=2)
    sim.at(0.0, Subscribe("dora@j", "g"))
    sim.at(0.0, Subscribe("tom@t", "g"))
    sim.at(0.0, React("dora@j", "g", "g", M2, times=1, after_s=4.0))
    sim.at(5.0, Crash("x1"))
    sim.at(5.0, Crash("x2"))
    sim.at(5.9, Cut("b", "u"))
    sim.at(6.0, Publish("ben@b", "g", M1, "causal"))  # straight to j, and to u, which it does not reach
    sim.at(7.0, Cut("b", "x1"))
    sim.at(7.5, Recover("x1"))
    sim.at(8.0, Crash("u"))
    sim.at(13.0, Heal())  # x1 hears of m1 at last
    sim.at(20.0, Recover("x2"))
    sim.at(20.0, Recover("u"))
    sim.run_until_quiet(limit_s=90)
    assert sim.delivered("tom@t") == order


def test_total_is_refused_with_a_sentence():
    sim = Simulation("0-1", "locamu")
    with pytest.raises(GuaranteeError, match="does not give 'total': it gives eventual, fifo, causal"):
        sim.at(1.0, Publish("p@0", "g", b"", "total"))


def test_a_total_batch_that_comes_all_the_same_is_rejected():
    sim = Simulation("0-1", LocamuBroker)
    sim.at(1.0, Publish("p@0", "g", b"", "total"))
    sim.run_until_quiet()
    assert "does not give 'total'" in sim.failures("p@0")[0]


def test_nobody_can_join_a_tree_that_is_fixed():
    sim = Simulation("0-1", "delta-neighbourhood")
    with pytest.raises(Exception, match="the tree is fixed"):
        sim.at(1.0, Join("new", "0"))


def test_a_subscription_is_confirmed_when_a_broker_that_was_absent_knows_of_it():
    tree = Tree("A-B B-C C-D", 1, "")
    tree.at((0.0, Crash("C")), (0.5, Subscribe("a@A", "g")), (3.0, Recover("C")))
    tree.run_for(2.9)
    assert tree.sim.completed("a@A") == []
    tree.run()
    assert len(tree.sim.completed("a@A")) == 1
    assert tree.broker("D").durable.core.groups.remote.route("g") == {"C": None, "B": None}


def test_who_has_unsubscribed_everywhere_is_forgotten_everywhere():
    tree = Tree("A-B B-C", 1, "AC")
    tree.at((0.0, Unsubscribe("a@A", "g")), (0.0, Unsubscribe("c@C", "g")))
    tree.run()
    for name in "ABC":
        groups = tree.broker(name).durable.core.groups
        assert (len(groups.local), len(groups.remote), groups.wants) == (0, 0, {})


def test_groups_may_change_while_messages_of_other_groups_refer_to_them():
    """What c publishes on h because of what it got on g comes after it for d, who wants both, though c has left g."""
    tree = Tree("A-B B-C B-D", 1, "CD", [Subscribe("d@D", "h")])
    tree.at(
        (0.0, Cut("B", "D")),
        (0.0, Cut("A", "D")),
        (0.001, Publish("a@A", "g", M1, "causal")),
        (0.05, Unsubscribe("c@C", "g")),
        (0.1, Publish("c@C", "h", M2, "causal")),
        (2.0, Heal()),
    )
    tree.run()
    assert tree.sim.delivered("d@D") == [M1, M2]


def test_a_message_that_was_overtaken_while_a_subscription_spread_is_delivered_to_nobody():
    """D begins to want g. A does not know that yet and numbers m1 past D, B knows it and sends m1 there, too late."""
    by_a, by_b = {"A": {"B": 1, "C": 1}}, {"B": {"C": 2, "D": 1}}
    by_a_too = {"A": {"B": 2, "D": 1}}
    tree = Tree("A-B B-C B-D", 1, "C", [Subscribe("d@D", "h")])
    tree.at((0.0, Subscribe("d@D", "g")), (0.001, Publish("a@A", "g", M1, "causal")))
    tree.at((0.0025, Cut("B", "D")), (0.1, Crash("B")), (0.3, Publish("a@A", "h", M2, "causal")))
    tree.run_for(0.6)
    assert tree.sent() == [
        Sent("A", "B", M1, by_a),
        Sent("B", "C", M1, by_a | by_b),
        Sent("B", "D", M1, by_a | by_b),
        # Nothing in the past of m2 is for D, so D does not wait for m1.
        Sent("A", "D", M2, by_a_too),
    ]
    assert tree.delivered() == {"C": [M1], "D": [M2]}
    tree.at((1.0, Heal()), (1.0, Recover("B")))
    tree.run()
    assert tree.sent() == [
        Sent("A", "B", M2, by_a_too),
        Sent("B", "D", M1, by_a | by_b),
        Sent("B", "D", M2, by_a_too | {"B": {"D": 2}}),
    ]
    assert tree.delivered() == {"C": [M1], "D": [M2]}


def test_nobody_waits_for_the_mark_of_a_broker_that_had_none_to_give():
    """V passes W over. X knows that Y wants m1; W, when it comes back, has m1 from V before it hears that from X."""
    by_v = {"V": {"W": 1, "X": 1}}
    tree = Tree("V-W W-X X-Y", 1, "X")
    tree.at((0.0, Crash("W")), (0.5, Cut("W", "X")), (2.0, Recover("W")))
    tree.at((0.9995, Subscribe("y@Y", "g")), (1.0, Publish("v@V", "g", M1, "causal")))
    tree.run_for(3.4)
    assert tree.sent() == [
        Sent("V", "X", M1, by_v),
        Sent("X", "Y", M1, by_v | {"X": {"Y": 1}}),
        Sent("V", "W", M1, by_v),
    ]
    assert [one.missing for one in tree.broker("Y").durable.core.unmarked.values()] == [["W"]]
    tree.at((3.5, Heal()))
    tree.run()
    # W's number is for X alone. X says that Y has heard all that there is to hear of m1.
    assert tree.sent() == [Sent("W", "X", M1, by_v | {"W": {"X": 1}})]
    assert tree.broker("Y").durable.core.unmarked == {}


def test_after_a_header_that_cannot_be_a_new_session_begins():
    tree = Tree("A-B B-C", 1, "BC")
    tree.at((0.0, Publish("a@A", "g", M1, "causal")), (1.0, Publish("a@A", "g", M2, "causal")))
    tree.run_for(0.5)
    host, broker = tree.sim.host("B"), tree.broker("B")
    session = broker.hub.links["A"].session
    bad = Data(broker.hub.links["A"].received + 1, Relay(b"\xff\xff", None, None))
    host.enter(broker.receive("A", bad, host.now))
    tree.run()
    assert broker.hub.links["A"].session != session
    assert tree.sim.delivered("b@B") == tree.sim.delivered("c@C") == [M1, M2]


def test_what_was_written_down_is_what_was_known():
    """At the end of a run with crashes every broker, made anew from its disk, knows what the living one knows."""
    sim = random_scenario(3, "locamu", Trouble((), "absent", 1)).build()
    sim.run_until_quiet(limit_s=120)
    for name in sim.tree:
        living = sim.node(name)
        assert isinstance(living, LocamuBroker)
        again = LocamuBroker(living.config, 1)
        again.restore(dict(sim.host(name)._disk.pairs))
        core, other = living.durable.core, again.durable.core
        assert (core.serial, core.past, core.pending) == (other.serial, other.past, other.pending)
        assert core.column() == other.column()
        assert core.groups.image() == other.groups.image()
        assert living.durable.publishers.numbers() == again.durable.publishers.numbers()
        for link in [link for link in living.hub.links.values() if link.kind == "client"]:
            revived = again.hub.links[link.peer]
            assert (revived.session, revived.received, revived.queued) == (link.session, link.received, link.queued)


def slower(sender: str, receiver: str, factor: int) -> list[tuple[float, Command]]:
    """That direction of a link becomes so many times as slow within two seconds: by and by, or it would seem silent."""
    return [(0.2 * step, Slow(sender, receiver, factor * step / 10, 1.0)) for step in range(1, 11)]


def test_what_a_slow_link_still_carries_is_not_sent_again():
    """A target that lacks something for long is sent it again, and a link with much to carry would never be done."""
    link = LinkConfig(window_bytes=300, silence_s=5.0)
    network = NetworkConfig(latency=Constant(600.0), client_latency=Constant(1.0))
    sim = Simulation("0-1", "locamu", network=network, broker=BrokerConfig("*", tolerance=1, link=link))
    sim.at(0.0, Subscribe("sue@1", "g"))
    for number in range(60):
        sim.at(5.0 + number / 100, Publish("pam@0", "g", b"%d" % number, "causal"))
    sim.run_until_quiet(limit_s=60)
    assert sim.delivered("sue@1") == [b"%d" % number for number in range(60)]
    assert [event.seq for event in sim.events if event.event == "relay"] == list(range(1, 61))


def test_what_a_slow_link_still_carries_is_not_passed_on_again_as_it_came():
    """Figure 3.3, where C's answer takes longer to D than D waits before it asks again."""
    by_a, by_b, by_c = {"A": {"B": 1, "C": 1, "D": 1}}, {"B": {"C": 1, "D": 1}}, {"C": {"B": 1, "D": 1}}
    tree = Tree("A-B B-C B-D", 1, "BCD")
    tree.at(*slower("C", "D", 900), (2.0, Cut("B", "D")), (2.0, Cut("A", "D")), (2.1, Crash("B")))
    tree.at((2.001, Publish("a@A", "g", M1, "causal")), (2.0, React("c@C", "g", "g", M2, times=1, after_s=0.3)))
    tree.run_for(8.0)
    assert [copy for copy in tree.sent() if copy.sender == "C"] == [
        Sent("C", "D", M2, by_c),
        Sent("C", "D", M1, by_a | by_b),
        Sent("C", "D", M2, by_c),
    ]
    assert tree.delivered() == {"B": [M1], "C": [M1, M2], "D": [M1, M2]}


def test_identifiers_that_a_slow_link_still_carries_are_not_sent_again():
    """Figure 3.6, where what l sends to m takes longer than l is patient."""
    tree = Tree("i-j j-k k-l l-m", 1, "lm")
    tree.at(*slower("l", "m", 1500), (2.0, Cut("j", "k")), (3.1, Cut("i", "j")))
    tree.at((3.0, Publish("I@i", "g", M1, "causal")))
    tree.run_for(9.0)
    assert [copy.payload for copy in tree.sent() if copy.receiver == "m"] == [M1, IDENTIFIERS]
    assert tree.broker("m").durable.core.prefix("k") == 1


@pytest.mark.parametrize(
    ("ahead_bytes_max", "order"),
    [(exchange.AHEAD_BYTES_MAX, [M3, M1, M2, M3]), (1, [M3, M1, M3, M2])],
)
def test_what_is_passed_on_as_it_came_waits_until_there_is_room(
    monkeypatch: pytest.MonkeyPatch, ahead_bytes_max: int, order: list[bytes]
):
    """D asks C for m1 and m2. If there is no room for both, m2 goes when D asks again."""
    monkeypatch.setattr(exchange, "AHEAD_BYTES_MAX", ahead_bytes_max)
    tree = Tree("A-B B-C B-D", 1, "CD")
    tree.at((0.0, Cut("B", "D")), (0.0, Cut("A", "D")), (0.1, Crash("B")))
    tree.at((0.001, Publish("a@A", "g", M1, "causal")), (0.003, Publish("a@A", "g", M2, "causal")))
    tree.at((0.3, Publish("c@C", "g", M3, "causal")))
    tree.run_for(4.0)
    assert [copy.payload for copy in tree.sent() if copy.sender == "C"][:4] == order
    assert tree.delivered()["D"] == [M1, M2, M3]


PAIRS = 22 * 9
"""Three edges around a broker inside a binary tree are 22 brokers, none of which numbers for more than 9 others."""


def _binary(brokers: int) -> str:
    return " ".join(f"{(n - 1) // 2}-{n}" for n in range(1, brokers))


def test_state_depends_on_the_neighbourhood_and_not_on_the_size_of_the_network():
    def numbers(brokers: int) -> dict[str, int]:
        sim = Simulation(_binary(brokers), "locamu", broker=BrokerConfig("*", tolerance=1))
        leaves = range(brokers // 2, brokers, 5)
        for leaf in leaves:
            sim.at(0.0, Subscribe(f"s{leaf}@{leaf}", "g"))
            sim.at(20.0, Publish(f"s{leaf}@{leaf}", "g", b"x", "causal"))
        sim.run_until_quiet(limit_s=60)
        assert len(sim.delivered(f"s{leaves[0]}")) == len(leaves)
        most = {"numbers": 0, "seen": 0, "links": 0}
        for name in sim.tree:
            node = sim.node(name)
            assert isinstance(node, LocamuBroker)
            core = node.durable.core
            assert not core.store
            assert not core.unmarked
            most["numbers"] = max(most["numbers"], len(core.past))
            most["seen"] = max(most["seen"], len(core.seen))
            most["links"] = max(most["links"], len(node.exchange.peers))
        return most

    small, large = numbers(31), numbers(95)
    assert large["links"] == small["links"]
    assert max(large["numbers"], large["seen"]) <= PAIRS
    assert max(small["numbers"], small["seen"]) <= PAIRS
