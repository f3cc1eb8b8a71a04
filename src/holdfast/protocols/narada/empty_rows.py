"""How a subscriber passes rows that hold no message: it reports a gap for each message of them that it lacks."""

from holdfast.protocols.narada.backlog import Backlog
from holdfast.protocols.narada.events import DAMAGED, FORGOTTEN, GIVEN_UP, SKIPPED, Row
from holdfast.protocols.narada.participant import StreamGap
from holdfast.protocols.narada.released_messages import ReleasedMessages


def pass_empty_row(stream: str, row: Row, backlog: Backlog, released: ReleasedMessages) -> list[StreamGap]:
    """Pass the part of a row from the backlog's position on; the part before was passed earlier, or is not wanted."""
    left = row.part(backlog.position, row.last)
    if row.kind == FORGOTTEN:
        return [
            StreamGap(stream, publisher, first, last, forgotten=True)
            for publisher, cat in backlog.gone(row)
            for first, last in released.forget(publisher, cat, left.count)
        ]
    if row.kind == DAMAGED and not row.publisher:
        return [StreamGap(stream, "", left.first, left.last, damaged=True)]
    if row.kind in (GIVEN_UP, DAMAGED):
        gaps = released.pass_over(left.publisher, left.cat, left.count)
        return [StreamGap(stream, left.publisher, first, last, damaged=row.kind == DAMAGED) for first, last in gaps]
    if row.publisher and row.kind == SKIPPED:
        # The subscriber acknowledged the message in an earlier life. Another repository may not know that.
        released.add(left.publisher, left.cat, left.count)
    return []
