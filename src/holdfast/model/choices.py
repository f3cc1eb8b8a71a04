"""Words for choices in sentences about errors: a near word for a wrong one, and lists of what would have been legal."""

import difflib
from collections.abc import Iterable


def meant(word: str, known: Iterable[str]) -> str:
    """The known word that is most like a wrong one, as a question in brackets; empty if none is like it."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def listed(names: Iterable[str], last: str = "or", shown_max: int = 12) -> str:
    """Names as a list in a sentence; of many only the first."""
    words = list(names)
    if len(words) > shown_max:
        return f"{', '.join(words[:shown_max])}, ... ({len(words)} in all)"
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else "none"
