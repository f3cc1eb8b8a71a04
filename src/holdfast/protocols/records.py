"""A record of the stability log, and what is known of one link's positions: see `protocols.stability`."""

from collections import deque
from collections.abc import Iterator, Mapping

from holdfast.model.batches import Batch
from holdfast.model.messages import Levels

RecordId = tuple[str, int]
UNPLACED = -1
"""The number of a record whose place in the processing order is not known."""


class Checklist:
    """Many positions of a record, each of which is looked at until it is reached, and never again.

    1. A record goes to a thousand clients, which acknowledge it one after the other. 2. At each acknowledgement the log
    asks whether all have. 3. If it began with the first position each time, it would look at half a million of them.
    """

    __slots__ = ("_awaited", "_positions", "_rest", "_size", "visits")

    def __init__(self, positions: dict[str, int]) -> None:
        self._positions, self._size = positions, -1
        self._rest: Iterator[tuple[str, int]] = iter(())
        self._awaited: tuple[str, int] | None = None
        self.visits = 0
        """How many positions were looked at."""

    def is_done(self, flows: Mapping[str, "Flow"], level: int) -> bool:
        """Whether every peer has said that level of its position. What a peer has said it never takes back."""
        if self._size != len(self._positions):
            self._size, self._rest, self._awaited = len(self._positions), iter(self._positions.items()), None
        awaited = self._awaited or next(self._rest, None)
        while awaited is not None:
            self.visits += 1
            if flows[awaited[0]].acked[level] < awaited[1]:
                self._awaited = awaited
                return False
            awaited = next(self._rest, None)
        self._awaited = None
        return True


class Record:
    """A batch that was processed here, where it came from and where it went."""

    __slots__ = (
        "asked",
        "batch",
        "copies",
        "everywhere",
        "first_place",
        "ins",
        "last_place",
        "number",
        "order",
        "outs",
        "passed_on",
        "pending",
        "places",
        "received_from",
        "record_id",
        "requested",
        "requested_from",
    )

    def __init__(self, batch: Batch, pending: bool = False) -> None:
        self.batch, self.pending = batch, pending
        self.record_id: RecordId = (batch.publisher, batch.first)
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
        self.passed_on: Checklist | None = None
        """How far those that it went to have been found to have processed it, if they are many."""
        self.everywhere: Checklist | None = None
        """The same for the highest level of stability."""

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

    __slots__ = (
        "acked",
        "begun",
        "begun_before",
        "came",
        "marked",
        "merging",
        "received",
        "said",
        "sent",
        "serial",
        "went",
    )

    def __init__(self, levels: int, sent: int = 0, received: int = 0, serial: int = 0) -> None:
        self.sent, self.received = sent, received
        self.serial = serial
        """Its place among the flows of the log."""
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
