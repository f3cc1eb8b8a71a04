"""What a broker has yet to tell to clients whose session it has ended."""

from holdfast.protocols.farewells import Farewells


def test_a_session_that_was_ended_is_over_and_a_later_one_is_not():
    farewells = Farewells(30.0)
    farewells.add("alice", 5, 1.0)
    assert farewells.covers("alice", 5)
    assert farewells.covers("alice", 4)
    assert not farewells.covers("alice", 6)
    assert not farewells.covers("bob", 5)


def test_they_are_forgotten_after_the_time_that_a_session_is_kept():
    farewells = Farewells(30.0)
    farewells.add("alice", 5, 1.0)
    farewells.add("bob", 5, 20.0)
    farewells.expire(31.0)
    assert not farewells.covers("alice", 5)
    assert farewells.covers("bob", 5)


def test_beyond_the_bound_the_latest_are_kept():
    farewells = Farewells(30.0, farewells_max=2)
    for name in ("alice", "bob", "carol"):
        farewells.add(name, 5, 1.0)
    assert len(farewells) == 2
    assert not farewells.covers("alice", 5)
