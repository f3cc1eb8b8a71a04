"""What a repair hands to whom, and in which order: a function from values to a plan, which changes nothing.

A `Situation` is what the coordinator knows when everybody expected has come: who joined with which records, what its
own log keeps, what it has processed, and who wants what. `settle` makes a `Settlement` of it, the plan, in phases:

1. *Wholes*: parts of one total batch, as clients know them, stand for the whole.
2. *Batches*: which records there are, which climbs have turned, and which are asked for anew.
3. *Withheld*: what nobody is given: all that were to have it have it, or it would come too late now.
4. *Order*: the records in one order (`merge`), and for each joiner those that it is owed.

Each rule is a method of `Settling` with the story that goes wrong without it; a test takes each of them away.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.protocols.ginger.absences import OwnHistory
from holdfast.protocols.ginger.joiners import Joiner, last_of
from holdfast.protocols.ginger.merge import Contribution, Flag, History, Merge, conflict
from holdfast.protocols.ginger.passing_order import PassingOrder
from holdfast.protocols.ginger.turning import is_sequenced
from holdfast.protocols.records import RecordId
from holdfast.protocols.routing import Takers
from holdfast.protocols.stability import StabilityLog

Lacks = Callable[[str, Batch], bool]


class Held(Struct, frozen=True):
    """A record of the coordinator's log, as it was when the repair was settled."""

    record_id: RecordId
    batch: Batch
    number: int
    """Its place in the coordinator's processing order, if it has one."""
    pending: bool
    is_latest: bool
    """Whether it is the record that the log finds under its id."""


def held_in(log: StabilityLog) -> list[Held]:
    """What a log keeps, in its order, each record once."""
    records = {id(record): record for record in log.records()}
    return [
        Held(one.record_id, one.batch, one.number, one.pending, log.find(one.record_id) is one)
        for one in records.values()
    ]


class Situation(Struct, frozen=True, kw_only=True):
    """What the coordinator knows when a repair can be settled."""

    own: str
    """The coordinator."""
    lost: str = ""
    """The lost broker; empty if the joiners come by themselves."""
    below: bool = False
    """Whether the lost broker was below the coordinator, and no former neighbour of it has been let in before."""
    mine: OwnHistory
    """What the coordinator has itself to do with the records that went over the lost link."""
    joined: Mapping[str, Joiner]
    witnesses: Mapping[str, Joiner] = {}
    """Those that have joined before, and are handed nothing more."""
    held: Collection[Held] = ()
    processed: Mapping[str, int] = {}
    """By publisher, the last number that the coordinator has processed."""
    kept: Collection[RecordId] = ()
    """Records that were not forgotten, though the log has forgotten them."""
    joiners_want: Callable[[Batch], Takers]
    """Who of the joiners wants a batch, and is owed it."""
    others_want: Callable[[Batch], Takers]
    """Who wants a batch that the coordinator passes on."""
    late: Collection[str] = ()
    """Names in the answers of `others_want` that stand for clients without which the repair ends."""
    orders: Collection[Sequence[RecordId]] = ()
    """When a late client comes: what each of the others has got of the repair, in its order."""
    crossed: Collection[RecordId] = ()
    """When a late client comes: what it has on another side of a total message than others. Its order is free."""
    absent: Collection[str] = ()
    """Names in the answers of `others_want` that stand for those who may be out of reach."""
    reunion: bool = False
    """Whether a joiner returns that was missed at an earlier repair."""
    heard: Mapping[str, int] = {}
    """By participant, from which of its records on it has what the lost broker passed on, in the order of that one."""
    unheard: Collection[RecordId] = ()
    """Total batches that went to the lost broker, and that it has not said to have processed."""

    def is_processed(self, batch: Batch) -> bool:
        """Whether the coordinator has processed all of the batch."""
        return batch.last <= self.processed.get(batch.publisher, 0)

    def lacks_here(self, batch: Batch, passed_over: Collection[str] = ()) -> bool:
        """Whether the batch is new at the coordinator, and for somebody who takes no part in the repair."""
        if self.is_processed(batch):
            return False
        return any(
            name != self.lost and name not in self.joined and name not in passed_over
            for name in self.others_want(batch)
        )

    def is_for_absent(self, batch: Batch) -> bool:
        """Whether nobody outside wants the batch but those who are out of reach, if they are."""
        return not self.lacks_here(batch, self.absent)


