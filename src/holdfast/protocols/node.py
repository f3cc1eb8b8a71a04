"""The one interface of every protocol, and the contract of whoever drives it.

A node is a pure machine: each entry point takes what happened and the time, changes the node's state, and returns the
effects in the order in which they must happen. The simulator and the asyncio runtime drive the same nodes.

The driver's duties
1. Call `start` once, first. Never call an entry point from inside another one, nor two at a time.
2. Carry the effects out in order, all of them, before the next entry point is called. `Persist` is on disk before a
   later `Send` of the same list leaves.
3. A connection is a lossless FIFO byte stream until it ends; then everything in flight may be lost, in each direction
   a suffix. `Connect` asks for one; when it is there the dialler's `peer_up` is called, and when it cannot be made or
   ends, `peer_down`. The accepting side learns of a connection by its first frame, which must be a `Hello`: it is
   handed to `receive` under the name in it. A newer connection of the same peer replaces the older one, which is
   reported down first; unless the node turns it away (`Doorkeeper`), which is asked before: anybody can say a name.
4. Call `settle` soon after something was handed over and nothing more is waiting right now: the end of a loop's turn,
   the end of a virtual instant. Acknowledgements and coalesced batches leave there, so a driver that forgets it stalls.
5. A timer fires once, at or after its time, by `timer(name)`. Setting a name again replaces it.
6. A node that persisted something is given the pairs back, by `restore` before `start`, in its next life; the epoch of
   that life is greater than any before.
7. `now` is in seconds on a clock that never goes back; only differences count.
"""

from collections.abc import Sized
from typing import ClassVar, Protocol, runtime_checkable

from msgspec import Struct

from holdfast.model.batches import Attributes, Batch
from holdfast.model.messages import Frame, Hello, Refusal
from holdfast.model.receipt_messages import Finding
from holdfast.model.slow_messages import SLOW_S, Slow

# ------------------------------------------------------------------------------------------------------ effects


class Send(Struct, frozen=True, gc=False):
    """Write the frame to the connection with that peer; if there is none now, drop it: links resend."""

    peer: str
    frame: Frame


class Connect(Struct, frozen=True, gc=False):
    """Try once to connect to that peer; the answer is `peer_up` or `peer_down`.

    `address` says where it is, if the node was told; else the driver knows.
    """

    peer: str
    address: str = ""


class Disconnect(Struct, frozen=True, gc=False):
    """Close the connection with that peer after what was sent; no `peer_down` follows."""

    peer: str
    reason: str


class SetTimer(Struct, frozen=True, gc=False):
    """Call `timer(name)` after that many seconds."""

    name: str
    after_s: float


class CancelTimer(Struct, frozen=True, gc=False):
    name: str


class Persist(Struct, frozen=True, gc=False):
    """Store the value under the key, durably; an empty value erases it. A restarted node gets the pairs back."""

    key: str
    value: bytes


class Report(Struct, frozen=True, gc=False):
    """Something that people want to watch: the trace, the metrics and the page all read these.

    `event` is a word of the trace (`publish`, `deliver`, `subscribe`, ...) or of the protocol (`suspect`, ...). What
    concerns messages carries their batch, what concerns a subscription its pattern and filter.
    """

    event: str
    batch: Batch | None = None
    pattern: str = ""
    where: str = ""
    peer: str = ""
    detail: str = ""
    overhead: int = 0
    """Header bytes of each message on its link, if more than the batch's own were counted."""
    seq: int = 0
    """The number of the node's own publication that it concerns, where there is no batch at hand."""


class Restart(Struct, frozen=True, gc=False):
    """This node was given up by the others: forget it and start a new one under a later incarnation."""

    reason: str


# ---- effects of clients, for the application above them


class Deliver(Struct, frozen=True, gc=False):
    """Hand these messages to the application, and say `consumed` when it has taken them."""

    batch: Batch


class Attached(Struct, frozen=True, gc=False):
    """The session is up at that broker; `guarantees` are the ranks that its protocol gives."""

    broker: str
    protocol: str
    guarantees: tuple[int, ...]
    payload_bytes_max: int


class Accepted(Struct, frozen=True, gc=False):
    """The edge broker has every publication up to this number."""

    seq: int


class Completed(Struct, frozen=True, gc=False):
    """The request with that token is done: subscribed, unsubscribed or confirmed.

    What was confirmed may have `crossed` a total message: then it takes no part in the total order of its keys.
    """

    token: int
    crossed: bool = False


class Failed(Struct, frozen=True, gc=False):
    """The request with that token, or the publications `first..last`, surely did not happen."""

    token: int
    first: int
    last: int
    reason: str


class Unconfirmed(Struct, frozen=True, gc=False):
    """The request to confirm with that token has an answer: not everybody that was owed the message surely has it."""

    token: int
    seq: int
    finding: Finding


class Missing(Struct, frozen=True, gc=False):
    """A broker has let something go that may be missing here; the session and its subscriptions live on.

    `only` these subscriptions miss something, if any are named: pattern, filter, and how many messages (0: it is not
    known).
    """

    reason: str
    only: tuple[tuple[str, str, int], ...] = ()


class Ended(Struct, frozen=True, gc=False):
    """The session is over. `clean` after a `stop`; else whatever was not accepted may or may not have happened."""

    clean: bool
    reason: str


