"""Content filters: what they mean, how they are normalised, and how they are refused."""

import copy
import pickle
import time
from collections.abc import Mapping

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from holdfast.model.errors import FilterError
from holdfast.model.filters import (
    FILTER_CHARACTERS_MAX,
    FILTER_DEPTH_MAX,
    FILTER_TERMS_MAX,
    Filter,
    parse_filter,
)


def wants(text, **attributes):
    return parse_filter(text).matches(attributes)


# ---------------------------------------------------------------------------------------------------- what they mean


@pytest.mark.parametrize(
    ("text", "below", "same", "above"),
    [
        ("n = 5", False, True, False),
        ("n == 5", False, True, False),
        ("n != 5", True, False, True),
        ("n < 5", True, False, False),
        ("n <= 5", True, True, False),
        ("n > 5", False, False, True),
        ("n >= 5", False, True, True),
        ("5 = n", False, True, False),
        ("5 != n", True, False, True),
        ("5 > n", True, False, False),
        ("5 >= n", True, True, False),
        ("5 < n", False, False, True),
        ("5 <= n", False, True, True),
    ],
)
def test_numbers_compare_on_either_side(text, below, same, above):
    assert (wants(text, n=4), wants(text, n=5), wants(text, n=6)) == (below, same, above)
    assert (wants(text, n=4.5), wants(text, n=5.0), wants(text, n=5.5)) == (below, same, above)


def test_integers_and_floats_compare_exactly():
    assert not wants("n = 9007199254740993", n=float(2**53))
    assert wants("n > 9007199254740992.0", n=2**53 + 1)
    assert wants("n > 1e308", n=10**400)
    assert wants("n = 0.1", n=0.1)
    assert wants("n = -0.0", n=0)


def test_strings_compare_by_code_points():
    assert wants("s < 'b'", s="a")
    assert wants("s < 'a'", s="Z")
    assert wants("'é' = s", s="é")
    assert not wants("s = 'a'", s="A")


def test_booleans_are_equal_or_unequal_and_nothing_else():
    assert wants("f = true", f=True)
    assert wants("f != TRUE", f=False)
    assert not wants("f = true", f=1)
    assert not wants("f != true", f=0)
    assert not wants("f = 1", f=True)
    assert not wants("f != 0", f=True)
    assert not wants("f > 0", f=True)
    assert not wants("f in (0, 1)", f=True)


@pytest.mark.parametrize(
    "term",
    ["x = 5", "x != 5", "x < 5", "x >= 5", "x in (5)", "x not in (5)", "x startswith '5'", "x = false", "x != true"],
)
def test_a_term_about_an_absent_attribute_is_false_and_its_negation_true(term):
    assert not wants(term, y=1)
    assert wants(f"not {term}", y=1)


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("x = 5", "5"),
        ("x != 5", "5"),
        ("x < 5", ""),
        ("x != 'a'", 5),
        ("x >= ''", 5),
        ("x startswith ''", 5),
        ("x in (5, 6)", "5"),
        ("x not in (5, 6)", "5"),
        ("x not in ('a')", 5),
    ],
)
def test_a_term_between_a_string_and_a_number_is_false_and_its_negation_true(term, value):
    assert not wants(term, x=value)
    assert wants(f"not {term}", x=value)


def test_a_list_of_several_kinds_is_compared_kind_by_kind():
    assert wants("x in ('a', 1, true)", x="a")
    assert wants("x in ('a', 1, true)", x=1.0)
    assert wants("x in ('a', 1, true)", x=True)
    assert not wants("x in ('a', 1, true)", x=False)
    assert wants("x not in ('a', 1, true)", x=False)
    assert wants("x not in ('a', 1)", x=2)
    assert not wants("x not in ('a', 1)", x=1)
    assert not wants("x not in ('a', 1)", x=False)


def test_a_prefix_is_looked_for_at_the_start_only():
    assert wants("s startswith 'ab'", s="abc")
    assert wants("s prefix 'ab'", s="ab")
    assert not wants("s startswith 'ab'", s="cab")


def test_exists_asks_for_the_name_alone():
    assert wants("exists x", x=False)
    assert not wants("exists x", y=1)
    assert wants("not exists x", y=1)


