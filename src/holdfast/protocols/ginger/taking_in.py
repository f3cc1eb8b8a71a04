"""A broker that takes others in: newcomers, and those whose broker has died (thesis 000, section 4.2.3).

The parent of a dead broker coordinates its repair (for a dead root, its senior child, which is the root now). It
expects everybody whom it knows below the dead one, waits until all have joined or are dead and until its own neighbours
know of the change, settles what the dead one had passed to some and not to others, and opens the links. Those that
joined are its children from then on.
"""

from abc import abstractmethod

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import (
    Contact,
    Dead,
    Interest,
    Join,
    Open,
    Publish,
    Refusal,
    Subscribe,
    TotalProcessed,
    Twig,
    Unstable,
)
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger.absences import NOTHING, Absence, Absences, OwnHistory
from holdfast.protocols.ginger.broker import Phase
from holdfast.protocols.ginger.flush import Flush, Joiner, Settlement, own_history
from holdfast.protocols.ginger.healing_cuts import HealingCuts
from holdfast.protocols.ginger.recording import RecordingBroker
from holdfast.protocols.links import Link
from holdfast.protocols.node import Report, SetTimer
from holdfast.protocols.stability import Record
from holdfast.protocols.treeview import TreeView

JOIN_TIMER = "join:"
REPAIRED_MAX = 1000
EVERYTHING = ("#", "")
THE_ABSENT = "(the absent)"
"""Who asks for everything, in the place of those who may be out of reach."""


