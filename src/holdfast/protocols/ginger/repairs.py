"""The repairs at one broker: those that it expects, whose broker has died, and those that come by themselves.

The parent of a dead broker coordinates its repair (for a dead root, its senior child, which is the root now). It
expects everybody whom it knows below the dead one, waits until all have joined or are dead and until its own neighbours
know of the change; then the repair can be settled (`admissions`). A node that does not come is given up, or, if
it may be out of reach, missed: see `absences`.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.model.messages import (
    Interests,
    Join,
    Numbers,
    Refusal,
    Twig,
    Unstable,
)
from holdfast.model.terms import Contact
from holdfast.protocols.edges import Phase
from holdfast.protocols.ginger.absences import Absence, epochs_in, names_in
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.ginger.joiners import Joiner
from holdfast.protocols.ginger.late_clients import LateCase
from holdfast.protocols.ginger.refused_clients import RefusedClients
from holdfast.protocols.last_numbers import Ahead, put_together
from holdfast.protocols.links import Link
from holdfast.protocols.node import Report, SetTimer
from holdfast.protocols.wanted_parts import wanted_by

if TYPE_CHECKING:
    from holdfast.protocols.ginger.repairing_broker import RepairingBroker

JOIN_TIMER = "join:"


class Repairs:
    """The brokers and clients that are expected here, and that have come."""

    def __init__(self, broker: "RepairingBroker") -> None:
        self._broker = broker
        self._hub = broker.hub
        self._log = broker.log
        self._view = broker.view
        self._interests = broker.interests
        self._holes = broker.holes
        self._absences = broker.absences
        self.flushes: list[Flush] = []
        self.ahead_of: dict[str, list[Ahead]] = {}
        """What has come of those whose `Join` is under way."""
        self._early: dict[str, tuple[Link, Join, list[Ahead]]] = {}
        self._insisting: set[str] = set()
        """Roots of parts for which nothing is kept here, and which join all the same."""
        self._refused_clients = RefusedClients(broker.config.session_keep_s)

    def begin_repair(
        self, key: str, below: tuple[Twig, ...], silent: bool, contacts: tuple[Contact, ...] = ()
    ) -> Flush:
        self._hub.out.append(Report("repair_start", peer=key))
        flush = Flush(key, silent)
        flush.direct.update(twig.name for twig in below)
        earlier = self._absences.begin(key, contacts, self._broker.now)
        if earlier is not None and earlier.to_parent:
            self._broker.healing_turning.rename(key, earlier.key)
        self.expect(flush, below)
        if silent and not flush.waiting:
            # Nobody is known behind it. If it is out of reach, somebody may come to it whom we do not hear of.
            flush.waiting.update((one.name, Twig(one.name, "broker", one.epoch, one.address)) for one in contacts)
        self._begin(flush)
        if silent:
            self._broker.diaries.ask_for_all()
        self._hub.out.append(SetTimer(JOIN_TIMER + key, self._broker.neighbours.join_s(key)))
        return flush

    def _begin(self, flush: Flush) -> None:
        """The repair is under way from now on, also for another one that ends while the neighbours are told.

        1. 1 repairs the loss of 2, and waits for 0, its parent, to hear of that. 0 turns c0#2 for c0 alone, and dies.
        2. 1 gives 0 up, tells its neighbours, and waits for nobody any more: the loss of 2 is repaired at that moment.
           c3#1, on the key of c0#2, was asked of 2, and is asked again.
        3. If the loss of 0 did not count yet, c3#1 would turn before c0#2, and c0, which has that, would never get it.
        """
        self.flushes.append(flush)
        flush.version = self._broker.neighbours.tell_neighbours(self._view.hops - 2)

    def expect(self, flush: Flush, twigs: tuple[Twig, ...]) -> None:
        for twig in twigs:
            flush.known[twig.name] = twig.twigs
            if twig.name == self._broker.name or twig.name in flush.joined:
                continue
            if self._view.is_gone(twig.name, twig.epoch):
                flush.dead.add(twig.name)
                self.expect(flush, twig.twigs)
            elif twig.name not in self._log.flows and not any(twig.name in other.joined for other in self.flushes):
                flush.waiting[twig.name] = twig
                self._view.children.setdefault(twig.name, twig)

    def join_overdue(self, key: str) -> None:
        """Whoever is expected and has not come is given up; a client is merely not waited for (see `late_clients`).

        That is, if the lost broker's connection was closed: then it is dead. If it fell silent, it may be out of reach
        together with those who have not come.
        """
        for flush in [flush for flush in self.flushes if flush.key == key and flush.waiting]:
            if flush.silent:
                self._may_be_out_of_reach(flush)
                continue
            for name, twig in list(flush.waiting.items()):
                if twig.kind == "client":
                    flush.late[name] = flush.waiting.pop(name)
                    self._view.lose(name, twig.epoch)
                else:
                    self._broker.suspicion.suspect(name, twig.epoch, "it did not join in time")
            if flush.waiting:
                self._hub.out.append(SetTimer(JOIN_TIMER + key, self._broker.neighbours.join_s(key)))
        self.tick()

    def _may_be_out_of_reach(self, flush: Flush) -> None:
        """Keep for those who have not come what they may lack.

        Everything is asked for since the repair began, so that it can be kept for them (see `absences`): they may come
        to want what nobody wanted there before. The repair ends when those out of reach have surely begun to do so for
        us, too: before that nobody here may be told that its subscription is known everywhere.
        """
        if flush.overdue:
            for name, twig in flush.waiting.items():
                self._view.lose(name, twig.epoch)
            flush.wait_no_longer()
            return
        flush.overdue = True
        flush.expect_those_behind()
        self._broker.diaries.ask_for_all()
        link = self._broker.config.link
        after_s = self._broker.neighbours.join_s(flush.key) + link.silence_s + 2 * link.heartbeat_s
        self._hub.out.append(SetTimer(JOIN_TIMER + flush.key, after_s))

    def insists(self, name: str) -> None:
        """The root of a part for which nothing is kept here will join all the same."""
        self._insisting.add(name)

    def turn_away(self, peer: str) -> None:
        """Nobody waits at our door under that name any more. If a repair needs that node, it is expected again."""
        self._hub.set_aside(peer)
        self.ahead_of.pop(peer, None)
        self._early.pop(peer, None)
        for flush in [flush for flush in self.flushes if peer in flush.joined]:
            joiner = flush.joined.pop(peer)
            if flush.key:
                flush.waiting[peer] = joiner.join.twig
                self._hub.out.append(SetTimer(JOIN_TIMER + flush.key, self._broker.neighbours.join_s(flush.key)))
            elif not flush.joined:
                self.end_visit(flush)

    def forget_visit(self, peer: str, session: int) -> None:
        """Who has spoken to us, and begins a session in the same epoch all the same, has forgotten the first one.

        1. 1 looks for 0, which it has lost, and asks. The answer takes too long, and 1 gives the attempt up.
        2. It asks again. If 0 took that for the session of before, both would count its messages differently for ever.
        """
        link = self._hub.links.get(peer)
        if (
            link is None
            or link.dialler
            or link.session != session
            or not link.received
            or self._broker.neighbours.is_here(peer)
        ):
            return
        self.turn_away(peer)

    def end_visit(self, flush: Flush) -> None:
        """Nobody is left of those who came by themselves: the visit is over."""
        self.flushes.remove(flush)

    def comes(self, link: Link, join: Join) -> None:
        """A `Join` is here, and with it all that went ahead."""
        wanted = wanted_by(join, self.ahead_of.get(link.peer, ()))
        self.on_join(link, join if wanted is join.interests else replace(join, interests=wanted))

    def on_join(self, link: Link, join: Join) -> None:
        """A node asks to be taken in: turn it away, let it wait, or have it take part in a repair."""
        broker, name = self._broker, link.peer
        if broker.tree_shape.holds_join(link, join) or broker.wards.refuses_join(link, join):
            return
        ahead = self.ahead_of.pop(name, [])
        broker.suspicion.hear_of(join.dead, name)
        is_over = broker.phase is Phase.GONE or self._hub.links.get(name) is not link
        if is_over or self._is_for_another(name, join):
            return
        case = broker.late_sessions.late_case(name, join, ahead)
        if join.old and case is None and not self.is_expected(name) and name not in self._insisting:
            self._not_expected(link, join, ahead)
        elif not self._is_above(name, join):
            if join.twig.kind == "client":
                broker.majority.wants_patience(name, join.patient)
            self._greet_joiner(name, join)
            self._let_take_part(name, join, ahead, case)
            self.tick()

    def _not_expected(self, link: Link, join: Join, ahead: list[Ahead]) -> None:
        """A node that had a broker, and that no repair expects, is sent on, or waits until its broker has come."""
        name = link.peer
        if any(join.old in flush.waiting for flush in self.flushes):
            # Its broker is expected here itself: if that does not come, this one is.
            self._early[name] = (link, join, ahead)
            return
        refusal = self._stranger(join.old, join.old_epoch)
        if refusal.code == "late":
            self._hub.out.append(Report("gap", peer=name, detail=refusal.reason))
        is_client = join.twig.kind == "client"
        if refusal.code == "late" or (is_client and self._refused_clients.again(name, self._broker.now)):
            self._tell_of_discarded(name, ahead)
        self._hub.refuse(name, refusal)

    def _is_above(self, name: str, join: Join) -> bool:
        """Whether the joiner is above this broker, and was refused."""
        above = [one for one in self._view.chain if one.name == name]
        if above and join.twig.epoch > above[0].epoch and not (join.twig.twigs or join.processed):
            # It has begun anew, with nobody below it: the one above us is dead, and this is another.
            self._broker.suspicion.suspect(name, above[0].epoch, "it has begun anew")
            return False
        if above:
            self._hub.refuse(name, Refusal("moved", f"{self._broker.name} is itself below {name}: ask others"))
        return bool(above)

    def _greet_joiner(self, name: str, join: Join) -> None:
        """The joiner has its place in the tree from now on."""
        if join.old and join.twig.kind == "broker":
            # Those who did not come because they were out of reach with it were not dead.
            self._view.revive(epochs_in(join.twig))
            self._absences.is_back(join.twig)
        self._view.adopt(join.twig, self._broker.parent is None)
        if join.twig.kind == "broker" and not (join.old or join.dead or join.processed or join.twig.twigs):
            # A newcomer: whom it may turn to if we are lost before it is let in.
            self._hub.send(name, self._view.message(name, False, 0, 0, self._broker.parent is None))
            # It hears all of it again when it is let in.
            self._view.deaths.told_nothing(name)

    def _let_take_part(self, name: str, join: Join, ahead: list[Ahead], case: LateCase | None) -> None:
        """The joiner takes part in the repair that expects it, or in one of its own."""
        for lost in [lost for lost in self.flushes if lost.key == name]:
            # Whoever begins anew is not missed itself, and has nobody with it that we have not heard of.
            lost.waiting.pop(name, None)
        flush = self._flush_for(name, join) or Flush("")
        expected = flush.waiting.pop(name, None)
        if expected is not None and join.twig.kind == "broker" and join.twig.epoch > expected.epoch:
            # 1. 2 gives up 3, which stood still, and is lost before it has said so. 3 comes to 0, having begun anew.
            # 2. dave, a client of 3, has not come, and wants what eve wants, who has.
            flush.unheard = flush.unheard or not (join.old or join.processed)
        flush.known[name] = join.twig.twigs
        records, numbers = put_together(ahead, join.processed)
        flush.joined[name] = Joiner(replace(join, processed=numbers), records)
        flush.case = None if flush.key else case
        flush.insisting |= self._insisting & {name}
        self._insisting.discard(name)
        self._expect_no_more(name, names_in(join.twig) - {name}, flush)
        if flush not in self.flushes:
            flush.version = self._broker.neighbours.tell_neighbours(self._view.hops - 2)
            self.flushes.append(flush)

    def _expect_no_more(self, joiner: str, below: set[str], joining: Flush) -> None:
        """Nodes below a broker that joins come with it, whichever repair expects them.

        1. 7 was moved below 3, and the lost broker had no time to say so.
        2. 1 has lost 3, which lives on with 5 below it, and misses both. 1 dies, and 0 repairs that: it expects 5.
        3. 3 joins 0, as the root of its part. If 0 went on expecting 5, it would give up a healthy broker.

        Nor are they children of ours, as they were while they were expected in the place of the lost broker: if 0 told
        3, which it takes in, that 5 is a sibling of it and its senior, 3 would turn to 5, its own child, if 0 died.
        """
        for flush in (*self.flushes, joining):
            for name in below & flush.waiting.keys():
                del flush.waiting[name]
                self._view.children.pop(name, None)
            if flush.key in below:
                flush.elsewhere = joiner
        joined = {name for flush in (*self.flushes, joining) for name in flush.joined}
        self._view.come_below(below - joined - self._log.flows.keys(), self._broker.parent is None)

    def _tell_of_discarded(self, client: str, ahead: list[Ahead]) -> None:
        """A client that nobody takes in takes publications with it that nobody else has: subscribers are told.

        Its broker may have accepted them, and have died before any other broker had them.
        """
        own = [one.batch for one in ahead if isinstance(one, Unstable) and one.batch.publisher == client]
        if any(not self._broker.data_path.is_done(client, batch.last) for batch in own):
            self._holes.announce(f"the session of {client} is lost, with messages that it had published")

    def _is_for_another(self, name: str, join: Join) -> bool:
        """Whether it means the one that we were before we began anew. Then it has to ask the next in line.

        1. 3 has lost 1, and turns to 0, which has begun anew. 0 knows nothing of what 1 has passed on.
        2. 11, in the place of 0, repairs the loss of both, and waits for 3: nobody else would tell 3 to go there.
        """
        if not 0 < join.meant < self._broker.rejoin.life:
            return False
        reason = f"{self._broker.name} has begun anew since, and does not repair what it would have repaired before"
        self._hub.refuse(name, Refusal("unknown-session", reason))
        return True

    def _hear_early(self) -> None:
        """Those who came before it was known whether their broker comes."""
        for name in list(self._early):
            link, join, ahead = self._early.get(name, (None, None, []))
            if link is None or join is None or self._hub.links.get(name) is not link:
                self._early.pop(name, None)
            elif self.is_expected(name) or all(join.old not in flush.waiting for flush in self.flushes):
                del self._early[name]
                self.ahead_of[name] = ahead
                self.on_join(link, join)

    def is_expected(self, name: str) -> bool:
        """Whether what that node lacks is here: it is waited for, or was missed, or is itself the one who was lost."""
        for flush in self.flushes:
            if flush.key == name and flush.waiting:
                # The lost one itself is back. Until it is let in, those behind it want what they wanted.
                flush.wait_no_longer()
                self._broker.diaries.ask_for_all()
        waited_for = any(
            name in flush.waiting or flush.key == name or name in flush.missing or name in flush.late
            for flush in self.flushes
        )
        return waited_for or self._absences.of(name) is not None

    def _stranger(self, old: str, epoch: int) -> Refusal:
        """To a node that is not expected here, though it had a broker.

        1. 0 has lost 1, repaired that, and has taken 1 in again, which others call their broker by now.
        2. 1 crashes. Its clients are at 0 before 0 knows it: they are early, not late.
        """
        if self._broker.admissions.was_repaired(old, epoch):
            return Refusal("late", f"the loss of {old} was repaired here before this client came: messages are missing")
        return Refusal("moved", f"{self._broker.name} does not repair the loss of {old}: ask others")

    def _flush_for(self, name: str, join: Join) -> Flush | None:
        """The repair that a joiner comes to: the one that expects it, or that of a broker which the joiner calls dead.

        A broker that was missed comes to none of them, whatever it says of the dead:
        1. 0 has lost 1 and keeps a diary for it. 2, which was given up before that, is at 1 now.
        2. 0 has another 2 to repair, and 1 says that this one is dead. If 1 took part in that repair, the diary of its
           own absence would not be looked at, and 1 would be handed nothing.
        """
        dead = dict(join.dead)
        for flush in self.flushes:
            if name in flush.waiting or flush.late.pop(name, None) is not None:
                return flush
        if self._absences.of(name) is not None:
            return None
        for flush in self.flushes:
            if flush.concerns(dead) and flush.key != name:
                return flush
        return None

    def tick(self) -> None:
        """End every flush that can end."""
        if self._broker.admissions.settling:
            return
        if self._early:
            self._hear_early()
        for flush in list(self.flushes):
            known = flush.version > 0 and self._view.acknowledged(flush.version)
            ready = not flush.waiting and known and not self.is_blocked(flush)
            if flush in self.flushes and ready:
                self.flushes.remove(flush)
                self._broker.admissions.finish_flush(flush)

    def is_blocked(self, flush: Flush) -> bool:
        """Whether another repair has to end first: that of a joiner's own loss, or the one at which it was missed."""
        others = [other for other in self.flushes if other is not flush]
        if any(other.key in flush.joined or not other.missing.keys().isdisjoint(flush.joined) for other in others):
            return True
        # Those who are missing may be the majority: nobody acts without them before that is known.
        return bool(flush.missing) and not self._broker.majority.census.is_answered

    def absence_of(self, flush: Flush) -> Absence | None:
        """Where the one who is taken in was missed, if it was."""
        found = [self._absences.of(name) for name, one in flush.joined.items() if self._was_missed(one)]
        return next((one for one in found if one is not None), None)

    def _was_missed(self, joiner: Joiner) -> bool:
        """Whether it is the one who was there before, not one of its name who begins anew.

        A broker to which nothing has ever come has the epoch that was missed all the same, and clients that are owed
        what was published meanwhile.
        """
        twig, join = joiner.join.twig, joiner.join
        absence = self._absences.of(twig.name)
        known = None if absence is None or joiner.is_client else absence.missing.get(twig.name)
        return bool(join.old or join.processed) or (known is not None and known.epoch == twig.epoch)

    # ------------------------------------------------------------------------------------------- words of joiners

    def hears(self, peer: str, message: Unstable | Numbers | Interests) -> None:
        """What goes ahead of a `Join`."""
        self.ahead_of.setdefault(peer, []).append(message)

    def is_at_the_door(self, peer: str) -> bool:
        """Whether that peer has asked to be let in."""
        return peer in self._early or (bool(self.flushes) and any(peer in flush.joined for flush in self.flushes))

    @property
    def are_under_way(self) -> bool:
        """Whether somebody is expected, or waits at the door."""
        return bool(self.flushes or self._early)

    # ------------------------------------------------------------------------------------------------ inspection

    def unsettled(self, topic: str) -> bool:
        """Whether a repair is pending that may bring something on this topic."""
        wants = self._interests.table.wants
        return any(flush.key and wants(flush.key, topic) for flush in self.flushes)

    def waiting_for(self) -> list[str]:
        """In words, the joiners and the neighbours that repairs wait for."""
        reasons = []
        for flush in self.flushes:
            why = f"since {flush.key} is lost" if flush.key else f"to take {', '.join(sorted(flush.joined))} in"
            if flush.waiting:
                reasons.append(f"{', '.join(sorted(flush.waiting))} to join, {why}")
            elif not self._view.acknowledged(flush.version):
                reasons.append(f"its neighbours to hear of the change, {why}")
            else:
                reasons.append(f"an earlier repair or a census to end, {why}")
        return reasons
