"""A record of the stability log, and what is known of one link's positions: see `protocols.stability`."""

from collections import deque

from holdfast.model.batches import Batch
from holdfast.model.messages import Levels

RecordId = tuple[str, int]
UNPLACED = -1
"""The number of a record whose place in the processing order is not known."""


class Record:
    """A batch that was processed here, where it came from and where it went."""

    __slots__ = (
        "asked",
        "batch",
        "copies",
        "first_place",
        "ins",
        "last_place",
        "number",
        "order",
        "outs",
        "pending",
        "places",
        "received_from",
        "requested",
        "requested_from",
    )

    def __init__(self, batch: Batch, pending: bool = False) -> None:
        self.batch, self.pending = batch, pending
        self.ins: dict[str, int] = {}
        self.outs: dict[str, int] = {}
        self.places: dict[str, int] = {}
        self.asked: dict[str, int] = {}
        """For a total batch, the place of its request in the history of the link by which it climbed."""
        self.copies = 0
        """How many places of the log it has."""
        self.first_place = self.last_place = -1
        """The first and the last of them, if the log is indexed."""
        self.number = 0
        """Its place in this node's processing order; 0 if it only passed as a request."""
        self.order = 0
        """How many records were appended to the log up to this one."""
        self.received_from = ""
        """Whom a relabelled record is owed to although it was received, not sent, on that link."""
        self.requested: tuple[str, ...] = ()
        """Those from whom only the request has come, not the record itself."""
        self.requested_from = ""
        """Whom a relabelled record is owed to although only its request has gone by on that link."""

    @property
    def record_id(self) -> RecordId:
        return self.batch.publisher, self.batch.first

    def concerns(self, peer: str) -> bool:
        return peer in self.ins or peer in self.outs

    def was_received(self, peer: str) -> bool:
        """Whether it came over the link with that peer, or over the one in whose place it is."""
        return (peer in self.ins and peer not in self.requested) or self.received_from == peer

    def was_only_requested(self, peer: str) -> bool:
        """Whether nothing but its request has gone by on that link: it was wanted by nobody there."""
        if peer not in self.ins:
            return self.requested_from == peer
        return peer in self.requested and peer not in self.outs


class Flow:
    """One link's positions in both directions, and what the peer has said of them."""

    __slots__ = ("acked", "begun", "begun_before", "came", "marked", "merging", "received", "said", "sent", "went")

    def __init__(self, levels: int, sent: int = 0, received: int = 0) -> None:
        self.sent, self.received = sent, received
        self.acked = [0] * (levels + 1)
        self.marked = [0] * (levels + 1)
        self.said: Levels | None = None
        self.begun: int | None = None
        """Since when what goes by here does so as the peer processes it, not to settle a repair; `None`: not yet."""
        self.merging = 0
        """The position up to which what was sent there was to bring two parts of the tree together."""
        self.begun_before: int | None = None
        """The same of the link in whose place this one is."""
        self.came: deque[tuple[int, int]] = deque()
        self.went: deque[tuple[int, int]] = deque()
        """Orders and positions of records that may not be stable yet, in each direction, while the log is plain."""
