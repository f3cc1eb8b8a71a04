"""What a node wants, told in as many frames as it needs: ahead of a `Join`, and in several `Open`s.

Interests are bounded a client (`allowances`), not a broker: those of many clients do not fit into one frame, and a
broker that cannot say what is wanted would end. All but the last portion go ahead.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from holdfast.model.messages import Interest, Interests, Join, Open, Upward
from holdfast.protocols.interests import ALL, portions
from holdfast.protocols.last_numbers import Ahead

UNCONFIRMED_CHARACTERS_MAX = 1 << 20
"""Of interests that are new, a `Join` names so many; more than that are said to be known everywhere."""


def ahead_of_join(wanted: Sequence[Interest]) -> tuple[list[Interests], tuple[Interest, ...]]:
    """What goes ahead of a `Join`, and what the `Join` itself says."""
    parts = portions(wanted)
    return [Interests(part, complete=False) for part in parts[:-1]], parts[-1]


def wanted_by(join: Join, ahead: Iterable[Ahead]) -> tuple[Interest, ...]:
    """All that a joiner wants."""
    earlier = [one.entries for one in ahead if isinstance(one, Interests)]
    return tuple(entry for entries in (*earlier, join.interests) for entry in entries) if earlier else join.interests


def doubtful(interests: Sequence[Interest]) -> tuple[Interest, ...]:
    """The same for what is doubtful: if it is more than a `Join` may say, that is everything."""
    found = at_most(interests)
    return found if len(found) == len(interests) else (ALL,)


def opens(message: Open) -> list[Open]:
    """The same in several messages: the last one says everything else, too."""
    parts = portions(message.interests)
    nothing = Upward((), (), ())
    return [
        *(Open(part, nothing, (), 0, 0, more=True) for part in parts[:-1]),
        replace(message, interests=parts[-1]),
    ]


def at_most(interests: Iterable[Interest], characters_max: int = UNCONFIRMED_CHARACTERS_MAX) -> tuple[Interest, ...]:
    """The first of them, as far as they fit."""
    found, characters = [], 0
    for one in interests:
        characters += len(one[0]) + len(one[1])
        if characters > characters_max:
            break
        found.append(one)
    return tuple(found)
