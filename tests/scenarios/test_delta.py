"""Delta-fault-tolerant publish/subscribe, told by the paper's figures: who is skipped, and who comes back as it was."""

import pytest

from holdfast.model.delta_messages import Multicast, RoutingPart, Visit
from holdfast.model.guarantees import GuaranteeError
from holdfast.model.messages import Frame
from holdfast.protocols.config import BrokerConfig, LinkConfig
from holdfast.protocols.delta import DeltaBroker
from holdfast.protocols.delta.client import ClientPassage
from holdfast.protocols.delta.forwarding import Forwarding
from holdfast.protocols.delta.journal import Journal
from holdfast.protocols.delta.repeats import CopyNumbers
from holdfast.protocols.delta.synchronisation import PART_ENTRIES, Synchronisation
from holdfast.protocols.node import Effects
from holdfast.simulation.faults import (
    Attach,
    Crash,
    Cut,
    Freeze,
    Heal,
    Join,
    Leave,
    Publish,
    React,
    Recover,
    Subscribe,
    Thaw,
    Unsubscribe,
)
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import LinkSettings, NetworkConfig
from holdfast.simulation.world import Simulation
from tests.scenarios.diaries import STEADY, told

SLOW_UPWARDS = NetworkConfig(
    latency=Constant(1.0),
    client_latency=Constant(0.1),
    links=(LinkSettings(between=("B1", "B2"), latency=Constant(100.0)),),
)
WATCHFUL = BrokerConfig("*", link=LinkConfig(heartbeat_s=0.1, silence_s=0.5), tolerance=1)


class Unconfirmed(DeltaBroker):
    """Answers a subscription before the others know of it."""

    confirms = False


class Unguided(DeltaBroker):
    """Does not tell a node that recovers where messages go."""

    guides = False


class Unyielding(DeltaBroker):
    """Sends routing information ahead of traffic."""

    yields = False


def world(tree: str, kind: object = "delta", **options: object) -> Simulation:
    return Simulation(tree, kind, seed=1, network=STEADY, check_invariants=True, **options)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------- section 3, Figure 1


def content_story(kind: object) -> Simulation:
    """Figure 1(b): B2 forwards p1 for s2, and does not know s1 yet when p2 comes."""
    sim = Simulation("B2-B1", kind, seed=1, network=SLOW_UPWARDS, check_invariants=True)  # type: ignore[arg-type]
    sim.at(0.0, Subscribe("S2@B1", "t", "x = 1"))
    sim.at(0.0, Attach("S1@B1"))
    sim.at(0.0, Attach("P@B2"))
    sim.at(5.0, Subscribe("S1@B1", "t", "x > 0"))
    for number, x in ((1, 1), (2, 2)):
        sim.at(5.02 + 0.01 * number, Publish("P@B2", "t", b"p%d" % number, "fifo", (), {"x": x}))
    sim.at(7.0, Publish("P@B2", "t", b"p3", "fifo", (), {"x": 3}))
    sim.run_until_quiet()
    return sim


def topic_story(kind: object) -> Simulation:
    """Figure 1(c): S2's subscription to the same topic hides that B2 does not know S1's, until S2 takes it back."""
    sim = Simulation("B2-B1", kind, seed=1, network=SLOW_UPWARDS, check_invariants=True)  # type: ignore[arg-type]
    sim.at(0.0, Subscribe("S2@B2", "t"))
    sim.at(0.0, Attach("S1@B1"))
    sim.at(0.0, Attach("P@B2"))
    sim.at(5.0, Subscribe("S1@B1", "t"))
    sim.at(5.02, Publish("P@B2", "t", b"p1", "fifo"))
    sim.at(5.03, Unsubscribe("S2@B2", "t"))
    sim.at(5.04, Publish("P@B2", "t", b"p2", "fifo"))
    sim.at(7.0, Publish("P@B2", "t", b"p3", "fifo"))
    sim.run_until_quiet()
    return sim


@pytest.mark.parametrize("story", [content_story, topic_story])
def test_a_subscription_that_counts_before_all_know_it_loses_what_is_published_meanwhile(story):
    assert story(Unconfirmed).check().lost > 0


@pytest.mark.parametrize("story", [content_story, topic_story])
def test_a_subscription_that_counts_from_its_confirmation_on_loses_nothing(story):
    sim = story("delta")
    assert sim.check().ok
    assert sim.delivered("S1")[-1] == b"p3"


# ----------------------------------------------------------------------------------------- bypass, Figures 3 and 6


