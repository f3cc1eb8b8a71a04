"""What is said of a run that was judged: how many faults of each kind, and a sentence about some of them.

Whoever judges, in memory or on a cluster, counts in these kinds and speaks in these words. Messages are written
`publisher#seq`.
"""

from dataclasses import dataclass, field
from typing import Literal

from holdfast.model.trace import Event

Kind = Literal["lost", "duplicated", "created", "fifo", "causal", "total"]
KINDS: tuple[Kind, ...] = ("lost", "duplicated", "created", "fifo", "causal", "total")
EXAMPLES_MAX = 5


@dataclass(frozen=True)
class Verdict:
    """How many deliveries there were, how many faults of each kind, and sentences about some of them."""

    deliveries: int = 0
    lost: int = 0
    duplicated: int = 0
    created: int = 0
    fifo: int = 0
    causal: int = 0
    total: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def faults(self) -> dict[str, int]:
        """The number of faults of every kind, zeros included."""
        return {kind: getattr(self, kind) for kind in KINDS}

    @property
    def ok(self) -> bool:
        return not any(self.faults.values())

    def as_dict(self) -> dict[str, object]:
        """What `holdfast audit --json` prints."""
        return {"ok": self.ok, "deliveries": self.deliveries, **self.faults, "examples": list(self.examples)}


# ------------------------------------------------------------------------------------------------------- sentences


def name_of(event: Event) -> str:
    """The message that a row is about."""
    return f"{event.publisher}#{event.seq}"


def repeated(client: str, message: str) -> str:
    return f"{client} delivered {message} again"


def unfounded(client: str, message: str, reason: str) -> str:
    """`reason` is one of those below."""
    return f"{client} delivered {message}{reason}"


def differs(delivered: Event, published: Event | None) -> str:
    """The reason if what was delivered is not what was published; empty if it is."""
    if published is None:
        return ", which nobody published"
    if delivered.topic != published.topic:
        return f" on topic {delivered.topic}, but it was published on {published.topic}"
    if delivered.guarantee != published.guarantee:
        return f" as {delivered.guarantee or 'without a guarantee'}, but it was published as {published.guarantee}"
    if delivered.keys != published.keys and frozenset(delivered.keys) != frozenset(published.keys):
        return f" with the keys {_listed(delivered.keys)}, but it was published with {_listed(published.keys)}"
    return ""


def unwanted(topic: str, ended: bool) -> str:
    """The reason if there is no subscription for a delivery, or there is none any more."""
    if ended:
        return f" on topic {topic}, after it had unsubscribed"
    return f" on topic {topic}, without a subscription that matches it"


def missing(client: str, message: str, topic: str, wanted: str) -> str:
    """`wanted` is the subscription: pattern and filter."""
    return (
        f"{client} never delivered {message} on topic {topic}, "
        f"though its subscription to {wanted} was confirmed before that was published"
    )


def before_own(client: str, early: str, late: str, publisher: str) -> str:
    return f"{client} delivered {early} before {late}, which {publisher} had published earlier"


def before_past(client: str, early: Event, late: str, heard: bool) -> str:
    """`heard` says whether the publisher of the early message had itself delivered the late one before."""
    if heard:
        reason = f"which {early.publisher} had delivered before publishing #{early.seq}"
    else:
        reason = f"which is in the causal past of {name_of(early)}"
    return f"{client} delivered {name_of(early)} before {late}, {reason}"


def wrong_side(client: str, first: str, second: str, rightful: str, total: Event, key: str) -> str:
    """`first` comes first at the client that has it right."""
    return (
        f"{client} delivered {second} before {first}, but {rightful} delivered {first} first; "
        f"{name_of(total)} is total and both have the key {key} on topic {total.topic}"
    )


def _listed(keys: list[str]) -> str:
    return ", ".join(keys) or "none"
