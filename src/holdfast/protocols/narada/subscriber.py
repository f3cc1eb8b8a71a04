"""A durable subscriber: it releases what is stable, once, in the order of the repository that steers it.

| state | meaning | leaves it |
| --- | --- | --- |
| choosing | looking for a steering repository | somebody answered the probe → recovering |
| recovering | asked it where to go on | `Rectify` → steered; silence → choosing; `Refusal` → refused |
| steered | releasing | silence, `Migrate` or another era of the repository → choosing; `Refusal` → refused |
| refused | or the subscription was ended: nothing is released any more | never |

A message is stable when both it and its persistence event are here (paper, 3.8). The subscriber holds messages in one
buffer and persistence events, as rows, in another, and goes through the rows in the order of their sequence numbers.
What it has released already it knows by identity and passes over; so it may change repositories at any time: each
repository has every publisher's messages in order, hence what was released is a prefix of each, and what is released
next continues it. A row without its message is asked for (`SubscriberNak`), a number without a row too (`Recovery`).

A subscriber without memory that restarts goes on behind what it acknowledged; what it released and could not
acknowledge any more comes again. With `remember`, and a driver that stores releases and memory together, it does not.

Invariants: everything below `position` was released, passed over, or reported as a gap.
"""

from holdfast.model.batches import Batch
from holdfast.model.filters import Filter, parse_filter
from holdfast.model.reliable import Entry
from holdfast.model.topics import check_pattern, matches
from holdfast.protocols.narada.backlog import Backlog
from holdfast.protocols.narada.config import SubscriberConfig
from holdfast.protocols.narada.empty_rows import pass_empty_row
from holdfast.protocols.narada.events import (
    MESSAGES,
    ControlEvent,
    Cut,
    Migrate,
    Persistent,
    ProbeReply,
    Ranges,
    Recovery,
    Rectify,
    Refusal,
    Resent,
    Row,
    SubscriberAck,
    SubscriberNak,
    Sync,
    encode,
)
from holdfast.protocols.narada.message_buffer import MessageBuffer
from holdfast.protocols.narada.participant import (
    Begun,
    Effect,
    Effects,
    Listen,
    Rejected,
    Release,
    Say,
    StreamGap,
    Unlisten,
    control_events,
)
from holdfast.protocols.narada.released_messages import ReleasedMessages
from holdfast.protocols.narada.steering import PROBE_TIMER, Steering
from holdfast.protocols.narada.topics import bundle_topic, inbox_topic, is_control, stable_topic
from holdfast.protocols.narada.unconsumed_messages import UnconsumedMessages
from holdfast.protocols.node import CancelTimer, Persist, Report, SetTimer

DUE_TIMER, ACK_TIMER = "due", "ack"
MEMORY_KEY = "released"
NAK_RANGES_MAX = 64
LIVE_AGAIN = 64
"""Who was too slow and is so many messages behind, or fewer, is sent again what is published."""
CUT_MAX, CUT_SOON_MAX = 64, 16
"""Of so many lives of publishers it says now and then what it has released; of fewer whenever it has."""