def test_not_binds_tighter_than_and_and_tighter_than_or():
    assert wants("not a = 1 and b = 1", a=2, b=1)
    assert wants("a = 1 or b = 1 and c = 1", a=1, b=1, c=2)
    assert not wants("(a = 1 or b = 1) and c = 1", a=1, b=1, c=2)
    assert not wants("not (a = 1 or b = 1)", a=1, b=2)


def test_a_name_may_have_dots_and_keywords_may_be_in_any_case():
    assert parse_filter("order.total > 5 AND Not order.region In ('x')").matches(
        {"order.total": 6, "order.region": "y"}
    )


def test_nan_as_an_attribute_is_unequal_to_every_number():
    nan = float("nan")
    assert wants("x != 5", x=nan)
    assert wants("x not in (5)", x=nan)
    assert not any(wants(term, x=nan) for term in ("x = 5", "x < 5", "x > 5", "x in (5)"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"s = 'it\'s'", "it's"),
        (r's = "it\'s"', "it's"),
        ('s = "it\'s"', "it's"),
        (r's = "a\"b"', 'a"b'),
        (r"s = 'a\\b'", "a\\b"),
        (r"s = '\n\r\t'", "\n\r\t"),
        (r"s = '\u00e9\u0000'", "é\0"),
        ("s = 'and or not ( ='", "and or not ( ="),
        ("s = '日本 🌊'", "日本 🌊"),
        ("s = ''", ""),
    ],
)
def test_strings_may_be_quoted_and_escaped_in_these_ways(text, value):
    assert wants(text, s=value)
    assert not wants(text, s=value + "x")


# ---------------------------------------------------------------------------------------------------- canonical text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (" amount>100 ", "amount > 100"),
        ("100<amount", "amount > 100"),
        ("a==1.0", "a = 1"),
        ("a = +1e3", "a = 1000"),
        ("a = -.5", "a = -0.5"),
        ("a = 1e22", "a = 1e+22"),
        ('a prefix "it\'s"', r"a startswith 'it\'s'"),
        ("a=1 and(b=2 and c=3)", "a = 1 and b = 2 and c = 3"),
        ("(a=1 or(b=2))or c=3", "a = 1 or b = 2 or c = 3"),
        ("(a=1 OR b=2)AND c=3", "(a = 1 or b = 2) and c = 3"),
        ("a=1 and b=2 or((c=3))", "a = 1 and b = 2 or c = 3"),
        ("not(a=1)", "not a = 1"),
        ("not(a=1 and b=2)", "not (a = 1 and b = 2)"),
        ("NOT NOT exists a", "not not exists a"),
        ("a NOT\nIN(1,'x' ,TRUE)", "a not in (1, 'x', true)"),
        ("a = '\x7f'", r"a = '\u007f'"),
    ],
)
def test_the_canonical_text_has_one_spelling(text, canonical):
    parsed = parse_filter(text)
    assert (parsed.text, parsed.canonical) == (text, canonical)
    assert parse_filter(canonical).canonical == canonical


def test_filters_that_differ_in_spelling_are_equal_and_others_are_not():
    assert parse_filter("a>1") == parse_filter("1 < a")
    assert hash(parse_filter("a>1")) == hash(parse_filter("1 < a"))
    assert parse_filter("a>1") != parse_filter("a>=1")


def test_a_filter_can_be_pickled_and_copied():
    original = parse_filter("a>1")
    for again in (pickle.loads(pickle.dumps(original)), copy.deepcopy(original)):
        assert (again, again.text) == (original, "a>1")
        assert again.matches({"a": 2})


