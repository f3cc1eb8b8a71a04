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


# ---- what comes from those to whom total batches are handed over


def handing_over() -> tuple[StabilityLog, Crossings]:
    """A total batch on its way to a neighbour that has just come back."""
    log = StabilityLog(1)
    log.link("back")
    log.went(log.append(HANDED_OVER), "back")
    crossings = Crossings(log)
    crossings.reunited(["back", "stranger"])
    return log, crossings


def test_what_comes_from_there_before_the_total_batch_has_arrived_has_crossed_it_if_they_share_a_key():
    _, crossings = handing_over()
    assert crossings.over(batch("p"), "back", apart=False)
    assert not crossings.over(batch("p", keys=("m",)), "back", apart=False)
    assert not crossings.over(batch("p", topic="u"), "back", apart=False)
    assert not crossings.over(batch("p", guarantee=TOTAL), "back", apart=False)
    assert not crossings.over(batch("p"), "stranger", apart=False)


def test_what_was_sent_after_it_had_arrived_has_not():
    log, crossings = handing_over()
    log.on_levels("back", Levels((1, 0), (0, 0)))
    assert not crossings.over(batch("p"), "back", apart=False)


def test_the_word_that_it_has_arrived_overtakes_what_was_sent_before():
    log, crossings = handing_over()
    # It had sent two by then: those come yet.
    log.on_levels("back", Levels((1, 0), (2, 0)))
    for seq in (1, 2):
        assert crossings.over(batch("p", seq), "back", apart=False)
        log.came(log.append(batch("p", seq)), "back")
    assert not crossings.over(batch("p", 3), "back", apart=False)


def test_in_a_part_that_was_a_minority_every_total_batch_on_its_way_counts():
    log = StabilityLog(1)
    log.link("near")
    log.went(log.append(HANDED_OVER), "near")
    assert Crossings(log).over(batch("p"), "near", apart=True)
    assert not Crossings(log).over(batch("p"), "near", apart=False)
    log.on_levels("near", Levels((1, 0), (0, 0)))
    assert not Crossings(log).over(batch("p"), "near", apart=True)
