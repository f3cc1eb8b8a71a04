"""How long a tree takes to come up, at most: random runs begin when it has."""

from collections import Counter

from holdfast.simulation.trees import Parents

BOOT_S, BOOT_LEVEL_S = 4.0, 0.7
"""How long the slowest of these networks takes to come up, level by level."""
BOOT_NARROW_S, NARROW_BROKERS_MAX = 12.0, 16
"""How much longer a narrow one takes that has more brokers than this: whoever joins is told of all around."""
BOOT_CHILD_S = 0.3
"""Whoever has many below it takes them in one after the other."""


def boot_s(tree: Parents, narrow: bool, bushy: bool) -> float:
    """For the slowest networks; `narrow` ones carry few bytes a second, in `bushy` trees few have most below them."""
    needed_s = BOOT_S + BOOT_LEVEL_S * _depth(tree)
    if narrow and (bushy or len(tree) > NARROW_BROKERS_MAX):
        needed_s += BOOT_NARROW_S
    if bushy:
        needed_s += BOOT_CHILD_S * max(Counter(tree.values()).values())
    return needed_s


def _depth(tree: Parents) -> int:
    depths: dict[str, int] = {}
    for name, parent in tree.items():
        depths[name] = 0 if parent is None else depths[parent] + 1
    return max(depths.values())
