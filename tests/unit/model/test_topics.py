"""Which topics and patterns are legal, and which pattern matches which topic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import TopicError
from holdfast.model.topics import (
    EVERYTHING,
    TOPIC_BYTES_MAX,
    TOPIC_LEVELS_MAX,
    check_pattern,
    check_stream,
    check_topic,
    check_unreserved,
    matches,
)

LEVELS = st.lists(st.sampled_from(["a", "b", "é"]), min_size=1, max_size=5)


@pytest.mark.parametrize("topic", ["orders", "bank/lisbon/orders", "a b/ç/日本", "a" * TOPIC_BYTES_MAX, "$sys/*?"])
def test_a_legal_topic_is_returned_as_it_is_and_is_a_legal_pattern(topic):
    assert check_topic(topic) == topic
    assert check_pattern(topic) == topic


@pytest.mark.parametrize("pattern", ["#", "+", "+/#", "IST/#", "bank/+/orders", "+/+/+"])
def test_a_legal_pattern_is_returned_as_it_is_and_is_no_topic(pattern):
    assert check_pattern(pattern) == pattern
    with pytest.raises(TopicError, match="wildcard"):
        check_topic(pattern)


@pytest.mark.parametrize("check", [check_topic, check_pattern])
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty; write at least one level"),
        ("/IST/a", r"has an empty level \(level 1\); write 'IST/a'\."),
        ("a//b", r"has an empty level \(level 2\); write 'a/b'\."),
        ("a/", r"has an empty level \(level 2\); write 'a'\."),
        ("//", "write a name between every two '/'"),
        ("a" * (TOPIC_BYTES_MAX + 1), "at most 1024 bytes"),
        ("é" * (TOPIC_BYTES_MAX // 2 + 1), "is 1026 bytes long in UTF-8; at most 1024 are allowed"),
        ("/".join("a" * (TOPIC_LEVELS_MAX + 1)), "has 33 levels; at most 32 are allowed"),
        ("a\nb", r"control character U\+000A at character 2"),
        ("a/\x9f", r"control character U\+009F at character 3"),
        ("a/\ud800", "half a surrogate pair at character 3"),
        (b"a", "is a string such as 'bank/lisbon', not bytes"),
        (["a"], "is a string such as 'bank/lisbon', not list"),
    ],
)
def test_what_neither_topic_nor_pattern_can_be_is_refused_with_a_sentence(check, text, sentence):
    with pytest.raises(TopicError, match=sentence):
        check(text)


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("a+/b", r"wildcard inside its level 'a\+'; '\+' and '#' stand alone"),
        ("a/b#", "wildcard inside its level 'b#'"),
        ("##", "wildcard inside its level '##'"),
        ("a/#/b", "goes on after '#'.* as in 'a/#'"),
        ("#/#", "goes on after '#'"),
    ],
)
def test_a_wildcard_in_the_wrong_place_is_refused_with_what_would_be_legal(pattern, sentence):
    with pytest.raises(TopicError, match=sentence):
        check_pattern(pattern)


def test_an_error_about_a_long_topic_is_short():
    with pytest.raises(TopicError) as caught:
        check_topic("a" * 1_000_000)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [
        ("IST", "IST"),
        ("IST/#", "IST"),
        ("IST/#", "IST/a"),
        ("IST/#", "IST/a/b"),
        ("#", "IST"),
        ("#", "IST/a"),
        ("+", "IST"),
        ("+/#", "IST"),
        ("+/a", "IST/a"),
        ("a/+/c", "a/b/c"),
        ("a/+/#", "a/b"),
    ],
)
def test_a_pattern_matches(pattern, topic):
    assert matches(pattern, topic)


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [
        ("IST", "ist"),
        ("IST", "IST/a"),
        ("IST/a", "IST"),
        ("IST/#", "ISTa"),
        ("+", "IST/a"),
        ("a/+", "a"),
        ("a/+/#", "a"),
        ("a/+/c", "a/b/d"),
        ("a/b/#", "a/c/b"),
    ],
)
def test_a_pattern_does_not_match(pattern, topic):
    assert not matches(pattern, topic)


@pytest.mark.parametrize("topic", ["~narada", "~narada/bank/bundle", "~"])
def test_a_wildcard_in_the_first_level_does_not_match_a_reserved_topic(topic):
    assert not any(matches(pattern, topic) for pattern in ("#", "+", "+/#", "+/+", "+/bank/bundle", "+/bank/#"))


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [
        ("~narada/#", "~narada"),
        ("~narada/#", "~narada/bank/bundle"),
        ("~narada/+/bundle", "~narada/bank/bundle"),
        (EVERYTHING, "~narada/bank/bundle"),
        (EVERYTHING, "bank/orders"),
        ("#", "bank/~orders"),
        ("+/+", "bank/~orders"),
    ],
)
def test_whoever_names_a_reserved_level_or_asks_for_everything_hears_it(pattern, topic):
    assert matches(check_pattern(pattern), topic)


def test_applications_do_not_publish_on_reserved_topics_and_nobody_keeps_them():
    assert check_unreserved("bank/~orders") == "bank/~orders"
    with pytest.raises(TopicError, match=r"'~narada/x' begins with '~'.*Nothing was published\."):
        check_unreserved("~narada/x")
    assert check_stream("bank/#") == "bank/#"
    with pytest.raises(TopicError, match="is not kept"):
        check_stream("~narada/#")
    with pytest.raises(TopicError, match="is not kept"):
        check_stream(EVERYTHING)


@given(levels=LEVELS, mask=st.lists(st.booleans(), min_size=5, max_size=5))
def test_a_topic_with_any_levels_replaced_by_plus_matches_it(levels, mask):
    pattern = "/".join("+" if hide else level for hide, level in zip(mask, levels, strict=False))
    assert matches(check_pattern(pattern), "/".join(levels))
    assert not matches(pattern, "/".join([*levels, "a"]))


@given(levels=LEVELS, more=LEVELS)
def test_the_rest_is_none_or_many_levels(levels, more):
    topic = "/".join(levels)
    assert matches(topic + "/#", topic)
    assert matches(topic + "/#", topic + "/" + "/".join(more))
    assert matches("#", topic)


@given(st.text())
def test_any_text_is_a_topic_or_refused_with_the_one_error(text):
    try:
        topic = check_topic(text)
    except TopicError:
        return
    assert topic == text
    assert matches(check_pattern(text), text)
