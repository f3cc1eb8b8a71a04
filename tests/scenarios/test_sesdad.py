"""Sites of several brokers, in virtual time: the report's own example, brokers that die in the midst, and returns."""

import pytest
from msgspec.structs import replace

from holdfast.model.batches import Batch
from holdfast.model.errors import ConfigError, HoldfastError
from holdfast.model.guarantees import EVENTUAL
from holdfast.model.messages import SessionMessage
from holdfast.model.site_messages import Establish, Notification, Retransmission, StateRequest, StreamState
from holdfast.protocols.config import BrokerConfig, LinkConfig
from holdfast.protocols.sesdad import SesdadBroker, SiteClient
from holdfast.protocols.sesdad.government import Government
from holdfast.protocols.sesdad.holdback import HoldBack
from holdfast.protocols.sesdad.missing import Missing
from holdfast.protocols.sesdad.peers import Peers
from holdfast.protocols.sesdad.publications import Publications
from holdfast.protocols.sesdad.state_transfer import Memories
from holdfast.simulation.faults import (
    Attach,
    Crash,
    Cut,
    Freeze,
    Heal,
    Publish,
    Recover,
    Subscribe,
    Thaw,
    When,
)
from holdfast.simulation.latencies import Constant, Exponential
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.network_settings import LinkSettings
from holdfast.simulation.scenarios import parse_scenario
from holdfast.simulation.world import NotQuiet, Simulation

BEGIN_S = 2.0


def world(tree: str = "a-b b-c", make: object = "sesdad", seed: int = 1, **options: object) -> Simulation:
    sim = Simulation(tree, make, seed, check_invariants=True, **options)  # type: ignore[arg-type]
    sim.at(0.0, Subscribe("bob@c", "orders"))
    sim.at(0.0, Subscribe("ann@a", "#"))
    return sim


def publish(sim: Simulation, count: int, start_s: float = BEGIN_S, every_s: float = 0.005) -> list[bytes]:
    payloads = [b"%d" % number for number in range(count)]
    for number, payload in enumerate(payloads):
        sim.at(start_s + number * every_s, Publish("pub@a", "orders", payload))
    return payloads


def told(sim: Simulation, kind: str) -> int:
    return sum(count for frame, count in sim.network.sent.items() if frame.__name__ == kind)


@pytest.mark.parametrize("replicas", [1, 3, 5])
def test_every_site_gets_what_it_wants_in_order(replicas: int):
    sim = world(replicas=replicas)
    payloads = publish(sim, 30)
    sim.run_until_quiet()
    assert sim.delivered("bob") == sim.delivered("ann") == payloads
    assert sim.check().ok


def test_with_filtering_a_site_that_wants_nothing_gets_nothing_and_with_flooding_it_gets_everything():
    sent = {}
    for routing in ("filtering", "flooding"):
        sim = parse_scenario(f'tree = "a-b a-c"\nprotocol = "sesdad"\nrouting = "{routing}"').build()
        sim.at(0.0, Subscribe("bob@b", "orders"))
        publish(sim, 10)
        sim.run_until_quiet()
        assert len(sim.delivered("bob")) == 10
        sent[routing] = sum(stream.processed for stream in (sim.node(f"c.{n}").traffic for n in (1, 2, 3)))  # type: ignore[union-attr]
    assert sent == {"filtering": 0, "flooding": 30}


def test_a_guarantee_that_sites_do_not_give_is_refused_in_a_sentence():
    with pytest.raises(HoldfastError, match="does not give 'causal': it gives eventual, fifo"):
        world().at(0.0, Publish("pub@a", "orders", b"", "causal"))


def test_a_site_has_one_three_or_five_brokers():
    with pytest.raises(ConfigError, match="1, 3 or 5"):
        Simulation("a", "sesdad", replicas=2)


def test_a_publication_awaits_one_answer_of_its_site_and_costs_no_agreement():
    """Section 8: two copies, two answers, of which one is awaited, and one copy to the next site."""
    sim = world()
    sim.run_for(1.9)
    before = {kind: told(sim, kind) for kind in ("Replicate", "Replicated", "Forward", "Offer", "Propose")}
    publish(sim, 1)
    sim.run_until_quiet()
    spent = {kind: told(sim, kind) - count for kind, count in before.items()}
    assert spent == {"Offer": 1, "Replicate": 6, "Replicated": 6, "Forward": 4, "Propose": 0}


# ----------------------------------------------------------------------------------------------------- what dies when