class Subscriber:
    """One durable subscription on one stream."""

    def __init__(self, config: SubscriberConfig, restored: dict[str, bytes] | None = None) -> None:
        self.name, self.config = config.name, config
        self.pattern = check_pattern(config.pattern or config.stream)
        self._filters: tuple[Filter, ...] | None = (parse_filter(config.where),) if config.where else None
        self.state, self.reader = "choosing", config.reader
        self.era = self._session = 0
        self.synced = 0
        """How far the repository is known to know what was released."""
        self.backlog = Backlog(config.rows_max, config.buffer_bytes_max)
        self.released = ReleasedMessages()
        if restored and restored.get(MEMORY_KEY):
            self.released.restore(restored[MEMORY_KEY])
        self.unconsumed = UnconsumedMessages(config.name)
        self._pieces = MessageBuffer(config.buffer_bytes_max)
        self._steering = Steering(config.steering, config.stream, config.name)
        self._begun = False
        self._due_s = config.nak_s
        self._due = False
        self._asked_at, self._fetching = 0, False
        """Whether the last messages came out of the store, and not as they were published."""
        self.spilled = False
        """Whether what is published is not sent to us any more: we read too slowly, and get it out of the store."""
        self._ack_due = self._ack_soon = False
        self._inbox = inbox_topic(config.stream, config.name)
        self._listening = ""

    # --------------------------------------------------------------------------------------------------- entry points

    def start(self, now: float) -> Effects:
        return [Listen(self._inbox), Listen(self.pattern), *self._steering.look(now)]

    def heard(self, batch: Batch, now: float) -> Effects:
        if self.state == "refused":
            return []
        if not is_control(batch.topic):
            self._pieces.add(batch)
            return [*self._go_on(now), *self._spill()]
        if batch.topic not in (self._inbox, self._listening):
            return []  # Said to somebody else.
        effects: Effects = []
        for event in control_events(batch, effects):
            if event.stream == self.config.stream:
                effects += self._on_event(event, now)
        return effects

    def _on_event(self, event: ControlEvent, now: float) -> Effects:
        match event:
            case ProbeReply():
                return self._steering.on_reply(event, now)
            case Migrate():
                found = self._steering.on_migrate(event, now)
                return self._lost(found) if found else []
            case Refusal(role="subscribe"):
                return self._on_refusal(event)
            case Refusal(role="read"):
                return self._on_other_reader(event, now)
            case Rectify() | Persistent() | Resent() | Sync():
                return self._from_repository(event, now)
            case _:
                return []

    def timer(self, name: str, now: float) -> Effects:
        if self.state == "refused":
            return []
        if name == PROBE_TIMER:
            effects = self._steering.on_timer(now)
            return effects if self._steering.looking else [*effects, *self._recover(now)]
        if self.state == "choosing":
            return []
        if self._steering.is_silent(now):
            return self._lost(self._steering.give_up(now, "it says nothing"))
        return self._on_due(now) if name == DUE_TIMER else self._acknowledge(now)

    def settle(self, now: float) -> Effects:  # noqa: ARG002 - the same for every participant
        return []

    def consumed(self, entry: Entry, now: float) -> Effects:
        """The application has taken these messages, the next of what was released to it, or the first part of them.

        They are acknowledged, and as many more may be released.
        """
        self.unconsumed.take(entry)
        return self._consumed(now)

    def told_gap(self, now: float) -> Effects:
        """The application was told of the next gap that was reported: that is acknowledged, too."""
        self.unconsumed.tell_gap()
        return self._consumed(now)

    def _consumed(self, now: float) -> Effects:
        if self.state != "steered":
            return []
        return [*self._go_on(now), *self._ask_on(now), *self._schedule_ack()]

    def acknowledge(self, now: float) -> Effects:
        """Say now what the application has taken, if the repository does not know it: there may be no time later."""
        if self.state != "steered" or self._taken() <= self.synced:
            return []
        return self._acknowledge(now)

    def stop(self, now: float) -> Effects:
        """The application reads no more: say how far it came. Whoever subscribes under this name goes on from there."""
        return self._acknowledge(now)[:1]

    def _taken(self) -> int:
        """Up to where the application has taken everything, by the numbers of the repository that steers us."""
        return self.unconsumed.upto(self.backlog.position)

    # ------------------------------------------------------------------------------------------------------- steering

    def _recover(self, now: float) -> Effects:
        """Somebody steers us: listen to what it stores, and ask where to go on."""
        repository = self._steering.repository
        topic = stable_topic(self.config.stream, repository)
        effects: Effects = []
        if self._listening != topic:
            if self._listening:
                effects.append(Unlisten(self._listening))
            self._listening = topic
            effects.append(Listen(topic))
        self.state = "recovering"
        self.backlog.begin(0)
        self.synced = 0
        self._due_s = self.config.nak_s
        return [*effects, self._recovery(0, now), *self._wake(now)]

    def _recovery(self, position: int, now: float) -> Say:
        config = self.config
        self._steering.asked(now)
        said = (config.stream, self.name, self._steering.repository, self.pattern, config.start, config.value, position)
        anew = config.anew and not self._begun and not position
        begun = self._begun or bool(len(self.released))
        return self._to_bundle(Recovery(*said, () if position else self._cut(), anew, begun, self.reader))

    def _cut(self) -> Cut:
        """What the application has: of what was released, that which it has consumed."""
        return self.released.cut_before(self.unconsumed.entries())

    def _lost(self, effects: Effects) -> Effects:
        self.state = "choosing"
        self._due = self._ack_due = self._ack_soon = False
        return [CancelTimer(DUE_TIMER), CancelTimer(ACK_TIMER), *effects]

    def _on_refusal(self, event: Refusal) -> Effects:
        effects = self._lost([CancelTimer(PROBE_TIMER), Rejected(self.config.stream, 0, True, event.reason)])
        self.state = "refused"
        return effects

    def _on_other_reader(self, event: Refusal, now: float) -> Effects:
        """Somebody reads under our name: whoever came later may. What is said to us reaches all of that name."""
        if not 0 < self.reader < event.reader:
            return []
        if not self._begun:  # That one came before us, and its clock is fast.
            self.reader = event.reader + 1
            return self._recover(now) if self.state == "recovering" else []
        return self._on_refusal(event)

    # -------------------------------------------------------------------------------------------- what is said to us

    def _from_repository(self, event: Rectify | Persistent | Resent | Sync, now: float) -> Effects:
        if self.state == "choosing" or event.repository != self._steering.repository:
            return []
        self._steering.heard_from(event.repository)
        if self.state == "recovering":
            # Whatever else it says answers an earlier question, by numbers of an era that may be over, or comes without
            # what we have to know first.
            return self._begin(event, now) if isinstance(event, Rectify) and event.begins else []
        if (event.era, event.session) != (self.era, self._session):
            # It has lost what it had, or some of it: our position there, and what we know of it, means nothing.
            return self._recover(now)
        match event:
            case Rectify():
                unknown = self.backlog.unknown()
                self._take_rows(event.rows, event.forgotten)
                self.backlog.end = max(self.backlog.end, event.end)
                self.synced = max(self.synced, event.sync)
                if unknown and not self.backlog.unknown():
                    # Now it can be asked for. In a place nobody knows what lies: asked again at once, nor would they.
                    self._asked_at = 0
                return [*self._go_on(now), *self._ask_on(now)]
            case Persistent():
                self._take_rows(event.rows)
                self.backlog.end = max(self.backlog.end, event.end)
            case Resent():
                for entry in event.entries:
                    self.backlog.add_entry(entry)
                return [*self._go_on(now), *([] if event.more else self._ask_on(now))]
            case Sync():
                self.synced = max(self.synced, event.sync)
                self.backlog.end = max(self.backlog.end, event.end)
                if event.sync < self.backlog.position - 1 and event.sync < self.synced:
                    # The repository knows less than it did: it has restarted. Tell it again.
                    self.synced = event.sync
        return self._go_on(now)

    def _begin(self, event: Rectify, now: float) -> Effects:
        self.state = "steered"
        self.era, self._session = event.era, event.session
        self.backlog.begin(event.first)
        self.unconsumed.begin()
        self.backlog.end = max(self.backlog.end, event.end)
        self.synced = event.first - 1
        begins, self._begun = not self._begun, True
        if begins and self.config.anew:
            self.released.begin_anew()
        self.released.skip(event.cut, event.lacks, event.out)
        effects: Effects = [Begun(self.config.stream, event.repository)] if begins else []
        if begins and self.config.remember:
            # What is not wanted is not wanted either by whoever goes on under this name.
            effects.append(Persist(MEMORY_KEY, self.released.save()))
        self._take_rows(event.rows, event.forgotten)
        return [*effects, *self._go_on(now), *self._schedule_ack()]

    def _take_rows(self, rows: tuple[Row, ...], forgotten: Cut = ()) -> None:
        for row in rows:
            self.backlog.add_row(row, forgotten)

    # ------------------------------------------------------------------------------------------------------ releasing

    def _go_on(self, now: float) -> Effects:
        """Release what is due, and be woken if what is due next is missing."""
        if self.state != "steered":
            return []
        before = self.backlog.position
        effects: Effects = []
        while self.unconsumed.bytes < self.config.unconsumed_bytes_max and self._step(effects):
            pass
        if any(isinstance(effect, Release | StreamGap) for effect in effects) and self.config.remember:
            effects.append(Persist(MEMORY_KEY, self.released.save()))
        if self.backlog.position != before:
            self._due_s = self.config.nak_s
            if self._fetching:
                # There is more where that came from, and nobody else sends it: it was asked for, or will be.
                self._due_s, self._due = self.config.fetching_s, False
            effects += self._schedule_ack()
        return [*effects, *self._unspill(), *self._wake(now)]

    # ------------------------------------------------------------------------------------------------------- spilling

    def _spill(self) -> Effects:
        """The application is far behind: what comes would only push out what came, so let it lie in the store."""
        config = self.config
        full = (
            self.unconsumed.bytes >= config.unconsumed_bytes_max and self._pieces.bytes > config.buffer_bytes_max // 2
        )
        if self.spilled or not full:
            return []
        self.spilled = True
        self._pieces = MessageBuffer(config.buffer_bytes_max)
        return [Unlisten(self.pattern), Report("spilled", detail=f"at {self.backlog.position} of {self.backlog.end}")]

    def _unspill(self) -> Effects:
        """It has caught up, nearly: listen again."""
        near = self.backlog.position > self.backlog.end - LIVE_AGAIN
        if not self.spilled or not near or self.unconsumed.bytes > self.config.unconsumed_bytes_max // 2:
            return []
        self.spilled = False
        return [Listen(self.pattern), Report("live", detail=f"at {self.backlog.position} of {self.backlog.end}")]

    def _step(self, effects: Effects) -> bool:
        """Deal with what is due next; whether that was possible."""
        backlog = self.backlog
        entry = backlog.entry()
        if entry is not None:
            self._fetching = True
            self._release(entry.part(backlog.position, entry.last), effects)
            backlog.advance(entry.last + 1)
            return True
        row = backlog.row()
        if row is None:
            return False
        if row.kind != MESSAGES:
            for gap in pass_empty_row(self.config.stream, row, backlog, self.released):
                self.unconsumed.add_gap(max(row.first, backlog.position), gap)
                effects.append(self._gap(gap))
        elif not self._release_row(row, effects):
            return False
        backlog.advance(row.last + 1)
        return True

    def _release_row(self, row: Row, effects: Effects) -> bool:
        # A row may begin before we do: what lies there is not wanted, and not the first that we see of its publisher.
        due = row.part(self.backlog.position, row.last)
        if not matches(self.pattern, row.topic) or not self.released.new_part(row.publisher, due.cat, due.count):
            self.released.add(row.publisher, due.cat, due.count)
            self.unconsumed.passed(row.publisher, due.cat, due.count, due.first)
            self._pieces.discard(row.publisher, row.seq, row.count, row.crc)
            return True
        batch = self._pieces.take(row.publisher, row.seq, row.count, row.crc)
        if batch is None:
            return False
        self._fetching = False
        self._release(Entry(row.first, row.cat, batch, 0).part(due.first, due.last), effects)
        return True

    def _release(self, entry: Entry, effects: Effects) -> None:
        publisher, count = entry.publisher, entry.count
        new = self.released.new_part(publisher, entry.cat, count)
        self.released.add(publisher, entry.cat, count)
        self.unconsumed.passed(publisher, entry.cat, count, entry.first)
        if not matches(self.pattern, entry.batch.topic):
            return
        for cat_first, cat_last in new:
            part = entry.cat_part(cat_first, cat_last)
            shift = part.first - part.batch.first
            for batch in part.batch.matching(self._filters):
                one = Entry(batch.first + shift, part.cat + batch.first - part.batch.first, batch, part.time_ns)
                self.unconsumed.add(one)
                effects.append(self._released(one))

    def _released(self, entry: Entry) -> Effect:
        return Release(self.config.stream, self._steering.repository, entry)

    def _gap(self, gap: StreamGap) -> Effect:
        return gap

    # --------------------------------------------------------------------------------------------- asking for the rest

    def _stuck(self) -> bool:
        if self.unconsumed.bytes >= self.config.unconsumed_bytes_max:
            return False
        return self.state == "recovering" or self.backlog.position <= self.backlog.end

    def _wake(self, now: float) -> Effects:  # noqa: ARG002
        if self._stuck() == self._due:
            return []
        self._due = not self._due
        return [SetTimer(DUE_TIMER, self._due_s)] if self._due else [CancelTimer(DUE_TIMER)]

    def _on_due(self, now: float) -> Effects:
        self._due = False
        if not self._stuck():
            return []
        self._due_s = min(2 * self._due_s, self.config.beat_s)
        return [self._ask(now), *self._wake(now)]

    def _ask(self, now: float) -> Say:
        """Ask for what is due: where to go on, what lies there, or the messages."""
        if self.state == "recovering":
            return self._recovery(0, now)
        self._asked_at = self.backlog.position
        if self.backlog.unknown():
            return self._recovery(self.backlog.position, now)
        # Out of the store comes as much as it reads at once; the rest is asked for when that is here.
        ranges = self.backlog.missing(self._pieces, 1 if self._fetching else NAK_RANGES_MAX)
        nak = SubscriberNak(self.config.stream, self.name, self._steering.repository, tuple(ranges))
        self._steering.asked(now)
        return self._to_bundle(nak)

    def _ask_on(self, now: float) -> Effects:
        """While messages come out of the store, the next are asked for when the last have come and there is room."""
        asked = self.backlog.position == self._asked_at
        if not self._fetching or asked or self.state != "steered" or not self._stuck():
            return []
        return [self._ask(now)]

    # ------------------------------------------------------------------------------------------------ acknowledgements

    def _schedule_ack(self) -> Effects:
        """Acknowledge soon if there is something to acknowledge, else when it is time for a sign of life."""
        soon = self._has_news()
        if self._ack_due and (self._ack_soon or not soon):
            return []
        self._ack_due, self._ack_soon = True, soon
        return [SetTimer(ACK_TIMER, self.config.ack_s if soon else self.config.beat_s)]

    def _has_news(self) -> bool:
        # Of what came from an earlier repository it is costly to tell, so that waits for the timer.
        return not self.unconsumed.is_plain or self.synced < self._taken()

    def _acknowledge(self, now: float) -> Effects:
        self._ack_due = self._ack_soon = False
        if self.state != "steered":
            return []
        behind = self._taken()
        ranges = ((self.synced + 1, behind),) if behind > self.synced else ()
        again = self._schedule_ack()
        self._steering.asked(now)
        return [self._to_bundle(self._ack(ranges)), *again]

    def _ack(self, ranges: Ranges) -> SubscriberAck:
        # Numbers mean nothing to a repository that has restarted since, and does not know by heart what lies there.
        cut = self._cut() if len(self.released) <= (CUT_SOON_MAX if ranges else CUT_MAX) else ()
        repository = self._steering.repository
        return SubscriberAck(self.config.stream, self.name, repository, self.era, ranges, cut, self.reader)

    def _to_bundle(self, event: Recovery | SubscriberAck | SubscriberNak) -> Say:
        return Say(bundle_topic(self.config.stream), encode(event))

    # ----------------------------------------------------------------------------------------------------- inspection

    def waiting_for(self) -> list[str]:
        if self.state == "refused":
            return []
        if self.state != "steered":
            return ["a repository that steers it"]
        reasons = []
        if self.backlog.position <= self.backlog.end:
            reasons.append(f"sequence number {self.backlog.position} of {self._steering.repository}")
        if self.synced < self._taken():
            reasons.append(f"{self._steering.repository} to know of its acknowledgement")
        return reasons

    def status(self) -> dict[str, object]:
        return {
            "stream": self.config.stream,
            "state": self.state,
            "steering": self._steering.repository,
            "position": self.backlog.position,
            "end": self.backlog.end,
            "synced": self.synced,
            "buffered": len(self._pieces),
            "spilled": self.spilled,
            "unconsumed_bytes": self.unconsumed.bytes,
            "failovers": self._steering.failovers,
        }

    def check_invariants(self) -> None:
        self.backlog.check()
        assert self.unconsumed.bytes >= 0, f"{self.name} has given back more than it had"
        assert self._pieces.bytes >= 0, f"{self.name} has a buffer of less than nothing"