# ---------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("text", "position", "sentence"),
    [
        ("", 0, "is empty"),
        ("  ", 2, "is empty"),
        ("amount", 6, "a comparison, 'in', 'not in' or 'startswith'"),
        ("amount >", 8, "A value .* is missing after '>'; found the end of the filter"),
        ("amount > and", 9, "is missing after '>'; found 'and'"),
        ("> 5", 0, "A condition .* is missing before '>'"),
        ("5 <", 3, "The name of an attribute is missing after '<'"),
        ("5 < 6", 4, "comes the name of an attribute, not the value 6"),
        ("5 in (1)", 2, "After the value 5 comes a comparison"),
        ("a = b", 4, "comes a value, not the name 'b'; quote it"),
        ("a = 1 and", 9, "A condition .* is missing before the end"),
        ("a = 1 or or b = 2", 9, "A condition .* is missing before 'or'"),
        ("a = 1 b = 2", 6, "comes 'and', 'or' or the end, not 'b'"),
        ("not", 3, "A condition .* is missing before the end"),
        ("(a = 1", 0, r"This '\(' is not closed"),
        ("(a = 1 5", 7, r"comes 'and', 'or' or '\)', not 5"),
        ("a = 1)", 5, r"This '\)' closes nothing"),
        ("()", 1, "A condition .* is missing before '\\)'"),
        ("a in 5", 5, r"After 'in' comes '\(' and a list"),
        ("a in ()", 6, r"is missing after '\('"),
        ("a in (1,)", 8, "is missing after ','"),
        ("a in (1 2)", 8, "comes ',' or '\\)', not 2"),
        ("a in (1", 5, "This list is not closed"),
        ("a not 5", 6, "comes 'in', not 5"),
        ("a startswith 5", 13, "needs a quoted string, not 5"),
        ("exists 5", 7, "comes the name of an attribute, not the value 5"),
        ("exists", 6, "name of an attribute is missing after 'exists'"),
        ("a = 'abc", 4, "not closed; end it with '"),
        ('a = "abc\\"', 4, 'not closed; end it with "'),
        ("a = 'x\\qy'", 6, r"'\\q' is not an escape"),
        ("a = '\\ud800'", 5, "half a surrogate pair"),
        ("a = '\ud800'", 5, "Half a surrogate pair"),
        ("a ! 5", 2, "'!' alone is not an operator"),
        ("a = $5", 4, "The character '\\$' has no meaning"),
        ("a = -", 4, "The character '-' has no meaning"),
        ("a = 5x", 5, "The number 5 runs into 'x'"),
        ("a = 1.2.3", 7, "The number 1.2 runs into '.'"),
        ("a = nan", 4, "nan is not a number"),
        ("a < Infinity", 4, "Infinity is not a number"),
        ("a = 1e400", 4, "1e400 is too large"),
        ("a = " + "9" * 65, 4, "65 characters long; at most 64"),
        ("a < true", 2, "true is neither less nor more"),
        ("false >= a", 6, "false is neither less nor more"),
    ],
)
def test_what_is_not_a_filter_is_refused_at_its_place(text, position, sentence):
    with pytest.raises(FilterError, match=sentence) as caught:
        parse_filter(text)
    assert (caught.value.text, caught.value.position) == (text, position)


def test_what_is_not_text_is_refused():
    with pytest.raises(FilterError, match=r"is a string such as .*, not list"):
        parse_filter(["a = 1"])  # type: ignore[arg-type]


def test_the_length_is_bounded_before_and_after_normalising():
    longest = "a = '" + "x" * (FILTER_CHARACTERS_MAX - 6) + "'"
    assert parse_filter(longest).canonical == longest
    with pytest.raises(FilterError, match="4097 characters long; at most 4096"):
        parse_filter(longest + " ")
    with pytest.raises(FilterError, match="once it is evenly spaced"):
        parse_filter("a='" + "\x01" * 1000 + "'")


def test_the_depth_is_bounded():
    deepest = "(" * FILTER_DEPTH_MAX + "a = 1" + ")" * FILTER_DEPTH_MAX
    assert parse_filter(deepest).matches({"a": 1})
    assert not parse_filter("not " * FILTER_DEPTH_MAX + "a = 1").matches({"a": 2})
    for deeper in (f"({deepest})", f"not {deepest}", "(" * FILTER_CHARACTERS_MAX, "not " * 1024):
        with pytest.raises(FilterError, match="nests deeper here than the 32 levels") as caught:
            parse_filter(deeper)
        assert caught.value.position <= 4 * FILTER_DEPTH_MAX


def test_what_stands_side_by_side_is_not_deep():
    assert parse_filter(" and ".join(["(not a = 1)"] * 2 * FILTER_DEPTH_MAX)).matches({"a": 2})


