"""What a LoCaMu broker knows of each broker that it is connected with, for as long as both live."""

from holdfast.model.relay_messages import Standing
from holdfast.protocols.links import Link
from holdfast.protocols.locamu.copies import KeptCopy
from holdfast.protocols.locamu.headers import Decoder, Encoder, LinkTerms
from holdfast.protocols.neighbourhoods import Neighbourhood


class LinkedBroker:
    """One broker within reach of a link."""

    def __init__(self, name: str, dials: bool) -> None:
        self.name, self.dials = name, dials
        self.in_session = False
        self.suspected = False
        self.greeted = False
        """Whether it has told us, in this session, how far it is: before that nothing is sent to it."""
        self.encoder: Encoder
        self.decoder: Decoder | None = None
        """None before a session with it began as with a broker of the tree."""
        self.column: dict[str, int] = {}
        """How far it said that it was, with everybody."""
        self.complete = 0
        self.cursor = 0
        """Our number for it up to which everything is under way in this session, or was processed there."""
        self.relayed = 0
        """The link's number of the last message that was sent in its turn in this session."""
        self.queue: dict[int, None] = {}
        """Serials of what has not been sent to it, in order."""
        self.awaiting: dict[int, None] = {}
        """Serials of what it may lack."""
        self.said: Standing | None = None
        self.push_at = 0.0
        self.patience_s = 0.0
        self.resent: dict[int, tuple[float, int]] = {}
        """By serial, when something of it was sent out of turn in this session, and the link's number of that."""

    def begin(self, outgoing: LinkTerms, incoming: LinkTerms, own: str) -> None:
        """A new session: neither side remembers what an earlier one has carried."""
        self.in_session = True
        self.encoder, self.decoder = Encoder(outgoing, own), Decoder(incoming, self.name, own)
        self.greeted, self.said, self.relayed = False, None, 0
        self.resent.clear()

    def end(self) -> None:
        self.greeted = self.in_session = False

    def go_back(self, own: str, store: dict[int, KeptCopy], link: Link | None) -> None:
        """Queue again, in order, what comes after what it said it has, unless the link may still carry that."""
        if link is not None and link.acked < self.relayed:
            return
        self.cursor = self.column.get(own, 0)
        numbers = sorted((store[serial].own.get(self.name, 0), serial) for serial in self.awaiting)
        self.queue = {serial: None for number, serial in numbers if number > self.cursor}


def active(near: Neighbourhood, peers: dict[str, LinkedBroker]) -> set[str]:
    """On the way to each broker within reach the first that is not suspected (thesis 003, section 3.2.3)."""
    found = set()
    for name in peers:
        first = next((one for one in near.paths(near.name)[name] if not peers[one].suspected), None)
        if first is not None:
            found.add(first)
    return found
