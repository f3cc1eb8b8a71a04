"""Which message an application is handed next that acknowledges each: in order, counted, and within a bound."""

from holdfast.model.batches import make_batch
from holdfast.model.reliable import Entry
from holdfast.protocols.narada.events import catenation
from holdfast.protocols.narada.handouts import Handouts, next_of

LATER_S = 1e9


class Application:
    """Takes messages from a list, and says which it gets: publisher, number, and how often."""

    def __init__(self, messages: list[tuple[str, int, tuple[str, ...]]], unacked_max: int = 100, by_key: bool = False):
        self.handouts = Handouts(unacked_max, by_key)
        self.fresh = [entry(at, *one) for at, one in enumerate(messages, 1)]

    def take(self, now: float = 0.0) -> list[tuple[str, int, int]]:
        found = []
        while (one := next_of(self.handouts, now, self._next)) is not None:
            found.append((one.entry.publisher, one.entry.cat & 0xFFFF, one.count))
        return found

    def _next(self) -> tuple[Entry, bool] | None:
        return (self.fresh.pop(0), False) if self.fresh else None

    def ack(self, publisher: str, number: int) -> None:
        assert self.handouts.ack((publisher, catenation(1, number))) is not None

    def nack(self, publisher: str, number: int, count: int = 1, due_s: float = 0.0) -> bool:
        return self.handouts.nack((publisher, catenation(1, number)), count, due_s)


def entry(first: int, publisher: str, number: int, keys: tuple[str, ...] = ()) -> Entry:
    batch = make_batch(publisher, number, "t", 1, [b"x"], (keys,) if keys else ())
    return Entry(first, catenation(1, number), batch, 0)


def of(publisher: str, *numbers: int) -> list[tuple[str, int, tuple[str, ...]]]:
    return [(publisher, number, ()) for number in numbers]


def test_messages_are_handed_out_in_order_until_as_many_as_may_be_are_out():
    app = Application(of("a", 1, 2, 3, 4), unacked_max=2)
    assert app.take() == [("a", 1, 1), ("a", 2, 1)]
    app.ack("a", 2)
    assert app.take() == [("a", 3, 1)]
    app.ack("a", 1)
    app.ack("a", 3)
    assert app.take() == [("a", 4, 1)]
    assert len(app.handouts) == 1


def test_what_is_given_back_comes_again_with_its_followers_and_other_publishers_go_on():
    app = Application([*of("a", 1, 2, 3), *of("b", 1), *of("a", 4), *of("b", 2)], unacked_max=4)
    assert len(app.take()) == 4
    assert app.nack("a", 1, due_s=LATER_S)
    app.ack("b", 1)
    # b goes on; what of a was not handed out takes the room that is left, and waits.
    assert app.take() == []
    app.ack("a", 2)
    assert app.take() == [("b", 2, 1)]
    assert app.take(LATER_S) == [("a", 1, 2), ("a", 3, 2), ("a", 4, 1)]


def test_only_the_last_handing_out_is_given_back():
    app = Application(of("a", 1))
    app.take()
    assert app.nack("a", 1)
    assert app.take() == [("a", 1, 2)]
    assert not app.nack("a", 1, count=1)
    assert app.take() == []
    assert app.nack("a", 1, count=2)
    assert app.take() == [("a", 1, 3)]


def test_what_waits_behind_another_one_and_is_acknowledged_does_not_come_again():
    app = Application(of("a", 1, 2))
    app.take()
    app.nack("a", 1, due_s=LATER_S)
    app.ack("a", 2)
    app.ack("a", 1)
    assert app.take(LATER_S) == []
    assert len(app.handouts) == 0


def test_a_message_given_back_twice_waits_for_the_later_time():
    app = Application(of("a", 1, 2))
    app.take()
    app.nack("a", 1, due_s=5.0)
    app.nack("a", 2, due_s=9.0)
    assert app.handouts.due_s(0.0) == 5.0
    assert app.take(5.0) == [("a", 1, 2)]
    assert app.handouts.due_s(5.0) == 9.0
    assert app.take(9.0) == [("a", 2, 2)]
    assert app.handouts.due_s(9.0) is None


def test_by_key_a_message_holds_up_its_keys_and_theirs_and_nobody_else():
    messages = [("a", 1, ("x",)), ("a", 2, ("x", "y")), ("b", 1, ("y",)), ("a", 3, ("z",)), ("a", 4, ())]
    app = Application(messages, by_key=True)
    assert len(app.take()) == 5
    app.nack("a", 1, due_s=LATER_S)
    app.nack("a", 4)
    assert app.take() == [("a", 4, 2)]
    assert app.take(LATER_S) == [("a", 1, 2), ("a", 2, 2), ("b", 1, 2)]


def test_what_an_earlier_reader_had_is_counted_and_told_on():
    app = Application(of("a", 1, 2, 3))
    app.handouts.know((("a", catenation(1, 2), catenation(1, 3), 4),))
    assert app.handouts.out() == (("a", catenation(1, 2), catenation(1, 3), 4),)
    assert app.take() == [("a", 1, 1), ("a", 2, 5), ("a", 3, 5)]
    cats = [catenation(1, number) for number in (1, 2, 3)]
    assert app.handouts.out() == (("a", cats[0], cats[0], 1), ("a", cats[1], cats[2], 5))


def test_everything_up_to_a_message_is_what_is_out_and_was_not_given_back():
    app = Application([*of("a", 1, 2), *of("b", 1, 2)])
    app.take()
    app.nack("a", 2, due_s=LATER_S)
    assert app.handouts.upto(("b", catenation(1, 1))) == [("a", catenation(1, 1)), ("b", catenation(1, 1))]
    assert app.handouts.upto(("b", 99)) == []