class TakingInBroker(RecordingBroker):
    """The coordinator's side of a repair. `HealingBroker` is the whole."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.healing_cuts = HealingCuts(self, self.interests, self._send)
        self.cuts = self.healing_cuts
        self.view = TreeView(config.name, incarnation, config.address, config.tolerance + 1, self._send)
        self._flushes: list[Flush] = []
        self._records_of: dict[str, list[Unstable]] = {}
        self._repaired: dict[str, None] = {}
        """Whose loss was repaired here, the latest last."""
        self.settling = False
        """While a repair is being settled nothing else goes on: it would miss those that are being taken in."""
        self._fenced = ""
        """The parent that we have asked to take us in, until it opens the link."""
        self._hold = 0
        """How many records our new parent will still send to settle the repair."""
        self.absences = Absences(config.absent_bytes_max)
        self._early: dict[str, tuple[Link, Join, list[Unstable]]] = {}
        self._admitting: Flush | None = None
        """Whom a closed cut keeps waiting at the door."""

    @abstractmethod
    def _hear_of(self, dead: Dead, peer: str) -> None:
        """A neighbour, or somebody who becomes one, says that these are dead."""

    @abstractmethod
    def suspect(self, name: str, epoch: int, reason: str) -> None:
        """That node is dead in that epoch, whatever it may think itself."""

    @property
    def serves_total(self) -> bool:
        """Whether this part of the tree may order total batches."""
        return True

    @property
    def admitting(self) -> bool:
        """Whether somebody waits to be let in who has to be in every cut from then on."""
        return self._admitting is not None

    def unsettled(self, topic: str) -> bool:
        """Whether a repair is pending that may bring something on this topic."""
        wants = self.interests.table.wants
        if any(flush.key and wants(flush.key, topic) for flush in self._flushes):
            return True
        return self.parent is not None and bool(self._fenced or self._hold) and wants(self.parent, topic)

    # ----------------------------------------------------------------------------------------------- expecting

    def _begin_repair(
        self, key: str, below: tuple[Twig, ...], silent: bool, contacts: tuple[Contact, ...] = ()
    ) -> Flush:
        self.hub.out.append(Report("repair_start", peer=key))
        flush = Flush(key, silent)
        self.absences.begin(key, contacts, self._now)
        self._expect(flush, below)
        flush.version = self._tell(self.view.hops - 2)
        self._flushes.append(flush)
        self.hub.out.append(SetTimer(JOIN_TIMER + key, self.config.join_s))
        return flush

    def _expect(self, flush: Flush, twigs: tuple[Twig, ...]) -> None:
        for twig in twigs:
            flush.known[twig.name] = twig.twigs
            if twig.name == self.name or twig.name in flush.joined:
                continue
            if self.view.is_gone(twig.name, twig.epoch):
                flush.dead.add(twig.name)
                self._expect(flush, twig.twigs)
            elif twig.name not in self.log.flows:
                flush.waiting[twig.name] = twig
                self.view.children.setdefault(twig.name, twig)

    def _join_overdue(self, key: str) -> None:
        """Whoever is expected and has not come is given up; a client is merely not waited for.

        That is, if the lost broker's connection was closed: then it is dead. If it fell silent, it may be out of reach
        together with those who have not come.
        """
        for flush in [flush for flush in self._flushes if flush.key == key and flush.waiting]:
            if flush.silent:
                self._may_be_out_of_reach(flush)
                continue
            for name, twig in list(flush.waiting.items()):
                if twig.kind == "client":
                    flush.waiting.pop(name, None)
                    self.view.lose(name, twig.epoch)
                else:
                    self.suspect(name, twig.epoch, "it did not join in time")
            if flush.waiting:
                self.hub.out.append(SetTimer(JOIN_TIMER + key, self.config.join_s))
        self._tick()

    def _may_be_out_of_reach(self, flush: Flush) -> None:
        """Keep for those who have not come what they may lack.

        From now on everything is asked for, so that it can be kept for them (see `absences`): they may come to want
        what nobody wanted there before. The repair ends when those out of reach have surely begun to do so for us, too:
        before that nobody here may be told that its subscription is known everywhere.
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
        after_s = self.config.join_s + link.silence_s + 2 * link.heartbeat_s
        self.hub.out.append(SetTimer(JOIN_TIMER + flush.key, after_s))

    def _ask_for_all(self) -> None:
        if THE_ABSENT not in self.interests.table.sources(*EVERYTHING):
            self.interests.subscribe(THE_ABSENT, Subscribe(0, *EVERYTHING))
            self.cuts.pump()

    def _ask_for_less(self) -> None:
        """When nobody is missed any more."""
        missed = any(absence.missing for absence in self.absences) or any(flush.overdue for flush in self._flushes)
        if not missed:
            self.interests.drop(THE_ABSENT)
            self.confirmations.drop(THE_ABSENT)
            self.cuts.pump()

    def _note(self, record: Record) -> None:
        self.absences.note(record.batch, record.number)

    # -------------------------------------------------------------------------------------------------- joining

    def _on_join(self, link: Link, join: Join) -> None:
        name = link.peer
        records = self._records_of.pop(name, [])
        self._hear_of(join.dead, name)
        if self.phase is Phase.GONE or self.hub.links.get(name) is not link:
            return
        if join.old and not self._is_expected(name):
            if any(join.old in flush.waiting for flush in self._flushes):
                # Its broker is expected here itself: if that does not come, this one is.
                self._early[name] = (link, join, records)
                return
            refusal = self._stranger(join.old)
            if refusal.code == "late":
                self.hub.out.append(Report("gap", peer=name, detail=refusal.reason))
            self.hub.refuse(name, refusal)
            return
        self.view.adopt(join.twig, self.parent is None)
        flush = self._flush_for(name, join) or Flush("")
        flush.waiting.pop(name, None)
        flush.known[name] = join.twig.twigs
        flush.joined[name] = Joiner(join, records)
        if flush not in self._flushes:
            flush.version = self._tell(self.view.hops - 2)
            self._flushes.append(flush)
        self._tick()

    def _hear_early(self) -> None:
        """Those who came before it was known whether their broker comes."""
        for name in list(self._early):
            link, join, records = self._early.get(name, (None, None, []))
            if link is None or join is None or self.hub.links.get(name) is not link:
                self._early.pop(name, None)
            elif self._is_expected(name) or all(join.old not in flush.waiting for flush in self._flushes):
                del self._early[name]
                self._records_of[name] = records
                self._on_join(link, join)

    def _is_expected(self, name: str) -> bool:
        """Whether what that node lacks is here: it is waited for, or was missed, or is itself the one who was lost."""
        for flush in self._flushes:
            if flush.key == name:
                flush.wait_no_longer()
        waited_for = any(name in flush.waiting or flush.key == name or name in flush.missing for flush in self._flushes)
        return waited_for or self.absences.of(name) is not None

    def _stranger(self, old: str) -> Refusal:
        """To a node that is not expected here, though it had a broker."""
        if old in self._repaired:
            return Refusal("late", f"the loss of {old} was repaired here before this client came: messages are missing")
        return Refusal("moved", f"{self.name} does not repair the loss of {old}: ask others")

    def _flush_for(self, name: str, join: Join) -> Flush | None:
        dead = dict(join.dead)
        for flush in self._flushes:
            if name in flush.waiting:
                return flush
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
            if flush in self._flushes and ready and not self._meets_a_cut(flush):
                self._flushes.remove(flush)
                self._finish_flush(flush)

    def _is_blocked(self, flush: Flush) -> bool:
        """Whether another repair has to end first: that of a joiner's own loss, or the one at which it was missed."""
        others = [other for other in self._flushes if other is not flush]
        return any(other.key in flush.joined or not other.missing.keys().isdisjoint(flush.joined) for other in others)

    def _meets_a_cut(self, flush: Flush) -> bool:
        """Whether the joiners bring something new on the keys of a closed cut: then the flush waits for its end.

        Whatever belongs before the cut has passed here before it was closed, even if the dead broker was inside.
        A broker that was out of reach is let in when no cut is closed here, so that it is in all that are under way.
        """
        returning = not flush.key and any(not one.is_client for one in flush.joined.values())
        if returning and self._absence_of(flush) is not None and self.healing_cuts.any_closed():
            self._admitting = flush
            return True
        return any(
            one.flag in ("s", "r")
            and one.batch.guarantee != TOTAL
            and not self.is_processed(one.batch.publisher, one.batch.last)
            and self._cuts_off(flush.key, one.batch)
            for joiner in flush.joined.values()
            for one in joiner.records
        )

    def _cuts_off(self, lost: str, batch: Batch) -> bool:
        """Whether a closed cut puts the batch behind it; not one that ends with the broker that was lost."""
        found = self.cuts.on(batch.topic, batch.key_set())
        return any(cut.closed and cut.source != lost for cut in found)

    def cut_ended(self) -> None:
        super().cut_ended()
        self._tick()

    def _retry(self) -> None:
        if not self.settling:
            super()._retry()

    # ------------------------------------------------------------------------------------------------- settling

    def _finish_flush(self, flush: Flush) -> None:
        key, joined = flush.key, flush.joined
        table = self.interests.table
        for name, joiner in joined.items():
            for interest in joiner.join.interests:
                table.add(*interest, name)
        absence = None if key else self._absence_of(flush)
        flush.reunion = absence is not None
        if flush.reunion:
            self._admitting = flush

        def lacks(who: str, batch: Batch) -> bool:
            if who == self.name:
                return self._lacks(flush, batch)
            part, route = joined[who].lacks_of(batch, flush.reunion), table.route(batch.topic)
            return part is not None and who in route and part.wanted_by(route[who])

        mine = own_history(self.log.history(key), key) if key else self._kept_for(absence)
        settlement = Settlement(
            self.name,
            mine,
            joined,
            lacks,
            self.log,
            lambda batch: self.is_processed(batch.publisher, batch.last),
            flush.reunion,
        )
        if settlement.forced:
            self.hub.out.append(Report("forced", detail=f"{settlement.forced} records out of a certain order"))
        if key:
            self._note_absence(flush, mine)
        self.settling = True
        self._open_links(flush, settlement)
        self._pass_settlement(flush, settlement, mine)
        self.healing_cuts.lie_beyond(settlement.beyond)
        self._replace(flush)
        self.settling = False
        if self._admitting is flush:
            self._admitting = None
            self.healing_cuts.include(sorted(joined.keys() & self.interests.neighbours.keys()))
        for name, batch in settlement.asked:
            self._ask_again(name, batch)
        for name, batch in settlement.done:
            record_id = (batch.publisher, batch.first)
            if flush.reunion or record_id not in settlement.batches or not settlement.owes(name, record_id):
                self._send(name, TotalProcessed(batch.publisher, batch.first, None))
        self._note_repaired(flush)
        if absence is not None:
            self._reunited(absence, flush, settlement)
        self.hub.out.append(Report("repair_end" if key else "taken_in", peer=key or ",".join(joined)))
        self._tell_down()
        self.cuts.pump()
        self._retry()
        self._tick()

    # ------------------------------------------------------------------------------------------ those who were missed

    def _absence_of(self, flush: Flush) -> Absence | None:
        """Where the one who is taken in was missed, if it was."""
        found = [self.absences.of(name) for name, one in flush.joined.items() if one.join.old or one.join.processed]
        return next((one for one in found if one is not None), None)

    def _kept_for(self, absence: Absence | None) -> OwnHistory:
        return self.absences.history(absence) if absence is not None else NOTHING

    def _note_absence(self, flush: Flush, mine: OwnHistory) -> None:
        absence = self.absences.find(flush.key)
        if absence is None:
            return
        if not flush.missing:
            self.absences.end(absence)
            self._ask_for_less()
            return
        absence.history, absence.missing = mine, dict(flush.missing)
        self.hub.out.append(Report("apart", peer=flush.key, detail=", ".join(sorted(flush.missing))))

    def _reunited(self, absence: Absence, flush: Flush, settlement: Settlement) -> None:
        """Say what came together, and which messages stand on different sides of a total one now."""
        for name, joiner in flush.joined.items():
            self.confirmations.replace(THE_ABSENT, (name,), self.interests.table.wants, in_doubt=True)
            self.absences.returned(absence, joiner.join.twig)
            self.healing_cuts.ask_others(absence.key)
            given = sum(settlement.owes(name, record_id) for record_id in settlement.order)
            detail = f"{given} messages handed over, {len(joiner.records)} brought, {len(settlement.crossed)} crossed"
            self.hub.out.append(Report("merge", peer=name, detail=detail))
        self._ask_for_less()
        for record_id in sorted(settlement.crossed):
            self.hub.out.append(Report("crossed", batch=settlement.batches[record_id]))

    def _lacks(self, flush: Flush, batch: Batch) -> bool:
        """Whether the batch is new here, and for somebody who takes no part in the flush."""
        if self.is_processed(batch.publisher, batch.last):
            return False
        cut = self.healing_cuts.is_cut((batch.publisher, batch.first))
        if batch.guarantee == TOTAL and not cut and not flush.reunion:
            return False
        return any(
            destination != flush.key and destination not in flush.joined and batch.wanted_by(filters)
            for destination, filters in self.interests.table.route(batch.topic).items()
        )

    def _note_repaired(self, flush: Flush) -> None:
        for name in sorted(flush.dead):
            self._repaired.pop(name, None)
            self._repaired[name] = None
        while len(self._repaired) > REPAIRED_MAX:
            del self._repaired[next(iter(self._repaired))]

    def _open_links(self, flush: Flush, settlement: Settlement) -> None:
        for name, joiner in flush.joined.items():
            self.log.link(name, received=len(joiner.records))
            hold = sum(settlement.owes(name, record_id) for record_id in settlement.order)
            wanted = () if joiner.is_client else self._wanted_besides(name, flush.key)
            kept = self.healing_cuts.kept_by(joiner.join.cuts, flush.key)
            upward = self.view.upward(self.parent is None)
            self.hub.send(name, Open(wanted, upward, self.view.dead(), hold, kept, joiner.taken))
            if joiner.is_client:
                self.publishers.resume(name, joiner.taken)

    def _wanted_besides(self, *peers: str) -> tuple[Interest, ...]:
        """Everything that somebody else than these peers wants."""
        table = self.interests.table
        return tuple(one for one in table.distinct() if any(source not in peers for source in table.sources(*one)))

    def _pass_settlement(self, flush: Flush, settlement: Settlement, mine: OwnHistory) -> None:
        self._given_apart = frozenset((flush.key, *flush.joined))
        places = {
            name: {
                (one.batch.publisher, one.batch.first): place
                for place, one in enumerate(joiner.records, 1)
                if joiner.uses(one)
            }
            for name, joiner in flush.joined.items()
        }
        for record_id in settlement.order:
            batch = settlement.batches[record_id]
            new = not self.is_processed(batch.publisher, batch.last)
            record = self.log.find(record_id)
            if record is None:
                record = self.log.append(batch) if new else self.log.append_earlier(batch)
                record.number = mine.numbers.get(record_id, record.number)
            else:
                self.log.append_again(record)
            for name, place in places.items():
                if record_id in place:
                    record.ins[name] = place[record_id]
                    self.log.stamp(record, name)
            if new:
                self._settle_new(record, flush.reunion, record_id in settlement.untimely)
            for name, joiner in flush.joined.items():
                if settlement.owes(name, record_id):
                    self._give(name, joiner, record, flush.reunion)
        self._given_apart = frozenset()

    def _settle_new(self, record: Record, reunion: bool, untimely: bool) -> None:
        self._note_processed(record.batch)
        self.log.renumber(record)
        self._note(record)
        if record.batch.guarantee != TOTAL:
            if not untimely:
                self._spread(record, "")
            return
        was_cut = self.healing_cuts.is_cut(record.record_id)
        self.healing_cuts.settle_record(record.record_id, record.batch, self._given_apart)
        self.log.released(record)
        if reunion and not was_cut:
            # It was released out of our reach, and passes here like any other message.
            self._spread(record, "")

    def _give(self, name: str, joiner: Joiner, record: Record, reunion: bool) -> None:
        part = joiner.lacks_of(record.batch, reunion)
        if part is None:
            return
        if joiner.is_client:
            filters = self.interests.table.route(part.topic).get(name, ())
            self._deliver_record(name, record, part.matching(filters))
            return
        self.log.went(record, name)
        total = part.guarantee == TOTAL and not reunion
        self.hub.send(name, TotalProcessed(part.publisher, part.first, part) if total else Publish(part))

    def _replace(self, flush: Flush) -> None:
        """Those that joined are our neighbours and clients now, in the place of the dead one."""
        brokers = {name: one for name, one in flush.joined.items() if not one.is_client}
        if flush.key:
            self.log.unlink(flush.key)
        self.interests.replace(flush.key, {name: joiner.join.interests for name, joiner in brokers.items()})
        if flush.key:
            self.healing_cuts.reopened(flush.key, ())
        in_doubt = bool(flush.missing)
        self.healing_cuts.replace(flush.key, {name: joiner.join.cuts for name, joiner in brokers.items()}, in_doubt)
        self.confirmations.replace(flush.key, tuple(flush.joined), self.interests.table.wants, in_doubt)
        self.confirmations.rename(flush.key, THE_ABSENT)

    def _ask_again(self, name: str, batch: Batch) -> None:
        """A request that was under way when the broker died, and nobody is known to have released it."""
        record = self.log.find((batch.publisher, batch.first))
        if record is None and not self.is_processed(batch.publisher, batch.last):
            record = self.log.append(batch, pending=True)
        if record is not None and name in self.log.flows:
            record.ins.setdefault(name, self.log.flows[name].received)
            self.log.stamp(record, name)
        self.healing_cuts.submit(batch, name)

    # -------------------------------------------------------------------------------------------------- telling

    def _neighbours_alive(self) -> list[str]:
        dead = {flush.key for flush in self._flushes}
        alive = [peer for peer in self.interests.neighbours if peer in self.hub.links or peer == self._fenced]
        return [peer for peer in alive if peer not in dead]

    def _tell(self, hops: int) -> int:
        return self.view.tell(self.parent, self._neighbours_alive(), hops, self._tick)

    def _tell_down(self) -> None:
        """Everybody below learns who is above; nobody waits for it."""
        message = self.view.message(False, 0, 0, self.parent is None)
        for peer in self.hub.links:
            if peer != self.parent and peer in self.log.flows:
                self._send(peer, message)

    # ---------------------------------------------------------------------------------------------- inspection

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
