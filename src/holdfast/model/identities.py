"""Who a client is: the name that people gave it, and which of the sessions under that name it is.

People give one name to two processes: two replicas of a service, a restart while the earlier process still runs. Nodes
must not take the two for one: they recognise a message that comes twice by its publisher and number, and would drop the
messages of one of the two as repeats. So a client with a given name is known to everybody else by its *identity*, the
name and a tag that is drawn for each session, such as `alice~1kfq0m3j2c8tb7g`. The name is what applications see.

A tag begins with the moment of its session, in milliseconds, and ends with chance, in digits that sort like the number:
of two identities with one name the greater is the later session, and no two sessions draw the same.
"""

from functools import lru_cache

DIGITS = "0123456789abcdefghijklmnopqrstuv"
MARK = "~"
MOMENT_DIGITS = 9
"""Milliseconds since 1970: 45 bits last for a thousand years."""
CHANCE_DIGITS = 6
CHANCE_BITS = 30
TAG_CHARACTERS = MOMENT_DIGITS + CHANCE_DIGITS
STRIDE_BITS = 36
"""Sessions that draw are so far apart that the numbers of one hardly ever meet those of another: of two with a million
messages each, once in 30,000. A name lasts for a quarter of a million of them."""
_BITS = 5
_DIGITS = frozenset(DIGITS)


def make_identity(name: str, moment_ms: int, chance: int) -> str:
    """The identity of a session under that name that began at that moment; `chance` has `CHANCE_BITS` bits."""
    return f"{name}{MARK}{_written(moment_ms, MOMENT_DIGITS)}{_written(chance, CHANCE_DIGITS)}"


@lru_cache(maxsize=8192)
def name_of(identity: str) -> str:
    """The name that people gave; an identity without a tag is a name that nobody else has."""
    return identity[: -TAG_CHARACTERS - 1] if is_tagged(identity) else identity


def is_tagged(identity: str) -> bool:
    """Whether several sessions may have the name of this one."""
    mark, tag = identity[-TAG_CHARACTERS - 1 : -TAG_CHARACTERS], identity[-TAG_CHARACTERS:]
    return mark == MARK and len(identity) > TAG_CHARACTERS + 1 and _DIGITS.issuperset(tag)


def moment_of(identity: str) -> int:
    """The moment in the tag, in milliseconds; 0 if there is no tag."""
    if not is_tagged(identity):
        return 0
    number = 0
    for digit in identity[-TAG_CHARACTERS:-CHANCE_DIGITS]:
        number = number << _BITS | DIGITS.index(digit)
    return number


def _written(number: int, digits: int) -> str:
    return "".join(DIGITS[number >> _BITS * place & len(DIGITS) - 1] for place in reversed(range(digits)))