def test_the_number_of_terms_is_bounded_and_a_list_is_one():
    most = " or ".join(["a = 1"] * FILTER_TERMS_MAX)
    assert parse_filter(most).matches({"a": 1})
    with pytest.raises(FilterError, match="more than the 256 terms") as caught:
        parse_filter(most + " or b = 2")
    assert caught.value.position == len(most) + 4
    assert parse_filter(f"a in ({', '.join(map(str, range(500)))})").matches({"a": 499})


# ---------------------------------------------------------------------------------- against a naive evaluator
#
# A tree is nested tuples. `Spelling` writes it with spaces, parentheses and synonyms as it likes; `holds` evaluates it
# by the sentences in the module's docstring, sharing nothing with the parser or the compiled closures.

NAMES = st.sampled_from(["a", "b", "order.total", "ção"])
STRINGS = st.one_of(
    st.sampled_from(["", "a", "ab", "abc", "it's", '"', "\\", "\n"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, -0.5, 1.0, 2**53, 2.0**53, 2**53 + 1, 1e300, 10**20, -0.0]),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
VALUES = st.one_of(STRINGS, NUMBERS, st.booleans())
TERMS = st.one_of(
    st.tuples(
        st.just("compare"), NAMES, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), st.one_of(STRINGS, NUMBERS)
    ),
    st.tuples(st.just("compare"), NAMES, st.sampled_from(["=", "!="]), st.booleans()),
    st.tuples(st.just("in"), NAMES, st.lists(VALUES, min_size=1, max_size=4), st.booleans()),
    st.tuples(st.just("startswith"), NAMES, STRINGS),
    st.tuples(st.just("exists"), NAMES),
)
TREES = st.recursive(
    TERMS,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=4)),
    ),
    max_leaves=12,
)
ATTRIBUTES = st.dictionaries(NAMES, VALUES)


def kind(value):
    return {str: "string", int: "number", float: "number", bool: "boolean"}[type(value)]


def compare(operator, value, literal):
    if value is None or kind(value) != kind(literal):
        return False
    less, same = (False, value is literal) if kind(value) == "boolean" else (value < literal, value == literal)
    return {"=": same, "!=": not same, "<": less, "<=": less or same, ">": not less and not same, ">=": not less}[
        operator
    ]


def holds(tree, attributes):
    match tree:
        case ("compare", name, operator, literal):
            return compare(operator, attributes.get(name), literal)
        case ("in", name, literals, negated):
            value = attributes.get(name)
            alike = [literal for literal in literals if value is not None and kind(value) == kind(literal)]
            return bool(alike) and any(compare("=", value, literal) for literal in alike) != negated
        case ("startswith", name, start):
            value = attributes.get(name)
            return isinstance(value, str) and value[: len(start)] == start
        case ("exists", name):
            return attributes.get(name) is not None
        case ("not", inner):
            return not holds(inner, attributes)
        case ("and", parts):
            return all(holds(part, attributes) for part in parts)
        case ("or", parts):
            return any(holds(part, attributes) for part in parts)
    raise AssertionError(tree)


class Spelling:
    """Writes a tree as text, drawing every choice that must not matter."""

    def __init__(self, draw):
        self.draw = draw

    def one_of(self, *choices):
        return self.draw(st.sampled_from(choices))

    def space(self):
        return self.one_of("", " ", "\t\n ")

    def word(self, word):
        return f" {self.one_of(word, word.upper(), word.title())} "

    def literal(self, value):
        if isinstance(value, bool):
            return self.one_of("true", "TRUE") if value else self.one_of("false", "False")
        if not isinstance(value, str):
            return repr(value)
        quote = self.one_of("'", '"')
        escaped = value.replace("\\", "\\\\").replace(quote, "\\" + quote)
        return quote + (escaped.replace("\n", "\\n") if self.one_of(True, False) else escaped) + quote

    def comparison(self, name, operator, literal):
        symbol = self.one_of("=", "==") if operator == "=" else operator
        left, right = name, self.literal(literal)
        if self.one_of(True, False):
            left, right = right, left
            symbol = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(symbol, symbol)
        return f"{left}{self.space()}{symbol}{self.space()}{right}"

    def text(self, tree):
        match tree:
            case ("compare", name, operator, literal):
                text = self.comparison(name, operator, literal)
            case ("in", name, literals, negated):
                listed = ",".join(f"{self.space()}{self.literal(literal)}{self.space()}" for literal in literals)
                text = f"{name}{self.word('not') if negated else ''}{self.word('in')}({listed})"
            case ("startswith", name, start):
                text = f"{name}{self.word(self.one_of('startswith', 'prefix'))}{self.literal(start)}"
            case ("exists", name):
                text = f"{self.word('exists')}{name}"
            case ("not", inner):
                text = self.word("not") + self.wrapped(inner, ("and", "or"))
            case ("and", parts):
                text = self.word("and").join(self.wrapped(part, ("or",)) for part in parts)
            case ("or", parts):
                text = self.word("or").join(self.text(part) for part in parts)
            case _:
                raise AssertionError(tree)
        return text

    def wrapped(self, tree, needing):
        text = self.text(tree)
        return f"({self.space()}{text}{self.space()})" if tree[0] in needing or self.one_of(True, False) else text


