"""A repair is settled, and those that have come are let in (thesis 000, section 4.2.3).

When everybody who is expected has come (`repairs`), what the dead broker had passed to some and not to others is
settled, and the links are opened: those that joined are children of this broker from then on. A part that was out of
reach is settled with in the same way, only that it is the diary of this broker that says what the part may lack
(`absences`). What is handed to whom is decided in `settlement`; it is carried out here.
"""

from collections.abc import Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING, ClassVar

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import (
    Interest,
    Open,
    Publish,
    Turned,
)
from holdfast.protocols.ginger.absences import NOTHING, Absence, OwnHistory, names_in
from holdfast.protocols.ginger.diaries import THE_ABSENT
from holdfast.protocols.ginger.flush import Flush, own_history
from holdfast.protocols.ginger.joiners import Joiner
from holdfast.protocols.ginger.late_clients import LateCase
from holdfast.protocols.ginger.merge import Flag
from holdfast.protocols.ginger.settlement import Settlement, Settling, Situation, held_in, settle
from holdfast.protocols.given_up import UNACCOUNTED
from holdfast.protocols.node import Report
from holdfast.protocols.records import Record, RecordId
from holdfast.protocols.routing import RoutingTable
from holdfast.protocols.wanted_parts import opens

if TYPE_CHECKING:
    from holdfast.protocols.ginger.repairing_broker import RepairingBroker

REPAIRED_MAX = 1000