@pytest.mark.parametrize("seed", range(6))
def test_a_subscription_that_races_publications_leaves_all_brokers_with_the_same_numbers(seed: int):
    """The report's example in section 5: broker 1 hears of the subscription first, broker 3 of the publication."""
    assert is_of_one_mind(racing(seed))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("word", ["Replicate", "Replicated", "Forward", "Marks"])
def test_the_chosen_broker_dies_between_its_multicast_and_the_delivery(word: str, seed: int):
    sim = world(seed=seed)
    payloads = publish(sim, 20)
    for site in "abc":
        sim.at(BEGIN_S, When(f"{site}.{1 + seed}", word, Crash(f"{site}.{1 + seed}"), count=3))
    sim.run_until_quiet()
    assert sim.delivered("bob") == sim.delivered("ann") == payloads


@pytest.mark.parametrize("word", ["Propose", "Establish", "Announce", "SiteAnswer"])
def test_when_the_designated_broker_dies_the_next_one_takes_over(word: str):
    sim = world()
    payloads = publish(sim, 20)
    sim.at(1.5, When("c.1", word, Crash("c.1")))
    sim.at(1.9, Subscribe("eve@c", "orders"))
    sim.at(5.0, Crash("c.1"))
    sim.at(6.0, Subscribe("joe@c", "orders"))
    sim.at(8.0, Publish("pub@a", "orders", b"last"))
    sim.run_until_quiet()
    assert sim.delivered("bob") == [*payloads, b"last"]
    assert sim.delivered("joe") == [b"last"]
    assert sim.check().ok
    assert sim.node("c.2").designation.leader != "c.1"  # type: ignore[union-attr]


@pytest.mark.parametrize("victim", ["a.1", "a.2", "a.3"])
def test_the_last_message_of_a_stream_is_not_lost_with_its_broker(victim: str):
    sim = world()
    sim.at(BEGIN_S, When(victim, "Replicate", Crash(victim), count=2))
    sim.at(BEGIN_S, Publish("pub@a", "orders", b"only"))
    sim.run_until_quiet()
    assert sim.delivered("bob") == sim.delivered("ann") == [b"only"]


def test_a_broker_that_returns_knows_all_numbers_before_it_serves():
    sim = world()
    payloads = publish(sim, 60, every_s=0.1)
    for number, name in enumerate(["a.1", "b.2", "c.3", "a.2", "b.1", "c.1"]):
        sim.at(BEGIN_S + number, Crash(name))
        sim.at(BEGIN_S + number + 0.4, Recover(name))
    sim.run_until_quiet()
    assert sim.delivered("bob") == sim.delivered("ann") == payloads
    lanes = [sim.node(f"a.{n}").traffic.lanes["b"]["pub"].next for n in (1, 2, 3)]  # type: ignore[union-attr]
    assert lanes == [61, 61, 61]


def beginning(seed: int, replicas: int = 3, lost_s: float = 0.0) -> Simulation:
    """A site whose first broker dies while all hear of each other for the first time."""
    network = NetworkConfig(latency=Exponential(10.0, 1.0))
    sim = Simulation("a", "sesdad", seed, replicas=replicas, network=network)
    sim.at(0.0, Subscribe("ann@a", "orders"))
    sim.at(lost_s or 0.04 + 0.002 * (seed % 20), Crash("a.1"))
    publish(sim, 1)
    return sim


def begins(seed: int, replicas: int = 3, lost_s: float = 0.0) -> bool:
    """Whether such a site serves its clients."""
    sim = beginning(seed, replicas, lost_s)
    try:
        sim.run_until_quiet(20)
    except NotQuiet:
        return False
    return sim.delivered("ann") == [b"0"]


@pytest.mark.parametrize("seed", range(20))
def test_a_broker_that_dies_while_its_site_begins_leaves_nobody_behind(seed: int):
    assert begins(seed)


def test_a_site_of_five_begins_without_one_that_has_said_that_it_knows_nothing():
    assert begins(15, replicas=5)


def heard_of_the_lost(sim: Simulation) -> int:
    """How many brokers of a site of five have heard of the first one."""
    return sum("a.1" in sim.node(f"a.{n}").memories.answered for n in range(2, 6))  # type: ignore[union-attr]


FIRST_HEARD = [(1, 0.024), (3, 0.032), (12, 0.068), (21, 0.024), (68, 0.052)]


@pytest.mark.parametrize(("seed", "lost_s"), FIRST_HEARD)
def test_a_site_of_five_begins_if_a_single_broker_has_heard_of_one_that_died(seed: int, lost_s: float):
    assert begins(seed, 5, lost_s)


