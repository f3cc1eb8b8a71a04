"""A mesh: brokers that know and reach each other directly, as the processes of CBCAST and of causal barriers do.

Who belongs to it is the *roster*, by seniority. The root founds it. A newcomer dials its parent, which sponsors it: it
asks whoever keeps the roster, the most senior member, to take the newcomer in, and hands it the new roster. The later
member of every pair dials the earlier one, and serves clients when all that were there before it know it.

What must reach a member that has not dialled yet is kept for it. Nothing is relayed: what comes from a broker goes to
clients alone, so that no circle of brokers can wait for each other's credit.

How the roster changes, and what comes with it, is for the protocols above this.
"""

from abc import abstractmethod

from holdfast.model.batches import Batch
from holdfast.model.direct_messages import Barred, Cast, Enlist, Enlisted, Passed, Roster
from holdfast.model.errors import PeerViolation
from holdfast.model.identities import name_of
from holdfast.model.messages import (
    Confirm,
    ConfirmAck,
    Hello,
    Publish,
    Refusal,
    SessionMessage,
    Subscribe,
    Unsubscribe,
)
from holdfast.model.metadata import thesis_bytes, wire_bytes
from holdfast.model.plurals import counted
from holdfast.model.terms import Contact
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.confirmations import Confirmations
from holdfast.protocols.edges import EdgeBroker, Phase
from holdfast.protocols.links import Link, LinkState
from holdfast.protocols.node import Disconnect, Effects, Report, Restart, SetTimer
from holdfast.protocols.routing import RoutingTable

WISH_TIMER = "wish"
WISH_S = 0.005
"""How long wishes are collected before the roster changes."""


def relayed(message: Cast | Barred | Passed, peer: str) -> Report:
    """A row of the trace for one copy on one link: its header bytes on our wire, and as the thesis counts them."""
    overhead, detail = wire_bytes(message), str(thesis_bytes(message))
    return Report("relay", message.batch, peer=peer, detail=detail, overhead=overhead)


