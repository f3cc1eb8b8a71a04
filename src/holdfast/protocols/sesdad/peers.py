"""Those with whom a broker of a site has sessions, and how it speaks to them."""

from collections.abc import Callable

from holdfast.model.messages import SessionMessage
from holdfast.model.site_messages import StateRequest
from holdfast.protocols.hub import Hub
from holdfast.protocols.links import Link
from holdfast.protocols.node import SetTimer
from holdfast.protocols.sesdad.sites import Picker, SiteMap, client_of, subscriber_id


class Peers:
    """The brokers and clients around a broker. `clock` tells the time, `is_serving` whether it has a memory."""

    def __init__(
        self,
        name: str,
        sites: SiteMap,
        hub: Hub,
        picker: Picker,
        clock: Callable[[], float],
        is_serving: Callable[[], bool],
    ) -> None:
        self.name, self.sites, self.hub, self._picker, self._clock = name, sites, hub, picker, clock
        self.is_serving = is_serving
        self.linked: dict[str, None] = {}
        """The brokers with which we have a session that has begun."""
        self.blank: dict[str, None] = {}
        """Those of our site that have no memory yet."""
        self.silent: dict[str, None] = {}
        """Those of our site that have not said since their session began that they serve."""
        self.telling: dict[str, None] = {}
        """Those of our site that we have asked for their state, and that have not told all of it."""
        self._timers: set[str] = set()

    @property
    def now(self) -> float:
        return self._clock()

    # ------------------------------------------------------------------------------------------------- who is there

    def is_open(self, peer: str) -> bool:
        """Whether there is a connection with that broker now."""
        link = self.hub.links.get(peer)
        return link is not None and link.is_open and peer in self.linked

    def is_jammed(self, peer: str) -> bool:
        """Whether something waits for room on the way to that broker: what is repeated at every beat only adds to it.

        1. Twenty requests wait for the designated broker, over a link that takes two of them in a beat. 2. At every
        beat all twenty are said again. 3. Whatever else that broker has to hear comes minutes later.
        """
        link = self.hub.links.get(peer)
        return link is not None and link.backlog_bytes > 0

    def is_lost(self, member: str) -> bool:
        """Whether that broker of our site cannot stand in for anybody."""
        return member not in self.linked or member in self.blank

    def members(self) -> list[str]:
        """The other brokers of our site that are there, with a memory or not."""
        return [name for name in self.sites.others if name in self.linked]

    def at(self, site: str) -> list[str]:
        """The brokers of another site that can be reached now."""
        return [name for name in self.sites.neighbours[site].members if self.is_open(name)]

    def pick(self, names: list[str]) -> str:
        """One of them, by chance; nothing if there is none."""
        return self._picker.pick(names) if names else ""

    def link_of(self, subscriber: str) -> Link | None:
        """The link with a client in that session of it."""
        link = self.hub.links.get(client_of(subscriber))
        return link if link is not None and subscriber_id(link.peer, link.session) == subscriber else None

    def subscriber(self, client: str) -> str:
        """A client of ours in its present session."""
        return subscriber_id(client, self.hub.links[client].session)

    def subscribers(self) -> list[str]:
        """All clients that have a session here."""
        links = (link for link in self.hub.links.values() if link.kind == "client")
        return [subscriber_id(link.peer, link.session) for link in links]

    # ------------------------------------------------------------------------------------------------------ speaking

    def send(self, peer: str, message: SessionMessage) -> None:
        """To a session that is over nothing needs to be said."""
        if peer in self.hub.links:
            self.hub.send(peer, message)

    def tell(self, peer: str, message: SessionMessage) -> None:
        """To a broker with which a session has begun; to another one nothing is said: it is told the state.

        A state is asked for once, until all of it has come: over a slow link the answers to a question that is repeated
        every few milliseconds leave no room for anything else.
        """
        if peer not in self.linked or (isinstance(message, StateRequest) and peer in self.telling):
            return
        if isinstance(message, StateRequest):
            self.telling[peer] = None
        self.send(peer, message)

    def tell_members(self, message: SessionMessage) -> None:
        for member in self.members():
            self.send(member, message)

    def to_site(self, site: str, message: SessionMessage) -> None:
        """To some broker of another site, if one can be reached."""
        self.tell(self.pick(self.at(site)), message)

    # -------------------------------------------------------------------------------------------------------- timers

    def arm(self, timer: str, after_s: float) -> None:
        """Set a timer, unless it is set already."""
        if timer not in self._timers:
            self._timers.add(timer)
            self.hub.out.append(SetTimer(timer, after_s))

    def fired(self, timer: str) -> None:
        self._timers.discard(timer)
