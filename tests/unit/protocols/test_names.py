"""A name is one session's at a time: what brokers tell each other of the sessions that have it."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.identities import make_identity
from holdfast.model.messages import Refusal, SessionMessage
from holdfast.model.name_messages import Named, Presence
from holdfast.protocols import names
from holdfast.protocols.names import NameBook

EARLY, LATE, LATEST = (make_identity("alice", moment, 7) for moment in (1, 2, 3))


class Brokers:
    """Some name books, and the messages between them."""

    def __init__(self, *edges: tuple[str, str]) -> None:
        self.edges = list(edges)
        self.under_way: deque[tuple[str, str, SessionMessage]] = deque()
        self.told: list[tuple[str, str]] = []
        self.numbers: dict[tuple[str, str], int] = {}
        self.books: dict[str, NameBook] = {}
        self.said = 0
        for name in sorted({name for edge in edges for name in edge}):
            self.books[name] = self._book(name)

    def _book(self, name: str) -> NameBook:
        return NameBook(
            name,
            lambda: self.near(name),
            lambda peer, message: self.under_way.append((name, peer, message)),
            lambda client, refusal: self._end(name, client, refusal),
            lambda client: self.numbers.get((name, client), 0),
        )

    def near(self, name: str) -> list[str]:
        return [one if other == name else other for one, other in self.edges if name in (one, other)]

    def _end(self, broker: str, client: str, refusal: Refusal) -> None:
        assert refusal.code == "taken"
        self.told.append((client, refusal.reason))
        self.books[broker].ended(client)

    def settle(self) -> None:
        while self.under_way:
            source, target, message = self.under_way.popleft()
            self.said += 1
            assert self.said < 10_000, "they never stop telling each other"
            if target in self.near(source):
                assert isinstance(message, Named)
                self.books[target].hear(source, message)
        for book in self.books.values():
            book.check_invariants()

    def link(self, one: str, other: str) -> None:
        self.edges.append((one, other))
        self.books[one].greet(other)
        self.books[other].greet(one)
        self.settle()


def test_the_later_session_takes_the_name_over_wherever_it_begins():
    brokers = Brokers(("0", "1"), ("1", "2"))
    brokers.books["0"].opened(EARLY)
    brokers.settle()
    brokers.books["2"].opened(LATE)
    brokers.settle()
    assert brokers.told == [(EARLY, "another client connected as alice at 2")]


def test_at_one_broker_it_is_the_same():
    brokers = Brokers(("0", "1"))
    brokers.books["0"].opened(EARLY)
    brokers.books["0"].opened(LATE)
    assert brokers.told == [(EARLY, "another client connected as alice at 0")]


def test_of_two_in_the_same_instant_one_remains():
    brokers = Brokers(("0", "1"), ("1", "2"))
    brokers.books["0"].opened(LATE)
    brokers.books["2"].opened(EARLY)
    brokers.settle()
    assert [client for client, _ in brokers.told] == [EARLY]


def test_other_names_and_names_that_nobody_else_can_have_are_left_alone():
    brokers = Brokers(("0", "1"))
    brokers.books["0"].opened(EARLY)
    brokers.books["0"].opened("jade-puffin-5f0c21d9")
    brokers.books["1"].opened(make_identity("bob", 9, 9))
    brokers.books["1"].opened("jade-puffin-5f0c21d9")
    brokers.settle()
    assert brokers.told == []


def test_two_sides_of_a_parted_tree_hear_of_each_other_when_they_come_together():
    brokers = Brokers(("0", "1"), ("2", "3"))
    brokers.books["0"].opened(EARLY)
    brokers.books["3"].opened(LATE)
    brokers.settle()
    assert brokers.told == []
    brokers.link("1", "2")
    assert brokers.told == [(EARLY, "another client connected as alice at 3")]


def test_one_that_comes_back_from_a_lost_broker_is_told():
    brokers = Brokers(("0", "1"), ("1", "2"))
    brokers.books["2"].opened(LATE)
    brokers.settle()
    refusal = brokers.books["0"].refusal(EARLY)
    assert refusal == Refusal("taken", "another client connected as alice at 2", LATE)
    # It had joined before that was known.
    brokers.books["0"].opened(EARLY)
    brokers.settle()
    assert [client for client, _ in brokers.told] == [EARLY]
    assert brokers.books["0"].refusal(LATE) is None
    assert brokers.books["0"].refusal(LATEST) is None


def test_a_broker_that_has_not_heard_of_the_later_session_is_told_so_by_its_neighbour():
    brokers = Brokers(("0", "1"))
    brokers.books["1"].hear("0", Named((Presence(LATE, "9"),)))
    brokers.under_way.clear()
    brokers.books["0"].opened(EARLY)
    brokers.settle()
    assert brokers.told == [(EARLY, "another client connected as alice at 9")]


def test_the_next_session_goes_on_behind_one_that_is_known_to_have_ended():
    brokers = Brokers(("0", "1"), ("1", "2"))
    brokers.books["0"].opened(EARLY)
    brokers.settle()
    brokers.numbers["0", EARLY] = 17
    brokers.books["2"].opened(LATE)
    assert not brokers.books["2"].is_last(LATE)
    brokers.settle()
    assert (brokers.books["2"].highest(LATE), brokers.books["2"].is_last(LATE)) == (17, True)


def test_while_the_end_of_an_earlier_session_is_not_known_nothing_is_certain():
    brokers = Brokers(("0", "1"), ("1", "2"))
    brokers.books["0"].opened(EARLY)
    brokers.settle()
    brokers.edges.remove(("0", "1"))
    brokers.books["2"].opened(LATE)
    brokers.settle()
    assert not brokers.books["2"].is_last(LATE)
    # It begins far away from the numbers of the earlier one, and so does whoever goes on behind it.
    brokers.numbers["2", LATE] = 1 << 36
    brokers.books["2"].ended(LATE)
    brokers.books["1"].opened(LATEST)
    brokers.settle()
    assert (brokers.books["1"].highest(LATEST), brokers.books["1"].is_last(LATEST)) == (1 << 36, True)


def test_one_that_came_and_went_without_a_word_does_not_hide_the_one_before_it():
    brokers = Brokers(("0", "1"), ("1", "2"))
    brokers.books["0"].opened(EARLY)
    brokers.settle()
    brokers.edges.remove(("0", "1"))
    brokers.books["2"].opened(LATE)
    brokers.books["2"].ended(LATE)
    brokers.books["2"].opened(LATEST)
    brokers.settle()
    assert not brokers.books["2"].is_last(LATEST)


def test_only_sessions_that_are_there_are_told_to_a_new_neighbour():
    brokers = Brokers(("0", "1"), ("2", "3"))
    brokers.books["0"].opened(EARLY)
    brokers.books["0"].opened(make_identity("bob", 1, 1))
    brokers.books["0"].ended(EARLY)
    brokers.settle()
    brokers.books["1"].greet("2")
    [(_, _, message)] = brokers.under_way
    assert message == Named((Presence(make_identity("bob", 1, 1), "0"),))


def test_the_name_that_was_mentioned_the_longest_ago_is_forgotten_first(monkeypatch):
    monkeypatch.setattr(names, "NAMES_MAX", 2)
    book = NameBook("0", lambda: (), lambda *_: None, lambda *_: None, lambda _: 0)
    for name in ("a", "b", "a", "c"):
        book.hear("1", Named((Presence(make_identity(name, 5, 5), "1"),)))
    known = [name for name in "abc" if book.refusal(make_identity(name, 1, 1)) is not None]
    assert known == ["a", "c"]


@given(
    st.lists(st.tuples(st.sampled_from("0123"), st.integers(1, 4), st.booleans()), max_size=12),
    st.sampled_from([(("0", "1"), ("1", "2"), ("2", "3")), (("0", "1"), ("2", "3"))]),
    st.booleans(),
)
def test_whatever_happens_one_session_of_a_name_is_left_when_all_have_heard(
    steps: list[tuple[str, int, bool]], edges: tuple[tuple[str, str], ...], at_once: bool
):
    brokers = Brokers(*edges)
    there: dict[str, str] = {}
    for broker, moment, ends in steps:
        identity = make_identity("alice", moment, 7)
        told = {client for client, _ in brokers.told}
        if ends and identity in there and identity not in told:
            brokers.books[there.pop(identity)].ended(identity)
        elif not ends and identity not in there and brokers.books[broker].refusal(identity) is None:
            there[identity] = broker
            brokers.books[broker].opened(identity)
        if not at_once:
            brokers.settle()
    brokers.settle()
    brokers.link("1", "2")
    left = [identity for identity in there if identity not in {client for client, _ in brokers.told}]
    assert len(left) <= 1
