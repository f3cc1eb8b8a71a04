"""Parts of a Ginger broker, each asked by itself."""

from collections import deque
from collections.abc import Iterator

import pytest

from holdfast.model.batches import PAYLOAD_BYTES_MAX, Batch, make_batch
from holdfast.model.errors import PeerViolation
from holdfast.model.guarantees import CAUSAL, TOTAL
from holdfast.model.messages import (
    Census,
    Climb,
    Join,
    Merged,
    Open,
    Publish,
    Refusal,
    Rejected,
    SessionMessage,
    Subscribe,
    Twig,
    Upward,
)
from holdfast.model.terms import Contact
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.edges import Phase
from holdfast.protocols.ginger import RepairingBroker
from holdfast.protocols.ginger.brake import CLIMBING_BYTES_MAX
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.ginger.joiners import Joiner
from holdfast.protocols.ginger.reunion import PROBE_TICKS, STRAY_TICKS
from holdfast.protocols.ginger.turning import Climbing
from holdfast.protocols.links import Link
from holdfast.protocols.node import Report, Restart


class Alone(RepairingBroker):
    """A root whose links are a list of what was said."""

    def __init__(self, parent: str | None = None, brokers: int = 0) -> None:
        super().__init__(BrokerConfig("1", parent=parent, tolerance=1, brokers=brokers), 5)
        self.said: list[tuple[str, SessionMessage]] = []
        self.start(0.0)

    def _send(self, peer: str, message: SessionMessage) -> None:
        if not self.relocation.holds_back(peer, message):
            self.said.append((peer, message))

    def with_neighbour(self, name: str, pattern: str = "t") -> "Alone":
        """A broker below, which wants a topic."""
        self.interests.neighbours[name] = None
        self.interests.suspend(name)
        self.interests.subscribe(name, Subscribe(0, pattern, ""))
        self.log.link(name)
        self.said.clear()
        return self

    def at(self, now: float) -> "Alone":
        self._now = now
        return self

    def published_to(self, peer: str) -> list[tuple[int, int]]:
        batches = [one.batch for to, one in self.said if to == peer and isinstance(one, Publish)]
        return [(batch.first, batch.last) for batch in batches]

    def reported(self) -> list[str]:
        return [one.event for one in self.hub.out if isinstance(one, Report)]


def batch(first: int = 1, count: int = 1, guarantee: int = CAUSAL, key: str = "") -> Batch:
    return make_batch("c", first, "t", guarantee, [b"x"] * count, [(key,)] * count if key else ())


# --------------------------------------------------------------------------------------------------------- data path


def test_a_batch_that_comes_again_is_passed_on_once():
    broker = Alone().with_neighbour("2")
    for _ in range(2):
        broker.data_path.pass_on(Publish(batch()), "3")
    assert (broker.published_to("2"), len(broker.log)) == ([(1, 1)], 1)


def test_of_a_batch_that_is_known_in_part_the_rest_is_passed_on():
    broker = Alone().with_neighbour("2")
    broker.data_path.pass_on(Publish(batch(1, 2)), "3")
    broker.data_path.pass_on(Publish(batch(1, 4)), "3")
    assert broker.published_to("2") == [(1, 2), (3, 4)]


def test_what_a_repair_hands_over_does_not_go_to_its_joiners_by_itself_meanwhile():
    broker = Alone().with_neighbour("2").with_neighbour("4")
    with broker.data_path.handing_apart(["2"]):
        broker.data_path.pass_on(Publish(batch()), "3")
    broker.data_path.pass_on(Publish(batch(2)), "3")
    assert (broker.published_to("2"), broker.published_to("4")) == ([(2, 2)], [(1, 1), (2, 2)])


def test_a_repair_that_ends_with_a_violation_leaves_nobody_out():
    broker = Alone().with_neighbour("2")
    with pytest.raises(PeerViolation), broker.data_path.handing_apart(["2"]):
        raise PeerViolation("a test says so")
    broker.data_path.pass_on(Publish(batch()), "3")
    assert broker.published_to("2") == [(1, 1)]


def test_the_highest_number_of_a_publisher_may_be_that_of_a_batch_that_climbs():
    broker = Alone()
    broker.data_path.pass_on(Publish(batch(1, 2)), "")
    broker.log.append(batch(3, 2, TOTAL, "k"), pending=True)
    assert broker.data_path.highest("c") == 4
    assert not broker.data_path.is_done("c", 3)