def test_a_site_waits_for_a_broker_of_which_none_has_heard_and_begins_when_it_is_started_again():
    sim = beginning(0, 5, 0.02)
    sim.at(5.0, Recover("a.1"))
    sim.at(10.0, Publish("pub@a", "orders", b"then"))
    sim.run_for(4.9)
    assert heard_of_the_lost(sim) == len(sim.delivered("ann")) == 0
    assert sim.node("a.2").waiting_for()[-1] == "3 brokers of a that have a memory"
    sim.run_until_quiet(20)
    assert sim.delivered("ann")[-1] == b"then"


def test_a_site_without_a_majority_waits_and_loses_nothing():
    sim = world()
    payloads = publish(sim, 40, every_s=0.05)
    for name in ("b.1", "b.3"):
        sim.at(BEGIN_S + 0.5, Freeze(name))
        sim.at(BEGIN_S + 8.0, Thaw(name))
    sim.run_for(BEGIN_S + 7.5)
    waited = len(sim.delivered("bob"))
    assert waited < 40
    sim.run_until_quiet()
    assert sim.delivered("bob") == payloads


def test_clients_of_a_crashed_broker_go_on_with_another_one_of_their_site():
    sim = Simulation("a", "sesdad", 1, check_invariants=True)
    sim.at(0.0, Subscribe("ann@a", "#"))
    payloads = publish(sim, 100, every_s=0.05)
    for time_s, name in ((BEGIN_S + 1, "a.1"), (BEGIN_S + 3, "a.2")):
        sim.at(time_s, Crash(name))
        sim.at(time_s + 1, Recover(name))
    sim.run_until_quiet()
    assert sim.delivered("ann") == payloads
    assert sim.failures() == []


def test_what_is_acknowledged_by_all_is_kept_by_nobody():
    sim = world()
    publish(sim, 50)
    sim.run_until_quiet()
    for name in sim.tree:
        traffic = sim.node(name).traffic  # type: ignore[union-attr]
        assert traffic.kept() == 0
        assert not any(stream.units for stream in traffic.streams.values())
    assert not sim.node("pub")._outstanding  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------------------- asking


class Deaf(SiteClient):
    """A subscriber that does not ask for what it lacks."""

    def _notify(self, publishers: list[str]) -> None:
        pass

    def _ask_for_missing(self) -> None:
        pass


@pytest.mark.parametrize("asks", [True, False])
def test_a_notification_brings_the_last_message_that_a_silent_link_withholds(asks: bool):
    """Whichever broker is chosen, one link of the subscriber is silent: another broker answers its notification."""
    late = []
    for cut in ("a.1", "a.2", "a.3"):
        sim = Simulation("a", "sesdad", 3, **({} if asks else {"clients": Deaf}))  # type: ignore[arg-type]
        sim.at(0.0, Subscribe("bob@a", "orders"))
        sim.at(BEGIN_S, Publish("pub@a", "orders", b"first"))
        sim.at(BEGIN_S + 0.5, Cut(cut, "bob"))
        sim.at(BEGIN_S + 0.5, Publish("pub@a", "orders", b"last"))
        sim.at(BEGIN_S + 50, Heal())
        sim.run_for(BEGIN_S + 45)
        late.append(len(sim.delivered("bob")) < 2)
        sim.run_until_quiet(120)
        assert sim.delivered("bob") == [b"first", b"last"]
    assert any(late) is not asks


def comes_by_a_question(cut: str, seed: int) -> bool:
    """Whether a site gets, from brokers alone, a last message that went to one of its brokers on silent links."""
    patient = BrokerConfig("*", link=LinkConfig(silence_s=60.0))
    sim = Simulation("a-b", "sesdad", seed, broker=patient, clients=Deaf)
    sim.at(0.0, Subscribe("bob@b", "orders"))
    sim.at(BEGIN_S, Publish("pub@a", "orders", b"first"))
    for n in (1, 2, 3):
        sim.at(BEGIN_S + 0.05, Cut(cut, f"a.{n}"))
    sim.at(BEGIN_S + 0.06, Publish("pub@a", "orders", b"last"))
    sim.run_for(BEGIN_S + 20)
    return sim.delivered("bob") == [b"first", b"last"]


def test_the_designated_broker_asks_after_the_last_message_whether_there_is_another_one(
    monkeypatch: pytest.MonkeyPatch,
):
    worlds = [("b.2", 2), ("b.2", 5), ("b.3", 1), ("b.3", 4)]
    assert all(comes_by_a_question(*world) for world in worlds)
    monkeypatch.setattr(Missing, "notify_if_quiet", lambda self: self._active.clear())
    assert not any(comes_by_a_question(*world) for world in worlds)


