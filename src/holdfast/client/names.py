"""Names for clients that did not choose one: readable in a log, and unlike any other. And who is who of one name."""

from secrets import choice, randbits, token_hex
from time import time_ns

from holdfast.model.identities import CHANCE_BITS, STRIDE_BITS, make_identity, moment_of

COLOURS = ("amber", "azure", "coral", "indigo", "ivory", "jade", "ochre", "olive", "pearl", "russet", "scarlet", "teal")
SEASIDE = ("anemone", "barnacle", "cormorant", "cuttle", "kelp", "limpet", "mussel", "otter", "puffin", "seal", "tern")


def random_name() -> str:
    """Such as `jade-puffin-5f0c21d97a3e`. No tag tells it from another: of 100,000, two are alike once in 7 million."""
    return f"{choice(COLOURS)}-{choice(SEASIDE)}-{token_hex(6)}"


def new_identity(name: str, after: str = "") -> str:
    """The identity of a new session under a name that others may have, too; later than `after`, whatever the clock."""
    return make_identity(name, max(time_ns() // 1_000_000, moment_of(after) + 1), randbits(CHANCE_BITS))


def draw_stride() -> int:
    return randbits(STRIDE_BITS)