@st.composite
def spelled_trees(draw):
    tree = draw(TREES)
    return tree, Spelling(draw).text(tree)


@settings(max_examples=400)
@given(spelled=spelled_trees(), attributes=st.lists(ATTRIBUTES, min_size=1, max_size=6))
def test_a_filter_means_what_a_naive_evaluator_says_and_so_does_its_canonical_text(spelled, attributes):
    tree, text = spelled
    assume(len(text) <= FILTER_CHARACTERS_MAX)
    parsed = parse_filter(text)
    again = parse_filter(parsed.canonical)
    assert again.canonical == parsed.canonical
    for each in attributes:
        assert parsed.matches(each) is holds(tree, each)
        assert again.matches(each) is holds(tree, each)


@given(data=st.data(), tree=TREES)
def test_spelling_makes_no_difference_to_the_canonical_text(data, tree):
    first, second = (Spelling(data.draw).text(tree) for _ in range(2))
    assert parse_filter(first).canonical == parse_filter(second).canonical


# ---------------------------------------------------------------------------------------------------- any text

PIECES = st.sampled_from(
    [
        *"()',=<>!\\\"-+. \n$e",
        "and",
        "or",
        "NOT",
        "in",
        "exists",
        "prefix",
        "true",
        "a",
        "a.b",
        "1",
        "1.5e3",
        "'s'",
        "==",
    ]
)


def filter_or_error(text) -> Filter | FilterError:
    try:
        return parse_filter(text)
    except FilterError as error:
        return error


def parses_or_is_refused(text):
    parsed = filter_or_error(text)
    if isinstance(parsed, FilterError):
        assert parsed.text == text
        assert 0 <= parsed.position <= len(text)
        assert len(str(parsed)) < 500
        return
    assert isinstance(parsed.matches({"a": 1, "a.b": "s"}), bool)
    assert parse_filter(parsed.canonical) == parsed


@settings(max_examples=500)
@given(st.one_of(st.text(), st.lists(PIECES).map("".join), st.lists(PIECES).map(" ".join)))
@example("a" * 5000)
@example("'" + "\\" * 4000)
@example("'" * 4095)
@example("1" * 4096)
@example("a." * 2048)
@example("a in (" + "1," * 2040)
@example("(" * 4096)
@example("a" * 4000 + " = 'x")
def test_any_text_is_a_filter_or_refused_with_the_one_error(text):
    parses_or_is_refused(text)


@pytest.mark.parametrize(
    "unit", ["'", "\\", "'\\", "1", "a.", "a ", "(", "not ", "a=1 or ", "a in (1,", " ", "=", "é", "1e"]
)
def test_the_worst_text_that_is_short_enough_is_judged_at_once(unit):
    text = (unit * FILTER_CHARACTERS_MAX)[:FILTER_CHARACTERS_MAX]
    start_s = time.process_time()
    parses_or_is_refused(text)
    # It takes milliseconds. Much longer would mean that something is quadratic, not that a machine is slow.
    assert time.process_time() - start_s < 1.0


def test_a_filter_is_asked_with_any_mapping():
    class Attributes(Mapping[str, int]):
        def __getitem__(self, name):
            return {"a": 1}[name]

        def __iter__(self):
            return iter("a")

        def __len__(self):
            return 1

    assert parse_filter("a = 1 and exists a").matches(Attributes())
