"""Which weaker messages have crossed a total one that is handed over."""

from holdfast.model.batches import Batch, make_batch
from holdfast.model.guarantees import CAUSAL, TOTAL
from holdfast.model.messages import Levels
from holdfast.protocols.ginger.crossings import BEHIND_MAX, Crossings
from holdfast.protocols.stability import StabilityLog


def batch(
    publisher: str, seq: int = 1, topic: str = "t", guarantee: int = CAUSAL, keys: tuple[str, ...] = ("k",)
) -> Batch:
    return make_batch(publisher, seq, topic, guarantee, [b"x"], [keys])


HANDED_OVER = batch("total", guarantee=TOTAL, keys=("k", "l"))


def test_what_went_to_a_parent_since_it_was_asked_has_crossed_what_that_hands_over_if_they_share_a_key():
    crossings = Crossings(StabilityLog(1))
    for one in (
        batch("same"),
        batch("key", keys=("m",)),
        batch("none", keys=()),
        batch("topic", topic="u"),
        batch("ordered", guarantee=TOTAL),
    ):
        crossings.went(one)
    assert crossings.of(HANDED_OVER, "parent", settling=True) == [batch("same")]


def test_when_everything_is_handed_over_nothing_has_crossed_what_comes_later():
    crossings = Crossings(StabilityLog(1))
    crossings.went(batch("p"))
    crossings.clear()
    assert crossings.of(HANDED_OVER, "parent", settling=True) == []


def test_what_a_neighbour_has_not_got_may_have_crossed_what_comes_from_there():
    log = StabilityLog(1)
    log.link("near")
    log.link("far")
    for seq in (1, 2):
        log.went(log.append(batch("p", seq)), "near")
    log.went(log.append(batch("q")), "far")
    log.on_levels("near", Levels((1, 0), (0, 0)))
    assert Crossings(log).of(HANDED_OVER, "near", settling=False) == [batch("p", 2)]
    log.on_levels("near", Levels((2, 0), (0, 0)))
    assert Crossings(log).of(HANDED_OVER, "near", settling=False) == []


def test_beyond_the_bound_the_oldest_is_taken_for_one_that_has_crossed():
    crossings = Crossings(StabilityLog(1))
    dropped = [crossings.went(batch("p", seq)) for seq in range(1, BEHIND_MAX + 2)]
    assert [one for one in dropped if one is not None] == [batch("p", 1)]
    assert len(crossings.of(HANDED_OVER, "parent", settling=True)) == BEHIND_MAX
