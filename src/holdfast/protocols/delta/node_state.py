"""What the parts of one delta broker share: its own operational state, its map and tables, and its peers."""

from collections import deque
from collections.abc import Callable
from typing import ClassVar, Protocol

from holdfast.model.batches import Batch
from holdfast.model.delta_messages import Change, Multicast, RoutingPart
from holdfast.model.messages import Interest, SessionMessage
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.delta.confirmation import Confirmations
from holdfast.protocols.delta.journal import Journal
from holdfast.protocols.delta.passage import Passage
from holdfast.protocols.delta.patience import Patience
from holdfast.protocols.delta.reach import Reach
from holdfast.protocols.delta.recovery import Recovery
from holdfast.protocols.delta.subscriptions import Subscriptions
from holdfast.protocols.delta.topology import TopologyMap
from holdfast.protocols.hub import Hub
from holdfast.protocols.node import SetTimer

SUSPECT_TIMER = "suspect:"
Then = Callable[[], None]


class Peer:
    """A node that this one is connected with."""

    __slots__ = ("greeted", "life", "part_at", "parts", "recovering", "told")

    def __init__(self) -> None:
        self.greeted = self.recovering = self.told = False
        self.life = 0
        self.parts: deque[RoutingPart] = deque()
        """Parts of the routing information that it has yet to be told."""
        self.part_at = 0
        """The link's number of the part that was sent last."""


class NodeState:
    """The state of one broker."""

    def __init__(
        self, config: BrokerConfig, hub: Hub, send: Callable[[str, SessionMessage], None], fewer: bool
    ) -> None:
        self.name, self.tolerance, self.hub, self.send = config.name, config.tolerance, hub, send
        self.map = TopologyMap(config.name, config.name, config.tolerance + 1, config.edges)
        self.map.addresses.update(dict(config.places))
        self.reach = Reach(self.map)
        self.passage = Passage(config.name, config.tolerance)
        self.filters = Subscriptions(self.map, fewer)
        self.journal = Journal()
        self.recovery = Recovery()
        self.confs = Confirmations(send)
        self.peers: dict[str, Peer] = {}
        self.operational = False
        self.joining = config.parent is not None and not config.edges
        """Whether it is a newcomer that was not told its place yet."""
        self.rejoining = False
        """Whether it has everything, and waits for those nearby to know that it is back."""
        self.doubtful = False
        """Whether a connection is missing with a node that is not held failed: nothing is confirmed meanwhile."""
        self.departed: set[str] = set()
        """Clients whose session has ended here; others may not know yet."""
        self.parked: deque[tuple[str, SessionMessage]] = deque()
        """What clients said to a node that recovers."""
        self.reports: dict[str, list[Interest]] = {}
        """What clients said they want, when they came back."""
        self.then: dict[int, Then] = {}
        """What happens when an entry of our own is confirmed."""
        self.owed: set[str] = set()
        """Clients that lack something, as those nearby were told."""
        self.lives: dict[str, int] = {}
        self.patience = Patience(config)
        self.parting = ""
        """The client whose goodbye is being taken."""

    def is_there(self, name: str) -> bool:
        """Whether that node is connected with us, and we have greeted each other."""
        link = self.hub.links.get(name)
        return link is not None and link.is_open and name in self.peers and self.peers[name].greeted

    def await_node(self, name: str, wait_s: float) -> None:
        """That node will be held failed unless it is there in time.

        1. We dialled a failed node in vain. 2. Another one says that it is back. 3. It fails again: nobody would ever
        hold it failed, if its link alone said that somebody waits for it.
        """
        self.patience.awaited.add(name)
        self.hub.out.append(SetTimer(SUSPECT_TIMER + name, wait_s))

    def unlearn(self, peer: str) -> None:
        """What that peer has told a node that recovers is void."""
        if not self.operational and not self.map.is_client(peer):
            self.recovery.forget(peer, self.map.towards(peer))
            self.rejoining = False


class Owner(Protocol):
    """What the parts ask of the broker."""

    confirms: ClassVar[bool]
    guides: ClassVar[bool]
    yields: ClassVar[bool]
    detached_at: dict[str, float]

    def refresh(self) -> None: ...

    def go_past(self, name: str) -> None: ...

    def change_confirmed(self, change: Change) -> None: ...

    def client_returned(self, client: str) -> None: ...

    def refuses(self, name: str, message: Multicast) -> bool: ...

    def leaves_out(self, client: str, batch: Batch) -> bool: ...

    def forget_node(self, name: str) -> None: ...

    def forget_session(self, peer: str) -> None: ...

    def cut_off(self, peer: str, reason: str) -> None: ...

    def become_operational(self) -> None: ...

    def write_map(self) -> None: ...