def test_a_message_carries_its_last_hops_and_goes_past_two_failed_brokers_in_a_row():
    sim, diary = told("0-1 1-2 2-3 3-4", DeltaBroker, tolerance=2)
    sim.at(0.0, Subscribe("bob@4", "t"))
    sim.at(0.0, Attach("alice@0"))
    sim.at(3.0, Publish("alice@0", "t", b"m1", "fifo"))
    sim.at(4.0, Crash("1"))
    sim.at(4.0, Crash("2"))
    sim.at(6.0, Publish("alice@0", "t", b"m2", "fifo"))
    sim.run_until_quiet()
    ways = [
        (peer, [(name, bool(number)) for name, _, number in message.visited])
        for peer, message in diary.of("3", Multicast)
        if message.batch is not None
    ]
    assert ways == [("2", [("0", True), ("1", True), ("2", True)]), ("0", [("0", True), ("1", False), ("2", False)])]
    assert sim.delivered("bob") == [b"m1", b"m2"]
    assert sim.check().ok


def test_what_a_broker_had_passed_on_before_it_died_is_not_delivered_twice():
    sim = world("0-1 1-2", tolerance=1)
    sim.at(0.0, Subscribe("bob@2", "t"))
    sim.at(0.0, Attach("alice@0"))
    # It reaches bob, and its confirmation dies with broker 1.
    sim.at(3.0, Publish("alice@0", "t", b"m", "fifo"))
    sim.at(3.0023, Crash("1"))
    sim.run_until_quiet()
    assert sim.delivered("bob") == [b"m"]


def test_clients_go_past_their_own_broker():
    sim = world("0-1 1-2", tolerance=1)
    sim.at(0.0, Subscribe("bob@1", "t"))
    sim.at(0.0, Subscribe("carl@2", "t"))
    sim.at(0.0, Attach("alice@1"))
    sim.at(3.0, Crash("1"))
    for number in range(5):
        sim.at(4.0 + number, Publish("alice@1", "t", b"%d" % number, "fifo"))
    sim.run_until_quiet()
    assert sim.delivered("bob") == sim.delivered("carl") == [b"0", b"1", b"2", b"3", b"4"]
    assert sim.failures() == []


def test_with_one_too_many_failed_in_a_row_operations_wait_until_one_returns():
    sim = world("0-1 1-2 2-3", broker=WATCHFUL)
    sim.at(0.0, Subscribe("bob@3", "t"))
    sim.at(0.0, Attach("alice@0"))
    sim.at(3.0, Freeze("1"))
    sim.at(3.0, Freeze("2"))
    sim.at(5.0, Publish("alice@0", "t", b"m", "fifo"))
    sim.at(12.0, Thaw("2"))
    sim.at(20.0, Thaw("1"))
    sim.run_for(11.9)
    assert sim.delivered("bob") == []
    sim.run_until_quiet()
    assert sim.delivered("bob") == [b"m"]
    assert sim.check().ok


def test_two_brokers_that_have_gone_past_each_other_recover_once():
    """Both went to the edge of the tree past the other; the sessions stay while both recover."""
    sim = world("0-1", broker=WATCHFUL)
    sim.at(0.0, Subscribe("bob@1", "t"))
    sim.at(0.0, Subscribe("anna@0", "t"))
    sim.at(2.0, Cut("0", "1"))
    sim.at(4.0, Subscribe("bob@1", "u"))
    sim.at(4.0, Subscribe("anna@0", "v"))
    sim.at(6.0, Heal())
    sim.at(9.0, Publish("bob@1", "v", b"v", "fifo"))
    sim.at(9.0, Publish("anna@0", "u", b"u", "fifo"))
    sim.run_until_quiet()
    assert sim.delivered("anna") == [b"v"]
    assert sim.delivered("bob") == [b"u"]
    recoveries = [name for _, name, report in sim.reports if report.event == "recovering"]
    assert sorted(recoveries) == ["0", "1"]


SLOW_PAST_1 = NetworkConfig(
    latency=Constant(1.0),
    client_latency=Constant(0.1),
    links=(LinkSettings(between=("0", "2"), latency=Constant(50.0)),),
)