Effect = (
    Send
    | Connect
    | Disconnect
    | SetTimer
    | CancelTimer
    | Persist
    | Report
    | Restart
    | Deliver
    | Attached
    | Accepted
    | Completed
    | Failed
    | Unconfirmed
    | Missing
    | Ended
)
Effects = list[Effect]


# ---------------------------------------------------------------------------------------------------- interface


class Node(Protocol):
    """What every broker and client machine offers its driver."""

    name: str

    def start(self, now: float) -> Effects: ...

    def receive(self, peer: str, frame: Frame, now: float) -> Effects: ...

    def timer(self, name: str, now: float) -> Effects: ...

    def peer_up(self, peer: str, now: float) -> Effects: ...

    def peer_down(self, peer: str, now: float) -> Effects: ...

    def settle(self, now: float) -> Effects: ...

    def stop(self, now: float) -> Effects:
        """Leave gracefully: finish what is under way, then say goodbye (`Report("stopped")` when done)."""
        ...

    def check_invariants(self) -> None:
        """Raise `AssertionError` with a sentence if the state is one that cannot be."""
        ...

    def waiting_for(self) -> list[str]:
        """In words, what this node is waiting for; empty when it waits for nothing."""
        ...


@runtime_checkable
class Restorable(Protocol):
    """A node that can be given back what it persisted, before it starts."""

    def restore(self, pairs: dict[str, bytes]) -> None: ...


@runtime_checkable
class Doorkeeper(Protocol):
    """A node that can tell from a `Hello` alone that its sender will not be let in, under whatever circumstances."""

    def turn_away(self, hello: Hello) -> Refusal | None:
        """Why not; the connection closes behind that, and one that this peer has already is left alone."""
        ...


@runtime_checkable
class Dialler(Protocol):
    """A node that makes use of it that nobody listens where a peer should be: that peer's process is gone."""

    def nobody_listens(self, peer: str, now: float) -> Effects:
        """An attempt to connect was refused by the peer's machine; `peer_down` follows."""
        ...


@runtime_checkable
class KeepsLog(Protocol):
    """A node that keeps what it passed until that is stable."""

    log: Sized


@runtime_checkable
class Retiring(Protocol):
    """A node that may leave its tree for good."""

    def leave(self, now: float) -> Effects: ...


@runtime_checkable
class Evictor(Protocol):
    """A node with clients, which lose their session when they say what nobody can read."""

    def throw_out(self, peer: str, reason: str, now: float) -> Effects:
        """A client said what nobody can read: its session ends, and it is told why. Nothing happens to a broker."""
        ...


class BrokerNode(Node, Protocol):
    """A broker: the side of the interface that a cluster sees."""

    guarantees: ClassVar[tuple[int, ...]]

    @property
    def protocol(self) -> str:
        """The name of its protocol on the bench."""
        ...

    def ready(self) -> bool:
        """Whether clients are served."""
        ...

    def status(self) -> dict[str, object]:
        """A snapshot for people and for `holdfast status`: JSON-able values only."""
        ...


class ClientCommands(Node, Protocol):
    """A client: what an application's commands become. Each returns effects, or what the caller needs at once."""

    accepted_seq: int
    """The number up to which the broker has accepted what was published."""
    taken_by: str
    """The identity of a later session that has this client's name."""

    def publish(
        self,
        topic: str,
        payload: bytes,
        guarantee: int,
        keys: tuple[str, ...] = (),
        attributes: dict[str, str | int | float | bool] | None = None,
    ) -> int:
        """Take a publication and return its number; it leaves with the next `settle`."""
        ...

    def subscribe(
        self,
        pattern: str,
        where: str,
        now: float,
        spills: bool = False,
        slow: Slow = "block",
        slow_s: float = SLOW_S,
    ) -> tuple[int, Effects]:
        """Ask for a subscription; `Completed(token)` says that it is confirmed everywhere.

        `slow` is what the broker does with what this client does not take in time: see `protocols.slow_readers`.
        """
        ...

    def unsubscribe(
        self, pattern: str, where: str, now: float, slow: Slow | None = "block", too_slow: bool = False
    ) -> tuple[int, Effects]:
        """Take one subscription back, one of that kind; `too_slow`: because its application does not read."""
        ...

    def confirm(
        self, topic: str, seq: int, now: float, attributes: Attributes | None = None, taken: bool = False
    ) -> tuple[int, Effects]:
        """Ask whether everybody has publication `seq` on `topic`, which has these attributes, or has `taken` it.

        `Completed(token)` when there is evidence from everybody that it was owed to, `Unconfirmed` if there is not.
        """
        ...

    def recall(self, now: float) -> tuple[int, Effects]:
        """Ask which numbers were used under this name; `Completed(token)` when it is known, and not before."""
        ...

    def consumed(self, batch: Batch) -> None:
        """These messages have left the client's buffer: the broker may send as many more."""
        ...

    def taken(self, batch: Batch) -> bool:
        """The application has them, all of this batch; whether somebody has asked, and waits for the next `settle`."""
        ...

    def dropped(self, pattern: str, where: str, batch: Batch, reason: str = "") -> None:
        """A subscription has dropped these, which its application did not read; with a `reason` that is reported."""
        ...

    def hurry(self, seq: int) -> None:
        """Somebody waits for publication `seq` to be accepted: do not leave the broker's answer to its own time."""
        ...
