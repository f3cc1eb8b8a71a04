"""What is said of stored messages to whoever asks, subscriber or sibling: the messages, and what lies between them."""

from collections.abc import Iterable

from holdfast.model.ranges import Range
from holdfast.model.reliable import Entry
from holdfast.protocols.narada.events import FORGOTTEN, RANGES_MAX, SKIPPED, Cut, Resent, Row
from holdfast.protocols.narada.participant import Effects
from holdfast.protocols.narada.stream_state import RepositoryStream

SAY_BYTES_MAX = 512 << 10


def read_upto(entries: list[Entry], last: int, bytes_max: int) -> int:
    """How far a read got: to its end, unless so many bytes came first."""
    if sum(len(entry.batch.payloads) for entry in entries) >= bytes_max:
        return entries[-1].last
    return last


def void_rows(stream_state: RepositoryStream, first: int, last: int) -> list[Row]:
    """What lies under first..last without being a message: given up, never used, or forgotten."""
    rows = [row.part(first, last) for row in stream_state.voids if row.first <= last and row.last >= first]
    if first < stream_state.kept:
        # All of it, also what was not asked for: whoever is told how far lives were forgotten counts by it.
        rows.append(Row(first, stream_state.kept - first, "", 0, FORGOTTEN))
    return sorted(rows, key=lambda row: row.first)


def expired(stream_state: RepositoryStream) -> Cut:
    """Up to where each life lay below what is kept; what a sibling forgot, and never came here, has rows of its own."""
    chains = [chain for chain in stream_state.chains.values() if chain.expired]
    return tuple((one.publisher, one.cat(one.expired)) for one in chains) if len(chains) <= RANGES_MAX else ()


def never_rows(stream_state: RepositoryStream, asked: Iterable[Range]) -> list[Row]:
    """What to tell a sibling that asks for messages where none will ever lie: the rows that say so, as a whole.

    1. B tells A that a message lies under 56, loses its process, and with it the message: B did not wait for its disk.
    2. B begins again behind 56, and says that nothing lies there. A does not hear it, and asks what lies behind 56.
    3. A asks B for 56, for ever, if B has no more to say to that than that it has no such message.
    """
    return [row for row in stream_state.voids if any(row.first <= last and row.last >= first for first, last in asked)]


def lost_for_siblings(lost: Iterable[Row]) -> list[Row]:
    """What is damaged here and lost, as another repository is told of it: it will not come from us.

    It sets places aside for it, and as with what was forgotten gives them up when nobody else who is there has it: so
    its readers are told of a gap, too. Whose it was has to be known for that.
    """
    return [row if row.publisher else Row(row.first, row.count, "", 0, SKIPPED) for row in lost]


def resent(stream_state: RepositoryStream, asker: str, entries: list[Entry]) -> Effects:
    """Stored messages for somebody who lacks them, in portions that fit into a message."""
    portions: list[list[Entry]] = []
    size = SAY_BYTES_MAX
    for entry in entries:
        cost = entry.batch.cost_bytes
        if size + cost > SAY_BYTES_MAX:
            portions.append([])
            size = 0
        portions[-1].append(entry)
        size += cost
    stream, name, era, session = stream_state.stream, stream_state.name, stream_state.era, stream_state.session
    return [
        stream_state.say_to(asker, Resent(stream, name, era, tuple(portion), session, at < len(portions)))
        for at, portion in enumerate(portions, 1)
    ]