# -------------------------------------------------------------------------------------------------------- self-doubt


def asleep(woken_at: float = 60.0) -> Alone:
    """A broker that has not run for a minute."""
    broker = Alone()
    broker.self_doubt.check_sleep(0.1)
    broker.at(woken_at).self_doubt.check_sleep(woken_at)
    return broker


def test_a_broker_that_was_always_awake_is_in_no_doubt():
    broker = Alone()
    for beat in range(1, 5):
        broker.self_doubt.check_sleep(beat * broker.config.link.heartbeat_s)
    assert not broker.at(2.0).self_doubt.is_in_doubt_of("2")


def test_a_broker_that_has_slept_accuses_nobody_for_a_while():
    broker = asleep()
    assert "slept" in broker.reported()
    assert broker.self_doubt.is_in_doubt_of("2")
    assert not broker.at(60.0 + broker.config.doubt_s).self_doubt.is_in_doubt_of("2")


def test_a_connection_that_is_lost_in_that_while_is_asked_about_before_its_peer_is_given_up():
    broker = asleep()
    broker.self_doubt.lost_connection("2")
    broker.at(61.0 + broker.config.doubt_s)
    assert broker.self_doubt.is_in_doubt_of("2")
    broker.self_doubt.asks_about("2")
    assert not broker.self_doubt.is_in_doubt_of("2")
    assert [broker.self_doubt.was_parted_asleep("2") for _ in range(2)] == [True, False]


def test_a_peer_that_is_back_was_not_lost_asleep():
    broker = asleep()
    broker.self_doubt.asks_about("2")
    broker.self_doubt.is_back("2")
    assert not broker.self_doubt.was_parted_asleep("2")


def test_a_peer_that_is_back_is_doubted_no_longer():
    broker = asleep()
    broker.self_doubt.lost_connection("2")
    broker.self_doubt.is_back("2")
    assert not broker.at(61.0 + broker.config.doubt_s).self_doubt.is_in_doubt_of("2")


# ---------------------------------------------------------------------------------------------------------- majority


def minority() -> Alone:
    """A root that has lost four of five brokers."""
    broker = Alone(brokers=5)
    broker.majority.recount()
    return broker


def test_a_minority_refuses_total_messages_of_a_client_that_would_not_wait():
    broker = minority()
    broker.majority.wants_patience("c", False)
    assert broker.majority.accepted("c", Publish(batch(guarantee=TOTAL, key="k"))) is None
    assert [type(one) for _, one in broker.said] == [Rejected]


def test_and_lets_those_of_a_patient_one_wait():
    broker = minority()
    broker.majority.wants_patience("c", True)
    assert broker.majority.accepted("c", Publish(batch(guarantee=TOTAL, key="k"))) is not None
    assert broker.said == []


@pytest.mark.parametrize(("brokers", "crossed"), [(5, True), (1, False)])
def test_weaker_messages_with_a_key_are_marked_where_total_ones_may_pass_them_by(brokers: int, crossed: bool):
    broker = Alone(brokers=brokers)
    broker.majority.recount()
    taken = broker.majority.accepted("c", Publish(batch(key="k")))
    assert taken is not None
    assert bool(taken.batch.crossed) is crossed


