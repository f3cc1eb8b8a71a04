"""The designated broker of a site: the two rounds of a change, its successor, and whose word counts for what."""

from holdfast.model.batches import make_batch
from holdfast.model.guarantees import FIFO
from holdfast.model.messages import SessionMessage
from holdfast.model.site_messages import (
    Change,
    Establish,
    Mark,
    Promised,
    Propose,
    Replicate,
    StateRequest,
    TakeOver,
    Yielded,
)
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.sesdad import SesdadBroker
from holdfast.protocols.sesdad.designation import EPOCH_BITS, Designation
from holdfast.protocols.sesdad.sites import Site

SITE = Site("a", ("a.1", "a.2", "a.3"))
CHANGE = Change("s", "bob|1", 1, "t")


class Member:
    """A broker's part in the government of its site, and all that it says, in order."""

    def __init__(self, name: str, *marks: Mark) -> None:
        self.said: list[tuple[str, SessionMessage | str]] = []
        self.part = Designation(
            name,
            SITE,
            lambda peer, message: self.said.append((peer, message)),
            lambda message: self.said.append(("all", message)),
            lambda: marks,
            lambda _: None,
            lambda peer: self.said.append((peer, "the state")),
            lambda change: [change],
            lambda: None,
        )

    def says(self) -> list[tuple[str, SessionMessage | str]]:
        """What it has said since this was asked last."""
        said, self.said = self.said, []
        return said


def designated(*marks: Mark) -> Member:
    made = Member("a.1", *marks)
    made.part.found()
    return made


def test_a_change_counts_behind_the_highest_number_that_any_of_a_majority_has():
    first = designated(("", "p", 3), ("b", "q", 9))
    first.part.submit([CHANGE])
    assert first.says() == [("all", Propose(1))]
    first.part.on_promised("a.2", Promised(1, (("", "p", 7), ("b", "q", 2))))
    assert first.says() == [("all", Establish(1, 0, (CHANGE,), (("", "p", 8), ("b", "q", 10))))]
    assert (first.part.established, first.part.confirmed) == (1, False)
    first.part.note("a.2", 1)
    assert first.part.confirmed


def test_the_next_change_waits_until_the_last_one_is_confirmed():
    first = designated()
    first.part.submit([CHANGE])
    first.part.submit([CHANGE])
    first.part.on_promised("a.2", Promised(1, ()))
    assert [message for _, message in first.says()] == [Propose(1), Establish(1, 0, (CHANGE,), ())]
    first.part.note("a.2", 1)
    first.part.advance()
    assert first.says() == [("all", Propose(2))]


def test_a_successor_leads_when_f_others_have_yielded_and_begins_with_a_state_of_its_own():
    second = Member("a.2")
    second.part.take_over()
    assert (second.part.leading, second.says()) == (False, [("all", TakeOver(1, 0))])
    second.part.on_yielded("a.3", Yielded(1, 0))
    assert (second.part.leading, second.says()) == (True, [("all", Propose(1 << EPOCH_BITS | 1))])


def test_a_designated_broker_that_hears_of_a_later_epoch_proposes_nothing_more():
    first = designated()
    first.part.on_take_over("a.2", TakeOver(1, 0))
    first.part.submit([CHANGE])
    assert first.says() == [("a.2", Yielded(1, 0))]
    assert first.part.on_propose("a.3", Propose(1)) is False
    assert first.says() == [("a.3", Yielded(1, 0))]


def test_a_state_that_follows_one_that_is_not_in_force_here_is_asked_for_whole():
    third = Member("a.3")
    third.part.on_establish("a.1", Establish(2, 1, (CHANGE,), ()))
    assert (third.part.established, third.says()) == (0, [("a.1", StateRequest())])


def test_a_state_of_an_epoch_that_is_over_is_vouched_for_and_confirmed_by_nobody():
    second = Member("a.2")
    second.part.on_take_over("a.3", TakeOver(2, 0))
    # The broker that was designated before goes on, and tells what it has.
    second.part.in_force(1)
    second.part.note("a.1", 1)
    assert (second.part.established, second.part.vouched, second.part.confirmed) == (1, 0, False)
    second.part.in_force(2 << EPOCH_BITS | 1)
    second.part.note("a.3", 2 << EPOCH_BITS | 1)
    assert second.part.confirmed


def test_a_broker_that_yields_tells_what_it_has_first_also_if_it_has_heard_of_the_epoch():
    second = Member("a.2")
    second.part.in_force(1)
    second.part.learn_epoch(2, 0)
    second.part.on_take_over("a.3", TakeOver(2, 0))
    assert second.says() == [("a.3", "the state"), ("a.3", Yielded(2, 1))]


def test_what_a_broker_without_a_memory_holds_does_not_count():
    node = SesdadBroker(BrokerConfig("a.1", site="a", sites=(("a", SITE.members),)), 7)
    node.peers.linked |= {"a.2": None, "a.3": None}
    node.peers.blank["a.2"] = None
    batch = make_batch("p", 1, "t", FIFO, [b"x"])
    for peer in ("a.2", "a.3"):
        node.publications.on_replicate(peer, Replicate("", 1, 0, peer, batch))
    [unit] = node.traffic.streams["", "p"].units.values()
    assert set(unit.holders) == {"a.1", "a.3"}


class BeginsAtOnce(SesdadBroker):
    """A publisher begins where a state says that nobody else may ever have."""

    def _apply(self, message: Establish) -> None:
        super()._apply(message)
        self.publications.begin()


def told_of_a_beginning(make: type[SesdadBroker]) -> list[list[Mark]]:
    """Up to where a broker says that it has everything of a publisher that begins: alone, and with a majority."""
    node = make(BrokerConfig("a.1", site="a", sites=(("a", SITE.members),)), 7)
    node.peers.linked |= {"a.2": None, "a.3": None}
    node.designation.found()
    node.designation.submit([Change("b", "p|1", 1, number=100)])
    node.designation.on_promised("a.2", Promised(1, ()))
    alone = node.traffic.prefixes()
    node.designation.note("a.2", 1)
    return [alone, node.traffic.prefixes()]


def test_a_publisher_begins_when_a_majority_has_the_state_that_says_where():
    assert told_of_a_beginning(SesdadBroker) == [[], [("", "p", 100)]]


def test_a_broker_that_begins_what_nobody_else_may_ever_hear_of_is_caught():
    assert told_of_a_beginning(BeginsAtOnce)[0] == [("", "p", 100)]


def test_nothing_is_processed_under_a_state_that_no_majority_has():
    node = SesdadBroker(BrokerConfig("a.1", site="a", sites=(("a", SITE.members),)), 7)
    node.start(0.0)
    node.memories.answered = {"a.2": False, "a.3": False}
    node._serve_if_told()
    node.peers.linked |= {"a.2": None, "a.3": None}
    node.designation.submit([CHANGE])
    node.designation.on_promised("a.2", Promised(1, ()))
    batch = make_batch("p", 1, "t", FIFO, [b"x"])
    for peer in ("a.2", "a.3"):
        node.publications.on_replicate(peer, Replicate("b", 1, 0, peer, batch))
    assert (node.designation.established, node.traffic.processed) == (1, 0)
    node.designation.note("a.2", 1)
    node.government.established()
    assert node.traffic.processed == 1
