"""Rows under which no message lies, as a subscriber passes them: what of them it lacks is a gap, and is told."""

from holdfast.protocols.narada.backlog import Backlog
from holdfast.protocols.narada.events import DAMAGED, FORGOTTEN, GIVEN_UP, SKIPPED, Row
from holdfast.protocols.narada.participant import Gap
from holdfast.protocols.narada.released import Released


def pass_void(stream: str, row: Row, backlog: Backlog, released: Released) -> list[Gap]:
    """Pass what is left of a row from the backlog's position on; what lay before was dealt with, or is not wanted."""
    left = row.part(backlog.position, row.last)
    if row.kind == FORGOTTEN:
        return [
            Gap(stream, publisher, first, last, forgotten=True)
            for publisher, cat in backlog.gone(row)
            for first, last in released.forget(publisher, cat, left.count)
        ]
    if row.kind == DAMAGED and not row.publisher:
        return [Gap(stream, "", left.first, left.last, damaged=True)]
    if row.kind in (GIVEN_UP, DAMAGED):
        gaps = released.pass_over(left.publisher, left.cat, left.count)
        return [Gap(stream, left.publisher, first, last, damaged=row.kind == DAMAGED) for first, last in gaps]
    if row.publisher and row.kind == SKIPPED:
        # It was acknowledged in an earlier life of the subscriber. Another repository may not know that.
        released.add(left.publisher, left.cat, left.count)
    return []
