"""What a run looks like to those who live on, where a broker and its clients die together and for good.

Virtual synchrony promises that whoever lives on sees the same of the dead. A dead client is owed nothing more, and what
it published and nobody alive has ever got counts as never published: it may have died before it sent it. But what one
survivor has of it, all of them must have, in the right order, and what the dead were given themselves is judged, too.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from holdfast.model.trace import Event


def as_survivors_see_it(events: Iterable[Event], dead: AbstractSet[str]) -> list[Event]:
    """The trace without what died unseen; the subscriptions of the dead end with them."""
    rows = list(events)
    seen = {(row.publisher, row.seq) for row in rows if row.event == "deliver" and row.node not in dead}
    kept, lasting, last = [], dict[tuple[str, str, str], Event](), dict[str, Event]()
    for row in rows:
        unseen = row.publisher in dead and (row.publisher, row.seq) not in seen
        if row.event in ("publish", "deliver") and unseen:
            continue
        kept.append(row)
        if row.node in dead:
            last[row.node] = row
            if row.event in ("subscribe", "unsubscribe"):
                lasting[row.node, row.topic, row.where] = row
    for (node, topic, where), row in lasting.items():
        if row.event == "subscribe":
            end = last[node]
            kept.append(Event(end.run, node, end.index + 1, end.time, "unsubscribe", topic=topic, where=where))
    return kept
