"""How content filters are written: from text to a tree of conditions, and from the tree back to its canonical text.

    filter      = all-of { "or" all-of }
    all-of      = condition { "and" condition }
    condition   = "not" condition | "(" filter ")" | term
    term        = name operator literal | literal operator name | name ["not"] "in" "(" literal { "," literal } ")"
                | name ("startswith" | "prefix") string | "exists" name
    operator    = "=" | "==" | "!=" | "<" | "<=" | ">" | ">="
    literal     = number | string | "true" | "false"
    name        = identifier { "." identifier }

Words of the grammar are recognised in any case and cannot be names. Strings stand in single or double quotes and know
the escapes `\\\\ \\' \\" \\n \\r \\t \\uXXXX`. What the conditions mean is in `filters`, next door.
"""

from __future__ import annotations

import math
import re
from sys import intern
from typing import Literal, NamedTuple, NoReturn

from msgspec import Struct

from holdfast.model.errors import FilterError

Value = str | int | float | bool
Operator = Literal["=", "!=", "<", "<=", ">", ">="]

FILTER_CHARACTERS_MAX = 4096
FILTER_DEPTH_MAX = 32  # parentheses and "not"s around one condition
FILTER_TERMS_MAX = 256  # a whole "in" list is one term: it is looked up, not walked
NUMBER_CHARACTERS_MAX = 64
_SHOWN_CHARACTERS_MAX = 40


class Comparison(Struct, frozen=True, gc=False):
    """`name operator value`."""

    name: str
    operator: Operator
    value: Value


class Membership(Struct, frozen=True, gc=False):
    """`name in (values)`, or `not in` when negated."""

    name: str
    values: tuple[Value, ...]
    negated: bool


class Prefix(Struct, frozen=True, gc=False):
    """`name startswith start`."""

    name: str
    start: str


class Exists(Struct, frozen=True, gc=False):
    """`exists name`."""

    name: str


class Not(Struct, frozen=True, gc=False):
    """`not condition`."""

    condition: Condition


class AllOf(Struct, frozen=True, gc=False):
    """`condition and condition ...`, two or more, none of them an `AllOf`."""

    conditions: tuple[Condition, ...]


class AnyOf(Struct, frozen=True, gc=False):
    """`condition or condition ...`, two or more, none of them an `AnyOf`."""

    conditions: tuple[Condition, ...]


Condition = Comparison | Membership | Prefix | Exists | Not | AllOf | AnyOf


class Token(NamedTuple):
    """A piece of filter text; `kind` is "name", "literal", "end", or the keyword or symbol itself."""

    kind: str
    text: str
    value: Value
    position: int


