"""A run as those see it who live on."""

from holdfast.model.trace import Event
from holdfast.simulation.checkers import check
from holdfast.simulation.checkers.survivors import as_survivors_see_it


def row(node: str, index: int, event: str, publisher: str = "", seq: int = 0, topic: str = "t") -> Event:
    time, guarantee = 10 * index, "causal" if publisher else ""
    return Event("run", node, index, time, event, publisher, seq, topic, guarantee=guarantee)


SUBSCRIBED = [row("ann", 0, "subscribe"), row("bob", 0, "subscribe"), row("dead", 0, "subscribe")]


def faults(events: list[Event], asked: tuple[tuple[str, str], ...] = ()) -> dict[str, int]:
    verdict = check(as_survivors_see_it(events, {"dead": asked}))
    return {kind: count for kind, count in verdict.faults.items() if count}


def test_what_the_dead_published_and_nobody_alive_got_was_never_published():
    published = row("dead", 1, "publish", "dead", 1)
    assert faults([*SUBSCRIBED, published]) == {}
    assert check([*SUBSCRIBED, published]).lost == 3


def test_what_one_survivor_got_of_the_dead_all_must_have():
    events = [*SUBSCRIBED, row("dead", 1, "publish", "dead", 1), row("ann", 1, "deliver", "dead", 1)]
    assert faults(events) == {"lost": 1}
    assert faults([*events, row("bob", 1, "deliver", "dead", 1)]) == {}


def test_the_dead_are_owed_nothing_but_what_they_got_is_judged():
    published = [row("ann", 1, "publish", "ann", 1), row("ann", 2, "publish", "ann", 2)]
    alive = [row(name, 3 + seq, "deliver", "ann", seq) for name in ("ann", "bob") for seq in (1, 2)]
    assert faults([*SUBSCRIBED, *published, *alive]) == {}
    wrong = [row("dead", 3, "deliver", "ann", 2), row("dead", 4, "deliver", "ann", 1)]
    assert faults([*SUBSCRIBED, *published, *alive, *wrong]) == {"fifo": 1}


def test_what_came_for_a_subscription_that_was_never_confirmed_is_no_invention():
    events = [row("ann", 0, "publish", "ann", 1), row("dead", 0, "deliver", "ann", 1)]
    assert faults(events, (("t", ""),)) == {}
    assert faults(events) == {"created": 1}
