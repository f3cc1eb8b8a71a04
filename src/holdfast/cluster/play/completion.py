"""What the word that is being typed at the prompt may become: commands, their options, and names of the cast."""

import re

from holdfast.cluster.play.cast import Cast
from holdfast.cluster.play.grammar import FORMS

_LITERAL = re.compile(r"[A-Z]?[a-z][A-Za-z]*")
"""Words of a usage that are typed as they are; those in capitals stand for something."""
_NOT_TYPED = frozenset({"or", "each", "with"})


def commands() -> list[str]:
    """The first words of lines."""
    return [form.usage.split()[0] for form in FORMS.values()]


def options_of(command: str) -> list[str]:
    """The words of a command behind its first, in the order in which its usage has them."""
    form = FORMS.get(command.casefold())
    if form is None:
        return []
    found = [word for word in _LITERAL.findall(re.sub(r"\b[A-Z]+\b|name=value", " ", form.usage)) if word]
    return [word for word in dict.fromkeys(found) if word not in _NOT_TYPED and word.casefold() != command.casefold()]


def completions(line: str, cast: Cast) -> list[str]:
    """What the last word of this beginning of a line may become; with nothing typed of it, all that may follow."""
    words = line.split()
    typing = words.pop() if words and not line[-1].isspace() else ""
    if words:
        known = [*options_of(words[0]), *cast.brokers, *cast.sites, *cast.clients, *cast.machines]
    else:
        known = commands()
    return [word for word in known if word.casefold().startswith(typing.casefold())]
