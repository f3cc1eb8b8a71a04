"""The judges of honesty find losses that nobody was told of, and confirmations that were not true; others pass."""

from msgspec.structs import replace

from holdfast.simulation.checkers.honesty import complaints, false_confirmations, silent_losses
from tests.unit.simulation.stories import Story


def lossy() -> Story:
    """dan and eve are owed ann#1 and ann#2; dan gets the second alone."""
    story = Story()
    story.subscribe("dan", "news")
    story.subscribe("eve", "news")
    first, second = story.publish("ann", "news", "causal"), story.publish("ann", "news", "causal")
    story.deliver("dan", second)
    story.deliver("eve", first, second)
    return story


def confirm(story: Story, publisher: str, seq: int) -> None:
    story.other(publisher, "confirmed")
    story.events[-1] = replace(story.events[-1], publisher=publisher, seq=seq, topic="news")


def test_a_loss_that_nobody_was_told_of_is_silent():
    assert silent_losses(lossy().events) == ["dan never got ann#1 on 'news', and was not told"]
    assert complaints(lossy().events) == ["1 silent losses, first: dan never got ann#1 on 'news', and was not told"]


def test_a_loss_whose_client_was_told_later_is_not_silent():
    story = lossy()
    story.other("dan", "gap")
    assert complaints(story.events) == []


def test_a_gap_of_somebody_else_or_before_the_publish_excuses_nothing():
    story = Story()
    story.subscribe("dan", "news")
    story.other("dan", "gap")
    story.publish("ann", "news", "causal")
    story.other("eve", "gap")
    assert len(silent_losses(story.events)) == 1


def test_those_who_are_owed_nothing_lose_nothing():
    story = Story()
    story.subscribe("dan", "news", where="n > 3")
    story.subscribe("cid", "news")
    story.publish("ann", "news", "causal", attributes={"n": 1})
    story.subscribe("eve", "news")
    story.unsubscribe("cid", "news")
    confirm(story, "ann", 1)
    assert complaints(story.events) == []


def test_a_confirmation_of_what_somebody_never_got_is_false_even_if_it_was_told():
    story = lossy()
    story.other("dan", "gap")
    confirm(story, "ann", 1)
    confirm(story, "ann", 2)
    assert complaints(story.events) == [
        "1 false confirmations, first: ann#1 on 'news' was confirmed, and dan never got it"
    ]


def test_a_confirmation_that_comes_before_the_last_delivery_is_false():
    story = Story()
    story.subscribe("dan", "news")
    message = story.publish("ann", "news", "causal")
    confirm(story, "ann", 1)
    story.deliver("dan", message)
    assert false_confirmations(story.events) == ["ann#1 on 'news' was confirmed, and dan got it later"]


def test_a_confirmation_of_what_nobody_published_is_false():
    story = lossy()
    confirm(story, "ann", 7)
    assert false_confirmations(story.events) == ["ann was told that ann#7 is confirmed, which nobody published"]


def test_a_client_that_crashed_can_miss_nothing():
    story = lossy()
    confirm(story, "ann", 1)
    story.other("dan", "crash")
    assert complaints(story.events) == []


def test_a_client_that_was_given_up_before_the_publish_and_knows_it_is_owed_nothing():
    story = Story()
    story.subscribe("dan", "news")
    story.other("b0", "end")
    story.events[-1] = replace(story.events[-1], peer="dan")
    story.publish("ann", "news", "causal")
    confirm(story, "ann", 1)
    assert len(complaints(story.events)) == 2
    story.other("dan", "over")
    assert complaints(story.events) == []


def test_a_client_that_was_given_up_after_the_publish_is_owed_it():
    story = Story()
    story.subscribe("dan", "news")
    story.publish("ann", "news", "causal")
    story.other("b0", "end")
    story.events[-1] = replace(story.events[-1], peer="dan")
    story.other("dan", "over")
    confirm(story, "ann", 1)
    assert len(complaints(story.events)) == 2


def test_runs_are_judged_apart():
    told, untold = lossy(), lossy()
    told.other("dan", "gap")
    rows = [*told.events, *(replace(row, run="other") for row in untold.events)]
    assert len(silent_losses(rows)) == 1