class Admissions:
    """The coordinator's side of a repair."""

    rules: ClassVar[type[Settling]] = Settling
    """What decides what is handed to whom."""

    def __init__(self, broker: "RepairingBroker") -> None:
        self._broker = broker
        self._log = broker.log
        self._hub = broker.hub
        self._view = broker.view
        self._interests = broker.interests
        self._turning = broker.healing_turning
        self._confirmations = broker.confirmations
        self._holes = broker.holes
        self._absences = broker.absences
        self.settling: bool = False
        """While a repair is being settled nothing else goes on: it would miss those that are being taken in."""
        self.replacing: str = ""
        """The lost neighbour whose repair is being settled, until others are in its place.

        1. 0 is lost, begins anew and comes to 1. At that moment 1 ends the repair of the loss, and announces what
           nobody has come for.
        2. If it told that to its neighbour 0, too, the newcomer, which is not let in yet, would break its link for it.
           0 would come back, and nothing on the link would be taken any more.
        """
        self._repaired: dict[str, float] = {}
        """Whose loss was repaired here, and up to which epoch, the latest last."""

    def finish_flush(self, flush: Flush) -> None:
        key, joined, case = flush.key, flush.joined, flush.case
        for name, joiner in joined.items():
            for interest in joiner.join.interests:
                self._interests.table.add(*interest, name)
        absence = None if key else self._broker.repairs.absence_of(flush)
        late = self._broker.late_sessions.stand_in_for(flush) if flush.late else None
        flush.reunion = absence is not None or self._brings_a_part(flush) or self._is_broken_merge(flush)
        mine = self._own_side(flush) if key else self._kept_for(absence, case)
        settlement = self._settlement(flush, mine, late)
        if settlement.forced:
            self._hub.out.append(Report("forced", detail=f"{settlement.forced} records out of a certain order"))
        self._flag_crossed(settlement)
        if key:
            self._broker.diaries.note_absence(flush, mine)
            self._broker.reunion.absence_noted(flush)
        self.settling, self.replacing = True, key
        if key:
            self._account_for(flush)
        self._open_links(flush, settlement)
        self._pass_settlement(flush, settlement, mine)
        self._begin_use(joined, flush.reunion)
        if late is not None:
            found = [record for record in map(self._log.find, settlement.order) if record is not None]
            late.keep(mine, joined, settlement.batches, {record.record_id: record.number for record in found})
            late.orders += self._orders(joined, settlement)
        self._replace(flush, late)
        self.replacing = ""
        if case is not None:
            case.orders += self._orders(joined, settlement)
            self._broker.late_sessions.no_longer_late(case, joined)
        self.settling = False
        self._answer_requests(flush, settlement)
        self._note_repaired(flush)
        self._tell_of_holes(flush, absence)
        self._tell_contradicted(settlement.contradicted)
        self._tell_behind_another(flush, mine)
        if flush.reunion:
            self._reunited(absence, flush, settlement)
        else:
            self._broker.diaries.nobody_was_missed(flush)
            for name in joined:
                self._broker.diaries.reborn(name)
        self._hub.out.append(Report("repair_end" if key else "taken_in", peer=key or ",".join(joined)))
        self._broker.neighbours.tell_down()
        self._turning.pump()
        self._broker.repairs.tick()
        self._note_names(joined)
        self._broker.majority.taken_in(flush)
        self._broker.reunion.say_who_is_lost()

    @staticmethod
    def _orders(joined: Mapping[str, Joiner], settlement: Settlement) -> list[list[RecordId]]:
        """What each of those that joined has of the repair, in its order, and behind that what it is handed."""
        return [
            [*joiner.processed_in_order(), *(one for one in settlement.order if settlement.owes(name, one))]
            for name, joiner in joined.items()
        ]

    def _note_names(self, joined: Mapping[str, Joiner]) -> None:
        """Those that joined are there: brokers hear of all named clients, clients of whoever has their name."""
        for name, joiner in joined.items():
            if not joiner.is_client:
                self._broker.names.greet(name)
            elif name in self._log.flows:
                self._broker.names.opened(name)

    def _settlement(self, flush: Flush, mine: OwnHistory, late: LateCase | None) -> Settlement:
        """Decide what the repair hands to whom, and note what the decision has found out."""
        plan = settle(self._situation(flush, mine, late), self.rules)
        for record_id, batch in plan.wholes.items():
            record = self._log.find(record_id)
            if record is not None:
                self._log.change(record, batch)
        flush.joined.update(plan.joiners)
        if flush.case is not None:
            flush.case.joined.update(plan.witnesses)
        return plan

    def _situation(self, flush: Flush, mine: OwnHistory, late: LateCase | None) -> Situation:
        joined, table, case = flush.joined, self._interests.table, flush.case
        owed = RoutingTable()
        for name, joiner in joined.items():
            for interest in set(joiner.join.interests) - set(joiner.join.unconfirmed):
                owed.add(*interest, name)
        heard = {} if flush.reunion else self._heard(flush)
        unheard = tuple(self._unheard(flush.key)) if flush.key and heard else () if case is None else case.unheard
        absence = self._absences.find(flush.key)
        below = bool(flush.key) and not (absence and absence.to_parent)
        if late is not None:
            late.heard, late.unheard = heard, unheard
        return Situation(
            own=self._broker.name,
            lost=flush.key,
            below=below and not flush.reunion,
            mine=mine,
            joined=dict(joined),
            witnesses={} if case is None else dict(case.joined),
            held=held_in(self._log),
            processed=self._broker.data_path.processed,
            kept=() if case is None else case.known,
            joiners_want=(table if flush.reunion else owed).takers,
            others_want=table.takers if flush.reunion else self._interests.confirmed_takers(),
            late=() if late is None else (late.stand_in,),
            orders=() if case is None else tuple(case.orders),
            crossed=() if case is None else self._broker.late_sessions.out_of_order(case, joined),
            absent=(THE_ABSENT, UNACCOUNTED),
            reunion=flush.reunion,
            heard=heard,
            unheard=unheard,
        )

    def _begin_use(self, joined: Iterable[str], reunion: bool) -> None:
        for name in joined:
            self._log.begin(name)
            if reunion:
                self._log.merge_over(name)

    def _brings_a_part(self, flush: Flush) -> bool:
        """Whether a joiner is the root of a part that was out of reach, even if the loss is still being repaired here.

        1. 3 loses 4, which becomes the root of its part. 4 dies, and 5 goes on with the search in its place.
        2. 5 comes to 3 while 3 still waits for those behind 4. It has heard nothing since 4 was cut off.
        """
        return bool(flush.insisting) or any(one.join.old and not one.is_client for one in flush.joined.values())

    def _is_broken_merge(self, flush: Flush) -> bool:
        """Whether two parts were coming together over the lost link, here or at a joiner: then they still are.

        1. 3 was out of reach, and has joined 2, which hands it the total batches that turned meanwhile.
        2. 3 dies, or is given up, before it has passed them to 4. 4 joins 2.
        3. 4 was out of reach, too. Weaker messages that it has on their keys have crossed them, as in any merge.

        No test fails without this rule: it was found with cuts. Since messages turn at the top (decision 36) several
        hundred schedules of this story lost nothing without it, and had nothing out of order that was not `crossed`.
        """
        brokers = [joiner.join for joiner in flush.joined.values() if not joiner.is_client]
        return bool(flush.key) and (self._log.is_merging(flush.key) or any(join.merging for join in brokers))

    def _heard(self, flush: Flush) -> dict[str, int]:
        """From which of its records on each participant has what the lost broker passed on, in that one's order.

        Where several are lost nothing is said: each had an order of its own. So only those count whose link with the
        lost broker itself was in use, and nobody does if ours was not.
        """
        case, flow = flush.case, self._log.flows.get(flush.key)
        if case is not None:
            lost, heard = case.lost, dict(case.heard)
        elif flow is None or flow.begun is None or flush.dead != {flush.key}:
            return {}
        else:
            lost, heard = flush.key, {self._broker.name: self._log.inherited(flush.key)}
        for name, joiner in flush.joined.items() if heard else ():
            if joiner.join.old == lost if joiner.is_client else name in flush.direct:
                heard[name] = joiner.join.inherited
        return heard

    def _unheard(self, lost: str) -> list[RecordId]:
        """Total batches that went to the lost broker, and that it has not said to have processed."""
        batches = [one.batch for one in self._log.unheard_of(lost) if one.batch.guarantee == TOTAL]
        return [(batch.publisher, batch.first) for batch in batches]

    def _own_side(self, flush: Flush) -> OwnHistory:
        """What this broker has to do with the joiners: what went by to the lost one, and for a part all since then.

        1. 2 loses 3, and asks for everything. 3 dies, and its heir, 4, confirms a subscription that is new in the part.
        2. c4 publishes what that subscription is for: it did not go by to 3, since 3 had not wanted it.
        3. 4 comes to 2, which still repairs the loss of 3. What the part came to want is in the diary alone.
        """
        history, kept = (
            own_history(self._log.history(flush.key), flush.key),
            self._absences.find(flush.key),
        )
        if kept is None or not self._brings_a_part(flush):
            return history
        kept.history = history
        return self._absences.history(kept)

    def _kept_for(self, absence: Absence | None, case: LateCase | None) -> OwnHistory:
        if case is not None and case.history is not None:
            return case.history
        return self._absences.history(absence) if absence is not None else NOTHING

    def _flag_crossed(self, settlement: Settlement) -> None:
        """What stands on different sides of a total message now is handed over, and kept, with that word."""
        for record_id in sorted(settlement.crossed):
            batch = settlement.batches[record_id] = self._broker.crossed.note(settlement.batches[record_id])
            record = self._log.find(record_id)
            if record is not None:
                self._log.change(record, batch)

    def _tell_of_holes(self, flush: Flush, absence: Absence | None) -> None:
        """Tell those to whom something may be missing that nobody keeps any more.

        This asks nothing of the repair's logic: a broker that has processed messages, and comes by itself to one that
        neither repairs its loss nor has missed it, comes from somewhere that nobody here knows of.
        """
        brokers = {name: joiner for name, joiner in flush.joined.items() if not joiner.is_client}
        strangers = set(flush.insisting)
        if not flush.key and not flush.reunion:
            strangers.update(name for name, joiner in brokers.items() if joiner.join.processed)
        if strangers:
            reason = f"{self._broker.name} does not keep what {', '.join(sorted(strangers))} lacks"
            self._holes.announce(reason, towards=strangers)
        for name, joiner in flush.joined.items():
            if not joiner.join.whole and (flush.reunion or not self._view.lost):
                reason = f"what was published around {name} while it was out of reach is not kept any more"
                self._holes.announce(reason, except_peer=name)
        self._tell_of_losses_in_a_row(flush)
        if absence is not None and not brokers:
            self._broker.diaries.tell_of_lost_diary(absence)

    def _tell_contradicted(self, joiners: set[str]) -> None:
        """These are not handed something that they may be owed: see `Settling._contradicted`."""
        if joiners:
            reason = f"{self._broker.name} and {', '.join(sorted(joiners))} contradict each other about an order"
            self._holes.announce(reason, towards=joiners)

    def _tell_of_losses_in_a_row(self, flush: Flush) -> None:
        """More brokers in a row are lost than the tolerance: what was on its way between them may have died with all.

        1. 10 loses 11, and keeps c3#1 for those behind it. It loses its parent, 9, as well, and turns to 8.
        2. 8 has heard that 10 is dead. 10 begins anew, and 9 does, too: c0, behind 11, comes to 8, and nobody has c3#1.
        """
        beyond = flush.beyond(self._broker.config.tolerance)
        if beyond:
            names = ", ".join(sorted(beyond))
            self._holes.announce(f"more brokers were lost between {self._broker.name} and {names} than are survived")

    def _tell_behind_another(self, flush: Flush, mine: OwnHistory) -> None:
        """A lost broker comes back below another one, and what went by to it here has gone by to nobody else.

        1. 0 loses 1 and 3 at once, and c2#8 was on its way to 1. 1 goes to 3, which is the root of their part.
        2. 3 comes back to 0, and 1 is below it. 0 hands over what it has kept for 3, which never wanted c2#8.
        """
        if flush.elsewhere and any(flag is Flag.SENT for _, flag, _, _ in mine.entries):
            reason = f"{self._broker.name} does not keep for {flush.elsewhere} what was on its way to {flush.key}"
            self._holes.announce(reason, towards={flush.elsewhere})

    def _note_repaired(self, flush: Flush) -> None:
        for name in sorted(flush.dead):
            self._repaired.pop(name, None)
            epoch = self._view.deaths.epoch_of(name)
            self._repaired[name] = inf if epoch is None else epoch
        while len(self._repaired) > REPAIRED_MAX:
            del self._repaired[next(iter(self._repaired))]

    def _no_longer_repaired(self, joiner: Joiner) -> None:
        """A broker that was out of reach is back, with its clients: its next loss is another one.

        1. 1 loses 2, repairs that without those behind 2, and 2 comes back with c2, which is its client all the time.
        2. 2 dies, and c2 is at 1 before 1 knows that. If the loss of before counted, c2 would be taken for late.
        """
        if not joiner.is_client:
            for name in names_in(joiner.join.twig):
                self._repaired.pop(name, None)

    def _open_links(self, flush: Flush, settlement: Settlement) -> None:
        for name, joiner in flush.joined.items():
            self._log.link(name, received=len(joiner.records))
            given = [settlement.batches[one] for one in settlement.order if settlement.owes(name, one)]
            hold = sum(self._messages_of(name, joiner, batch) for batch in given)
            if flush.case is not None:
                hold += sum(len(parts) for _, _, parts in self._broker.late_sessions.missed(flush.case, name))
            wanted = () if joiner.is_client else self._broker.neighbours.wanted_besides(name, flush.key)
            for message in opens(self._opening(name, joiner, wanted, hold)):
                self._hub.send(name, message)
            self._holes.retell(name, flush.key)
            if joiner.is_client:
                self._broker.publishers.resume(name, joiner.taken)
                self._broker.allowances.reset(name, joiner.join.interests)

    def _opening(self, name: str, joiner: Joiner, wanted: tuple[Interest, ...], hold: int) -> Open:
        upward = self._view.upward_for(joiner.join.twig.kind, self._broker.parent is None)
        dead = () if joiner.is_client else self._view.deaths.all_for(name)
        return Open(wanted, upward, dead, hold, joiner.taken)

    def _pass_settlement(self, flush: Flush, settlement: Settlement, mine: OwnHistory) -> None:
        order, case = settlement.order, flush.case
        places = {name: joiner.places() for name, joiner in flush.joined.items()}
        with self._broker.data_path.handing_apart((flush.key, *flush.joined)):
            if case is not None:
                # What only the late client has is new: it comes behind all that was processed since the repair.
                for record_id in order:
                    if record_id in case.known:
                        self._pass_record(record_id, flush, settlement, mine, places)
                self._broker.late_sessions.hand_over_since(case, flush.joined)
                order = [record_id for record_id in order if record_id not in case.known]
            for record_id in order:
                self._pass_record(record_id, flush, settlement, mine, places)

    def _pass_record(
        self,
        record_id: RecordId,
        flush: Flush,
        settlement: Settlement,
        mine: OwnHistory,
        places: Mapping[str, Mapping[RecordId, tuple[int, bool]]],
    ) -> None:
        batch = settlement.batches[record_id]
        new = not self._broker.data_path.is_processed(batch.publisher, batch.last)
        record = self._log.find(record_id)
        if record is None:
            # What nobody here is given has no place in our processing order: it may belong before what has one.
            placed = new and record_id not in settlement.untimely
            record = self._log.append(batch) if placed else self._log.append_unplaced(batch)
            record.number = mine.numbers.get(record_id, record.number)
        else:
            self._log.append_again(record)
        for name, place in places.items():
            if record_id in place:
                position, only_asked = place[record_id]
                self._log.place(record, name, position)
                if only_asked:
                    record.requested += (name,)
                self._log.stamp(record, name)
        if new:
            given = any(settlement.owes(name, record_id) for name in flush.joined)
            self._settle_new(record, record_id in settlement.untimely, given)
        for name, joiner in flush.joined.items():
            if settlement.owes(name, record_id):
                self._give(name, joiner, record)

    def _settle_new(self, record: Record, untimely: bool, given: bool) -> None:
        has_place = given or self._has_place_here(record.batch)
        self._broker.data_path.note_processed(record.batch)
        if has_place and not untimely:
            self._log.renumber(record)
        self._broker.data_path.note(record)
        self._log.released(record)
        if not untimely:
            self._broker.data_path.spread(record, "")
        self._turning.passed(record.batch)

    def _has_place_here(self, batch: Batch) -> bool:
        """Whether this repair puts a batch that nobody handed to us into our processing order.

        1. c1#3 and c3#4, on one key, went up from 2 to 0, and turned there: c3#4 first. Nobody at 2 wants either.
        2. 2 is cut off from everybody. It settles the loss of its parent with nobody, in the order of the publishers:
           had they numbers, these would say that c1#3 came first.
        3. 2 comes back, the two orders make a circle, and what 0 has for 2 is handed over in a wrong order.
        """
        path = self._broker.data_path
        return not path.is_done(batch.publisher, batch.last) or bool(path.takers_here(batch) - {THE_ABSENT})

    def _messages_of(self, name: str, joiner: Joiner, batch: Batch) -> int:
        """How many messages hand that batch to a joiner: a client may want several parts of it."""
        part = joiner.lacks_of(batch)
        if part is None or not joiner.is_client:
            return int(part is not None)
        return len(part.chosen(self._interests.table.choice(name, part)))

    def _give(self, name: str, joiner: Joiner, record: Record) -> None:
        part = joiner.lacks_of(record.batch)
        if part is None:
            return
        if joiner.is_client:
            self._broker.data_path.deliver_record(name, record, part.chosen(self._interests.table.choice(name, part)))
            return
        self._log.went(record, name)
        self._hub.send(name, Publish(part))

    def _replace(self, flush: Flush, late: LateCase | None) -> None:
        """Those that joined are our neighbours and clients now, in the place of the dead one."""
        brokers = {name: one for name, one in flush.joined.items() if not one.is_client}
        if flush.key:
            self._log.unlink(flush.key)
        self._interests.replace(flush.key, {name: joiner.join.interests for name, joiner in brokers.items()})
        in_doubt = bool(flush.missing)
        self._turning.replace(flush.key, in_doubt)
        # The heir of a part's root waits, as that did, for those who are out of the part's reach.
        apart = self._absences.of_parent() is not None
        doubt, wants = in_doubt or apart or late is not None, self._interests.table.wants
        self._confirmations.replace(flush.key, tuple(flush.joined), wants, doubt)
        self._confirmations.rename(flush.key, THE_ABSENT if late is None else late.stand_in)

    def _account_for(self, flush: Flush) -> None:
        """What was wanted behind the lost broker, and by nobody who has come in its place.

        One that wanted everything kept it for others, who are out of reach. The joiners have to hear of it in `Open`:
        1. 5 asks 0 whether everybody has c0#3, which c2 wants, behind 1. 0 has lost 1, and dies. 5 turns to 4.
        2. 4 opens the link, and nobody has come to 4 who wants c0#3: 5 takes it that nobody is to be asked any more.
        """
        if flush.missing or flush.late:
            # Those who have not come are known to be missing, and are asked when they come.
            return
        self._broker.diaries.note_unaccounted(flush.key, self._broker.diaries.wanted_by_nobody_here(flush))

    def _answer_requests(self, flush: Flush, settlement: Settlement) -> None:
        """What the joiners have asked of the lost broker is asked anew, or is done."""
        for name, batch in settlement.asked:
            self._ask_again(name, batch)
        for name, batch in settlement.done:
            record_id = (batch.publisher, batch.first)
            self._keep_done(name, flush.joined[name], batch)
            if flush.reunion or record_id not in settlement.batches or not settlement.owes(name, record_id):
                self._broker.send(name, Turned(batch.publisher, batch.last))

    def _keep_done(self, name: str, joiner: Joiner, batch: Batch) -> None:
        """That it is done is known here until the joiner has heard it; it may die before, and its client ask again."""
        record_id = (batch.publisher, batch.first)
        record = self._log.find(record_id)
        if record is None:
            record = self._log.append(batch, pending=True)
            self._log.released(record)
        if name not in record.ins:
            places = [(one.batch.publisher, one.batch.first) for one in joiner.records]
            record.requested += (name,)
            self._log.place(record, name, places.index(record_id) + 1)
            self._log.stamp(record, name)

    def _ask_again(self, name: str, batch: Batch) -> None:
        """A request that was under way when the broker died, and nobody is known to have released it."""
        record = self._log.find((batch.publisher, batch.first))
        if record is None and not self._broker.data_path.is_done(batch.publisher, batch.last):
            record = self._log.append(batch, pending=True)
        if record is not None and name in self._log.flows:
            if name not in record.ins:
                record.requested += (name,)
                self._log.place(record, name, self._log.flows[name].received)
            self._log.stamp(record, name)
        self._turning.submit(batch, name)

    def _reunited(self, absence: Absence | None, flush: Flush, settlement: Settlement) -> None:
        """Say what came together, and which messages stand on different sides of a total one now."""
        for name, joiner in flush.joined.items():
            self._confirmations.replace(THE_ABSENT, (name,), self._interests.table.wants, in_doubt=True)
            if absence is not None:
                self._absences.returned(absence, joiner.join.twig)
                self._turning.ask_others(absence.key)
                self._no_longer_repaired(joiner)
            self._broker.diaries.share_doubts(joiner)
            given = sum(settlement.owes(name, record_id) for record_id in settlement.order)
            detail = f"{given} messages handed over, {len(joiner.records)} brought, {len(settlement.crossed)} crossed"
            self._hub.out.append(Report("merge", peer=name, detail=detail))
        self._broker.diaries.ask_for_less()

    def was_repaired(self, name: str, epoch: int) -> bool:
        """Whether the loss of that broker, in that epoch or a later one, was repaired here."""
        return epoch <= self._repaired.get(name, -1)
