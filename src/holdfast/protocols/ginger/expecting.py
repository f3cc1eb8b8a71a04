"""A broker that expects others: those whose broker has died, newcomers, and those who were out of reach.

The parent of a dead broker coordinates its repair (for a dead root, its senior child, which is the root now). It
expects everybody whom it knows below the dead one, waits until all have joined or are dead and until its own neighbours
know of the change; then the repair can be settled (`taking_in`). Whoever does not come is given up, or, if it may be
out of reach, missed: see `absences`.
"""

from abc import abstractmethod
from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.model.batches import Batch
from holdfast.model.messages import Dead, Hello, Interest, Join, Refusal, Subscribe, Twig, Unstable, View
from holdfast.model.terms import Contact
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.edges import Phase
from holdfast.protocols.ginger.absences import Absence, Absences, epochs_in, names_in
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.ginger.healing_turning import HealingTurning
from holdfast.protocols.ginger.joiners import Joiner
from holdfast.protocols.ginger.late_clients import Account, LateCase, LateClients
from holdfast.protocols.ginger.recording import RecordingBroker
from holdfast.protocols.ginger.turned_away import TurnedAway
from holdfast.protocols.given_up import UNACCOUNTED
from holdfast.protocols.interests import ALL
from holdfast.protocols.last_numbers import Ahead, put_together
from holdfast.protocols.links import Link
from holdfast.protocols.node import Effects, Report, SetTimer
from holdfast.protocols.records import Record
from holdfast.protocols.treeview import TreeView

JOIN_TIMER = "join:"
SUSPECT_TIMER = "suspect:"
THE_ABSENT = "(the absent)"
"""Who asks for everything, in the place of those who may be out of reach."""


