"""Whether all repositories of a bundle know the same of a subscriber: whoever comes back may come to any of them.

Each has its own order, so their syncs are different numbers, and what they know besides is by identity. None may lie
before a message of which another one knows that it was had.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.model.reliable import Entry
from holdfast.protocols.narada.consumed_position import ConsumedPosition
from holdfast.protocols.narada.events import life_of
from holdfast.simulation.reliable.history import Identity, identities

if TYPE_CHECKING:
    from holdfast.simulation.reliable.repository_hosts import RepositoryHost

EVERYTHING = 1 << 60


def behind(hosts: list["RepositoryHost"], stream: str, excused: set[Identity]) -> Iterator[str]:
    """Who believes less of a subscriber than another one, in a sentence each. What was given up may come late."""
    for host in hosts:
        table = host.machine.streams[stream].dissemination.subscriptions
        for other in hosts:
            known = other.machine.streams[stream].dissemination.subscriptions
            if other is host:
                continue
            for name in sorted(known):
                if known[name].anew or not known[name].consumed[0]:
                    continue
                if name not in table:
                    yield f"{host.name} does not know {name}, whom {other.name} knows at {known[name].sync}."
                    continue
                first = _first_above(host, stream, table[name].sync)
                if table[name].anew or first is None or next(iter(identities(first))) in excused:
                    continue
                if _is_had(first, table[name].consumed):
                    continue  # It was told so, and tells it the subscriber.
                if _is_had(first, known[name].consumed):
                    yield (
                        f"{host.name} has {name} at {table[name].sync}, before {first.publisher}'s {first.cat}, which "
                        f"{other.name} knows it to have had."
                    )


def _is_had(one: Entry, account: ConsumedPosition) -> bool:
    cut, lacks = account
    reached = any((who, life_of(cat)) == (one.publisher, life_of(one.cat)) and one.cat <= cat for who, cat in cut)
    return reached and not any(who == one.publisher and low <= one.cat <= high for who, low, high in lacks)


def known_to_have_had(hosts: list["RepositoryHost"], stream: str, name: str) -> set[Identity]:
    """What a subscriber has had by what any of these knows: by its sync, and by what it was told."""
    found: set[Identity] = set()
    for host in hosts:
        known = host.machine.streams[stream].dissemination.subscriptions.get(name)
        if known is None or known.anew:
            continue
        for entry in host.store.read(stream, 1, EVERYTHING, EVERYTHING):
            for number in range(entry.first, entry.last + 1):
                one = entry.part(number, number)
                if number <= known.sync or _is_had(one, known.consumed):
                    found.update(identities(one))
    return found


def _first_above(host: "RepositoryHost", stream: str, sync: int) -> Entry | None:
    """The first message that lies above a sequence number."""
    for entry in host.store.read(stream, sync + 1, EVERYTHING, 1):
        return entry.part(max(entry.first, sync + 1), max(entry.first, sync + 1))
    return None
