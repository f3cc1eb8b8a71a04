"""A broker's part in the government of its site: it asks the designated broker, follows it, or is it."""

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.model.errors import PeerViolation
from holdfast.model.messages import SessionMessage
from holdfast.model.site_messages import (
    Agreed,
    Announce,
    Announced,
    Assignment,
    Attendance,
    Change,
    Establish,
    Promised,
    Propose,
    SiteAnswer,
    SiteRequest,
    StateRequest,
    TakeOver,
    Yielded,
)
from holdfast.protocols.node import Report
from holdfast.protocols.sesdad.announcements import Announcements
from holdfast.protocols.sesdad.designation import Designation
from holdfast.protocols.sesdad.desk import Desk
from holdfast.protocols.sesdad.missing import Missing
from holdfast.protocols.sesdad.peers import Peers
from holdfast.protocols.sesdad.publications import Publications
from holdfast.protocols.sesdad.sites import LOCAL, client_of
from holdfast.protocols.sesdad.traffic import Traffic

BEHIND_TIMER = "behind"


class Government:
    """Requests to the designated broker and its changes. `answered` is told what was done for a client of ours."""

    def __init__(
        self,
        peers: Peers,
        traffic: Traffic,
        designation: Designation,
        announcements: Announcements,
        publications: Publications,
        missing: Missing,
        answered: Callable[[Change, SiteAnswer], None],
    ) -> None:
        self._peers, self._traffic, self.designation, self.announcements = peers, traffic, designation, announcements
        self._publications, self._missing, self._answered = publications, missing, answered
        self._behind: int | None = None
        """The state that was in force here when another broker was found to have a later one."""
        self.desk = Desk(announcements, designation.submit, self._to_member)
        self.requests: dict[tuple[str, int], Change] = {}
        """What our clients have asked, and the designated broker has not answered."""
        self._early: list[tuple[str, SessionMessage]] = []
        """What is said to the designated broker while we are about to be it."""
        self._announces: dict[str, tuple[str, Announce]] = {}
        """By site: its last announcement, until it is answered, and the broker that brought it."""

    # ----------------------------------------------------------------------------------------------------- succession

    def check_leader(self) -> None:
        """Take over if the designated broker is lost, and all between it and us in rank are."""
        members, leader, name = self._peers.sites.own.members, self.designation.leader, self._peers.name
        if not self._peers.is_serving() or leader == name or not self._peers.is_lost(leader):
            return
        at = members.index(leader)
        ring = (*members[at:], *members[:at])
        if next(one for one in ring if one == name or not self._peers.is_lost(one)) == name:
            self.designation.take_over()
            self._peers.hub.out.append(Report("designated", detail=f"epoch {self.designation.epoch}"))
            if self.designation.leading:
                self.begin_leading()

    def begin_leading(self) -> None:
        """We are designated from now on."""
        self.desk.begin(self._traffic.subscribers(), self._peers.now)
        established = self.designation.established
        self.announcements.begin(self.designation.epoch, self._traffic.routes.table, established)
        self._missing.ask_about_all()
        self.leader_changed()
        early, self._early = self._early, []
        for peer, message in early:
            self._heard(peer, message)

    def leader_changed(self) -> None:
        """Say again to the designated broker what the last one has not answered; it may be lost already."""
        if self.designation.leader != self._peers.name:
            self._early.clear()
        self.to_leader(Attendance(tuple(self._peers.subscribers())))
        self._ask_again()
        for _, announce in list(self._announces.values()):
            self.to_leader(announce)
        self._publications.ask_again()
        # 1. Broker 1 begins epoch 3, and dies. 2. Broker 2, which takes it for lost, begins epoch 1. 3. Broker 3 yields
        # to the later one: broker 2 learns that broker 1 is designated, after it has found broker 1 lost.
        self.check_leader()

    def say_again(self) -> None:
        """Say once more what was not answered for a while, unless it waits for room on its way: it will be heard."""
        peers = self._peers
        if not peers.is_serving():
            return
        if not peers.is_jammed(self.designation.leader):
            self._ask_again()
            for _, announce in list(self._announces.values()):
                self.to_leader(announce)
        if self.designation.leading:
            for site in peers.sites.neighbours:
                if not any(map(peers.is_jammed, peers.at(site))):
                    self.announcements.say_again(site)

    def to_leader(self, message: SessionMessage) -> None:
        self._to_member(self.designation.leader, message)

    def _to_member(self, broker: str, message: SessionMessage) -> None:
        """Send to a broker of our site, which may be ourselves."""
        if broker != self._peers.name:
            self._peers.tell(broker, message)
        else:
            self._heard(broker, message)

    def _heard(self, peer: str, message: SessionMessage) -> None:
        """What brokers of a site say to the designated one, and it to them."""
        if isinstance(message, SiteRequest):
            self.on_site_request(peer, message)
        elif isinstance(message, Attendance):
            self.on_attendance(peer, message)
        elif isinstance(message, Announce):
            self.on_announce(peer, message)
        elif isinstance(message, Announced):
            self.on_announced(peer, message)
        elif isinstance(message, SiteAnswer):
            self.on_site_answer(peer, message)

    def _comes_early(self, peer: str, message: SessionMessage) -> bool:
        """Whether something is for the designated broker, and we are not it; if we are about to be it, it is kept."""
        designation, name = self.designation, self._peers.name
        if not designation.leading and designation.leader == name and peer != name:
            self._early.append((peer, message))
        return not designation.leading

    # -------------------------------------------------------------------------------------------------------- requests

    def request(self, change: Change) -> None:
        """A client of ours asks for a change."""
        name, number = change.subscriber, change.token
        before = max((token for subscriber, token in self.requests if subscriber == name and token < number), default=0)
        self.requests[name, number] = change
        self.to_leader(SiteRequest(change, before))

    def _ask_again(self) -> None:
        """Say all requests that were not answered to the designated broker, each with the one before it."""
        before: dict[str, int] = {}
        for name, number in sorted(self.requests):
            # In a site of one broker each is answered as soon as it is said.
            if change := self.requests.get((name, number)):
                self.to_leader(SiteRequest(change, before.get(name, 0)))
                before[name] = number

    def forget(self, subscriber: str) -> None:
        """That client has no session here any more."""
        for key in [key for key in self.requests if key[0] == subscriber]:
            del self.requests[key]
        self.to_leader(Attendance((), (subscriber,)))

    def on_site_request(self, peer: str, message: SiteRequest) -> None:
        if not self._comes_early(peer, message):
            change = self._as_in_force(message.change)
            self.desk.ask(peer, change, message.after, self._traffic.routes, self.announcements.version)
            self._answer()

    def _as_in_force(self, change: Change) -> Change:
        """A request that comes again by another broker, which may ask for another beginning: the first one counts."""
        if change.what != "b" or change.token > self._traffic.routes.done.get(change.subscriber, 0):
            return change
        return replace(change, number=self._traffic.stream(LOCAL, client_of(change.subscriber)).beginning)

    def on_site_answer(self, _: str, message: SiteAnswer) -> None:
        change = self.requests.pop((message.subscriber, message.token), None)
        if change is not None:
            self._answered(change, message)

    def on_attendance(self, peer: str, message: Attendance) -> None:
        if not self._comes_early(peer, message):
            self.desk.attend(peer, message.present, message.absent, self._traffic.routes)

    def on_announce(self, peer: str, message: Announce) -> None:
        if self._peers.sites.is_member(peer) or peer == self._peers.name:
            if not self._comes_early(peer, message):
                self.desk.announced(peer, message, self._traffic.routes, self.announcements.version)
                self._answer()
            return
        if message.site != self._peers.sites.site_of(peer):
            raise PeerViolation(f"{peer} announces what {message.site} wants, which is not its site")
        self._announces[message.site] = (peer, message)
        if self._peers.is_serving():
            self.to_leader(message)

    def on_announced(self, peer: str, message: Announced) -> None:
        if not (self._peers.sites.is_member(peer) or peer == self._peers.name):
            site = self._peers.sites.site_of(peer)
            self.announcements.on_announced(site, message, self._traffic.routes.table)
            self._answer()
            return
        asked = self._announces.get(message.site)
        if asked is not None and (asked[1].epoch, asked[1].number) == (message.epoch, message.number):
            del self._announces[message.site]
            self._peers.tell(asked[0], Announced(self._peers.sites.own.name, message.epoch, message.number))

    # --------------------------------------------------------------------------------------------------------- changes

    def in_force(self, message: Establish) -> None:
        """Put changes in force here; if we are designated, others are told."""
        changed = self._traffic.establish(message)
        if self.designation.leading:
            self.desk.in_force(message.changes, message.version)
            self.announcements.changed(self._traffic.routes.table, changed, message.version)

    def established(self) -> None:
        """The state in force has changed, or another broker has it, too."""
        self._publications.advance_all()
        self._answer()

    def _answer(self) -> None:
        """Answer what is done and propose what is next, which may be done at once in a site of one broker."""
        established = -1
        while self.designation.leading and established != self.designation.established:
            established = self.designation.established
            if self.designation.confirmed:
                self.desk.answer(established)
            self.designation.advance()

    def on_propose(self, peer: str, message: Propose) -> None:
        if self._peers.is_serving() and self.designation.on_propose(peer, message):
            self.leader_changed()

    def on_promised(self, peer: str, message: Promised) -> None:
        before = self.designation.established
        self.designation.on_promised(peer, message)
        self._tell_established(before)

    def on_establish(self, peer: str, message: Establish) -> None:
        before = self.designation.established
        if self._peers.is_serving():
            self.designation.note(peer, message.version)
            self.designation.on_establish(peer, message)
        self._tell_established(before)

    def _tell_established(self, before: int) -> None:
        if self.designation.established != before:
            self._peers.tell_members(self._publications.marks())
        self.established()

    def on_take_over(self, peer: str, message: TakeOver) -> None:
        if self._peers.is_serving() and self.designation.on_take_over(peer, message):
            self.leader_changed()

    def on_yielded(self, peer: str, message: Yielded) -> None:
        led, before = self.designation.leading, self.designation.established
        if self._peers.is_serving() and self.designation.on_yielded(peer, message):
            self.leader_changed()
        if self.designation.leading and not led:
            self.begin_leading()
        self._tell_established(before)

    def on_assignment(self, peer: str, message: Assignment) -> None:
        """With agreement on every message: publications have got their places."""
        if self._peers.is_serving():
            leader = self.designation.leader
            self.designation.note(peer, message.version)
            self._publications.on_assignment(peer, message)
            if leader != self.designation.leader:
                self.leader_changed()
            self.established()

    def on_agreed(self, peer: str, message: Agreed) -> None:
        """Another broker of the site has these places, too."""
        self.designation.note(peer, message.version)
        self.established()

    def behind(self) -> None:
        """Another broker has a later state in force: if none has come here after a while, ask for it."""
        if self._behind is None:
            self._behind = self.designation.established
        self._peers.arm(BEHIND_TIMER, self._missing.delays.request_s)

    def catch_up(self) -> None:
        """Another broker had a later state in force a while ago: ask, unless a state has come since."""
        before, self._behind = self._behind, None
        established = self.designation.established
        later = [name for name in self._peers.members() if self.designation.version_of(name) > established]
        if later and self._peers.is_serving():
            if before == established:
                self._peers.tell(self._peers.pick(later), StateRequest())
            self.behind()

    def waiting_for(self) -> list[str]:
        reasons = self.designation.waiting_for()
        if self.designation.leading:
            reasons += [*self.desk.waiting_for(), *self.announcements.waiting_for()]
        words = {"s": "subscribe", "u": "unsubscribe", "b": "recall"}
        leader = self.designation.leader
        return [*reasons, *(f"{leader} to {words[one.what]} {one.pattern}" for one in self.requests.values())]