class ExpectingBroker(RecordingBroker):
    """Who is expected, who has come, and when a repair can be settled."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self._life = incarnation
        self.healing_turning = HealingTurning(self, self.interests, self._send)
        self.turning = self.healing_turning
        self.view = TreeView(config.name, incarnation, config.address, config.tolerance + 1, self._send)
        self._flushes: list[Flush] = []
        self._ahead_of: dict[str, list[Ahead]] = {}
        """What has come of those whose `Join` is under way."""
        self._repaired: dict[str, float] = {}
        """Whose loss was repaired here, and up to which epoch, the latest last."""
        self.settling = False
        """While a repair is being settled nothing else goes on: it would miss those that are being taken in."""
        self._fenced = ""
        """The parent that we have asked to take us in, until it opens the link."""
        self._hold = 0
        """How many records our new parent will still send to settle the repair."""
        self.absences = Absences(config.absent_bytes_max)
        self._early: dict[str, tuple[Link, Join, list[Ahead]]] = {}
        self._insisting: set[str] = set()
        """Roots of parts for which nothing is kept here, and which join all the same."""
        self.late = LateClients(config.link.away_bytes_max, config.session_keep_s)
        self._dropped_for: set[str] = set()
        """Clients given up while they were away, with messages for them: they may be elsewhere (see `holes`)."""
        self._turned_away = TurnedAway(config.session_keep_s)

    @abstractmethod
    def _hear_of(self, dead: Dead, peer: str) -> None:
        """A neighbour, or somebody who becomes one, says that these are dead."""

    @abstractmethod
    def suspect(self, name: str, epoch: int, reason: str) -> None:
        """That node is dead in that epoch, whatever it may think itself."""

    @abstractmethod
    def _finish_flush(self, flush: Flush) -> None:
        """Settle a repair that everybody has come to, and let them in."""

    @property
    def serves_total(self) -> bool:
        """Whether this part of the tree may order total batches."""
        return True

    def unsettled(self, topic: str) -> bool:
        """Whether a repair is pending that may bring something on this topic."""
        wants = self.interests.table.wants
        if any(flush.key and wants(flush.key, topic) for flush in self._flushes):
            return True
        return self.parent is not None and bool(self._fenced or self._hold) and wants(self.parent, topic)

    def in_doubt(self, topic: str) -> bool:
        """Whether the top of the topic may be out of reach, and alive."""
        return any(absence.missing and absence.doubt.is_wanted(topic) for absence in self.absences)

    def in_transit(self, topic: str) -> bool:  # noqa: ARG002
        """Whether a neighbour that wants this topic is being moved."""
        return False

    # ----------------------------------------------------------------------------------------------- expecting

    def _begin_repair(
        self, key: str, below: tuple[Twig, ...], silent: bool, contacts: tuple[Contact, ...] = ()
    ) -> Flush:
        self.hub.out.append(Report("repair_start", peer=key))
        flush = Flush(key, silent)
        flush.direct.update(twig.name for twig in below)
        self.absences.begin(key, contacts, self._now)
        self._expect(flush, below)
        if silent and not flush.waiting:
            # Nobody is known behind it. If it is out of reach, somebody may come to it whom we do not hear of.
            flush.waiting.update((one.name, Twig(one.name, "broker", one.epoch, one.address)) for one in contacts)
        flush.version = self._tell(self.view.hops - 2)
        self._flushes.append(flush)
        if silent:
            self._ask_for_all()
        self.hub.out.append(SetTimer(JOIN_TIMER + key, self._join_s(key)))
        return flush

    @abstractmethod
    def _join_s(self, lost: str) -> float:
        """How long those below a lost broker may take to come."""

    def _expect(self, flush: Flush, twigs: tuple[Twig, ...]) -> None:
        for twig in twigs:
            flush.known[twig.name] = twig.twigs
            if twig.name == self.name or twig.name in flush.joined:
                continue
            if self.view.is_gone(twig.name, twig.epoch):
                flush.dead.add(twig.name)
                self._expect(flush, twig.twigs)
            elif twig.name not in self.log.flows and not any(twig.name in other.joined for other in self._flushes):
                flush.waiting[twig.name] = twig
                self.view.children.setdefault(twig.name, twig)

    def _join_overdue(self, key: str) -> None:
        """Whoever is expected and has not come is given up; a client is merely not waited for (see `late_clients`).

        That is, if the lost broker's connection was closed: then it is dead. If it fell silent, it may be out of reach
        together with those who have not come.
        """
        for flush in [flush for flush in self._flushes if flush.key == key and flush.waiting]:
            if flush.silent:
                self._may_be_out_of_reach(flush)
                continue
            for name, twig in list(flush.waiting.items()):
                if twig.kind == "client":
                    flush.late[name] = flush.waiting.pop(name)
                    self.view.lose(name, twig.epoch)
                else:
                    self.suspect(name, twig.epoch, "it did not join in time")
            if flush.waiting:
                self.hub.out.append(SetTimer(JOIN_TIMER + key, self._join_s(key)))
        self._tick()

    def _may_be_out_of_reach(self, flush: Flush) -> None:
        """Keep for those who have not come what they may lack.

        Everything is asked for since the repair began, so that it can be kept for them (see `absences`): they may come
        to want what nobody wanted there before. The repair ends when those out of reach have surely begun to do so for
        us, too: before that nobody here may be told that its subscription is known everywhere.
        """
        if flush.overdue:
            for name, twig in flush.waiting.items():
                self.view.lose(name, twig.epoch)
            flush.wait_no_longer()
            return
        flush.overdue = True
        flush.expect_those_behind()
        self._ask_for_all()
        link = self.config.link
        after_s = self._join_s(flush.key) + link.silence_s + 2 * link.heartbeat_s
        self.hub.out.append(SetTimer(JOIN_TIMER + flush.key, after_s))

    def _ask_for_all(self) -> None:
        if THE_ABSENT not in self.interests.table.sources(*ALL):
            self.interests.subscribe(THE_ABSENT, Subscribe(0, *ALL))
            self.turning.pump()

    def _note_unaccounted(self, lost: str, interests: Iterable[Interest]) -> None:
        """Somebody behind that broker wanted this, and has not come. It may be alive, out of reach, and owed messages.

        The interest stays for as long as a session may: if it were taken back, whoever asks whether everybody has a
        message would not be heard here, and would be told that everybody has.
        """
        wanted = list(interests)
        self.given_up.note_unaccounted(lost, wanted, self._now + self.config.session_keep_s)
        for interest in wanted:
            self.interests.subscribe(UNACCOUNTED, Subscribe(0, *interest))
        if wanted:
            self.turning.pump()

    def _forget_unaccounted(self) -> None:
        if self.interests.table.interests(UNACCOUNTED) and self.given_up.all_accounted(self._now):
            self.interests.drop(UNACCOUNTED)
            self.turning.pump()

    def _ask_for_less(self) -> None:
        """When nobody is missed any more."""
        missed = any(flush.silent or flush.missing for flush in self._flushes)
        missed = missed or any(absence.missing for absence in self.absences)
        if not missed:
            self.interests.drop(THE_ABSENT)
            self.confirmations.drop(THE_ABSENT)
            self.turning.pump()

    def _note(self, record: Record) -> None:
        self.absences.note(record.batch, record.number)
        if len(self.late):
            self.late.note(record.batch, record.number, self.interests.table.takers(record.batch))

    # ----------------------------------------------------------------------------------------------- late clients

    def _late_case(self, name: str, join: Join, ahead: list[Ahead]) -> LateCase | None:
        """Where that client is waited for, if its session can go on."""
        outlived = self.late.before(name, join.twig.epoch)
        if outlived is not None:
            self._give_up_late(outlived, name)
        case = self.late.of(name, join.twig.epoch)
        if case is None:
            return None

        def is_wanted(batch: Batch) -> bool:
            """By somebody else."""
            return any(peer not in (name, case.stand_in) for peer in self.interests.table.takers(batch))

        account = Account(*put_together(ahead, join.processed))
        if case.contradicts(account, self.processed, is_wanted):
            self._give_up_late(case, name)
            return None
        return case

    def _give_up_late(self, case: LateCase, client: str) -> None:
        """That client's session is lost, and it will be told so if it comes."""
        case.clients.pop(client, None)
        self.given_up.note(client, case.interests, self._now)
        if not case.clients:
            self._end_late(case)

    def _end_late(self, case: LateCase) -> None:
        """Nothing is kept for the clients of that case any more."""
        for name in sorted(case.clients):
            self.given_up.note(name, case.interests, self._now)
            detail = f"what {name} may lack since {case.lost} was lost is kept no longer"
            self.hub.out.append(Report("gap", peer=name, detail=detail))
            self._dropped_for.add(name)
        self.late.end(case)
        self.interests.drop(case.stand_in)
        self.confirmations.drop(case.stand_in)
        self.turning.pump()

    def settle(self, now: float) -> Effects:
        if len(self.late):
            under_way = [flush.case for flush in self._flushes]
            for case in self.late.over(now):
                if case not in under_way:
                    self._now = now
                    self._end_late(case)
        if self._dropped_for:
            self._now = now
            reason = f"{self.name} has given up sessions that were away, with messages for them"
            self.holes.announce_about(self._dropped_for, reason)
            self._dropped_for.clear()
        return super().settle(now)

    # ------------------------------------------------------------------------------------------------- visitors

    def _greeted(self, peer: str, hello: Hello) -> Effects | None:
        if not hello.resume:
            self._forget_visit(peer, hello.session)
        return super()._greeted(peer, hello)

    def _is_here(self, peer: str) -> bool:
        """Whether that peer was taken in. Others only came to ask something, or wait at the door."""
        return peer in self.log.flows or peer in self.interests.neighbours

    def _told_of_holes(self) -> list[str]:
        """Not those who are at the door: nothing else travels on their links before `Open`, and then they are told."""
        return [peer for peer in self.hub.links if self._is_here(peer)]

    def _forget_visit(self, peer: str, session: int) -> None:
        """Who has spoken to us, and begins a session in the same epoch all the same, has forgotten the first one.

        1. 1 looks for 0, which it has lost, and asks. The answer takes too long, and 1 gives the attempt up.
        2. It asks again. If 0 took that for the session of before, both would count its messages differently for ever.
        """
        link = self.hub.links.get(peer)
        if link is None or link.dialler or link.session != session or not link.received or self._is_here(peer):
            return
        self._turn_away(peer)

    def _turn_away(self, peer: str) -> None:
        """Nobody waits at our door under that name any more. If a repair needs that node, it is expected again."""
        self.hub.set_aside(peer)
        self._ahead_of.pop(peer, None)
        self._early.pop(peer, None)
        for flush in [flush for flush in self._flushes if peer in flush.joined]:
            joiner = flush.joined.pop(peer)
            if flush.key:
                flush.waiting[peer] = joiner.join.twig
                self.hub.out.append(SetTimer(JOIN_TIMER + flush.key, self._join_s(flush.key)))
            elif not flush.joined:
                self._end_visit(flush)

    def _end_visit(self, flush: Flush) -> None:
        """Nobody is left of those who came by themselves: no cut is held up for them any more."""
        self._flushes.remove(flush)

    # -------------------------------------------------------------------------------------------------- joining

    def _on_join(self, link: Link, join: Join) -> None:
        name = link.peer
        ahead = self._ahead_of.pop(name, [])
        self._hear_of(join.dead, name)
        if self.phase is Phase.GONE or self.hub.links.get(name) is not link or self._is_for_another(name, join):
            return
        case = self._late_case(name, join, ahead)
        if join.old and case is None and not self._is_expected(name) and name not in self._insisting:
            if any(join.old in flush.waiting for flush in self._flushes):
                # Its broker is expected here itself: if that does not come, this one is.
                self._early[name] = (link, join, ahead)
                return
            refusal = self._stranger(join.old, join.old_epoch)
            if refusal.code == "late":
                self.hub.out.append(Report("gap", peer=name, detail=refusal.reason))
            if refusal.code == "late" or (join.twig.kind == "client" and self._turned_away.again(name, self._now)):
                self._tell_of_discarded(name, ahead)
            self.hub.refuse(name, refusal)
            return
        above = [one for one in self.view.chain if one.name == name]
        if above and join.twig.epoch > above[0].epoch and not (join.twig.twigs or join.processed):
            # It has begun anew, with nobody below it: the one above us is dead, and this is another.
            self.suspect(name, above[0].epoch, "it has begun anew")
        elif above:
            self.hub.refuse(name, Refusal("moved", f"{self.name} is itself below {name}: ask others"))
            return
        if join.old and join.twig.kind == "broker":
            # Those who did not come because they were out of reach with it were not dead.
            self.view.revive(epochs_in(join.twig))
            self.absences.is_back(join.twig)
        self.view.adopt(join.twig, self.parent is None)
        if join.twig.kind == "broker" and not (join.old or join.dead or join.processed or join.twig.twigs):
            # A newcomer: whom it may turn to if we are lost before it is let in.
            self.hub.send(name, self.view.message(name, False, 0, 0, self.parent is None))
            # It hears all of it again when it is let in.
            self.view.deaths.told_nothing(name)
        for lost in [lost for lost in self._flushes if lost.key == name]:
            # Whoever begins anew is not missed itself, and has nobody with it that we have not heard of.
            lost.waiting.pop(name, None)
        flush = self._flush_for(name, join) or Flush("")
        flush.waiting.pop(name, None)
        flush.known[name] = join.twig.twigs
        records, numbers = put_together(ahead, join.processed)
        flush.joined[name] = Joiner(replace(join, processed=numbers), records)
        flush.case = None if flush.key else case
        flush.insisting |= self._insisting & {name}
        self._insisting.discard(name)
        self._expect_no_more(name, names_in(join.twig) - {name}, flush)
        if flush not in self._flushes:
            flush.version = self._tell(self.view.hops - 2)
            self._flushes.append(flush)
        self._tick()

    def _expect_no_more(self, joiner: str, below: set[str], joining: Flush) -> None:
        """Nodes below a broker that joins come with it, whichever repair expects them.

        1. 7 was moved below 3, and the lost broker had no time to say so.
        2. 1 has lost 3, which lives on with 5 below it, and misses both. 1 dies, and 0 repairs that: it expects 5.
        3. 3 joins 0, as the root of its part. If 0 went on expecting 5, it would give up a healthy broker.

        Nor are they children of ours, as they were while they were expected in the place of the lost broker: if 0 told
        3, which it takes in, that 5 is a sibling of it and its senior, 3 would turn to 5, its own child, if 0 died.
        """
        for flush in (*self._flushes, joining):
            for name in below & flush.waiting.keys():
                del flush.waiting[name]
                self.view.children.pop(name, None)
            if flush.key in below:
                flush.elsewhere = joiner
        joined = {name for flush in (*self._flushes, joining) for name in flush.joined}
        self.view.come_below(below - joined - self.log.flows.keys(), self.parent is None)

    def _tell_of_discarded(self, client: str, ahead: list[Ahead]) -> None:
        """A client that nobody takes in takes publications with it that nobody else has: subscribers are told.

        Its broker may have accepted them, and have died before any other broker had them.
        """
        own = [one.batch for one in ahead if isinstance(one, Unstable) and one.batch.publisher == client]
        if any(not self.is_done(client, batch.last) for batch in own):
            self.holes.announce(f"the session of {client} is lost, with messages that it had published")

    def _is_for_another(self, name: str, join: Join) -> bool:
        """Whether it means the one that we were before we began anew. Then it has to ask the next in line.

        1. 3 has lost 1, and turns to 0, which has begun anew. 0 knows nothing of what 1 has passed on.
        2. 11, in the place of 0, repairs the loss of both, and waits for 3: nobody else would tell 3 to go there.
        """
        if not 0 < join.meant < self._life:
            return False
        reason = f"{self.name} has begun anew since, and does not repair what it would have repaired before"
        self.hub.refuse(name, Refusal("unknown-session", reason))
        return True

    def _hear_early(self) -> None:
        """Those who came before it was known whether their broker comes."""
        for name in list(self._early):
            link, join, ahead = self._early.get(name, (None, None, []))
            if link is None or join is None or self.hub.links.get(name) is not link:
                self._early.pop(name, None)
            elif self._is_expected(name) or all(join.old not in flush.waiting for flush in self._flushes):
                del self._early[name]
                self._ahead_of[name] = ahead
                self._on_join(link, join)

    def _is_expected(self, name: str) -> bool:
        """Whether what that node lacks is here: it is waited for, or was missed, or is itself the one who was lost."""
        for flush in self._flushes:
            if flush.key == name and flush.waiting:
                # The lost one itself is back. Until it is let in, those behind it want what they wanted.
                flush.wait_no_longer()
                self._ask_for_all()
        waited_for = any(
            name in flush.waiting or flush.key == name or name in flush.missing or name in flush.late
            for flush in self._flushes
        )
        return waited_for or self.absences.of(name) is not None

    def _stranger(self, old: str, epoch: int) -> Refusal:
        """To a node that is not expected here, though it had a broker.

        1. 0 has lost 1, repaired that, and has taken 1 in again, which others call their broker by now.
        2. 1 crashes. Its clients are at 0 before 0 knows it: they are early, not late.
        """
        if epoch <= self._repaired.get(old, -1):
            return Refusal("late", f"the loss of {old} was repaired here before this client came: messages are missing")
        return Refusal("moved", f"{self.name} does not repair the loss of {old}: ask others")

    def _flush_for(self, name: str, join: Join) -> Flush | None:
        """The repair that a joiner comes to: the one that expects it, or that of a broker which the joiner calls dead.

        A broker that was missed comes to none of them, whatever it says of the dead:
        1. 0 has lost 1 and keeps a diary for it. 2, which was given up before that, is at 1 now.
        2. 0 has another 2 to repair, and 1 says that this one is dead. If 1 took part in that repair, the diary of its
           own absence would not be looked at, and 1 would be handed nothing.
        """
        dead = dict(join.dead)
        for flush in self._flushes:
            if name in flush.waiting or flush.late.pop(name, None) is not None:
                return flush
        if self.absences.of(name) is not None:
            return None
        for flush in self._flushes:
            if flush.concerns(dead) and flush.key != name:
                return flush
        return None

    def _tick(self) -> None:
        """End every flush that can end."""
        if self.settling:
            return
        if self._early:
            self._hear_early()
        for flush in list(self._flushes):
            known = self.view.acknowledged(flush.version)
            ready = not flush.waiting and known and not self._is_blocked(flush)
            if flush in self._flushes and ready:
                self._flushes.remove(flush)
                self._finish_flush(flush)

    def _is_blocked(self, flush: Flush) -> bool:
        """Whether another repair has to end first: that of a joiner's own loss, or the one at which it was missed."""
        others = [other for other in self._flushes if other is not flush]
        return any(other.key in flush.joined or not other.missing.keys().isdisjoint(flush.joined) for other in others)

    def _absence_of(self, flush: Flush) -> Absence | None:
        """Where the one who is taken in was missed, if it was."""
        found = [self.absences.of(name) for name, one in flush.joined.items() if self._was_missed(one)]
        return next((one for one in found if one is not None), None)

    def _was_missed(self, joiner: Joiner) -> bool:
        """Whether it is the one who was there before, not one of its name who begins anew.

        A broker to which nothing has ever come has the epoch that was missed all the same, and clients that are owed
        what was published meanwhile.
        """
        twig, join = joiner.join.twig, joiner.join
        absence = self.absences.of(twig.name)
        known = None if absence is None or joiner.is_client else absence.missing.get(twig.name)
        return bool(join.old or join.processed) or (known is not None and known.epoch == twig.epoch)

    # -------------------------------------------------------------------------------------------------- telling

    def _neighbours_alive(self) -> list[str]:
        dead = {flush.key for flush in self._flushes}
        alive = [peer for peer in self.interests.neighbours if peer in self.hub.links or peer == self._fenced]
        return [peer for peer in alive if peer not in dead]

    def _tell(self, hops: int) -> int:
        return self.view.tell(self.parent, self._neighbours_alive(), hops, self._tick)

    def _tell_down(self) -> None:
        """Everybody below learns who is above; nobody waits for it."""
        brokers = self.hub.links.brokers
        has_brokers = any(peer != self.parent for peer in brokers)
        upward, fresh, for_clients = self.view.news_below(self.parent is None, has_brokers)
        links = brokers if for_clients is None else self.hub.links
        for peer, link in links.items():
            if peer == self.parent or peer not in self.log.flows:
                continue
            if link.kind == "broker":
                dead = self.view.deaths.news_for(peer)
                if fresh or dead:
                    self._send(peer, View(0, 0, None, upward, dead))
            elif for_clients is not None:
                self._send(peer, for_clients)

    # ---------------------------------------------------------------------------------------------- inspection

    def status(self) -> dict[str, object]:
        return {**super().status(), "late": self.late.status()}

    def waiting_for(self) -> list[str]:
        reasons = super().waiting_for()
        for flush in self._flushes:
            why = f"since {flush.key} is lost" if flush.key else f"to take {', '.join(sorted(flush.joined))} in"
            if flush.waiting:
                reasons.append(f"{', '.join(sorted(flush.waiting))} to join, {why}")
            elif not self.view.acknowledged(flush.version):
                reasons.append(f"its neighbours to hear of the change, {why}")
            else:
                reasons.append(f"an earlier repair, a census or a cut to end, {why}")
        if self._fenced:
            reasons.append(f"{self._fenced} to open the link")
        return reasons