class MeshBroker(EdgeBroker):
    """A member of a mesh: joining, and what every protocol on a mesh does for its own clients."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.hub.relays = False
        self._sponsor = config.parent
        self.contact = Contact(config.name, incarnation, config.address)
        self.roster = Roster(0, ())
        self.members: dict[str, Contact] = {}
        self.clients = RoutingTable()
        """What our own clients want."""
        self.groups = RoutingTable()
        """Which members have clients that want it, ourselves included."""
        self.confirmations = Confirmations(self._tell)
        self._sponsored: dict[str, Contact] = {}
        self._asking: dict[str, Contact] = {}
        """Who says that it is a member, by a roster that we do not have yet."""
        self._vouched: set[str] = set()
        self._unsent: dict[str, list[tuple[SessionMessage, int]]] = {}
        """For members that have not dialled yet: messages and their tickets."""
        self._wish_set = False

    # --------------------------------------------------------------------------------------------------- joining

    def start(self, now: float) -> Effects:
        self.hub.start()
        if self._sponsor is None:
            self._enter(Phase.SERVING)
            self._adopt(Roster(1, (self.contact,), ((),)))
        else:
            self._enter(Phase.JOINING)
            self.hub.dial(self._sponsor, now)
        return self.hub.take()

    def admit(self, hello: Hello) -> Refusal | None:
        # Whoever is in the roster must reach us before we serve: it may be waiting for that itself.
        if hello.kind == "broker" and self.members and self.phase in (Phase.JOINING, Phase.SERVING):
            return None
        return super().admit(hello)

    def _is_broker(self, name: str) -> bool:
        return name in self.members or name in self._sponsored or name in self._asking

    def link_opened(self, link: Link, fresh: bool) -> None:
        super().link_opened(link, fresh)
        if fresh and link.kind == "broker":
            if link.dialler:
                self.hub.send(link.peer, Enlist(self.contact, self.roster.number))
            for message, ticket in self._unsent.pop(link.peer, []):
                self._tell(link.peer, message, ticket)

    def link_closed(self, link: Link) -> None:
        super().link_closed(link)
        if link.kind == "broker":
            # Members come back, however long it takes, unless the protocol gives them up.
            self._detached_at.pop(link.peer, None)

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        super().link_refused(link, refusal)
        # An older session under our name may still be dying there.
        self.hub.restore(link)

    def _on_enlist(self, peer: str, enlist: Enlist) -> None:
        if not enlist.number:
            self._sponsored[peer] = enlist.contact
            self._wish()
        else:
            self._asking[peer] = enlist.contact
            self._vouch()

    def _vouch(self) -> None:
        for peer, contact in list(self._asking.items()):
            if self.members.get(peer) == contact:
                del self._asking[peer]
                self._tell(peer, Enlisted())
                self._member_arrived(peer)

    def _member_arrived(self, peer: str) -> None:
        """A junior member has dialled us; what it needs to know stands behind `Enlisted`."""

    def _on_enlisted(self, peer: str) -> None:
        self._vouched.add(peer)
        self._serve_if_known()

    def _serve_if_known(self) -> None:
        if self.phase is Phase.JOINING and self.members and self._vouched >= set(self.seniors()):
            self._enter(Phase.SERVING)

    def seniors(self) -> list[str]:
        """Who was a member before us."""
        names = list(self.members)
        return names[: names.index(self.name)] if self.name in self.members else names

    def _check_roster(self, peer: str, roster: Roster) -> None:
        """Raise `PeerViolation` if that cannot be a roster of ours: whoever is out of it was not sent it."""
        names = {one.name for one in roster.members}
        problem = ""
        if not names or len(names) != len(roster.members):
            problem = "nobody, or somebody twice,"
        elif self.contact not in roster.members and not self._may_be_out:
            problem = f"others than {self.name} alone"
        elif len(roster.patterns) not in self._pattern_rows(roster):
            problem = f"{len(roster.members)} members with {len(roster.patterns)} lists of patterns"
        if problem:
            raise PeerViolation(f"broker {peer} sent roster {roster.number} with {problem}, which cannot be")

    @property
    def _may_be_out(self) -> bool:
        """Whether there may be a roster without us: we wished for it."""
        return False

    @staticmethod
    def _pattern_rows(roster: Roster) -> tuple[int, ...]:
        """How many lists of patterns it may have."""
        return (0, len(roster.members))

    def _adopt(self, roster: Roster) -> None:
        """This is the roster from now on."""
        gone = [one for one in self.members.values() if one not in roster.members]
        self.roster, self.members = roster, {one.name: one for one in roster.members}
        for one in gone:
            self._let_go(one)
        # A mesh has no tree; whoever keeps the roster stands above the others.
        self.parent = None if roster.members[0].name == self.name else roster.members[0].name
        for name in [name for name, contact in self._sponsored.items() if self.members.get(name) == contact]:
            del self._sponsored[name]
            self._tell(name, roster)
            self._member_arrived(name)
        for name in self.seniors():
            if name == self._sponsor and self.phase is Phase.JOINING:
                # Our sponsor took us in itself.
                self._vouched.add(name)
            if name not in self.hub.links and self._may_dial(name):
                self.hub.dial(name, self._now, self.members[name].address)
        self._vouch()
        self._serve_if_known()

    def _may_dial(self, name: str) -> bool:  # noqa: ARG002
        """Whether that member can be there."""
        return True

    def _let_go(self, member: Contact) -> None:
        """End whatever we have with that member; the next one under its name may be there already."""
        self._unsent.pop(member.name, None)
        self.confirmations.drop(member.name)
        link = self.hub.links.get(member.name)
        if link is not None and (link.dialler or link.session == member.epoch):
            why = f"{member.name} does not belong to the mesh any more"
            if link.state is LinkState.CLOSED:
                # We may be dialling. 1. We give the dead up. 2. The next one under its name dials us, and is a member.
                # 3. It answers our call: that takes the place of its own connection, and nobody wants it.
                self.hub.out.append(Disconnect(member.name, why))
            self.hub.end(member.name, why, say=False)

    def _sponsor_lost(self, peer: str) -> bool:
        """Whether that was our sponsor, before we served: then nobody speaks for us, and we begin anew."""
        if peer == self._sponsor and self.phase is Phase.JOINING:
            self.hub.out.append(Restart(f"{peer} was lost before {self.name} was a member"))
            return True
        return False

    # ---------------------------------------------------------------------------------------------------- wishes

    def _wish(self) -> None:
        """Something about the roster should change; more may follow at once, so it is said a little later."""
        if not self._wish_set:
            self._wish_set = True
            self.hub.out.append(SetTimer(WISH_TIMER, WISH_S))

    def timer(self, name: str, now: float) -> Effects:
        if name == WISH_TIMER:
            self._now, self._wish_set = now, False
            if self.members and self.phase is not Phase.GONE:
                self._say_wishes()
            return self.hub.take()
        return super().timer(name, now)

    @abstractmethod
    def _say_wishes(self) -> None:
        """Tell whoever keeps the roster, or, if that is us, change it."""

    # --------------------------------------------------------------------------------------------------- messages

    def _from_own(self, client: str, message: SessionMessage) -> None:
        """One of our own clients says something."""
        if isinstance(message, Publish):
            self._multicast(message)
        elif isinstance(message, Confirm):
            self._confirm(client, message)
        elif isinstance(message, ConfirmAck):
            self.confirmations.on_ack(client, message.token, finding=message.finding)
        elif isinstance(message, Subscribe):
            self._on_subscribe(client, message)
        elif isinstance(message, Unsubscribe):
            self._on_unsubscribe(client, message)

    @abstractmethod
    def _multicast(self, message: Publish) -> None:
        """A client of ours publishes."""

    @abstractmethod
    def _on_subscribe(self, client: str, message: Subscribe) -> None: ...

    @abstractmethod
    def _on_unsubscribe(self, client: str, message: Unsubscribe) -> None: ...

    def _tell(self, peer: str, message: SessionMessage, ticket: int = 0) -> None:
        """Send to a client or to a member, or keep it until that member has dialled us."""
        link = self.hub.links.get(peer)
        if link is not None:
            self.hub.send(peer, message)
            if ticket:
                self._went(link, ticket)
        elif peer in self.members:
            self._unsent.setdefault(peer, []).append((message, ticket))

    def _went(self, link: Link, ticket: int) -> None:
        """A message with a ticket was the last one on that link."""

    def _others(self) -> list[str]:
        return [name for name in self.members if name != self.name]

    def targets(self, topic: str) -> list[str]:
        """The other members that have clients for the topic, whatever their filters."""
        return [name for name in self.groups.destinations(topic) if name != self.name]

    def _deliver_here(self, batch: Batch) -> None:
        for client, choice in self.clients.takers(batch).items():
            if self.slow_readers.leaves_out(client, batch):
                continue
            for part in batch.chosen(choice):
                self._send(client, Publish(part))

    def _confirm(self, peer: str, confirm: Confirm) -> None:
        behind = self.clients.destinations(confirm.topic)
        if peer not in self.members:
            behind += self.targets(confirm.topic)
        self.confirmations.begin(peer, confirm, behind)

    # ------------------------------------------------------------------------------------------------- inspection

    def status(self) -> dict[str, object]:
        links = self.hub.links.values()
        return {
            "name": self.name,
            "protocol": self.protocol,
            "phase": self.phase.value,
            "parent": self.parent,
            "children": sorted(link.peer for link in links if link.kind == "broker" and not link.dialler),
            "clients": sorted(name_of(link.peer) for link in links if link.kind == "client"),
            "links": {link.peer: link.state.value for link in links},
            "backlog_bytes": {link.peer: link.backlog_bytes for link in links if link.backlog_bytes},
            **self.slow_status(),
            "subscriptions": len(self.clients),
            "members": list(self.members),
            "roster": self.roster.number,
        }

    def check_invariants(self) -> None:
        self.hub.check_invariants()
        for peer in self._unsent:
            assert peer in self.members, f"messages are kept for {peer}, who is no member"
            assert peer not in self.hub.links, f"messages are kept for {peer}, who is there"

    def waiting_for(self) -> list[str]:
        reasons = [
            f"{peer} to dial, with {counted(len(kept), 'message')} for it"
            for peer, kept in sorted(self._unsent.items())
        ]
        reasons += [f"a place in the roster for {peer}" for peer in sorted(self._sponsored)]
        reasons += [f"the roster that {peer} has" for peer in sorted(self._asking)]
        reasons += self.hub.waiting_for()
        reasons += self.confirmations.waiting_for()
        if self.phase is Phase.JOINING:
            reasons.append("a place in the mesh")
        return reasons
