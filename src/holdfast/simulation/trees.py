"""Broker trees, written as `0-1 0-2 1-3`: the first of each pair is the parent of the second."""

import re
from random import Random

from holdfast.model.errors import ConfigError

BROKERS_MAX = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._]{0,63}\Z")

Parents = dict[str, str | None]


def parse_tree(text: str) -> Parents:
    """Every broker with its parent, parents first; raises `ConfigError` unless it is one tree."""
    parents: Parents = {}
    for pair in text.split():
        parent, dash, child = pair.partition("-")
        if not _NAME.match(parent) or (dash and not _NAME.match(child)):
            raise ConfigError(
                f"tree: {pair!r} is neither a broker nor a pair of them; write parent-child, as in '0-1 0-2 1-3', "
                "with names of letters, digits, '.' and '_'."
            )
        parents.setdefault(parent, None)
        if dash:
            _add(parents, parent, child)
    return _parents_first(parents, text)


def _add(parents: Parents, parent: str, child: str) -> None:
    known = parents.get(child)
    if known is not None:
        raise ConfigError(f"tree: broker {child} has two parents, {known} and {parent}; give it one.")
    parents[child] = parent


def _parents_first(parents: Parents, text: str) -> Parents:
    roots = [name for name, parent in parents.items() if parent is None]
    if not parents:
        raise ConfigError("tree: it is empty; name at least one broker, as in '0' or '0-1'.")
    if len(parents) > BROKERS_MAX:
        raise ConfigError(f"tree: {len(parents)} brokers are too many; at most {BROKERS_MAX} are allowed.")
    if len(roots) > 1:
        raise ConfigError(f"tree: {text!r} has {len(roots)} roots, {', '.join(roots[:8])}; a tree has one.")
    children: dict[str, list[str]] = {name: [] for name in parents}
    for name, parent in parents.items():
        if parent is not None:
            children[parent].append(name)
    ordered = list(roots)
    for name in ordered:
        ordered += children[name]
    if len(ordered) < len(parents):
        circle = next(name for name in parents if name not in set(ordered))
        raise ConfigError(f"tree: broker {circle} is its own ancestor; a tree has a root without a parent.")
    return {name: parents[name] for name in ordered}


def print_tree(parents: Parents) -> str:
    """The text that `parse_tree` reads."""
    pairs = [f"{parent}-{name}" for name, parent in parents.items() if parent is not None]
    return " ".join(pairs) or next(iter(parents))


def bushy_tree(chance: Random, brokers: int) -> Parents:
    """A tree of that many brokers in which a few have most of the others below them."""
    busy = [str(number) for number in range(min(brokers, chance.choice((1, 2, 3))))]
    parents: Parents = {name: str(int(name) - 1) if int(name) else None for name in busy}
    for number in range(len(busy), brokers):
        parents[str(number)] = chance.choice(busy) if chance.random() < 0.8 else str(chance.randrange(number))
    return parents


def random_tree(chance: Random, brokers: int) -> Parents:
    """A tree of that many brokers, anything between a chain and a star."""
    recent = chance.choice((1, 2, 3, brokers))
    parents: Parents = {"0": None}
    for number in range(1, brokers):
        parents[str(number)] = str(chance.randrange(max(0, number - recent), number))
    return parents


def below_themselves(above: Parents) -> list[str]:
    """Who never comes to the top of a tree, going up."""
    return [name for name in above if not _reaches_the_top(name, above)]


def _reaches_the_top(name: str, above: Parents) -> bool:
    seen: set[str] = set()
    place: str | None = name
    while place in above and place not in seen:
        seen.add(place)
        place = above[place]
    return place not in seen