class Settlement(Struct):
    """What is to be done: the records in order, and for each joiner those that it is given."""

    order: list[RecordId]
    batches: dict[RecordId, Batch]
    given: dict[str, set[RecordId]]
    untimely: set[RecordId]
    """What those outside are not owed, or may not have any more, though they want it now."""
    crossed: set[RecordId]
    """Of a reunion: weaker messages that one side has before, and the other after, a total one on their key."""
    contradicted: set[str]
    """Joiners that are not handed something since they have what the coordinator takes behind it."""
    forced: int
    """How many records could not be put in an order that is certain."""
    asked: list[tuple[str, Batch]]
    """Total batches that a joiner has asked for and nobody is known to have released: they climb again."""
    done: list[tuple[str, Batch]]
    """What a joiner has asked for and does not know to be released."""
    wholes: dict[RecordId, Batch]
    """Records of the log that are of more than the log has known."""
    joiners: dict[str, Joiner]
    """The joiners, their records and what is taken of theirs as they are settled with."""
    witnesses: dict[str, Joiner]

    def owes(self, name: str, record_id: RecordId) -> bool:
        """Whether this joiner is to be given that record."""
        return record_id in self.given[name]


def settle(situation: Situation, rules: "type[Settling] | None" = None) -> Settlement:
    """The plan. What a client published after a batch that is asked anew is not taken: the client sends it again."""
    return (rules or Settling)(situation).plan()