def question_and_answer(fails: bool) -> Simulation:
    """bob, a client of broker 1, answers what comes from broker 0; carl, behind broker 1, wants both."""
    sim = Simulation("0-1 1-2", "delta", seed=1, network=SLOW_PAST_1, broker=WATCHFUL, check_invariants=True)
    sim.at(0.0, Attach("alice@0"))
    sim.at(0.0, React("bob@1", "news", "answers", b"answer", "fifo"))
    sim.at(0.0, Subscribe("bob@1", "news"))
    sim.at(0.0, Subscribe("carl@2", "#"))
    if fails:
        # bob has the question; what broker 1 passes on to broker 2 is lost with it.
        sim.at(2.99, Cut("1", "2"))
        sim.at(3.01, Crash("1"))
    sim.at(3.0, Publish("alice@0", "news", b"question", "fifo"))
    sim.run_until_quiet()
    return sim


def test_the_links_of_the_tree_give_causal_order_until_a_broker_is_gone_past():
    """1. Broker 1 gives the question to bob, and dies. 2. bob goes past it, and broker 2 has his answer at once.

    3. Brokers 0 and 2 go past it as well, and the question comes second. No promise of `fifo` is broken.
    """
    assert question_and_answer(fails=False).delivered("carl") == [b"question", b"answer"]
    past = question_and_answer(fails=True)
    assert past.delivered("carl") == [b"answer", b"question"]
    assert past.check().ok


class Trusting(Forwarding):
    """Takes whatever a publisher gives it past a failed home for its own."""

    def _is_late(self, _name: str, _message: Multicast) -> bool:
        return False


def not_for_those_behind(kind: type[Forwarding]) -> Simulation:
    """bob's subscription comes to broker 0 between two publications; 0 dies before alice has either confirmed."""

    class Broker(DeltaBroker):
        def __init__(self, config: BrokerConfig, incarnation: int) -> None:
            super().__init__(config, incarnation)
            self.forwarding.__class__ = kind

    sim = world("0-1 1-3 0-2 2-4 4-5", Broker, tolerance=1)
    sim.at(0.0, Subscribe("carl@3", "t"))
    sim.at(0.0, Attach("bob@5"))
    sim.at(0.0, Attach("alice@0"))
    sim.at(3.0, Subscribe("bob@5", "t"))
    sim.at(3.0025, Publish("alice@0", "t", b"before", "fifo"))
    sim.at(3.0035, Publish("alice@0", "t", b"behind", "fifo"))
    sim.at(3.005, Crash("0"))
    sim.run_until_quiet()
    return sim


def test_what_its_home_did_not_pass_on_to_a_broker_is_not_for_that_broker_either(monkeypatch: pytest.MonkeyPatch):
    """1. Broker 0 passes the first on to broker 1 alone, and knows bob when the second comes. 2. It dies, and alice
    gives both to broker 2 past it. 3. That knows bob as well, and he would have the first behind the second.

    Bob would leave it out; brokers do not take it there.
    """
    monkeypatch.setattr(ClientPassage, "_is_late", lambda *_: False)
    assert not_for_those_behind(Forwarding).check().ok
    assert not_for_those_behind(Trusting).check().fifo > 0


# -------------------------------------------------------------------------------- recovery, Figures 2 and 7, section 6


def chain_returns(kind: object) -> Simulation:
    """Figure 7: two neighbours return at once; each learns what lies behind the other from that one."""
    sim = world("0-1 1-2 2-3", kind, tolerance=2)
    sim.at(0.0, Subscribe("bob@3", "t"))
    sim.at(0.0, Subscribe("anna@0", "t"))
    sim.at(0.0, Attach("alice@0"))
    sim.at(0.0, Attach("paul@3"))
    sim.at(3.0, Crash("1"))
    sim.at(3.0, Crash("2"))
    for number in range(40):
        sim.at(3.9 + number / 200, Publish("alice@0", "t", b"a%d" % number, "fifo"))
        sim.at(3.9 + number / 200, Publish("paul@3", "t", b"p%d" % number, "fifo"))
    sim.at(4.0, Recover("1"))
    sim.at(4.0, Recover("2"))
    sim.run_until_quiet()
    return sim


def test_a_chain_of_nodes_that_recover_gets_everything_through():
    sim = chain_returns("delta")
    assert sim.check().ok
    assert len(sim.delivered("bob")) == 80


def test_without_guidance_messages_are_lost_in_nodes_that_recover():
    assert chain_returns(Unguided).check().lost > 0


