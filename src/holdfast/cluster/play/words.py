"""One line of a script, word by word, with errors that name the line and what would have been legal."""

import re
from collections.abc import Iterable

from msgspec import Struct

from holdfast.cluster.sections import listed, meant
from holdfast.model.errors import ConfigError

COMMENT = "#"
PATTERN_WORDS = frozenset({"subscribe", "unsubscribe", "ontopic"})
"""Behind these a `#` is a pattern, the one of all topics, and no comment."""
MS_MAX = 24 * 3600 * 1000.0

_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+|["']\S*""")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s)?\Z", re.IGNORECASE)


class ScriptError(ConfigError):
    """A line of a script that cannot be: which one, why, and what would have been legal."""


class Word(Struct, frozen=True):
    """A word and where it begins and ends in its line."""

    text: str
    start: int
    end: int

    @property
    def key(self) -> str:
        """The word as commands are compared: however it is capitalised."""
        return self.text.casefold()


def words_of(line: str) -> tuple[Word, ...]:
    """The words of a line without its comment; what is in quotes is part of one word."""
    words: list[Word] = []
    for found in _WORD.finditer(line):
        word = Word(found[0], found.start(), found.end())
        if word.text.startswith(COMMENT) and not (words and words[-1].key in PATTERN_WORDS):
            break
        words.append(word)
    return tuple(words)


class Words:
    """The words of one line, taken from left to right."""

    def __init__(self, line: str, number: int, source: str) -> None:
        self.line, self.number, self._source = line.rstrip("\n"), number, source
        self._words = words_of(self.line)
        self.text = self.line[: self._words[-1].end].strip() if self._words else ""
        """The line without its comment."""
        self._at = 0
        self.usage = ""
        """How the command of the line is written; part of every error about it."""

    def __bool__(self) -> bool:
        return self._at < len(self._words)

    def error(self, sentence: str) -> ScriptError:
        usage = f" Write: {self.usage}" if self.usage else ""
        return ScriptError(f"{self._source}:{self.number}: {sentence}.{usage}")

    def peek(self) -> str:
        """The next word as commands are compared; empty at the end of the line."""
        return self._words[self._at].key if self else ""

    def take(self, what: str) -> str:
        """The next word, as it is written."""
        if not self:
            behind = f" behind {self._words[-1].text!r}" if self._words else ""
            raise self.error(f"expected {what}{behind}, but the line ends there")
        self._at += 1
        return self._words[self._at - 1].text

    def name(self, what: str) -> str:
        taken = self.take(what)
        if not _NAME.match(taken):
            raise self.error(
                f"{taken!r} is no name for {what}; a name has up to 64 letters, digits, '.', '_' and '-', "
                "and begins with a letter or digit"
            )
        return taken

    def choice(self, what: str, legal: Iterable[str]) -> str:
        """One of these words, in whatever capitals."""
        known = list(legal)
        taken = self.take(f"{what} ({listed(known)})")
        if taken.casefold() not in known:
            raise self.error(f"{taken!r} is no {what}{meant(taken.casefold(), known)}; expected {listed(known)}")
        return taken.casefold()

    def number_of(self, what: str, least: int, most: int) -> int:
        taken = self.take(what)
        if not taken.isascii() or not taken.isdigit() or not least <= int(taken[:12]) <= most:
            raise self.error(f"{taken!r} is no {what}; expected a whole number from {least} to {most}")
        return int(taken)

    def duration_ms(self, what: str) -> float:
        """Milliseconds; `2s` is 2000."""
        return self.as_ms(self.take(what), what)

    def as_ms(self, taken: str, what: str) -> float:
        """The milliseconds that a word stands for."""
        found = _DURATION.match(taken)
        if found is None:
            raise self.error(f"{taken!r} is no {what}; expected milliseconds, as in 500, or 500ms, or 2s")
        ms = float(found[1]) * (1000.0 if (found[2] or "").casefold() == "s" else 1.0)
        if ms > MS_MAX:
            raise self.error(f"{taken!r} is too long for {what}; at most {MS_MAX:g} milliseconds are allowed")
        return ms

    def option_at_end(self, word: str) -> Word | None:
        """Take the last two words if the line ends with that option and its value; the value."""
        if len(self._words) - self._at >= 2 and self._words[-2].key == word:
            value = self._words[-1]
            self._words = self._words[:-2]
            return value
        return None

    def rest(self, what: str) -> str:
        """All that is left of the line, spaces included."""
        first = self._at
        self.take(what)
        self._at = len(self._words)
        return self.line[self._words[first].start : self._words[-1].end]

    def end(self) -> None:
        """There has to be nothing more."""
        if self:
            raise self.error(f"{self._words[self._at].text!r} is one word too many")
