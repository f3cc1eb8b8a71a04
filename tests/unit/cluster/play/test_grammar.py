"""The language of scripts: each line a value, and each wrong line an error that says what would have been legal."""

import pytest

from holdfast.cluster.play import statements as said
from holdfast.cluster.play.grammar import FORMS, numbered, parse_line, parse_script
from holdfast.cluster.play.words import ScriptError


def values(line: str) -> dict[str, object]:
    found = parse_line(line)
    assert found is not None
    return {key: getattr(found, key) for key in found.__struct_fields__ if key not in ("line", "text")}


@pytest.mark.parametrize("line", ["", "   ", "# all of it", "  #", "#Broker a"])
def test_empty_lines_and_comments_are_nothing(line: str):
    assert parse_line(line) is None


def test_words_may_be_written_in_any_capitals_and_names_are_as_they_are_written():
    assert values("bRoKeR Porto PARENT Lisbon latency 40 port 7001 on M1") == {
        "name": "Porto",
        "parent": "Lisbon",
        "machine": "M1",
        "port": 7001,
        "latency_ms": 40.0,
    }


def test_a_root_may_say_that_it_has_no_parent():
    assert values("Broker a Parent none") == values("Broker a")


@pytest.mark.parametrize(
    ("written", "pattern"),
    [("/IST/*", "IST/#"), ("IST/#", "IST/#"), ("/IST/MEIC", "IST/MEIC"), ("*", "#"), ("#", "#"), ("/+/x", "+/x")],
)
def test_topics_have_two_spellings(written: str, pattern: str):
    assert values(f"Subscriber s Subscribe {written}")["pattern"] == pattern


def test_a_sharp_where_a_pattern_stands_is_a_pattern_and_elsewhere_a_comment():
    found = parse_line("Subscriber s Subscribe #   # everything")
    assert isinstance(found, said.Subscribe)
    assert (found.pattern, found.where, found.text) == ("#", "", "Subscriber s Subscribe #")
    assert values("Wait 5 # Crash a") == {"ms": 5.0}
    assert values("Wait 5 #") == {"ms": 5.0}


def test_a_filter_is_the_rest_of_the_line_and_a_sharp_in_quotes_belongs_to_it():
    found = parse_line("Subscriber s Subscribe t Where  city = 'a # b' and n > 3  # large ones")
    assert isinstance(found, said.Subscribe)
    assert found.where == "city = 'a # b' and n > 3"
    assert found.waits
    assert values("subscriber s subscribe t nowait where n > 3")["waits"] is False


def test_a_publication_has_all_its_options_in_any_order():
    line = (
        "Publisher p Publish 3 OnTopic /a/b Keys k1,k2 Guarantee TOTAL Interval 2s Size 64 Attributes n={n},city=Faro"
    )
    assert values(line) == {
        "client": "p",
        "count": 3,
        "topic": "a/b",
        "interval_ms": 2000.0,
        "guarantee": "total",
        "keys": ("k1", "k2"),
        "attributes": {"n": "{n}", "city": "Faro"},
        "size_bytes": 64,
    }
    assert numbered({"n": "{n}", "amount": "{n}00", "city": "Faro"}, 7) == {"n": 7, "amount": 700, "city": "Faro"}


def test_orderings_have_the_names_of_the_report_and_ours():
    assert [values(f"Ordering {word}")["guarantee"] for word in ("NO", "none", "FIFO", "Total")] == [
        "eventual",
        "eventual",
        "fifo",
        "total",
    ]