class Settling:
    """The way from a situation to a plan: `plan` has its phases, the other methods are its rules."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._joiners = {name: joiner.copy() for name, joiner in situation.joined.items()}
        self._witnesses = {name: joiner.copy() for name, joiner in situation.witnesses.items()}
        self._all = {**self._witnesses, **self._joiners}
        self._held = list(situation.held)
        self._at = {one.record_id: place for place, one in enumerate(self._held) if one.is_latest}
        self._wholes: dict[RecordId, Batch] = {}
        self.batches: dict[RecordId, Batch] = dict(situation.mine.batches)
        self.asked: list[tuple[str, Batch]] = []
        self.done: list[tuple[str, Batch]] = []

    def _find(self, record_id: RecordId) -> Held | None:
        place = self._at.get(record_id)
        return None if place is None else self._held[place]

    def _lacks(self, who: str, batch: Batch) -> bool:
        """Whether the coordinator, or that joiner, is owed something of the batch that it has not got."""
        if who == self._situation.own:
            return self._situation.lacks_here(batch)
        joiner = self._joiners.get(who)
        part = None if joiner is None else joiner.lacks_of(batch)
        return part is not None and who in self._situation.joiners_want(part)

    def plan(self) -> Settlement:
        """The phases, one after the other."""
        given = self._situation
        self._see_wholes()
        self._learn_brought()
        done_here, done_there = self._done()
        released = self._released(done_here, done_there)
        self._learn_own(released)
        histories = self._histories(released, done_here - given.mine.batches.keys())
        self._ask_nothing_for_witnesses()
        settled = self._settled()
        passing = PassingOrder({who: history.entries for who, history in histories.items()}, given.heard)
        withheld = self._withheld(passing)
        aside = self._overtaken_here(set(settled) - withheld) | self._turned_below()

        def lacks(who: str, batch: Batch) -> bool:
            record_id = (batch.publisher, batch.first)
            kept_back = record_id in withheld or (who == given.own and record_id in aside)
            return not kept_back and self._lacks(who, batch)

        new = {record_id for record_id, batch in self.batches.items() if lacks(given.own, batch)} - set(settled)
        merge = Merge(histories, self.batches, lacks, settled, new, given.orders, given.crossed)
        late = self._late(merge, passing, histories)
        return Settlement(
            order=merge.order,
            batches=self.batches,
            given={
                name: {one for one, batch in self.batches.items() if (name, one) not in late and lacks(name, batch)}
                for name in self._joiners
            },
            untimely=self._untimely(merge, late, new, settled) | self._for_late_alone(new),
            crossed=merge.crossed if given.reunion else set(),
            contradicted=self._contradicted(merge, set(settled), new),
            forced=merge.forced,
            asked=self.asked,
            done=self.done,
            wholes=self._wholes,
            joiners=self._joiners,
            witnesses=self._witnesses,
        )

    # ------------------------------------------------------------------------------------------------ what has turned

    def _released(self, done_here: Collection[RecordId], done_there: Collection[RecordId]) -> Callable[[Batch], bool]:
        """Which of the batches that went up over the lost link are known to have turned."""
        climbing = self._climbing()
        last_asked = dict(sorted(climbing))

        def released(batch: Batch) -> bool:
            record_id = (batch.publisher, batch.first)
            held = self._find(record_id)
            known = record_id in self.batches or record_id in done_here or record_id in done_there
            known = known or (held is not None and not held.pending)
            known |= record_id not in climbing and batch.last < last_asked.get(batch.publisher, 0)
            is_processed = self._situation.is_processed(batch)
            return known or is_processed or any(joiner.has_begun(batch) for joiner in self._all.values())

        return released

    def _histories(self, released: Callable[[Batch], bool], done_above: Collection[RecordId]) -> dict[str, History]:
        """What each participant had to do with the records, in the order of its link.

        `done_above` came up to the coordinator from the lost one, and turned for others than those there:
        1. c3#1 goes up through 24, 21 and 18, and turns for c0 above. 21 is told so; 24 is cut off before it is.
        2. c4 subscribes at 21. 24 comes back, and asks for c3#1 again. It is not for c4, which has later messages.
        """
        # The coordinator's processing order is known exactly: it is `settled`.
        histories = {self._situation.own: History(self._situation.mine.entries, passes=False)}
        for name, joiner in self._all.items():
            entries = self._of_joiner(name, joiner, released, done_above)
            histories[name] = History(entries, not joiner.is_client, self._awaited(name))
        return histories

    def _awaited(self, name: str) -> frozenset[RecordId]:
        """What the lost one is not known to have processed it has passed to nobody before what it has passed on."""
        unheard = self._situation.unheard
        return frozenset(one for one in unheard if one in self.batches and self._lacks(name, self.batches[one]))

    # ------------------------------------------------------------------------------------------------------- withheld

    def _withheld(self, passing: PassingOrder) -> set[RecordId]:
        """What nobody is given: all that were to have it have it, or nobody there wanted it."""
        withheld = set() if self._situation.reunion else self._forgotten()
        withheld |= passing.before(withheld)
        return withheld | self._done_elsewhere() | self._asked_in_vain()

    def _done_elsewhere(self) -> set[RecordId]:
        """What was asked for by way of the lost broker, and done without it, was wanted by nobody there."""
        mine = self._situation.mine
        return {one for one, flag, *_ in mine.entries if flag is Flag.DONE and one not in mine.batches}

    def _asked_in_vain(self) -> set[RecordId]:
        """Total batches that a joiner was asked for by the lost broker, and that were released without it."""
        return {one for joiner in self._joiners.values() for one in joiner.asked_in_vain()}

    def _late(self, merge: Merge, passing: PassingOrder, histories: Mapping[str, History]) -> set[tuple[str, RecordId]]:
        """What a participant lacks and is not owed: the lost broker had passed it by, or it would come too late."""
        late = set() if self._situation.reunion else merge.late
        late.update((who, record_id) for who in histories for record_id in passing.passed_by(who))
        return late

    def _untimely(
        self,
        merge: Merge,
        late: Collection[tuple[str, RecordId]],
        new: Collection[RecordId],
        settled: Collection[RecordId],
    ) -> set[RecordId]:
        if self._situation.reunion:
            return set()
        overtaken = {record_id for who, record_id in late if who == self._situation.own}
        return merge.untimely | overtaken | (self.batches.keys() - new - set(settled))

    def _contradicted(self, merge: Merge, settled: set[RecordId], new: set[RecordId]) -> set[str]:
        """Whose history and the coordinator's own each seem to show that the other did not want something in time.

        1. 0, the root, turns c3#1 for c1. s subscribes at 1, and that is confirmed. c4#1, on the same key, turns at 0.
        2. 0 dies. 1 has c4#1 and lacks c3#1; c1 has c3#1, and lacks c4#1. Both want both by now.
        3. 1 takes c3#1 for s behind c4#1, so c1 is not handed c4#1. It was owed that, and is told that it may lack it.
        """
        if self._situation.reunion:
            return set()
        late = [one for one in merge.late if one[0] in self._joiners and one[1] in settled]
        return {
            who
            for who, record_id in late
            for one in new - merge.untimely
            if self._joiners[who].has_received(one) and conflict(self.batches[record_id], self.batches[one])
        }

    def _turned_below(self) -> set[RecordId]:
        """What has turned at a lost broker below the coordinator: nobody above wanted it in time, or it had gone up.

        1. B, below P, is the top of a topic, and turns c3#1, which is total, for c1 and c2. c2 has yet to get it.
        2. s subscribes at P, and that is confirmed. P, the top by now, turns p#1 on the same key for s. B dies before
           it has got that.
        3. P learns of c3#1. If s were given it, that would be behind p#1, and c1, which has c3#1, would not get p#1.

        What somebody has sent to the lost broker did not climb: it was on its way to everybody. And where several are
        lost only what somebody has sent up is known to have climbed.
        """
        given = self._situation
        flags = {(one.batch.publisher, one.batch.first, one.flag) for who in self._all.values() for one in who.records}
        came_by = given.mine.batches.keys() | {record_id for record_id, *_ in given.mine.entries}

        def climbed(record_id: RecordId) -> bool:
            sent, went_up = ((*record_id, "s") in flags), any((*record_id, flag) in flags for flag in ("t", "d"))
            return not sent and (went_up or bool(given.heard))

        found = {one for one, batch in self.batches.items() if one not in came_by and is_sequenced(batch)}
        return {one for one in found if climbed(one)} if given.below else set()

    def _for_late_alone(self, new: Collection[RecordId]) -> set[RecordId]:
        """What is new here, and is wanted by none of the others but clients that have not come: it has no place.

        1. c3#1 and c1#2, which is total, have a key in common. Both turn at 3, for c2 alone, which is busy. 3 dies.
        2. 2 repairs that without c2: 4 knows that c1#2 has turned, and c3 that c3#1 has. Nobody says which was first.
        3. c2 comes, and has c3#1 before c1#2. If 2 had given them places, one of the two orders would be broken.
        In which order joiners are handed what they lack is kept apart (`late_clients`).
        """
        late = self._situation.late
        return {one for one in new if not self._situation.lacks_here(self.batches[one], late)}

    def _overtaken_here(
        self,
        settled: Collection[RecordId],
    ) -> set[RecordId]:
        """What the coordinator would take for the absent alone, behind something that belongs behind it.

        1. 5 is the top of a topic, turns c7#1 for c4, and falls silent. 0, above it, has sent c0#1 down.
        2. 0 asks for everything, since 5 may be out of reach: so it lacks c7#1, and would process it behind c0#1.
        3. To keep that order, c4, which has c7#1 and lacks c0#1, would not be handed it.
        That somebody has c7#1, lacks c0#1, and wanted both, shows their order. Those out of reach may have either.
        """
        found = set()
        for record_id, batch in self.batches.items():
            given = self._situation
            if record_id in settled or not (self._lacks(given.own, batch) and given.is_for_absent(batch)):
                continue
            having = [name for name, joiner in self._all.items() if joiner.has_received(record_id)]
            others = [self.batches[one] for one in settled if having and conflict(batch, self.batches[one])]
            if any(self._lacks(name, other) for name in having for other in others):
                found.add(record_id)
        return found

    def _done(self) -> tuple[set[RecordId], set[RecordId]]:
        """What went up over the lost link and is known to have turned: to the coordinator, and to joiners."""
        here = {record_id for record_id, flag, *_ in self._situation.mine.entries if flag is Flag.DONE}
        there = {
            (one.batch.publisher, one.batch.first)
            for who in self._all.values()
            for one in who.records
            if one.flag == "d"
        }
        for record_id in here & there:
            # It went up through the lost broker, and turned elsewhere: that one has passed it to nobody.
            self.batches.pop(record_id, None)
        return here, there

    def _settled(self) -> list[RecordId]:
        """What the coordinator has processed, in order."""
        held = [one for one in map(self._find, self.batches) if one is not None]
        numbers = {**self._situation.mine.numbers, **{one.record_id: one.number for one in held}}
        return sorted(
            (one for one, number in numbers.items() if number > 0 and one in self.batches), key=numbers.__getitem__
        )

    def _ask_nothing_for_witnesses(self) -> None:
        """What those had asked for was asked for when they were taken in."""
        self.asked = [one for one in self.asked if one[0] not in self._witnesses]
        self.done = [one for one in self.done if one[0] not in self._witnesses]

    def _climbing(self) -> dict[RecordId, Batch]:
        """What brokers know to have gone up: whatever its publisher published before it, and is not among it, turned.

        1. c1 publishes #6 and #7. #6 turns at 3, its broker, for c1 alone; #7 goes up to 1. 3 dies before c1 has #6.
        2. Nobody but c1 knows of #6. Sent up anew, it would turn behind #7, and c1 would take it for a repeat.
        """
        known = [one.batch for one in self._held if one.pending]
        brokers = [joiner for joiner in self._all.values() if not joiner.is_client]
        known += [one.batch for joiner in brokers for one in joiner.records if one.flag == Flag.ASKED.value]
        return {(batch.publisher, batch.first): batch for batch in known}

    def _see_wholes(self) -> None:
        """Brokers know total batches as they were asked for; clients may have parts of them."""
        known = [one.batch for one in self._held]
        known += [one.batch for joiner in self._all.values() if not joiner.is_client for one in joiner.records]
        wholes: dict[str, list[Batch]] = {}
        for batch in known:
            if batch.guarantee == TOTAL and batch.count > 1:
                wholes.setdefault(batch.publisher, []).append(batch)
        if wholes:
            for joiner in self._all.values():
                if joiner.is_client:
                    joiner.see_wholes(wholes)

    def _learn_brought(self) -> None:
        # What a client has may be a part of what brokers have: they come first.
        for joiner in sorted(self._all.values(), key=lambda joiner: joiner.is_client):
            for one in joiner.records:
                if one.flag in ("s", "r") and not (joiner.is_client and one.flag == "s"):
                    # A client's own are added below, as far as they are taken.
                    self._learn(one.batch, whole=not joiner.is_client)
            for batch in joiner.done_by_the_lost():
                self._learn(batch, whole=True)

    def _learn_own(self, released: Callable[[Batch], bool]) -> None:
        """What went up from the coordinator itself, and what somebody shows to have turned at the lost broker."""
        for record_id, flag, *_ in self._situation.mine.entries:
            held = self._find(record_id)
            if flag is Flag.ASKED and held is not None and released(held.batch):
                self._learn(held.batch, whole=True)

    def _learn(self, batch: Batch, whole: bool) -> None:
        """The whole counts: a client that wanted the first messages of a batch alone has a part that begins alike.

        If nobody else is left who has it, the whole of a total batch is what was asked for.
        """
        record_id = (batch.publisher, batch.first)
        held, before = self._find(record_id), self.batches.get(record_id)
        known = [batch] if before is None else [batch, before]
        if held is not None and (not held.pending or (before is None and not whole)):
            known.append(held.batch)
        self.batches[record_id] = max(known, key=lambda one: (one.count, one.crossed))
        if held is not None:
            self._note_whole(held, self.batches[record_id])

    def _note_whole(self, held: Held, batch: Batch) -> None:
        """The record of the log is of this batch, if that is of more, or says that it has crossed a total one."""
        if batch.count != held.batch.count or batch.crossed > held.batch.crossed:
            self._wholes[held.record_id] = batch
            place = self._at[held.record_id]
            self._held[place] = replace(held, batch=batch)

    def _forgotten(self) -> set[RecordId]:
        """What some participant, or the coordinator, has forgotten: everybody has it who was to have it."""
        held = last_of(one.batch for one in self._held)
        return {
            record_id
            for record_id, batch in self.batches.items()
            if any(joiner.has_forgotten(batch) for joiner in self._all.values())
            or (
                record_id not in self._situation.kept
                and self._find(record_id) is None
                and self._situation.is_processed(batch)
                and batch.last > held.get(batch.publisher, 0)
            )
        }

    def _of_joiner(
        self, name: str, joiner: Joiner, released: Callable[[Batch], bool], done_above: Collection[RecordId]
    ) -> list[Contribution]:
        if joiner.is_client:
            asked = [one.batch.first for one in joiner.records if one.flag == "t" and not released(one.batch)]
            joiner.taken = min([joiner.taken, *(first - 1 for first in asked)])
        entries: list[Contribution] = []
        for place, one in enumerate(joiner.records):
            record_id, flag = (one.batch.publisher, one.batch.first), Flag(one.flag)
            if joiner.is_client:
                if joiner.uses(one):
                    self._learn(one.batch, whole=False)
                    # What it asked for is released, though it may never have come back to it.
                    flag = Flag.DONE if flag is Flag.ASKED else flag
            elif flag is Flag.ASKED:
                is_above = record_id in done_above
                self._note_asked(name, one.batch, one.after > place, released(one.batch), is_above)
            entries.append((record_id, flag, one.after, one.number))
        return entries

    def _note_asked(self, name: str, batch: Batch, was_received: bool, released: bool, is_above: bool) -> None:
        if released and is_above:
            self.done.append((name, batch))
        elif released:
            # 1. c1#1 goes up to 0, and turns there for those below 1, from where it came; c1#2 turns for c5.
            # 2. 0 dies, and 1 has got nothing. c5 shows that c1#1 has turned, and nobody has it but 1, which waits.
            self._learn(batch, whole=True)
            self.done.append((name, batch))
        elif not was_received:
            self.asked.append((name, batch))