def test_the_timers_of_the_report_are_settings_and_take_longer():
    took = []
    for settings in ("", "request_s = 1.5\nnotify_s = 3.0\n"):
        sim = parse_scenario(f'tree = "a"\nprotocol = "sesdad"\n{settings}').build()
        sim.at(0.0, Subscribe("bob@a", "orders"))
        for cut in ("a.1", "a.2"):
            sim.at(BEGIN_S, Cut(cut, "bob"))
        sim.at(BEGIN_S + 0.01, Publish("pub@a", "orders", b"one"))
        sim.at(BEGIN_S + 0.02, Publish("pub@a", "orders", b"two"))
        sim.at(BEGIN_S + 0.03, Publish("pub@a", "orders", b"three"))
        sim.at(BEGIN_S + 9.0, Heal())
        sim.run_until_quiet()
        took.append(max(event.time for event in sim.events if event.event == "deliver"))
    assert took[0] <= took[1]


def begins_early(seed: int) -> bool:
    """Whether a publisher comes to rest two of whose brokers hear late behind which number it begins."""
    for other in ("a.2", "a.3"):
        sim = Simulation("a", "sesdad", seed, check_invariants=True)
        sim.at(0.0, Subscribe("bob@a", "orders"))
        sim.at(BEGIN_S, Cut("a.1", other))
        sim.at(BEGIN_S, Attach("pub~0000001vkmf9bbr@a"))
        sim.at(BEGIN_S + 0.005, Publish("pub~0000001vkmf9bbr@a", "orders", b"x"))
        sim.at(BEGIN_S + 0.06, Heal())
        try:
            sim.run_until_quiet(20)
        except NotQuiet:
            return False
        assert sim.delivered("bob") == [b"x"]
    return True


def test_what_came_before_its_beginning_is_acknowledged_when_the_beginning_is_known():
    assert all(begins_early(seed) for seed in range(3))


# ------------------------------------------------------------------------------------------------------------- mutants


def test_a_broker_that_tells_nothing_of_a_gap_that_a_beginning_closes_is_caught(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Publications, "begun", lambda _self, _publisher: None)
    assert not begins_early(2)


def test_a_newcomer_that_waits_for_as_many_memories_as_one_that_returns_is_caught(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Memories, "account_for", lambda _self, _others, _linked: False)
    assert not all(begins(seed) for seed in range(4))
    assert not any(begins(seed, 5, lost_s) for seed, lost_s in FIRST_HEARD)


def test_brokers_that_do_not_ask_again_one_that_knew_nothing_are_caught(monkeypatch: pytest.MonkeyPatch):
    tell = Peers.tell

    def tell_serving(self: Peers, peer: str, message: SessionMessage) -> None:
        if not isinstance(message, StateRequest) or self.is_serving():
            tell(self, peer, message)

    monkeypatch.setattr(Peers, "tell", tell_serving)
    assert not all(begins(seed) for seed in range(4))


def test_a_broker_that_follows_a_lost_one_and_does_not_notice_is_caught(monkeypatch: pytest.MonkeyPatch):
    take_over, follow = Government.check_leader, Government.leader_changed

    def follow_blindly(self: Government) -> None:
        monkeypatch.setattr(self, "check_leader", lambda: None)
        follow(self)
        monkeypatch.setattr(self, "check_leader", lambda: take_over(self))

    monkeypatch.setattr(Government, "leader_changed", follow_blindly)
    assert not begins(18)


def outlives_the_only_holder(seed: int) -> bool:
    """Whether a publication arrives that one broker of a site has, and says so, when it dies with its copies."""
    slow = [(one, other) for one in ("b.1", "b.2", "b.3") for other in ("b.1", "b.2", "b.3") if one != other]
    links = tuple(LinkSettings(pair, latency=Constant(1.0), factor=150.0, back_factor=1.0) for pair in slow)
    sim = Simulation("a-b", "sesdad", seed, network=NetworkConfig(latency=Constant(1.0), links=links))
    sim.at(0.0, Subscribe("bob@b", "orders"))
    publish(sim, 1)
    sim.at(BEGIN_S + 0.04, Crash("b.3"))
    try:
        sim.run_until_quiet(30)
    except NotQuiet:
        return False
    return sim.delivered("bob") == [b"0"]


def forgets_at_a_brokers_word(self: Publications, site: str, publishers: list[str] | None = None) -> None:
    """Forget what any broker of the next site has."""
    for publisher in publishers or []:
        marks = [self.site_marks.get(name, {}).get(publisher, 0) for name in (f"{site}.{n}" for n in (1, 2, 3))]
        self._traffic.acknowledge(site, publisher, max(marks))