class Discreet(DeltaBroker):
    """Tells nobody whom it has gone past."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.synchronisation.__class__ = Silence


class Silence(Synchronisation):
    def spread_past(self, name: str, but: str = "") -> None:
        pass


def skipped_by_one_that_died(kind: type) -> Simulation:
    """Broker 0 stands still while broker 1 confirms bob's subscription; broker 1 dies, and broker 0 goes on."""
    watchful = BrokerConfig("*", link=LinkConfig(heartbeat_s=0.1, silence_s=0.5), tolerance=2)
    sim = world("0-1 1-2", kind, broker=watchful)
    sim.at(0.0, Attach("bob@2"))
    sim.at(3.0, Freeze("0"))
    sim.at(6.0, Subscribe("bob@2", "t"))
    sim.at(8.0, Crash("1"))
    sim.at(8.1, Thaw("0"))
    sim.at(10.0, Attach("alice@0"))
    sim.at(12.0, Publish("alice@0", "t", b"m", "fifo"))
    sim.run_until_quiet(limit_s=60)
    return sim


def test_a_broker_hears_that_it_was_skipped_although_whoever_did_so_has_died():
    assert skipped_by_one_that_died(DeltaBroker).delivered("bob") == [b"m"]
    assert skipped_by_one_that_died(Discreet).check().lost > 0


def disk_is_gone(node: str, kind: object = "delta") -> Simulation:
    """That broker dies, and comes back with nothing of what it had written; messages go through it before and after."""
    sim = world("0-1 1-2", kind, tolerance=1)
    sim.at(0.0, Subscribe("bob@2", "t"))
    sim.at(0.0, Subscribe("carl@1", "t"))
    sim.at(0.0, Attach("alice@0"))
    sim.at(1.0, Join("new", "2"))
    sim.at(1.0, Subscribe("dora@new", "t"))
    for number in range(10):
        sim.at(3.0 + number / 100, Publish("alice@0", "t", b"%d" % number, "fifo"))
        sim.at(3.0 + number / 100, Publish("carl@1", "t", b"%d" % number, "fifo"))
        sim.at(3.0 + number / 100, Publish("dora@new", "t", b"%d" % number, "fifo"))
        sim.at(9.0 + number / 100, Publish("alice@0", "t", b"%d" % (10 + number), "fifo"))
        sim.at(9.0 + number / 100, Publish("carl@1", "t", b"%d" % (10 + number), "fifo"))
        sim.at(9.0 + number / 100, Publish("dora@new", "t", b"%d" % (10 + number), "fifo"))
    sim.at(5.0, Crash(node))
    sim.run_for(6.0)
    sim.network.hosts[node]._disk.pairs.clear()
    sim.at(6.5, Recover(node))
    sim.run_until_quiet(limit_s=120)
    return sim


@pytest.mark.parametrize("node", ["0", "1", "2", "new"])
def test_a_broker_whose_disk_is_gone_recovers_from_its_neighbours(node: str):
    sim = disk_is_gone(node)
    assert sim.check().ok, str(sim.check())
    assert sim.failures() == []
    assert len(sim.delivered("bob")) == 60


