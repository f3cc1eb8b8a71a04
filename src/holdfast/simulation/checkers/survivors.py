"""What a run looks like to those who live on, where a broker and its clients die together and for good.

Virtual synchrony promises that whoever lives on sees the same of the dead. A dead client is owed nothing more, and what
it published and nobody alive has ever got counts as never published: it may have died before it sent it. But what one
survivor has of it, all of them must have, in the right order, and what the dead were given themselves is judged, too.

So it is with a client whose name another one has taken, except that it did not die: all that was acknowledged to it
counts.
"""

from collections.abc import Iterable, Mapping

from holdfast.model.trace import Event

Asked = Iterable[tuple[str, str]]
"""Pairs of pattern and filter."""


def as_survivors_see_it(
    events: Iterable[Event], dead: Mapping[str, Asked], kept: Mapping[str, int] | None = None
) -> list[Event]:
    """The trace without what died unseen; the subscriptions of the dead end with them.

    So do those that they had asked for and that were never confirmed: they may have brought messages already. What they
    published up to the number in `kept` was acknowledged, and must have been seen.
    """
    kept_up_to = kept or {}
    rows = list(events)
    seen = {(row.publisher, row.seq) for row in rows if row.event == "deliver" and row.node not in dead}
    seen |= {(row.publisher, row.seq) for row in rows if row.event == "confirmed" and row.node in kept_up_to}
    left, lasting, last = [], dict[tuple[str, str, str], Event](), dict[str, Event]()
    for row in rows:
        unseen = row.publisher in dead and (row.publisher, row.seq) not in seen
        unseen = unseen and row.seq > kept_up_to.get(row.publisher, 0)
        if row.event in ("publish", "deliver", "confirmed") and unseen:
            continue
        left.append(row)
        if row.node in dead:
            last[row.node] = row
            if row.event in ("subscribe", "unsubscribe"):
                lasting[row.node, row.topic, row.where] = row
    ending = [place for place, row in lasting.items() if row.event == "subscribe"]
    ending += [(node, *pair) for node, asked in dead.items() for pair in asked if (node, *pair) not in ending]
    for node, topic, where in ending:
        if node in last:
            end = last[node]
            left.append(Event(end.run, node, end.index + 1, end.time, "unsubscribe", topic=topic, where=where))
    return left