def test_expectations_are_read_with_and_without_the_word_for_the_client():
    assert values("Expect Subscriber bob Delivered AtLeast 3 OnTopic /IST/* From alice Within 2s") == {
        "within_ms": 2000.0,
        "client": "bob",
        "comparison": "at least",
        "count": 3,
        "pattern": "IST/#",
        "publisher": "alice",
    }
    assert values("expect bob delivered 3") == values("Expect Client bob Delivered 3")
    assert values("Expect bob Order a#1..3 b#2")["runs"] == (said.Run("a", 1, 3), said.Run("b", 2, 2))
    assert [values(f"Expect {word}")["mark"] for word in ("clean", "NoLoss", "Order causal", "Broken")] == [
        "clean",
        "noloss",
        "causal",
        "broken",
    ]
    assert values("Expect Broker a Down") == {"within_ms": 0.0, "node": "a", "state": "down"}


def test_every_error_has_the_line_and_says_how_the_command_is_written():
    with pytest.raises(ScriptError) as raised:
        parse_script("Broker a\n\n# comment\nPublisher p Publish many OnTopic t\n", "evening.play")
    assert str(raised.value).startswith(
        "evening.play:4: 'many' is no number of messages; expected a whole number from 1 to 1000000. "
        "Write: Publisher NAME At BROKER"
    )


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("Bruker a", "there is no command 'Bruker' (did you mean 'broker'?); expected Protocol, Tolerance"),
        ("Broker", "expected a broker behind 'Broker', but the line ends there"),
        ("Broker a b", "'b' is no option here; expected parent, on, port or latency"),
        ("Broker a Parrent b", "'Parrent' is no option here (did you mean 'parent'?)"),
        ("Broker a Parent b Parent c", "'Parent' is said twice"),
        ("Broker /a", "'/a' is no name for a broker; a name has up to 64 letters"),
        ("Tolerance 3", "'3' is no tolerance; expected a whole number from 0 to 2"),
        (
            "RoutingPolicy flood",
            "'flood' is no routing policy (did you mean 'flooding'?); expected flooding or filtering",
        ),
        ("LoggingLevel", "expected level (light or full) behind 'LoggingLevel'"),
        ("Wait soon", "'soon' is no time; expected milliseconds, as in 500, or 500ms, or 2s"),
        ("Wait 5 6", "'6' is one word too many"),
        ("Wait 999999999", "'999999999' is too long for time"),
        ("Subscriber s Publish 1 OnTopic t", "'Publish' is no word behind the client's name"),
        ("Publisher p Publish 1 t", "'t' is no word behind the number; expected ontopic"),
        ("Publisher p Publish 1 OnTopic a/+", "has a wildcard in its level"),
        ("Publisher p Publish 1 OnTopic ~x", "begins with '~'"),
        ("Subscriber s Subscribe a/*/b", "'*' stands for all levels that remain, so it comes last"),
        ("Subscriber s Subscribe t Where n >", "the filter cannot be read"),
        ("Subscriber s Unsubscribe t NoWait", "NoWait is for Subscribe"),
        ("Publisher p Publish 1 OnTopic t Attributes n", "'n' is no attribute; expected name=value"),
        ("Publisher p Publish 1 OnTopic t Guarantee best", "'best' is no guarantee"),
        ("Expect", "expected what is expected, but the line ends there"),
        ("Expect bob Deliverd 3", "'Deliverd' is no expectation (did you mean 'delivered'?)"),
        ("Expect bob Order a1", "'a1' are no messages; expected PUBLISHER#NUMBER or PUBLISHER#FIRST..LAST"),
        ("Expect bob Order a#3..1", "'a#3..1' are no messages"),
        ("Heal now", "'now' is one word too many"),
    ],
)
def test_a_wrong_line_is_told_with_what_would_have_been_legal(line: str, sentence: str):
    with pytest.raises(ScriptError) as raised:
        parse_line(line, 7, "s.play")
    assert str(raised.value).startswith(f"s.play:7: {sentence}") or sentence in str(raised.value)
    assert raised.value.args[0].startswith("s.play:7: ")


def test_every_command_says_how_it_is_written_and_what_it_does():
    for word, form in FORMS.items():
        assert form.usage.split()[0].casefold() == word
        assert form.meaning
