"""A broker of a site: sessions with the brokers of its site, of the sites next to it, and with clients.

What each part does is told in its module; here is which message goes to which part, and what happens when somebody
comes or is lost.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from holdfast.model.errors import PeerViolation
from holdfast.model.guarantees import EVENTUAL, FIFO
from holdfast.model.hole_messages import Hole
from holdfast.model.identities import is_tagged, name_of
from holdfast.model.messages import (
    Confirm,
    ConfirmAck,
    Hello,
    Interest,
    Refusal,
    SessionMessage,
    Subscribe,
    SubscribeAck,
    Unsubscribe,
    UnsubscribeAck,
)
from holdfast.model.name_messages import Named, Recall, Recalled
from holdfast.model.site_messages import (
    Agreed,
    Announce,
    Announced,
    Assignment,
    Attendance,
    Change,
    Contacts,
    Establish,
    Forward,
    Marks,
    Notification,
    Notified,
    Offer,
    Owed,
    Promised,
    Propose,
    Replicate,
    Replicated,
    Retransmission,
    SiteAnswer,
    SiteRequest,
    SiteState,
    StateEnd,
    StateRequest,
    StreamState,
    TakeOver,
    Yielded,
)
from holdfast.model.terms import Contact
from holdfast.protocols.border import Border, Place
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.confirmations import Confirmations
from holdfast.protocols.edges import EdgeBroker, Phase
from holdfast.protocols.hub import BEAT_TIMER
from holdfast.protocols.links import Link
from holdfast.protocols.node import CancelTimer, Effects, Report, SetTimer
from holdfast.protocols.sesdad.agreement import Agreement, Places
from holdfast.protocols.sesdad.announcements import Announcements
from holdfast.protocols.sesdad.checks import problem_of
from holdfast.protocols.sesdad.designation import EPOCH_BITS, Designation
from holdfast.protocols.sesdad.government import BEHIND_TIMER, Government
from holdfast.protocols.sesdad.missing import HOLD_TIMER, NOTICE_TIMER, Missing
from holdfast.protocols.sesdad.ordered_publications import OrderedPublications
from holdfast.protocols.sesdad.peers import Peers
from holdfast.protocols.sesdad.publications import TICK_TIMER, Publications
from holdfast.protocols.sesdad.receipts import Receipts
from holdfast.protocols.sesdad.retransmission import Delays
from holdfast.protocols.sesdad.sequence_maps import Entry, Lane
from holdfast.protocols.sesdad.sites import LOCAL, Picker, SiteMap, client_of, subscriber_id
from holdfast.protocols.sesdad.state_transfer import Memories, merge, told
from holdfast.protocols.sesdad.traffic import Traffic

LOST_TIMER = "lost:"
MEMBER_MESSAGES = (
    *(Replicate, Replicated, SiteRequest, SiteAnswer, Attendance, Propose, Promised, Establish, TakeOver, Yielded),
    *(SiteState, StreamState, Owed, StateEnd, StateRequest, Assignment, Agreed),
)
SITE_MESSAGES = (Forward, Marks, Retransmission, Notification, Notified, Announce, Announced, Confirm, ConfirmAck)
CLIENT_MESSAGES = (
    *(Offer, Marks, Retransmission, Notification, Notified),
    *(Subscribe, Unsubscribe, Recall, Confirm, ConfirmAck),
)


class SesdadBroker(EdgeBroker):
    """One of the brokers of a site. See the package's docstring."""

    protocol: str  # type: ignore[misc]  # one class for two protocols, which differ in a part
    sited: ClassVar[bool] = True
    """Whoever makes one has to tell it sites."""
    guarantees: ClassVar[tuple[int, ...]] = (EVENTUAL, FIFO)
    border: ClassVar[Border] = {
        Place.CLIENT: frozenset(CLIENT_MESSAGES),
        Place.VISITOR: frozenset((Hole, Named, *SITE_MESSAGES)),
        Place.NEIGHBOUR: frozenset((Hole, Named, *SITE_MESSAGES, *MEMBER_MESSAGES)),
    }

    def __init__(self, config: BrokerConfig, incarnation: int, agrees: bool = False) -> None:
        """`agrees`: a majority of the site agrees on the place of every message, as `sesdad-agreement` does."""
        super().__init__(config, incarnation)
        self.protocol = "sesdad-agreement" if agrees else "sesdad"
        self.parent = None
        self.sites = SiteMap(config)
        self.hub.relays, self.hub.tolerance = False, self.sites.own.losses_max
        self._dials = 0
        self.memories = Memories()
        own, neighbours, floods = self.sites.own, tuple(self.sites.neighbours), config.routing == "flooding"
        self.peers = Peers(config.name, self.sites, self.hub, Picker(incarnation), lambda: self._now, self._is_serving)
        flooded, announced = (neighbours, ()) if floods else ((), neighbours)
        self.traffic = Traffic(config.name, own, flooded, self.guarantees, self._send_entry, self.peers.is_lost)
        designation = (
            *(config.name, own, self.peers.tell, self.peers.tell_members, self.traffic.marks, self._apply),
            *(self._send_state, lambda change: self.government.desk.expand(change, self.traffic.routes)),
            lambda: self.publications.begin(),  # noqa: PLW0108 - it is made below
        )
        tick_s, delays = config.link.ack_delay_s, Delays(config.request_s, config.notify_s)
        if agrees:
            places = Places(config.name, self.traffic)
            agreement = Agreement(*designation, places)
            self.designation: Designation = agreement
            self.missing = Missing(self.peers, self.traffic, agreement, delays)
            self.publications: Publications = OrderedPublications(
                self.peers, self.traffic, agreement, self.missing, self.guarantees, tick_s, self._settled, places
            )
        else:
            self.designation = Designation(*designation)
            self.missing = Missing(self.peers, self.traffic, self.designation, delays)
            self.publications = Publications(
                self.peers, self.traffic, self.designation, self.missing, self.guarantees, tick_s, self._settled
            )
        confirmations = Confirmations(self._send, self._account, lambda: self._now)
        self.receipts = Receipts(self.peers, self.traffic, self.publications, confirmations, flooded)
        self.government: Government = Government(
            self.peers,
            self.traffic,
            self.designation,
            Announcements(own.name, announced, self.peers.to_site),
            self.publications,
            self.missing,
            self._request_done,
        )
        self._handlers = self._handler_table()

    def _handler_table(self) -> dict[type, Callable[[str, Any], None]]:
        """Which part handles which message."""
        publications, missing, government, receipts = self.publications, self.missing, self.government, self.receipts
        return {
            Offer: publications.on_offer,
            Forward: publications.on_forward,
            Replicate: publications.on_replicate,
            Replicated: publications.on_replicated,
            Marks: self._on_marks,
            Retransmission: missing.on_retransmission,
            Notification: missing.on_notification,
            Notified: missing.on_notified,
            SiteRequest: government.on_site_request,
            SiteAnswer: government.on_site_answer,
            Attendance: government.on_attendance,
            Propose: government.on_propose,
            Promised: government.on_promised,
            Establish: government.on_establish,
            TakeOver: government.on_take_over,
            Yielded: government.on_yielded,
            Announce: government.on_announce,
            Announced: government.on_announced,
            Assignment: government.on_assignment,
            Agreed: government.on_agreed,
            SiteState: self.memories.on_site_state,
            StreamState: self.memories.on_stream_state,
            Owed: self.memories.on_owed,
            StateEnd: self._on_state_end,
            StateRequest: lambda peer, _: self._send_state(peer),
            Subscribe: self._on_subscribe,
            Unsubscribe: self._on_unsubscribe,
            Confirm: receipts.on_confirm,
            ConfirmAck: receipts.on_confirm_ack,
        }

    def _send_entry(self, lane: Lane, entry: Entry) -> None:
        self.publications.send_entry(lane, entry)

    def _settled(self) -> None:
        self.receipts.settled()

    # ---------------------------------------------------------------------------------------------------- life cycle

    def start(self, now: float) -> Effects:
        self._now = now
        self.hub.start()
        self._enter(Phase.JOINING)
        for peer in self.sites.to_dial():
            self._dial(peer)
        self._serve_if_told()
        return self.hub.take()

    def _is_serving(self) -> bool:
        return self.phase is Phase.SERVING

    def _dial(self, peer: str) -> None:
        """Begin a session; each one has a number of its own, so that nobody takes it for an earlier one."""
        self._dials += 1
        self.hub.dial(peer, self._now, dict(self.config.places).get(peer, ""))
        self.hub.links[peer].session += self._dials

    def admit(self, hello: Hello) -> Refusal | None:
        if hello.kind == "broker":
            if self.sites.knows(hello.node) and self.phase in (Phase.JOINING, Phase.SERVING):
                return None
            return Refusal("not-ready", f"broker {self.name} is {self.phase.value}, or does not know {hello.node}")
        if not hello.sited:
            return Refusal("site", f"{self.sites.own.name} is a site of several brokers: {self.name} is one of them")
        return super().admit(hello)

    def _is_broker(self, name: str) -> bool:
        return self.sites.knows(name)

    def _place_of(self, link: Link) -> Place:
        if link.kind == "client":
            return Place.CLIENT
        return Place.NEIGHBOUR if self.sites.is_member(link.peer) else Place.VISITOR

    def _cross_border(self, link: Link, message: SessionMessage) -> None:
        super()._cross_border(link, message)
        if self.sites.is_member(link.peer) and (problem := problem_of(message, self.sites)):
            raise PeerViolation(f"broker {link.peer} spoke of {problem}")

    def _take(self, link: Link, message: SessionMessage, arrived: SessionMessage) -> None:
        self.hub.consumed(link, arrived)
        self._handlers[type(message)](link.peer, message)

    def welcome(self, hello: Hello) -> tuple[int, str, tuple[int, ...]]:
        return self.traffic.last_seq(hello.node), self.protocol, self.guarantees

    def _highest(self, publisher: str) -> int:
        return self.traffic.last_seq(publisher)

    def _idle(self) -> bool:
        return not self.government.requests

    # --------------------------------------------------------------------------------------------------------- links

    def link_opened(self, link: Link, fresh: bool) -> None:
        super().link_opened(link, fresh)
        self.hub.out.append(CancelTimer(LOST_TIMER + link.peer))
        if link.kind == "client":
            if fresh:
                self._client_came(link)
        elif fresh:
            self.peers.linked[link.peer] = None
            if self.sites.is_member(link.peer):
                self.peers.blank[link.peer] = self.peers.silent[link.peer] = None
                self._send_state(link.peer)
            else:
                self._site_broker_came(link.peer)
        elif not self.sites.is_member(link.peer):
            self._site_broker_is_open(self.sites.site_of(link.peer))

    def link_closed(self, link: Link) -> None:
        super().link_closed(link)
        if link.kind == "broker":
            self._detached_at.pop(link.peer, None)
            self.hub.out.append(SetTimer(LOST_TIMER + link.peer, self.config.suspect_s))

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        super().link_refused(link, refusal)
        # It does not know our session any more: it has begun anew, or has given us up.
        self.hub.end(link.peer, refusal.reason, say=False)

    def link_ended(self, link: Link, reason: str) -> None:
        super().link_ended(link, reason)
        if link.kind == "client":
            self._client_left(link)
            return
        self.hub.out.append(CancelTimer(LOST_TIMER + link.peer))
        known = self.peers.linked.pop(link.peer, False) is None
        if link.dialler and self.phase in (Phase.JOINING, Phase.SERVING):
            self._dial(link.peer)
        if known:
            self.hub.out.append(Report("suspect", peer=link.peer, detail=reason))
            self._broker_lost(link.peer)

    def _site_broker_came(self, peer: str) -> None:
        if not self._is_serving():
            return
        site = self.sites.site_of(peer)
        marks = [mark for mark in self.traffic.prefixes() if mark[0] == site]
        self.peers.tell(peer, Marks(tuple(marks)))
        self._site_broker_is_open(site)

    def _site_broker_is_open(self, site: str) -> None:
        """What could be said to nobody there can be said now."""
        self.publications.send_unsent(site)
        if self.designation.leading:
            self.government.announcements.say_again(site)

    def _broker_lost(self, peer: str) -> None:
        self.memories.lost(peer)
        self.peers.blank.pop(peer, None)
        self.peers.silent.pop(peer, None)
        self.peers.telling.pop(peer, None)
        self.publications.site_marks.pop(peer, None)
        self.missing.lost(peer)
        self.receipts.lost(peer)
        if self.phase is Phase.JOINING:
            self._serve_if_told()
            return
        if not self._is_serving():
            return
        self.traffic.disowned(peer)
        if self.sites.is_member(peer):
            self.designation.forget(peer)
            self.government.desk.lost(peer, self._now)
            self.government.check_leader()
            self.publications.send_unsent()
            self.publications.ask_again()
            self.traffic.trim(self.peers.members())
        else:
            site = self.sites.site_of(peer)
            self.publications.release(site)
            self.publications.send_unsent(site)
            self.government.announcements.say_again(site)

    def _give_up(self, peer: str) -> None:
        link = self.hub.links.get(peer)
        if link is not None and not link.is_open and peer in self.peers.linked:
            self.hub.end(peer, f"{peer} has been out of reach for {self.config.suspect_s:g} s", say=False)

    # --------------------------------------------------------------------------------------------------------- memory

    def _send_state(self, member: str) -> None:
        if not self._is_serving():
            self.peers.tell(member, SiteState(True, 0, 0, 0))
            self.peers.tell(member, StateEnd())
            return
        founding = member in self.memories.newcomers
        for part in told(self.traffic, self.designation, self.publications.placed(), founding):
            self.peers.tell(member, part)

    def _on_state_end(self, peer: str, _: StateEnd) -> None:
        account = self.memories.ended(peer)
        self.peers.telling.pop(peer, None)
        if not account.state.blank:
            self.peers.blank.pop(peer, None)
            leader, before = self.designation.leader, self.designation.established
            merge(account, self.traffic, self.designation)
            if self.designation.established != before:
                self.publications.replace_places(account.state.placed)
                if self.designation.leading:
                    established = self.designation.established
                    self.government.announcements.replaced(self.traffic.routes.table, established)
            if account.state.established >> EPOCH_BITS >= account.state.epoch:
                self.designation.note(peer, account.state.established)
            if leader != self.designation.leader:
                self.government.leader_changed()
            self._member_serves(peer)
        if self.phase is Phase.JOINING:
            self._serve_if_told()
        else:
            self._caught_up()

    def _serve_if_told(self) -> None:
        """Serve when enough others have told what they remember, or all others have answered."""
        memories, others = self.memories, self.sites.others
        remembering, told = memories.remembering(), len(memories.answered) == len(others)
        if not (told or memories.suffice(self.sites.own.losses_max) or memories.account_for(others, self.peers.linked)):
            return
        self._enter(Phase.SERVING)
        for stream in self.traffic.streams.values():
            for unit in stream.units.values():
                unit.holders[self.name] = self.designation.promised
        if not remembering:
            # The others find the same, if they have not yet.
            self.peers.blank.clear()
            memories.begin(others)
            self.designation.found()
        elif self.designation.leader == self.name:
            self.designation.take_over()
        for peer in remembering:
            self.peers.silent.pop(peer, None)
        self._caught_up()
        if self.designation.leading:
            self.government.begin_leading()
        else:
            self.government.leader_changed()
        for peer in list(self.peers.linked):
            if not self.sites.is_member(peer):
                self._site_broker_came(peer)

    def _caught_up(self) -> None:
        """Something was told that may let us go on."""
        self.government.check_leader()
        self.publications.advance_all()
        self.publications.send_unsent()
        self.publications.tell_marks(list(self.traffic.streams))

    def _member_serves(self, peer: str) -> None:
        """Another broker of the site has its memory: what was said to it before it has not heard."""
        self.peers.blank.pop(peer, None)
        if self._is_serving() and self.peers.silent.pop(peer, False) is None:
            self.designation.linked(peer)
            self.government.check_leader()
            if peer == self.designation.leader:
                self.government.leader_changed()

    def _on_marks(self, peer: str, message: Marks) -> None:
        if not self.sites.is_member(peer):
            self.publications.on_marks(peer, message)
            return
        self._member_serves(peer)
        if self.phase is Phase.JOINING and self.memories.answered.get(peer) is False:
            # It knew nothing when it answered, and serves now: the site has begun without us.
            self.peers.tell(peer, StateRequest())
        self.designation.note(peer, message.established)
        if message.established > self.designation.established:
            self.government.behind()
        self.publications.on_member_marks(peer, message)
        self.government.established()
        self.receipts.settled()

    def _apply(self, message: Establish) -> None:
        self.government.in_force(message)
        for change in message.changes:
            link = self.peers.link_of(change.subscriber) if change.what == "g" else None
            if link is not None:
                # The site has given it up, though it is here: whoever goes on would hide a gap.
                self.hub.end(link.peer, f"{link.peer} was away from {self.sites.own.name} for too long")

    # -------------------------------------------------------------------------------------------------------- clients

    def _client_came(self, link: Link) -> None:
        places = dict(self.config.places)
        contacts = tuple(
            Contact(name, 0, self.config.address if name == self.name else places.get(name, ""))
            for name in self.sites.own.members
        )
        self._send(link.peer, Contacts(contacts, self.sites.own.losses_max + 1))
        stream = self.traffic.streams.get((LOCAL, link.peer))
        self._send(link.peer, Marks(((LOCAL, link.peer, 0 if stream is None else stream.prefix),)))
        subscriber = subscriber_id(link.peer, link.session)
        self.allowances.reset(link.peer, self.traffic.routes.table.interests(subscriber))
        self.government.to_leader(Attendance((subscriber,)))
        self.publications.send_unsent(subscriber)

    def _client_left(self, link: Link) -> None:
        subscriber = subscriber_id(link.peer, link.session)
        self.missing.questions.lost(link.peer)
        self.traffic.disowned(subscriber)
        self.receipts.left(link.peer)
        self.government.forget(subscriber)

    def _on_subscribe(self, peer: str, message: Subscribe) -> None:
        if message.token:
            self._request(peer, "s", message.token, message.pattern, message.where)

    def _on_unsubscribe(self, peer: str, message: Unsubscribe) -> None:
        self._request(peer, "u", message.token, message.pattern, message.where)

    def _recall(self, peer: str, recall: Recall) -> None:
        last = self.traffic.last_seq(peer)
        if is_tagged(peer):
            last = last or self.names.highest(peer) + recall.stride
        self._request(peer, "b", recall.token, number=max(last, recall.used))

    def _request(
        self,
        client: str,
        what: Literal["s", "u", "b"],
        token: int,
        pattern: str = "",
        where: str = "",
        number: int = 0,
    ) -> None:
        self.government.request(Change(what, self.peers.subscriber(client), token, pattern, where, number))

    def _request_done(self, change: Change, answer: SiteAnswer) -> None:
        """What a client of ours has asked for is so everywhere."""
        client = client_of(change.subscriber)
        if self.peers.link_of(change.subscriber) is None:
            return
        if change.what == "s":
            self._send(client, SubscribeAck(change.token))
        elif change.what == "u":
            self._send(client, UnsubscribeAck(change.token))
        else:
            self._send(client, Recalled(change.token, answer.number, not is_tagged(client)))

    def _interests_of(self, peer: str) -> list[Interest]:
        link = self.hub.links.get(peer)
        if link is None or link.kind != "client":
            return []
        return self.traffic.routes.table.interests(subscriber_id(peer, link.session))

    # --------------------------------------------------------------------------------------------------------- timers

    def timer(self, name: str, now: float) -> Effects:
        self._now = now
        self.peers.fired(name)
        if name == TICK_TIMER:
            self.publications.tell_dirty()
        elif name == HOLD_TIMER:
            self.missing.ask_for_missing()
        elif name == NOTICE_TIMER:
            self.missing.notify_if_quiet()
        elif name == BEHIND_TIMER:
            self.government.catch_up()
        elif name.startswith(LOST_TIMER):
            self._give_up(name.removeprefix(LOST_TIMER))
        else:
            if name == BEAT_TIMER:
                # Whoever a question waited for may be gone, and an answer with a session that ended.
                self.receipts.settled()
                self.government.say_again()
                self.publications.ask_for_oldest()
            if name == BEAT_TIMER and self.designation.leading:
                self.government.desk.dismiss_absent(now - self.config.session_keep_s, self.traffic.routes)
            return super().timer(name, now)
        return self.hub.take()

    # ----------------------------------------------------------------------------------------------------- inspection

    def status(self) -> dict[str, object]:
        links = self.hub.links.values()
        return {
            "name": self.name,
            "protocol": self.protocol,
            "phase": self.phase.value,
            "parent": self.config.parent,
            "site": self.sites.own.name,
            "designated": self.designation.leader,
            "members": list(self.sites.own.members),
            "neighbours": list(self.sites.neighbours),
            "routing": self.config.routing,
            "clients": sorted(name_of(link.peer) for link in links if link.kind == "client"),
            "links": {link.peer: link.state.value for link in links},
            "backlog_bytes": {link.peer: link.backlog_bytes for link in links if link.backlog_bytes},
            **self.slow_status(),
            "subscriptions": len(self.traffic.routes.table),
            "state": self.designation.established,
            "streams": len(self.traffic.streams),
            "kept": self.traffic.kept(),
            "processed": self.traffic.processed,
            "sent": self.traffic.sent,
        }

    def check_invariants(self) -> None:
        self.hub.check_invariants()
        self.traffic.check_invariants()

    def waiting_for(self) -> list[str]:
        reasons = [*self.hub.waiting_for(), *self.government.waiting_for(), *self.receipts.waiting_for()]
        if self.phase is Phase.JOINING:
            reasons.append(f"{self.sites.own.losses_max + 1} brokers of {self.sites.own.name} that have a memory")
        reasons += self.publications.waiting_for()
        reasons += self.traffic.waiting_for(lambda publisher: publisher in self.hub.links)
        if self.missing.questions:
            reasons.append("an answer to a notification")
        return reasons
