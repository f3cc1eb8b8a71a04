"""Every error that Holdfast raises on purpose, ordered by whose fault it is.

`LocalMisuse` is raised when our own caller asked for something illegal, `PeerViolation` when whoever is at the other
end of a link did, and `RequestFailed` when nobody is to blame but an operation did not end well; the last says whether
the operation surely did not happen or may have. Messages are sentences: who did what, what would have been legal, what
happens next.
"""

from __future__ import annotations

import re
from typing import Literal

Outcome = Literal["did not happen", "may have happened"]

EXCERPT_CHARACTERS_MAX = 72

_NOT_PRINTED_IN_ONE_COLUMN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class HoldfastError(Exception):
    """The base of all errors that Holdfast raises; only its subclasses are raised."""


class WorkFailed(HoldfastError):  # noqa: N818 - it says what happened
    """What was asked for can be done, and failed on the way: a process that did not start, a machine out of reach."""


class LocalMisuse(HoldfastError):  # noqa: N818 - whose fault it is says more than the suffix
    """Raised when the application called something illegally. Nothing was changed; correct the call and repeat it."""


class PeerViolation(HoldfastError):  # noqa: N818 - the same
    """Raised when the other end of a link broke the protocol. The link to it is not to be trusted any further."""


class TopicError(LocalMisuse, ValueError):
    """Raised when a topic or a topic pattern is not a legal one."""


class ConfigError(LocalMisuse, ValueError):
    """Raised when a cluster file, a scenario file or an option says something that cannot be."""


class FilterError(LocalMisuse, ValueError):
    """Raised when the text of a content filter cannot be parsed; `position` (from 0) is where in `text`."""

    def __init__(self, sentence: str, text: str, position: int) -> None:
        super().__init__(sentence, text, position)
        self.sentence = sentence
        self.text = text
        self.position = position

    def __str__(self) -> str:
        """The sentence, and below it the text, if there is one, with a caret under the place."""
        if not self.text:
            return self.sentence
        # A filter may be thousands of characters long: only the surroundings of the place are worth a line.
        start = max(0, self.position - EXCERPT_CHARACTERS_MAX // 2)
        end = start + EXCERPT_CHARACTERS_MAX
        before = "..." if start > 0 else ""
        after = "..." if end < len(self.text) else ""
        excerpt = _NOT_PRINTED_IN_ONE_COLUMN.sub(" ", self.text[start:end])
        caret = " " * (len(before) + self.position - start) + "^"
        return f"{self.sentence}\n  {before}{excerpt}{after}\n  {caret}"


class RequestFailed(HoldfastError):  # noqa: N818 - it says what happened
    """Raised to a client whose operation did not end well; `outcome` says what is known about the operation."""

    # The careful answer is the default: who knows better says so by raising a `Definite`.
    outcome: Outcome = "may have happened"


class Definite(RequestFailed):
    """Raised when it is sure that the operation did not happen: repeating it is safe."""

    outcome: Outcome = "did not happen"


class Indefinite(RequestFailed):
    """Raised when the operation may have happened: only a repeat under the same identity is safe."""

    outcome: Outcome = "may have happened"


class Refused(Definite):
    """Raised when a broker or the client itself declined the operation, with the reason."""


class ConnectionLost(Indefinite):
    """Raised when the connection ended, and was given up, before the operation's answer came."""