class Forgetful(DeltaBroker):
    """Numbers its lives from 1 when it has nothing written down."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.journal.__class__ = FirstLife


class FirstLife(Journal):
    def begin_life(self, _incarnation: int) -> Effects:
        return super().begin_life(1)


def test_a_broker_that_forgot_its_earlier_lives_and_begins_the_first_again_is_taken_for_a_repeat():
    assert disk_is_gone("1", Forgetful).check().lost > 0


def test_its_neighbours_see_a_node_fail_recover_and_become_operational():
    sim = world("0-1 1-2", tolerance=1)
    seen = []
    for time_s, action in (
        (2.0, None),
        (3.0, Crash("1")),
        (3.5, None),
        (4.0, Recover("1")),
        (4.005, None),
        (6.0, None),
    ):
        if action is not None:
            sim.at(time_s, action)
    for until_s in (2.0, 3.5, 4.012, 6.0):
        sim.run_for(until_s - sim.now)
        seen.append(sim.node("0").state_of("1"))  # type: ignore[union-attr]
    assert seen[0] == "operational"
    assert seen[1] == "failed"
    assert seen[2] in ("failed", "recovering")
    assert seen[3] == "operational"


def parts_before_the_third_message(kind: type) -> tuple[int, int]:
    """How many parts of the routing information came before what was published meanwhile, and how many there were."""
    narrow = LinkConfig(window_bytes=2048, ack_frames=1, ack_delay_s=0.001)
    sim, diary = told("0-1 1-2", kind, broker=BrokerConfig("*", link=narrow, tolerance=1))
    for number in range(2000):
        sim.at(0.0, Subscribe("anna@0", f"other/{number}"))
    sim.at(0.0, Subscribe("bob@2", "t"))
    sim.at(0.0, Attach("alice@0"))
    sim.at(30.0, Crash("1"))
    sim.at(31.0, Recover("1"))
    for number in range(30):
        sim.at(31.0 + number / 500, Publish("alice@0", "t", b"%d" % number, "fifo"))
    sim.run_until_quiet(limit_s=120)
    page = [message for peer, message in diary.pages["1"] if peer == "0"]
    guided = [at for at, one in enumerate(page) if isinstance(one, Multicast) and one.guided and one.batch is not None]
    before = page[: guided[2]]
    return sum(isinstance(one, RoutingPart) for one in before), sum(isinstance(one, RoutingPart) for one in page)


def test_a_broker_that_recovers_takes_in_one_part_at_a_time():
    """It would stand still, and be held failed, if it took 100,000 filters in when the last part comes."""
    taken: list[int] = []

    class Counted(DeltaBroker):
        def receive(self, peer: str, frame: Frame, now: float) -> Effects:
            before = len(self.filters.table)
            effects = super().receive(peer, frame, now)
            taken.append(len(self.filters.table) - before)
            return effects

    sim = world("0-1 1-2", Counted, tolerance=1)
    for number in range(2 * PART_ENTRIES):
        sim.at(0.0, Subscribe("anna@0", f"other/{number}"))
    sim.at(30.0, Crash("1"))
    sim.run_for(30.5)
    taken.clear()
    sim.at(31.0, Recover("1"))
    sim.run_until_quiet(limit_s=60)
    assert len(sim.node("1").filters.table) == 2 * PART_ENTRIES  # type: ignore[union-attr]
    assert max(taken) == PART_ENTRIES


def test_routing_information_waits_for_traffic():
    before, every = parts_before_the_third_message(DeltaBroker)
    assert before < every
    hasty, _ = parts_before_the_third_message(Unyielding)
    assert hasty == every


def test_most_recent_compared_as_the_paper_prints_it_takes_every_new_message_for_a_repeat(monkeypatch):
    def as_printed(self: CopyNumbers, visited: tuple[Visit, ...]) -> bool:
        return any(number and number != self.latest(name, life) for name, life, number in visited)

    monkeypatch.setattr(CopyNumbers, "is_duplicate", as_printed)
    sim = world("0-1", tolerance=1)
    sim.at(0.0, Subscribe("bob@1", "t"))
    sim.at(0.0, Attach("alice@0"))
    sim.at(3.0, Publish("alice@0", "t", b"m", "fifo"))
    sim.run_for(6.0)
    assert sim.delivered("bob") == []


# ------------------------------------------------------------------------------------- joining and leaving, Figure 4


def test_a_broker_that_joins_is_known_to_all_nearby_before_it_serves_and_one_that_leaves_is_forgotten():
    sim = world("0-1 1-2", tolerance=1)
    sim.at(0.0, Subscribe("bob@0", "t"))
    sim.at(2.0, Join("new", "2"))
    sim.at(2.0, Attach("carl@new"))
    sim.at(2.0, Publish("carl@new", "t", b"m", "fifo"))
    sim.at(2.0, Join("brief", "2"))
    sim.at(6.0, Leave("brief"))
    sim.run_until_quiet()
    assert sim.delivered("bob") == [b"m"]
    for name in ("1", "2"):
        places = sim.node(name).map.places()  # type: ignore[union-attr]
        assert ("2", "new", False, "new") in places
        assert not any("brief" in place[:2] for place in places)


def test_a_client_that_was_out_of_reach_gets_everything_when_it_returns_in_time():
    sim = world("0-1", broker=WATCHFUL)
    sim.at(0.0, Subscribe("bob@1", "t"))
    sim.at(0.0, Attach("alice@0"))
    sim.at(2.0, Freeze("bob"))
    for number in range(5):
        sim.at(4.0 + number, Publish("alice@0", "t", b"%d" % number, "fifo"))
    sim.at(12.0, Thaw("bob"))
    sim.run_until_quiet()
    assert sim.delivered("bob") == [b"0", b"1", b"2", b"3", b"4"]


def test_causal_and_total_are_refused_with_a_sentence():
    sim = world("0", tolerance=0)
    for guarantee in ("causal", "total"):
        with pytest.raises(GuaranteeError, match=f"protocol delta does not give '{guarantee}'"):
            sim.at(0.0, Publish("alice@0", "t", b"", guarantee))