def too_much(broker: Alone) -> tuple[Link, int]:
    """A client publishes total messages until nothing more is granted; its link, and what it has published."""
    link = broker.hub.links["c"] = Link("c", "client", 1, False, broker.config.link, 0.0)
    broker.log.link("c")
    published = 0
    for number in range(1, 2 * CLIMBING_BYTES_MAX // PAYLOAD_BYTES_MAX):
        message = Publish(make_batch("c", number, "t", TOTAL, [b"x" * PAYLOAD_BYTES_MAX], [("k",)]))
        broker._take(link, message, message)
        published += message.batch.cost_bytes
        if link.consumed_bytes < published:
            return link, published
    raise AssertionError(f"it could publish {published} bytes")


def test_a_minority_grants_no_more_while_too_much_waits_for_a_majority(monkeypatch: pytest.MonkeyPatch):
    broker = minority()
    link, published = too_much(broker)
    broker.settle(1.0)
    assert CLIMBING_BYTES_MAX < link.consumed_bytes < published
    assert any("room for what c publishes" in reason for reason in broker.waiting_for())
    monkeypatch.setattr(Alone, "serves_total", True)
    broker.turning.pump()
    broker.settle(2.0)
    assert link.consumed_bytes == published
    assert not broker.waiting_for()
    broker.turning.check_invariants()


def test_a_client_that_has_left_waits_for_no_room():
    broker = minority()
    _, published = too_much(broker)
    broker.hub.end("c", "it closes")
    assert not any("room for" in reason for reason in broker.waiting_for())
    # What it has published was accepted, and waits for a majority still.
    assert broker.turning.bytes == published


def test_a_weaker_message_from_where_a_total_one_is_being_handed_over_has_crossed_it_and_says_so():
    broker = Alone().with_neighbour("2").with_neighbour("3")
    broker.data_path.pass_on(Publish(batch(guarantee=TOTAL, key="k")), "1")
    flush = Flush("")
    join = Join(Twig("2", "broker", 1, ""), "1", (), {}, (), 0, 0)
    flush.joined, flush.reunion = {"2": Joiner(join, [])}, True
    broker.majority.taken_in(flush)
    weaker = make_batch("d", 1, "t", CAUSAL, [b"x"], [("k",)])
    for came_from, crossed in (("3", False), ("2", True)):
        assert broker.majority.marked(Publish(weaker), came_from).batch.crossed is crossed


# ------------------------------------------------------------------------------------------------------------- climbs


class Counted(deque[Climbing]):
    """The climbs of a publisher; how many of them were looked at."""

    seen = 0

    def __iter__(self) -> Iterator[Climbing]:
        for one in super().__iter__():
            self.seen += 1
            yield one


def test_what_comes_behind_many_climbs_or_ends_the_first_of_them_looks_at_none_of_the_others():
    broker = minority()
    climbs = broker.turning._of["c"] = Counted()
    for number in range(1, 101):
        broker.turning.enter(batch(number, guarantee=TOTAL, key="k"), "c")
    assert (len(climbs), climbs.seen) == (100, 0)
    for number in range(1, 100):
        climbs[0].hop = climbs[-1].hop = "0"
        broker.turning.on_turned("c", number)
    # The one that has turned, and the one behind it.
    assert (len(climbs), climbs.seen) == (1, 2 * 99)


# ----------------------------------------------------------------------------------------------- repairs, and joining


def test_whoever_is_known_below_a_lost_broker_is_expected_and_the_topics_there_are_unsettled():
    broker = Alone().with_neighbour("2")
    broker.repairs.begin_repair("2", (Twig("3", "broker", 1, ""),), silent=False)
    assert (broker.repairs.is_expected("3"), broker.repairs.is_expected("4")) == (True, False)
    assert (broker.repairs.unsettled("t"), broker.repairs.unsettled("u")) == (True, False)
    assert broker.repairs.waiting_for() == ["3 to join, since 2 is lost"]


def client_at_the_door(broker: Alone, old: str) -> None:
    """A client that would rather be refused than wait asks to be let in."""
    link = broker.hub.links["c"] = Link("c", "client", 1, False, broker.config.link, 0.0)
    join = Join(Twig("c", "client", 1, ""), old, (), {}, (), 1, 0, patient=False)
    broker.repairs.comes(link, join)


def is_refused_a_total_message(broker: Alone) -> bool:
    return broker.majority.accepted("c", Publish(batch(guarantee=TOTAL, key="k"))) is None


def test_of_a_client_that_is_sent_on_nothing_is_remembered():
    broker = minority()
    client_at_the_door(broker, old="9")
    assert "c" not in broker.hub.links
    assert not is_refused_a_total_message(broker)


def test_of_a_client_that_leaves_before_it_is_let_in_nothing_is_remembered():
    broker = minority().with_neighbour("2")
    broker.repairs.begin_repair("2", (Twig("3", "broker", 1, ""), Twig("c", "client", 1, "")), silent=False)
    client_at_the_door(broker, old="2")
    assert "c" in broker.hub.links
    assert "c" not in broker.log.flows
    assert is_refused_a_total_message(broker)
    broker.hub.end("c", "it closes")
    assert not is_refused_a_total_message(broker)


def test_what_a_parent_has_said_of_its_side_before_it_is_lost_is_forgotten():
    broker = Alone(parent="0")
    broker.neighbours.on_open("0", Open((("t", ""),), Upward((), (), ()), (), 0, 0, more=True))
    broker.hub.end("0", "it leaves")
    assert broker.neighbours._wanted_above == {}


def test_a_neighbour_whose_loss_is_repaired_is_none():
    broker = Alone().with_neighbour("2")
    assert broker.neighbours.is_neighbour("2")
    broker.repairs.begin_repair("2", (Twig("3", "broker", 1, ""),), silent=False)
    assert not broker.neighbours.is_neighbour("2")
    assert broker.neighbours.neighbours_alive() == []


def test_a_loss_that_was_repaired_is_remembered_up_to_its_epoch():
    broker = Alone().with_neighbour("2")
    broker.view.children["2"] = Twig("2", "broker", 7, "")
    broker.suspicion.suspect("2", 7, "a test says so")
    assert (broker.admissions.was_repaired("2", 7), broker.admissions.was_repaired("2", 8)) == (True, False)


def test_a_broker_that_hears_of_its_own_death_begins_anew_and_of_an_earlier_one_does_not():
    broker = Alone()
    phases = []
    for epoch in (4, 5):
        broker.suspicion.suspect("1", epoch, "a test says so")
        phases.append(broker.phase)
    assert phases == [Phase.SERVING, Phase.GONE]
    assert isinstance(broker.hub.out[-1], Restart)


def test_a_parent_that_has_yet_to_open_the_link_leaves_what_it_wants_unsettled():
    broker = Alone(parent="0").with_neighbour("0")
    assert not broker.rejoin.unsettled("t")
    broker.rejoin.fenced = "0"
    assert (broker.rejoin.unsettled("t"), broker.rejoin.unsettled("u")) == (True, False)
    assert broker.rejoin.waiting_for() == ["0 to open the link"]


def in_a_minority() -> Alone:
    """The root of two brokers of three, which were a majority, until the other one was lost."""
    broker = Alone(brokers=3).with_neighbour("2").with_neighbour("4").at(1.0)
    broker.majority.on_census("2", Census(1, 1))
    broker.majority.lose("2")
    assert broker.majority.is_apart
    return broker


def takes_in(broker: Alone, name: str, apart: bool) -> None:
    """A part comes back, and the census says that there is a majority."""
    flush = Flush("")
    join = Join(Twig(name, "broker", 1, ""), "1", (), {}, (), 0, 0, apart=apart)
    flush.joined, flush.reunion = {name: Joiner(join, [])}, True
    broker.majority.taken_in(flush)
    broker.majority.on_census(name, Census(2, 1))


def test_total_messages_wait_for_what_a_majority_has_ordered_and_not_for_ever():
    broker = in_a_minority()
    broker.majority.on_census("2", Census(2, 1))
    served = []
    for now in (1.0, 1.0 + 3.9 * broker.config.link.silence_s, 1.0 + 4.0 * broker.config.link.silence_s):
        broker.majority.beat(now)
        served.append(broker.majority.serves_total)
    assert served == [False, False, True]


@pytest.mark.parametrize("apart", [False, True], ids=["a majority", "two minorities"])
def test_when_a_part_is_taken_in_nothing_is_out_of_reach_if_it_makes_a_majority(apart: bool):
    broker = in_a_minority()
    takes_in(broker, "2", apart)
    assert broker.majority.serves_total
    assert ("4", Merged()) in broker.said


def test_two_minorities_that_are_none_together_wait_for_what_the_majority_has_ordered():
    broker = in_a_minority().with_neighbour("5")
    broker.majority.census.brokers = 5
    takes_in(broker, "2", apart=True)
    broker.majority.on_census("5", Census(1, 2))
    assert broker.majority.census.majority
    assert not broker.majority.serves_total


# ----------------------------------------------------------------------------------------------------------- the search


def apart(broker: Alone, missing: dict[str, str]) -> None:
    """These children are lost, each with one broker behind it that is missing."""
    for child, behind in missing.items():
        broker.absences.begin(child, (Contact(child, 7, ""),), 0.0)
        absence = broker.absences.find(child)
        assert absence is not None
        absence.missing[behind] = Twig(behind, "broker", 8, "")


def is_excluded_by(broker: Alone, peer: str) -> None:
    broker.link_refused(broker.hub.links[peer], Refusal("excluded", f"{peer} takes 1 for dead"))


def test_two_that_are_missing_behind_two_lost_children_may_both_take_a_broker_for_dead_that_asks_them():
    broker = Alone()
    apart(broker, {"2": "5", "3": "6"})
    broker.reunion.tick(1.0)
    phases = []
    for peer in ("5", "6", "2"):
        is_excluded_by(broker, peer)
        phases.append(broker.phase)
    # The last is the lost child itself, which has given this broker up.
    assert phases == [Phase.SERVING, Phase.SERVING, Phase.GONE]


def test_one_that_is_missing_may_take_its_time_to_say_so():
    broker = Alone()
    apart(broker, {"2": "5"})
    for beat in range(1, 2 * PROBE_TICKS + 2):
        broker.reunion.tick(float(beat))
    is_excluded_by(broker, "5")
    assert broker.phase is Phase.SERVING


def test_a_stray_may_take_its_time_to_say_that_it_takes_the_broker_for_dead_that_asks_it():
    broker = Alone(brokers=5)
    for name in ("3", "4"):
        broker.reunion.strays.note(name, [Contact(name, 7, "")])
    for beat in range(STRAY_TICKS + 2):
        broker.reunion.tick(float(beat))
    assert {"3", "4"} <= broker.hub.links.keys()
    for name in ("3", "4"):
        is_excluded_by(broker, name)
    assert broker.phase is Phase.SERVING


def test_what_went_up_to_a_lost_parent_waits_for_its_first_loss_when_a_child_of_that_name_is_lost():
    # c#1 went up to 0, which is lost with 2 behind it. 0 begins anew, comes to 1 as a child, and is lost again.
    broker = Alone().with_neighbour("0")
    broker.parent = "0"
    broker.turning.enter(batch(key="k"), "c")
    broker.parent = None
    broker.absences.begin("0", (Contact("0", 7, ""),), 0.0)
    [first] = broker.absences
    first.to_parent, first.missing["2"] = True, Twig("2", "broker", 7, "")
    first.doubts([("t", "")])
    broker.repairs.begin_repair("0", (), silent=True)
    assert [one.key for one in broker.absences] == [first.key, "0"]
    assert broker.absences.doubted() == [("t", "")]
    assert broker.healing_turning.asked_of(first.key) == {("c", 1)}
    assert broker.healing_turning.asked_of("0") == set()


def test_what_went_up_to_one_lost_parent_waits_for_the_other_when_both_are_looked_for_together():
    # c#1 went up to 0, which is lost, and may have turned there. 3 took 1 in, and is lost as well.
    broker = Alone().with_neighbour("0").with_neighbour("2")
    broker.parent = "0"
    broker.turning.enter(batch(key="k"), "c")
    broker.parent = None
    for parent in ("0", "3"):
        broker.log.unlink(parent)
        broker.interests.drop(parent)
        broker.absences.begin(parent, (Contact(parent, 7, ""),), 0.0)
        absence = broker.absences.find(parent)
        assert absence is not None
        absence.to_parent, absence.missing[parent] = True, Twig(parent, "broker", 7, "")
    broker.reunion.absence_noted(Flush("3"))
    [one_absence] = broker.absences
    assert one_absence.key == "3"
    assert broker.published_to("2") == []
    broker.diaries.give_up_absence(one_absence)
    # It would wait for ever if it went on waiting for 0: nobody looks for that alone any more.
    assert broker.published_to("2") == [(1, 1)]


# ------------------------------------------------------------------------------------------------------------- moves


def test_what_is_said_on_a_frozen_link_waits_and_is_said_when_it_thaws():
    broker = Alone().with_neighbour("2").with_neighbour("3")
    broker.relocation.freeze("2")
    for peer in ("2", "3"):
        broker.send(peer, Climb(batch()))
    assert [peer for peer, _ in broker.said] == ["3"]
    broker.relocation.unfreeze(say=True)
    assert [peer for peer, _ in broker.said] == ["3", "2"]


def test_a_move_that_was_given_up_says_nothing_that_another_link_carries():
    broker = Alone().with_neighbour("2")
    broker.relocation.freeze("2")
    broker.send("2", Climb(batch()))
    broker.relocation.unfreeze(say=False)
    assert (broker.said, broker.relocation.outbox) == ([], [])