_new_token = tuple.__new__
_KEYWORDS = frozenset({"and", "or", "not", "in", "startswith", "prefix", "exists"})
_TRUTH = {"true": True, "false": False}
_WORDS: dict[str, tuple[str, Value]] = {
    **{word: (word, word) for word in _KEYWORDS},
    **{word: ("literal", value) for word, value in _TRUTH.items()},
}
_SYMBOLS: dict[str, Operator] = {"=": "=", "==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED: dict[Operator, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NOT_FINITE = frozenset({"nan", "inf", "infinity"})

_TOKEN = re.compile(
    r"""\s* (?: ( [+-]? (?: [0-9]+ (?: \.[0-9]+ )? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? )
        | ( [^\W\d]\w* (?: \.[^\W\d]\w* )* )
        | ( ' (?: [^'\\] | \\. )* ' | " (?: [^"\\] | \\. )* " )
        | ( == | != | <= | >= | [=<>(),] )
        | \Z )
    """,
    re.VERBOSE | re.DOTALL,
)
_NUMBER, _WORD, _STRING = 1, 2, 3  # the groups of the expression above; the fourth is a symbol
_SPACE = re.compile(r"\s*")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}
_NEEDS_ESCAPE = re.compile(r"[\\'\x00-\x1f\x7f-\x9f]")
_ESCAPES = {"\\": r"\\", "'": r"\'", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


def parse_condition(text: str) -> Condition:
    """The tree of conditions that `text` writes down; raises `FilterError` when it writes none."""
    if len(text) > FILTER_CHARACTERS_MAX:
        sentence = f"The filter is {len(text)} characters long; at most {FILTER_CHARACTERS_MAX} are allowed."
        raise FilterError(sentence, text, FILTER_CHARACTERS_MAX)
    return _Parser(text).parse()


def print_condition(condition: Condition) -> str:
    """The canonical text: one spelling of every operator, one space, attribute left, no needless parentheses."""
    match condition:
        case Comparison(name, operator, value):
            return f"{name} {operator} {print_literal(value)}"
        case Membership(name, values, negated):
            return f"{name} {'not in' if negated else 'in'} ({', '.join(map(print_literal, values))})"
        case Prefix(name, start):
            return f"{name} startswith {print_literal(start)}"
        case Exists(name):
            return f"exists {name}"
        case Not(AllOf() | AnyOf() as inner):
            return f"not ({print_condition(inner)})"
        case Not(inner):
            return f"not {print_condition(inner)}"
        case AllOf(conditions):
            return " and ".join(
                f"({print_condition(c)})" if isinstance(c, AnyOf) else print_condition(c) for c in conditions
            )
        case AnyOf(conditions):
            return " or ".join(map(print_condition, conditions))


def print_literal(value: Value) -> str:
    """A literal as the canonical text writes it. `1`, `1.0` and `1e0` are one number and look the same."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + _NEEDS_ESCAPE.sub(lambda m: _ESCAPES.get(m[0]) or f"\\u{ord(m[0]):04x}", value) + "'"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return repr(value)


def _tokens(text: str) -> list[Token]:
    """The text's pieces, and an "end" behind the last."""
    tokens: list[Token] = []
    position = 0
    while True:
        found = _TOKEN.match(text, position)
        if found is None:
            space = _SPACE.match(text, position)
            _refuse_character(text, position if space is None else space.end())
        group = found.lastindex
        if group is None:
            tokens.append(_new_token(Token, ("end", "", "", len(text))))
            return tokens
        piece, start = found[group], found.start(group)
        position = found.end()
        if group == _WORD:
            piece = intern(piece)  # filters of one application share few names: each is in memory once
            kind, value = _WORDS.get(piece) or _WORDS.get(piece.lower()) or ("name", piece)
        elif group == _STRING:
            kind, value = "literal", _unescaped(text, start, piece) if "\\" in piece else piece[1:-1]
        elif group == _NUMBER:
            kind, value = "literal", _number(text, start, position)
        else:
            kind = value = piece
        # Half the price of `Token(...)`: a long filter has thousands of them.
        tokens.append(_new_token(Token, (kind, piece, value, start)))


def _refuse_character(text: str, position: int) -> NoReturn:
    character = text[position]
    if character in "'\"":
        raise FilterError(f"The string that begins here is not closed; end it with {character}.", text, position)
    if character == "!":
        raise FilterError("'!' alone is not an operator; write '!=' or 'not'.", text, position)
    raise FilterError(
        f"The character {character!r} has no meaning here; filters consist of names, numbers, quoted strings, "
        "comparisons, 'in', 'startswith', 'exists', 'and', 'or', 'not' and parentheses.",
        text,
        position,
    )


def _number(text: str, start: int, end: int) -> int | float:
    piece = text[start:end]
    if end < len(text) and (text[end] in "._" or text[end].isalnum()):
        raise FilterError(f"The number {piece} runs into {text[end]!r}; put a space or an operator between.", text, end)
    if len(piece) > NUMBER_CHARACTERS_MAX:
        sentence = f"The number is {len(piece)} characters long; at most {NUMBER_CHARACTERS_MAX} are allowed."
        raise FilterError(sentence, text, start)
    if piece.lstrip("+-").isdigit():
        return int(piece)
    number = float(piece)
    if not math.isfinite(number):
        raise FilterError(f"The number {piece} is too large; write one below 1.7e308.", text, start)
    return number


def _unescaped(text: str, position: int, piece: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        place = position + 1 + found.start()
        if found[1] is None:
            if found[2] not in _ESCAPED:
                sentence = f"'\\{found[2]}' is not an escape; legal ones are \\\\ \\' \\\" \\n \\r \\t and \\uXXXX."
                raise FilterError(sentence, text, place)
            return _ESCAPED[found[2]]
        character = chr(int(found[1], 16))
        if "\ud800" <= character <= "\udfff":
            raise FilterError(f"'{found[0]}' is half a surrogate pair; write the character itself.", text, place)
        return character

    return _ESCAPE.sub(replaced, piece[1:-1])


class _Parser:
    """Recursive descent, one method for each rule of the grammar; depth and terms are counted on the way."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise FilterError("Half a surrogate pair is not a character that can be sent.", text, error.start) from None
        self.tokens = _tokens(text)
        self.index = 0
        self.depth = 0
        self.terms = 0

    def parse(self) -> Condition:
        if self._peek.kind == "end":
            self._refuse("The filter is empty; write a condition such as amount > 100, or leave the filter out.")
        condition = self._filter()
        if self._peek.kind == ")":
            self._refuse("This ')' closes nothing; remove it, or open '(' before.")
        if self._peek.kind != "end":
            self._refuse(f"After a condition comes 'and', 'or' or the end, not {_described(self._peek)}.")
        return condition

    def _filter(self) -> Condition:
        conditions = [self._all_of()]
        while self._accept("or"):
            conditions.append(self._all_of())
        if len(conditions) == 1:
            return conditions[0]
        # (a or b) or c is a or b or c: flat, so that long chains are neither deep nor parenthesised.
        return AnyOf(tuple(part for c in conditions for part in (c.conditions if isinstance(c, AnyOf) else (c,))))

    def _all_of(self) -> Condition:
        conditions = [self._condition()]
        while self._accept("and"):
            conditions.append(self._condition())
        if len(conditions) == 1:
            return conditions[0]
        return AllOf(tuple(part for c in conditions for part in (c.conditions if isinstance(c, AllOf) else (c,))))

    def _condition(self) -> Condition:
        opening = self.tokens[self.index]
        if opening.kind not in ("not", "("):
            return self._term()
        self.depth += 1
        if self.depth > FILTER_DEPTH_MAX:
            self._refuse(f"The filter nests deeper here than the {FILTER_DEPTH_MAX} levels that are allowed.")
        self._next()
        if opening.kind == "not":
            condition: Condition = Not(self._condition())
        else:
            condition = self._filter()
            if not self._accept(")"):
                if self._peek.kind == "end":
                    self._refuse("This '(' is not closed; write ')' behind its condition.", opening)
                self._refuse(f"After a condition comes 'and', 'or' or ')', not {_described(self._peek)}.")
        self.depth -= 1
        return condition

    def _term(self) -> Condition:
        self.terms += 1
        if self.terms > FILTER_TERMS_MAX:
            self._refuse(f"The filter has more than the {FILTER_TERMS_MAX} terms that are allowed.")
        first = self.tokens[self.index]
        if first.kind == "name":
            self.index += 1
            return self._term_of(first)
        if first.kind == "exists":
            self._next()
            return Exists(self._name("exists"))
        if first.kind != "literal":
            self._refuse(f"A condition such as amount > 100 is missing before {_described(first)}.")
        self._next()
        operator = self._operator(f"After the value {_described(first)} comes a comparison such as '<'")
        return self._comparison(self._name(operator.text), operator, first, mirrored=True)

    def _term_of(self, name: Token) -> Condition:
        """The rest of a term that begins with an attribute's name."""
        behind = self.tokens[self.index]
        if behind.kind in _SYMBOLS:
            self.index += 1
            return self._comparison(name.text, behind, self._literal(behind.text), mirrored=False)
        if self._accept("startswith") or self._accept("prefix"):
            start = self._literal("startswith")
            if not isinstance(start.value, str):
                self._refuse(f"'startswith' needs a quoted string, not {_described(start)}.", start)
            return Prefix(name.text, start.value)
        if self._accept("in"):
            return Membership(name.text, self._values(), negated=False)
        if self._accept("not"):
            if not self._accept("in"):
                self._refuse(f"After {_described(name)} and 'not' comes 'in', not {_described(self._peek)}.")
            return Membership(name.text, self._values(), negated=True)
        self._refuse(
            f"After the attribute {_described(name)} comes a comparison, 'in', 'not in' or 'startswith' "
            f"(a flag is compared with true), not {_described(behind)}."
        )

    def _comparison(self, name: str, operator: Token, literal: Token, *, mirrored: bool) -> Comparison:
        meaning = _SYMBOLS[operator.text]
        if isinstance(literal.value, bool) and meaning not in ("=", "!="):
            self._refuse(f"{literal.text} is neither less nor more than anything; use '=' or '!=' with it.", operator)
        return Comparison(name, _MIRRORED[meaning] if mirrored else meaning, literal.value)

    def _values(self) -> tuple[Value, ...]:
        opening = self._peek
        if not self._accept("("):
            self._refuse(f"After 'in' comes '(' and a list of values, not {_described(opening)}.")
        values = [self._literal("(").value]
        while self._accept(","):
            values.append(self._literal(",").value)
        if not self._accept(")"):
            if self._peek.kind == "end":
                self._refuse("This list is not closed; write ')' behind its last value.", opening)
            self._refuse(f"After a value in a list comes ',' or ')', not {_described(self._peek)}.")
        return tuple(values)

    def _name(self, before: str) -> str:
        if self._peek.kind == "literal":
            self._refuse(f"After '{before}' comes the name of an attribute, not the value {_described(self._peek)}.")
        if self._peek.kind != "name":
            self._refuse(f"The name of an attribute is missing after '{before}'; found {_described(self._peek)}.")
        return self._next().text

    def _literal(self, before: str) -> Token:
        token = self.tokens[self.index]
        if token.kind == "literal":
            self.index += 1
            return token
        if token.kind == "name" and token.text.lower() in _NOT_FINITE:
            self._refuse(f"{token.text} is not a number that can be compared with; write a finite one.")
        if token.kind == "name":
            self._refuse(
                f"After '{before}' comes a value, not the name {_described(token)}; quote it if it is a string."
            )
        self._refuse(
            f"A value (a number, a quoted string, true or false) is missing after '{before}'; "
            f"found {_described(token)}."
        )

    def _operator(self, expectation: str) -> Token:
        if self._peek.kind not in _SYMBOLS:
            self._refuse(f"{expectation}, not {_described(self._peek)}.")
        return self._next()

    @property
    def _peek(self) -> Token:
        return self.tokens[self.index]

    def _next(self) -> Token:
        self.index += 1
        return self.tokens[self.index - 1]

    def _accept(self, kind: str) -> bool:
        if self.tokens[self.index].kind != kind:
            return False
        self.index += 1
        return True

    def _refuse(self, sentence: str, token: Token | None = None) -> NoReturn:
        raise FilterError(sentence, self.text, (token or self._peek).position)


def _described(token: Token) -> str:
    """The token as a sentence can hold it: quoted unless it is a value, cut when it is long."""
    if token.kind == "end":
        return "the end of the filter"
    text = token.text if len(token.text) <= _SHOWN_CHARACTERS_MAX else token.text[: _SHOWN_CHARACTERS_MAX - 3] + "..."
    return text if token.kind == "literal" else f"'{text}'"
