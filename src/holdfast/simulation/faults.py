"""What a timetable can hold, as values: faults that happen to hosts and links, and commands that applications give.

A client is addressed as `name@broker`: the name it publishes under and the broker it is attached to. Once a timetable
has said so, the name alone will do. Every client that a timetable mentions is there from the beginning, unless an
`Attach` says when it comes.
"""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.batches import Attributes, Keys
from holdfast.model.slow_messages import SLOW_S
from holdfast.model.slow_messages import Slow as SlowPolicy

Factor = Annotated[float, Meta(gt=0, le=1e6)]
Share = Annotated[float, Meta(ge=0, le=1)]
Times = Annotated[int, Meta(ge=1, le=1_000_000)]
Seconds = Annotated[float, Meta(ge=0)]

# -------------------------------------------------------------------------------------------------------- faults


class Crash(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="crash"):
    """The node is gone in the midst of what it did; its peers learn it one by one."""

    node: str


class Recover(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="recover"):
    """A fresh node takes the place of one that crashed or stopped, with what that one had persisted.

    Where the tree repairs itself, a broker whose parent is gone, or who was the root, is told of another one.
    """

    node: str


class Freeze(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="freeze"):
    """The node stands still; its connections stay open and what comes queues up."""

    node: str


class Thaw(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="thaw"):
    """A frozen node goes on."""

    node: str


class Cut(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="cut"):
    """Nothing passes between the two, silently."""

    a: str
    b: str


class Heal(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="heal"):
    """A cut is over: the one between the two, or every one."""

    a: str = ""
    b: str = ""


class Part(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="part"):
    """The network is parted: nothing passes between these brokers with their clients, and all the others."""

    side: tuple[str, ...]


class Reset(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="reset"):
    """The connection between the two ends, and loses some of what is in flight."""

    a: str
    b: str


class Slow(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="slow"):
    """Frames from `a` to `b` take `factor` times as long; the other way `back_factor`, or the same."""

    a: str
    b: str
    factor: Factor
    back_factor: Factor | None = None


class Flip(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="flip"):
    """From now on this share of the frames between the two arrives with flipped bits; 0 is the end of it."""

    a: str
    b: str
    share: Share


class Stop(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="stop"):
    """The node is asked to leave gracefully."""

    node: str


class Join(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="join"):
    """A broker that was not there before joins the running tree; all it knows is the address of one that is there."""

    node: str
    parent: str


class Leave(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="leave"):
    """A leaf leaves a tree in which brokers keep their places, for good. Elsewhere a `Stop` is that."""

    node: str


NodeFault = Crash | Recover | Freeze | Thaw | Stop | Join | Leave
LinkFault = Cut | Part | Heal | Reset | Slow | Flip
Fault = NodeFault | LinkFault


class When(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="when"):
    """A fault in the midst of things: when the node sends its n-th frame or message of that kind from now on.

    `sends` is a name of `model.messages`, such as `TotalMarker`. What the node was about to send after it is not sent
    if the fault is the node's crash. What has not come to pass within `within_s`, if that is given, does not any more.
    """

    node: str
    sends: str
    fault: Fault
    count: Times = 1
    within_s: Seconds | None = None


# ------------------------------------------------------------------------------------------------------ commands


class Attach(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="attach"):
    """The client connects now, for the first time or after it left."""

    client: str


class Detach(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="detach"):
    """The client leaves gracefully, after it has given all its earlier commands."""

    client: str


class Publish(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="publish"):
    """The client publishes one message."""

    client: str
    topic: str
    payload: bytes = b""
    guarantee: str = "fifo"
    keys: Keys = ()
    attributes: Attributes = {}


class Subscribe(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="subscribe"):
    """The client asks for what matches; it is confirmed later.

    `slow` is what becomes of messages that its process does not take: see `protocols.slow_readers`.
    """

    client: str
    pattern: str
    where: str = ""
    slow: SlowPolicy = "block"
    slow_s: Seconds = SLOW_S


class Unsubscribe(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="unsubscribe"):
    """The client takes a subscription back."""

    client: str
    pattern: str
    where: str = ""


class Confirm(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="confirm"):
    """The client asks whether its latest publication on the topic has reached everybody who wanted it.

    With `taken`: whether their applications have taken it.
    """

    client: str
    topic: str
    taken: bool = False


class React(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="react"):
    """From now on the client publishes when it is delivered something that matches, `times` at most, after a while.

    This is how causal chains come about: what is published then comes after what was delivered, for everybody.
    """

    client: str
    pattern: str
    topic: str
    payload: bytes = b""
    guarantee: str = "causal"
    keys: Keys = ()
    attributes: Attributes = {}
    times: Times = 1
    after_s: Seconds = 0.0

    def publication(self) -> Publish:
        return Publish(self.client, self.topic, self.payload, self.guarantee, self.keys, self.attributes)


ClientCommand = Attach | Detach | Publish | Subscribe | Unsubscribe | Confirm | React
Command = Fault | When | ClientCommand