def test_a_site_keeps_what_a_single_broker_of_the_next_one_has(monkeypatch: pytest.MonkeyPatch):
    assert all(outlives_the_only_holder(seed) for seed in (8, 9))
    monkeypatch.setattr(Publications, "release", forgets_at_a_brokers_word)
    assert not any(outlives_the_only_holder(seed) for seed in (8, 9))


class NoSuccessor(SesdadBroker):
    """Nobody takes over from the designated broker."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.government.check_leader = lambda: None  # type: ignore[method-assign]


class NoMemory(SesdadBroker):
    """A broker that returns is told no numbers."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self._handlers[StreamState] = lambda _peer, _message: None


class NoCuts(SesdadBroker):
    """A change of the routing table counts from wherever each broker happens to be."""

    def _apply(self, message: Establish) -> None:
        super()._apply(replace(message, cuts=()))


class Hasty(HoldBack):
    """A queue that holds nothing back."""

    def take(self, number: int, batch: Batch) -> list[Batch]:
        return [batch] if super().take(number, replace(batch, guarantee=EVENTUAL)) else []


class NoHeir(SesdadBroker):
    """Nobody sends what a lost broker was chosen for, and nobody answers whoever asks for it."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.publications.send_unsent = lambda _=None: None  # type: ignore[method-assign,assignment]
        for kind in (Notification, Retransmission):
            self._handlers[kind] = lambda _peer, _message: None


def racing(seed: int, make: object = "sesdad") -> Simulation:
    """Subscriptions that race publications in one site."""
    sim = Simulation("a", make, seed, network=NetworkConfig(latency=Exponential(10.0, 1.0)))  # type: ignore[arg-type]
    for number in range(40):
        sim.at(BEGIN_S + number * 0.001, Publish("pub@a", "orders", b"%d" % number))
        if number % 8 == 0:
            sim.at(BEGIN_S + number * 0.001, Subscribe(f"s{number}@a", "orders"))
    return sim


def is_of_one_mind(sim: Simulation) -> bool:
    """Whether the run comes to rest, keeps its promises, and leaves all brokers with the same numbers."""
    try:
        sim.run_until_quiet()
    except NotQuiet:
        return False
    lanes = [
        {(name, lane.publisher): lane.next for name, lanes in traffic.lanes.items() for lane in lanes.values()}
        for traffic in (sim.node(f"a.{n}").traffic for n in (1, 2, 3))  # type: ignore[union-attr]
    ]
    return sim.check().ok and lanes[0] == lanes[1] == lanes[2]


def test_changes_that_count_from_no_agreed_number_are_caught():
    assert not all(is_of_one_mind(racing(seed, NoCuts)) for seed in range(8))


def test_a_subscriber_that_holds_nothing_back_is_caught(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("holdfast.protocols.sesdad.client.HoldBack", Hasty)
    found = 0
    for seed in range(4):
        sim = world(seed=seed, network=NetworkConfig(latency=Exponential(10.0, 1.0)))
        publish(sim, 30, every_s=0.001)
        sim.run_until_quiet()
        found += sim.check().fifo
    assert found


def survives(make: type[SesdadBroker], *faults: tuple[float, object]) -> bool:
    sim = Simulation("a-b", make, 2)
    sim.at(0.0, Subscribe("bob@b", "orders"))
    payloads = publish(sim, 40, every_s=0.02)
    for time_s, fault in faults:
        sim.at(time_s, fault)  # type: ignore[arg-type]
    sim.at(BEGIN_S + 2.0, Subscribe("joe@a", "orders"))
    sim.at(BEGIN_S + 6.0, Publish("pub@a", "orders", b"last"))
    try:
        sim.run_until_quiet(30)
    except (NotQuiet, AssertionError):
        return False
    return sim.delivered("bob") == [*payloads, b"last"] and sim.delivered("joe") == [b"last"]


CRASHES = [(BEGIN_S + 0.2, When(name, "Replicate", Crash(name), count=2)) for name in ("a.1", "b.1")]
RETURN = [(BEGIN_S + 0.3, Crash("a.1")), (BEGIN_S + 0.5, Recover("a.1"))]


@pytest.mark.parametrize("faults", [CRASHES, RETURN])
def test_a_broker_with_all_its_rules_survives_what_the_mutants_do_not(faults: list[tuple[float, object]]):
    assert survives(SesdadBroker, *faults)


@pytest.mark.parametrize(("make", "faults"), [(NoSuccessor, CRASHES), (NoHeir, CRASHES), (NoMemory, RETURN)])
def test_a_broker_without_a_rule_is_caught(make: type[SesdadBroker], faults: list[tuple[float, object]]):
    assert not survives(make, *faults)
