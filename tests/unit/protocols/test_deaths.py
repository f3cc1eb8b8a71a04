"""The dead that a node knows of: one entry a broker, told once, and not for ever."""

from holdfast.protocols.deaths import Deaths


def test_an_epoch_that_is_dead_makes_all_earlier_ones_so():
    deaths = Deaths()
    deaths.add("b", 5)
    deaths.add("b", 3)
    assert deaths.all() == (("b", 5),)
    assert deaths.covers("b", 4)
    assert not deaths.covers("b", 6)


def test_a_neighbour_is_told_of_each_death_once():
    deaths = Deaths()
    deaths.add("b", 5)
    assert deaths.news_for("p") == (("b", 5),)
    assert deaths.news_for("p") == ()
    deaths.add("c", 1)
    deaths.add("b", 6)
    assert deaths.news_for("p") == (("b", 6), ("c", 1))
    assert deaths.news_for("q") == (("b", 6), ("c", 1))


def test_whoever_is_told_everything_when_its_link_begins_hears_only_what_comes_later():
    deaths = Deaths()
    deaths.add("b", 5)
    assert deaths.all_for("p") == (("b", 5),)
    deaths.add("c", 1)
    assert deaths.news_for("p") == (("c", 1),)


def test_what_did_not_reach_a_neighbour_is_told_again():
    deaths = Deaths()
    deaths.add("b", 5)
    deaths.news_for("p")
    deaths.told_nothing("p")
    assert deaths.news_for("p") == (("b", 5),)


def test_the_first_of_too_many_is_forgotten_and_one_that_died_again_is_not_the_first():
    deaths = Deaths(gone_max=2)
    deaths.add("a", 1)
    deaths.add("b", 1)
    deaths.add("a", 2)
    deaths.add("c", 1)
    assert deaths.all() == (("a", 2), ("c", 1))


def test_one_who_was_not_dead_after_all_is_not_told_of():
    deaths = Deaths()
    deaths.add("b", 5)
    deaths.discard("b")
    assert deaths.news_for("p") == ()
    assert not deaths.covers("b", 5)
