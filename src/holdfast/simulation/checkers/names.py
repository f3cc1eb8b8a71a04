"""Names: is a name one session's at a time, is its earlier client told, and does a number stand for one message?

What a session under a shared name was acknowledged is judged with everything else (`survivors`, `deliveries`).
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from holdfast.model.identities import name_of
from holdfast.model.trace import Event

End = Literal["there", "taken", "left"]


class Session(Struct, frozen=True):
    """One that has begun: its identity, what became of it, and up to where what it published was acknowledged."""

    identity: str
    end: End
    acknowledged: int = 0


def judge_names(events: Iterable[Event], sessions: Iterable[Session]) -> list[str]:
    """What is wrong, in a sentence each; nothing if all is well."""
    by_name: dict[str, list[Session]] = {}
    for one in sorted(sessions, key=lambda one: one.identity):
        by_name.setdefault(name_of(one.identity), []).append(one)
    if not by_name:
        return []
    ended = {one.identity: one.acknowledged for same in by_name.values() for one in same if one.end == "taken"}
    return [
        *_doubled_numbers(list(events), ended),
        *(fault for name in by_name for fault in _judge_name(name, by_name[name])),
    ]


def _doubled_numbers(events: list[Event], ended: Mapping[str, int]) -> list[str]:
    """Numbers under one name that stand for messages of two sessions.

    What a session had on its way when its name was taken, and was neither acknowledged nor delivered to anybody, was
    never published: the next one may use its number.
    """
    seen = {(event.publisher, event.seq) for event in events if event.event == "deliver"}
    published: dict[tuple[str, str, int], str] = {}
    found = []
    for event in events:
        happened = event.seq <= ended.get(event.publisher, event.seq) or (event.publisher, event.seq) in seen
        if event.event == "publish" and happened:
            name = name_of(event.publisher)
            first = published.setdefault((event.run, name, event.seq), event.publisher)
            if first != event.publisher:
                found.append(f"{name}#{event.seq} stands for two messages, of {first} and of {event.publisher}")
    return found


def _judge_name(name: str, sessions: list[Session]) -> list[str]:
    found = []
    there = [one.identity for one in sessions if one.end == "there"]
    if len(there) > 1:
        found.append(f"the name {name} is held by {len(there)} sessions: {', '.join(there)}")
    if sessions[-1].end == "taken":
        found.append(f"{sessions[-1].identity} lost the name {name}, and nobody has taken it")
    return found
