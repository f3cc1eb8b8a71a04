"""Names for clients that did not choose one: readable in a log, and unlike any other."""

from secrets import choice, token_hex

COLOURS = ("amber", "azure", "coral", "indigo", "ivory", "jade", "ochre", "olive", "pearl", "russet", "scarlet", "teal")
SEASIDE = ("anemone", "barnacle", "cormorant", "cuttle", "kelp", "limpet", "mussel", "otter", "puffin", "seal", "tern")


def random_name() -> str:
    """Such as `jade-puffin-5f0c21d9`."""
    return f"{choice(COLOURS)}-{choice(SEASIDE)}-{token_hex(4)}"
