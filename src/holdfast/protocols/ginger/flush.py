"""One repair, or one newcomer, at the broker that takes the joiners in.

A flush is over when everybody expected has joined or is dead, and everybody who would have to repair it has heard of
the change. Until then nothing travels between the coordinator and the joiners but what the flush itself needs; all
other links flow on. A `Settlement` works out what is to be passed to whom, and in which order.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import Twig
from holdfast.protocols.ginger.absences import OwnHistory
from holdfast.protocols.ginger.joiners import Joiner, last_of
from holdfast.protocols.ginger.late_clients import LateCase
from holdfast.protocols.ginger.merge import Contribution, Flag, History, Merge, conflict
from holdfast.protocols.ginger.passing_order import PassingOrder
from holdfast.protocols.records import Record, RecordId
from holdfast.protocols.stability import StabilityLog

Lacks = Callable[[str, Batch], bool]


class Flush:
    """The repair of `key`'s loss; `key` is empty for a newcomer."""

    def __init__(self, key: str, silent: bool = False) -> None:
        self.key, self.silent = key, silent
        """`silent`: nobody has closed the connection with the lost broker, it only brought nothing any more."""
        self.dead = {key} if key else set()
        self.waiting: dict[str, Twig] = {}
        self.joined: dict[str, Joiner] = {}
        self.known: dict[str, tuple[Twig, ...]] = {}
        self.direct: set[str] = set()
        """Those who were below the lost broker itself."""
        self.missing: dict[str, Twig] = {}
        """Those who were expected and have not come."""
        self.late: dict[str, Twig] = {}
        """Clients that are busy, it seems: the repair ends without them, and they are settled with when they come."""
        self.case: LateCase | None = None
        """The case of a late client that has come, if this is its turn."""
        self.overdue = False
        """Whether somebody may be out of reach rather than on the way."""
        self.insisting: set[str] = set()
        """Who of the joined is the root of a part for which nothing was kept."""
        self.elsewhere = ""
        """The broker below which the lost one has come back, if it has."""
        self.reunion = False
        """Whether somebody returns who was missed at an earlier repair."""
        self.unheard = False
        """Whether a broker that was expected, or had come, is lost, too: what was wanted behind it nobody has said."""
        self.version = 0

    def lose(self, name: str, epoch: int) -> bool:
        """Somebody is dead in that epoch: whether it was expected, or had joined, in that one."""
        self.late.pop(name, None)
        waiting, joined = self.waiting.get(name), self.joined.get(name)
        if waiting is not None and waiting.epoch <= epoch:
            lost = self.waiting.pop(name)
        elif joined is not None and joined.join.twig.epoch <= epoch:
            lost = self.joined.pop(name).join.twig
        else:
            return False
        if lost.kind == "broker":
            self.dead.add(name)
            self.unheard = True
        return True

    def expect_those_behind(self) -> None:
        """Those who do not come may be dead, too: then those behind them come here."""
        for twig in list(self.waiting.values()):
            self.known[twig.name] = twig.twigs
            for below in twig.twigs:
                if below.name not in self.joined:
                    self.waiting.setdefault(below.name, below)

    def wait_no_longer(self) -> None:
        """Whoever has not come is missing, with everybody known behind it."""
        for twig in self.waiting.values():
            self._miss(twig)
        self.waiting.clear()

    def _miss(self, twig: Twig) -> None:
        if twig.name not in self.joined:
            self.missing[twig.name] = twig
        for below in twig.twigs:
            self._miss(below)

    def concerns(self, dead: Iterable[str]) -> bool:
        return not self.dead.isdisjoint(dead)


