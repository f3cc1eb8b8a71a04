"""What a broker of a site may say: of streams that can be, to destinations that can be."""

from collections.abc import Iterable

from holdfast.model.messages import SessionMessage
from holdfast.model.site_messages import (
    Assignment,
    Change,
    Establish,
    Marks,
    Owed,
    Promised,
    Replicate,
    Replicated,
    Retransmission,
    SiteRequest,
    SiteState,
    StreamState,
)
from holdfast.protocols.sesdad.sites import LOCAL, SiteMap, is_subscriber


def problem_of(message: SessionMessage, sites: SiteMap) -> str:
    """Which source or destination in a message of a broker of our site cannot be; empty if all can."""
    for source in _sources(message):
        if source != LOCAL and source not in sites.neighbours:
            return f"a stream from {source!r}, which is no site next to {sites.own.name}"
    for destination in _destinations(message):
        if destination and not is_subscriber(destination) and destination not in sites.neighbours:
            return f"{destination!r}, which is neither a subscriber nor a site next to {sites.own.name}"
    strange = next((one for one in _chosen(message) if one not in sites.own.members), None)
    return "" if strange is None else f"{strange!r} as chosen, which is no broker of {sites.own.name}"


def _chosen(message: SessionMessage) -> Iterable[str]:
    if isinstance(message, Assignment):
        return (one.chosen for one in message.units)
    return (message.chosen,) if isinstance(message, Replicate | Owed) else ()


def _sources(message: SessionMessage) -> Iterable[str]:
    if isinstance(message, Replicate | Replicated | Retransmission | StreamState | Owed):
        return (message.source,)
    if isinstance(message, Marks):
        return (source for source, _, _ in message.entries)
    if isinstance(message, Promised):
        return (source for source, _, _ in message.marks)
    if isinstance(message, Assignment):
        return (one.source for one in message.units)
    if isinstance(message, SiteState):
        return (source for source, _, _ in message.placed)
    return (source for source, _, _ in message.cuts) if isinstance(message, Establish) else ()


def _destinations(message: SessionMessage) -> Iterable[str]:
    if isinstance(message, Owed):
        return (message.destination,)
    if isinstance(message, StreamState):
        return (*(name for name, _, _ in message.lanes), *(one.change.subscriber for one in message.pending))
    if isinstance(message, SiteState):
        return (name for name, _, _ in message.table)
    changes: tuple[Change, ...] = message.changes if isinstance(message, Establish) else ()
    if isinstance(message, SiteRequest):
        changes = (message.change,)
    return (one.subscriber for one in changes)
