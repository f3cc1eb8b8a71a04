"""Identities: a name, and which of the sessions under it."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.batches import make_batch
from holdfast.model.identities import CHANCE_BITS, is_tagged, make_identity, moment_of, name_of

names = st.text(min_size=1, max_size=20)
moments = st.integers(0, (1 << 45) - 1)
chances = st.integers(0, (1 << CHANCE_BITS) - 1)


@given(names, moments, chances)
def test_an_identity_says_its_name_and_its_moment(name: str, moment_ms: int, chance: int):
    identity = make_identity(name, moment_ms, chance)
    assert (name_of(identity), moment_of(identity), is_tagged(identity)) == (name, moment_ms, True)


@given(names, st.tuples(moments, chances), st.tuples(moments, chances))
def test_of_two_identities_with_one_name_the_later_session_has_the_greater(
    name: str, one: tuple[int, int], other: tuple[int, int]
):
    assert (make_identity(name, *one) < make_identity(name, *other)) == (one < other)


def test_a_name_without_a_tag_is_its_own_identity():
    for name in ("alice", "a~b", "~" + "0" * 15, "jade-puffin-5f0c21d9", "x~" + "z" * 15):
        assert (name_of(name), is_tagged(name), moment_of(name)) == (name, False, 0)


def test_a_name_that_looks_like_an_identity_gets_a_tag_of_its_own():
    name = make_identity("alice", 1, 2)
    assert name_of(make_identity(name, 3, 4)) == name


def test_applications_see_names():
    identity = make_identity("alice", 1, 2)
    for count in (1, 2):
        messages = make_batch(identity, 5, "t", 0, [b"x"] * count).messages()
        assert [(one.publisher, one.seq) for one in messages] == [("alice", 5 + at) for at in range(count)]