class Settlement:
    """What a flush comes to: every record that some participant has and another may lack, in order.

    `asked` are total batches that somebody has asked for and nobody is known to have released. What a client published
    after such a batch has gone nowhere: it is not taken, and the client sends it again, in order.
    """

    def __init__(
        self,
        own: str,
        mine: OwnHistory,
        joined: Mapping[str, Joiner],
        lacks: Lacks,
        log: StabilityLog,
        is_processed: Callable[[Batch], bool],
        reunion: bool = False,
        heard: Mapping[str, int] = MappingProxyType({}),
        unheard: Iterable[RecordId] = (),
        witnesses: Mapping[str, Joiner] = MappingProxyType({}),
        kept: Collection[RecordId] = (),
        for_absent: Callable[[Batch], bool] = lambda _: False,
    ) -> None:
        """`witnesses` have joined before, and are handed nothing more; `kept` was not forgotten, though the log has.

        `for_absent`: whether nobody outside wants the batch but those who are out of reach, if they are.
        """
        taken_in, joined = joined, {**witnesses, **joined}
        self.batches: dict[RecordId, Batch] = dict(mine.batches)
        self._kept, self._log = kept, log
        self._see_wholes(joined)
        self.asked: list[tuple[str, Batch]] = []
        self.done: list[tuple[str, Batch]] = []
        """What a broker has asked for and does not know to be released."""
        # The coordinator's processing order is known exactly: it is `settled`.
        histories = {own: History(mine.entries, passes=False)}
        self._learn_brought(joined)
        done_here, done_there = self._done(mine, joined)
        self._see_own_wholes(joined, done_here)
        self._done_above = done_here - mine.batches.keys()
        """What came up to the coordinator from the lost one, and turned for others than those there.

        1. c3#1 goes up through 24, 21 and 18, and turns for c0 above. 21 is told so; 24 is cut off before it is.
        2. c4 subscribes at 21. 24 comes back, and asks for c3#1 again. It is not for c4, which has later messages.
        """
        climbing = self._climbing(joined)
        last_asked = dict(sorted(climbing))

        def released(batch: Batch) -> bool:
            record_id = (batch.publisher, batch.first)
            record = log.find(record_id)
            known = record_id in self.batches or record_id in done_here or record_id in done_there
            known = known or (record is not None and not record.pending)
            known |= record_id not in climbing and batch.last < last_asked.get(batch.publisher, 0)
            return known or is_processed(batch) or any(joiner.has_begun(batch) for joiner in joined.values())

        self._learn_own(mine, released)
        for name, joiner in joined.items():
            entries = self._of_joiner(name, joiner, released)
            # What the lost one is not known to have processed it has passed to nobody before what it has passed on.
            awaited = frozenset(rid for rid in unheard if rid in self.batches and lacks(name, self.batches[rid]))
            histories[name] = History(entries, not joiner.is_client, awaited)
        self._ask_nothing_for(witnesses)
        settled = self._settled(mine)
        forgotten = set() if reunion else self._forgotten(joined, is_processed)
        passing = PassingOrder({who: history.entries for who, history in histories.items()}, heard)
        forgotten |= passing.before(forgotten)
        # What was asked for by way of the lost broker, and done without it, was wanted by nobody there.
        forgotten.update(rid for rid, flag, *_ in mine.entries if flag is Flag.DONE and rid not in mine.batches)
        self.in_vain = {rid for who in taken_in.values() for rid in who.asked_in_vain()}
        """Total batches that a joiner was asked for by the lost broker, and that were released without it."""
        forgotten |= self.in_vain
        aside = self._overtaken_here(own, joined, lacks, set(settled) - forgotten, for_absent)

        def lacking(who: str, batch: Batch) -> bool:
            record_id = (batch.publisher, batch.first)
            return record_id not in forgotten and (who != own or record_id not in aside) and lacks(who, batch)

        self._lacks: Lacks = lacking
        new = {record_id for record_id, batch in self.batches.items() if self._lacks(own, batch)} - set(settled)
        merge = Merge(histories, self.batches, self._lacks, settled, new)
        self.order = merge.order
        self.forced = merge.forced
        self._late = set() if reunion else merge.late
        self._late.update((who, record_id) for who in histories for record_id in passing.passed_by(who))
        overtaken = {record_id for who, record_id in self._late if who == own}
        self.untimely = set() if reunion else merge.untimely | overtaken | (self.batches.keys() - new - set(settled))
        """What those outside are not owed, or may not have any more, though they want it now."""
        self.crossed = merge.crossed if reunion else set()
        """Of a reunion: weaker messages that one side has before, and the other after, a total one on their key."""

    def _overtaken_here(
        self,
        own: str,
        joined: Mapping[str, Joiner],
        lacks: Lacks,
        settled: Collection[RecordId],
        for_absent: Callable[[Batch], bool],
    ) -> set[RecordId]:
        """What the coordinator would take for the absent alone, behind something that belongs behind it.

        1. 5 is the top of a topic, turns c7#1 for c4, and falls silent. 0, above it, has sent c0#1 down.
        2. 0 asks for everything, since 5 may be out of reach: so it lacks c7#1, and would process it behind c0#1.
        3. To keep that order, c4, which has c7#1 and lacks c0#1, would not be handed it.
        That somebody has c7#1, lacks c0#1, and wanted both, shows their order. Those out of reach may have either.
        """
        found = set()
        for record_id, batch in self.batches.items():
            if record_id in settled or not (lacks(own, batch) and for_absent(batch)):
                continue
            having = [name for name, joiner in joined.items() if joiner.has_received(record_id)]
            others = [self.batches[one] for one in settled if having and conflict(batch, self.batches[one])]
            if any(lacks(name, other) for name in having for other in others):
                found.add(record_id)
        return found

    def _done(self, mine: OwnHistory, joined: Mapping[str, Joiner]) -> tuple[set[RecordId], set[RecordId]]:
        """What went up over the lost link and is known to have turned: to the coordinator, and to joiners."""
        here = {record_id for record_id, flag, *_ in mine.entries if flag is Flag.DONE}
        there = {
            (one.batch.publisher, one.batch.first) for who in joined.values() for one in who.records if one.flag == "d"
        }
        for record_id in here & there:
            # It went up through the lost broker, and turned elsewhere: that one has passed it to nobody.
            self.batches.pop(record_id, None)
        return here, there

    def _settled(self, mine: OwnHistory) -> list[RecordId]:
        """What the coordinator has processed, in order."""
        held = [one for one in map(self._log.find, self.batches) if one is not None]
        numbers = {**mine.numbers, **{one.record_id: one.number for one in held}}
        return sorted(
            (one for one, number in numbers.items() if number > 0 and one in self.batches), key=numbers.__getitem__
        )

    def _ask_nothing_for(self, witnesses: Collection[str]) -> None:
        """What those had asked for was asked for when they were taken in."""
        self.asked = [one for one in self.asked if one[0] not in witnesses]
        self.done = [one for one in self.done if one[0] not in witnesses]

    def _climbing(self, joined: Mapping[str, Joiner]) -> dict[RecordId, Batch]:
        """What brokers know to have gone up: whatever its publisher published before it, and is not among it, turned.

        1. c1 publishes #6 and #7. #6 turns at 3, its broker, for c1 alone; #7 goes up to 1. 3 dies before c1 has #6.
        2. Nobody but c1 knows of #6. Sent up anew, it would turn behind #7, and c1 would take it for a repeat.
        """
        known = [record.batch for record in self._log.records() if record.pending]
        brokers = [joiner for joiner in joined.values() if not joiner.is_client]
        known += [one.batch for joiner in brokers for one in joiner.records if one.flag == Flag.ASKED.value]
        return {(batch.publisher, batch.first): batch for batch in known}

    def _see_wholes(self, joined: Mapping[str, Joiner]) -> None:
        """Brokers know total batches as they were asked for; clients may have parts of them."""
        known = [record.batch for record in self._log.records()]
        known += [one.batch for joiner in joined.values() if not joiner.is_client for one in joiner.records]
        wholes: dict[str, list[Batch]] = {}
        for batch in known:
            if batch.guarantee == TOTAL and batch.count > 1:
                wholes.setdefault(batch.publisher, []).append(batch)
        if wholes:
            for joiner in joined.values():
                if joiner.is_client:
                    joiner.see_wholes(wholes)

    def _see_own_wholes(self, joined: Mapping[str, Joiner], done_here: Iterable[RecordId]) -> None:
        """What was released in one batch is released, though its publisher may know it by parts."""
        wholes = [*self.batches.values(), *(one.batch for one in map(self._log.find, done_here) if one is not None)]
        wholes += [one.batch for who in joined.values() for one in who.records if one.flag == "d"]
        merged = [batch for batch in wholes if batch.guarantee == TOTAL and batch.count > 1]
        for joiner in joined.values() if merged else ():
            if joiner.is_client:
                joiner.see_own_wholes(merged)

    def _learn_brought(self, joined: Mapping[str, Joiner]) -> None:
        # What a client has may be a part of what brokers have: they come first.
        for joiner in sorted(joined.values(), key=lambda joiner: joiner.is_client):
            for one in joiner.records:
                if one.flag in ("s", "r") and not (joiner.is_client and one.flag == "s"):
                    # A client's own are added below, as far as they are taken.
                    self._learn(one.batch, whole=not joiner.is_client)
            for batch in joiner.done_by_the_lost():
                self._learn(batch, whole=True)

    def _learn_own(self, mine: OwnHistory, released: Callable[[Batch], bool]) -> None:
        """What went up from the coordinator itself, and what somebody shows to have turned at the lost broker."""
        for record_id, flag, *_ in mine.entries:
            record = self._log.find(record_id)
            if flag is Flag.ASKED and record is not None and released(record.batch):
                self._learn(record.batch, whole=True)

    def _learn(self, batch: Batch, whole: bool) -> None:
        """The whole counts: a client that wanted the first messages of a batch alone has a part that begins alike.

        If nobody else is left who has it, the whole of a total batch is what was asked for.
        """
        record_id = (batch.publisher, batch.first)
        record, before = self._log.find(record_id), self.batches.get(record_id)
        known = [batch] if before is None else [batch, before]
        if record is not None and (not record.pending or (before is None and not whole)):
            known.append(record.batch)
        self.batches[record_id] = max(known, key=lambda one: (one.count, one.crossed))
        if record is not None:
            self._log.change(record, self.batches[record_id])

    def _forgotten(self, joined: Mapping[str, Joiner], is_processed: Callable[[Batch], bool]) -> set[RecordId]:
        """What some participant, or the coordinator, has forgotten: everybody has it who was to have it."""
        held = last_of(record.batch for record in self._log.records())
        return {
            record_id
            for record_id, batch in self.batches.items()
            if any(joiner.has_forgotten(batch) for joiner in joined.values())
            or (
                record_id not in self._kept
                and self._log.find(record_id) is None
                and is_processed(batch)
                and batch.last > held.get(batch.publisher, 0)
            )
        }

    def owes(self, name: str, record_id: RecordId) -> bool:
        """Whether this joiner is to be given that record."""
        return (name, record_id) not in self._late and self._lacks(name, self.batches[record_id])

    def _of_joiner(self, name: str, joiner: Joiner, released: Callable[[Batch], bool]) -> list[Contribution]:
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
                self._note_asked(name, one.batch, one.after > place, released(one.batch))
            entries.append((record_id, flag, one.after, one.number))
        return entries

    def _note_asked(self, name: str, batch: Batch, was_received: bool, released: bool) -> None:
        if released and (batch.publisher, batch.first) in self._done_above:
            self.done.append((name, batch))
        elif released:
            # 1. c1#1 goes up to 0, and turns there for those below 1, from where it came; c1#2 turns for c5.
            # 2. 0 dies, and 1 has got nothing. c5 shows that c1#1 has turned, and nobody has it but 1, which waits.
            self._learn(batch, whole=True)
            self.done.append((name, batch))
        elif not was_received:
            self.asked.append((name, batch))


def own_history(records: list[tuple[Record, int]], key: str) -> OwnHistory:
    """The coordinator's side of a link with a broker that is lost."""
    entries: list[Contribution] = []
    batches: dict[RecordId, Batch] = {}
    for record, after in records:
        if record.pending:
            entries.append((record.record_id, Flag.ASKED, after, 0))
            continue
        asked_only = record.was_only_requested(key)
        if key in record.outs or (record.number and not asked_only):
            batches[record.record_id] = record.batch
        if not record.number or asked_only:
            entries.append((record.record_id, Flag.DONE, after, 0))
            continue
        flag = Flag.RECEIVED if record.was_received(key) else Flag.SENT
        entries.append((record.record_id, flag, after, record.number))
    numbers = {record.record_id: record.number for record, _ in records}
    requests = {record.record_id: record.batch for record, _ in records if record.record_id not in batches}
    return OwnHistory(entries, batches, numbers, requests)
