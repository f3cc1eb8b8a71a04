"""How stored messages get to subscribers, and how a repository knows what they have (paper, 3.7 to 3.11 and 4.6).

The dissemination table of the paper has a row for each message and subscriber. Here it is, for each subscriber, its
*sync* (everything up to there was acknowledged) and a few ranges above it: a subscriber costs the same however much it
has to get. The repository that steers a subscriber hears its acknowledgements in its own numbers. The others translate
them by the repository table: from the steering repository's numbers to identities, and from those to their own. What
cannot be translated yet, since the gossip that says it has not come, is kept until it does (docs/papers/narada.md, 3),
up to a bound; what is dropped there only makes a sync lag. A sync that lags costs repeats, which subscribers pass over
by identity.
"""

from collections.abc import Callable

from holdfast.model.checksums import crc32
from holdfast.model.reliable import Entry
from holdfast.protocols.narada.accounts import Accounts
from holdfast.protocols.narada.answers import expired, read_upto, resent, void_rows
from holdfast.protocols.narada.consumed_position import (
    NOTHING,
    ConsumedPosition,
    merged_position,
    position_at,
    position_for_siblings,
    sync_of_position,
)
from holdfast.protocols.narada.ended_subscriptions import EndedSubscriptions
from holdfast.protocols.narada.events import (
    MESSAGES,
    RANGES_MAX,
    SKIPPED,
    Cut,
    Lacks,
    Persistent,
    Ranges,
    Recovery,
    Rectify,
    Refusal,
    Row,
    SubscriberAck,
    SubscriberNak,
    Sync,
    encode,
    life_of,
    number_of,
)
from holdfast.protocols.narada.participant import Effects, Locate, Read, Say
from holdfast.protocols.narada.rows import RowTable
from holdfast.protocols.narada.stream_state import RepositoryStream
from holdfast.protocols.narada.subscription import SYNC_RANGES_MAX, Subscription, restored, saved
from holdfast.protocols.narada.topics import stable_topic
from holdfast.protocols.trackers import RangeTracker, WindowFull

NAK_RANGES_MAX = 8
ROWS_PAGE = 512
NEAR = 1024
"""Of subscribers that are no farther behind it is noted with every acknowledgement what they have had."""


class Dissemination:
    """The subscribers' side of one stream."""

    def __init__(self, stream_state: RepositoryStream, token: Callable[[str, object], int]) -> None:
        self.stream_state, self._token = stream_state, token
        self.subscriptions: dict[str, Subscription] = {}
        self._pending: dict[str, dict[str, None]] = {}
        """By repository: of whom an acknowledgement in its numbers waits for its gossip."""
        self.ended = EndedSubscriptions()
        self.accounts = Accounts(stream_state)
        self._known: int | None = None

    # --------------------------------------------------------------------------------------------------------- telling

    def announce(self, rows: list[Row]) -> Effects:
        """R2S-Persistent: these are stored."""
        stream_state = self.stream_state
        if not rows or not stream_state.serving:
            return []
        if not any(one.steering == stream_state.name for one in self.subscriptions.values()):
            return []
        topic = stable_topic(stream_state.stream, stream_state.name)
        return [
            Say(topic, encode(self._persistent(page)))
            for page in (rows[at : at + ROWS_PAGE] for at in range(0, len(rows), ROWS_PAGE))
        ]

    def _persistent(self, rows: list[Row]) -> Persistent:
        stream_state = self.stream_state
        return Persistent(
            stream_state.stream,
            stream_state.name,
            stream_state.era,
            stream_state.end,
            tuple(rows),
            stream_state.session,
        )

    # ---------------------------------------------------------------------------------------------------- recovering

    def on_recovery(self, event: Recovery, now: float) -> Effects:
        stream_state, steers = self.stream_state, event.steering == self.stream_state.name
        speaks = steers and stream_state.serving
        why = stream_state.refusal(event.subscriber, "subscribe")
        known = self.subscriptions.get(event.subscriber)
        if not why and known is None and len(self.subscriptions) >= stream_state.config.subscribers_max:
            why = f"{stream_state.name} remembers as many subscribers of {stream_state.stream} as it can"
        if why:
            refusal = Refusal(stream_state.stream, stream_state.name, "subscribe", why)
            return [stream_state.say_to(event.subscriber, refusal)] if speaks else []
        if known is not None and self._is_fenced(known, event.reader):
            return self._fence(known) if speaks else []
        if known is not None and (not event.anew or (event.reader and known.begun_by == event.reader)):
            known.steering, known.pattern = event.steering, event.pattern
            self.jump(known, event.cut)
            return self._rectify(known, event.position) if speaks else []
        return self._begin(event, speaks, now)

    def _is_fenced(self, one: Subscription, reader: int) -> bool:
        """Whether somebody else has come to read under this name since; if not, that is its reader from now on."""
        if reader > one.reader:
            one.reader, one.account = reader, 0
            self.save(one)
        return 0 < reader < one.reader

    def _fence(self, one: Subscription) -> Effects:
        why = f"somebody else reads {self.stream_state.stream} as {one.name} now: a durable subscription has one reader"
        return [
            self.stream_state.say_to(
                one.name, Refusal(self.stream_state.stream, self.stream_state.name, "read", why, one.reader)
            )
        ]

    def _begin(self, event: Recovery, speaks: bool, now: float) -> Effects:
        """A subscription that is new here. Where it begins is said by the repository that steers it."""
        stream_state, end = self.stream_state, self.stream_state.end
        # One that goes on is to hear of what was forgotten here before it had it; that is, if something was.
        begins = event.anew or not event.begun
        fresh = speaks and (begins or stream_state.kept == 1)
        since_ns = self._since_ns(event.subscriber, now)
        # Better to begin too early, and repeat what is passed over, than too late.
        one = Subscription(event.subscriber, event.pattern, since_ns, stream_state.kept - 1 if fresh else 0)
        one.steering, one.anew, one.reader = event.steering, event.anew, event.reader
        if not fresh:
            self._adopt(one)
            self.jump(one, event.cut)
            return self._rectify(one, event.position) if speaks else []
        one.begun_by = event.reader
        # Where one that goes on began is a matter of another repository, and its numbers are not ours.
        start = event.start if begins else "start"
        if start == "time":
            token = self._token("locate", event)
            return [Locate(token, stream_state.stream, event.value)] if token else []
        if start == "seq":
            one.acked = RangeTracker(SYNC_RANGES_MAX, start=max(one.sync, min(event.value - 1, end)))
        self._adopt(one)
        self.jump(one, event.cut)
        if start == "live":
            one.acked = RangeTracker(SYNC_RANGES_MAX, start=end)
            return self._rectify(one, 0, self._everything())
        return self._rectify(one, 0)

    def on_located(self, event: Recovery, number: int, now: float) -> Effects:
        """The store knows where that time begins."""
        if event.subscriber in self.subscriptions and not event.anew:
            # It was asked again meanwhile, and that question was answered: the subscription has begun.
            return self.on_recovery(event, now)
        start = max(self.stream_state.kept - 1, min(number - 1, self.stream_state.end))
        one = Subscription(event.subscriber, event.pattern, self._since_ns(event.subscriber, now), start)
        one.steering, one.anew, one.reader, one.begun_by = event.steering, event.anew, event.reader, event.reader
        self._adopt(one)
        self.jump(one, event.cut)
        return self._rectify(one, 0)

    def _since_ns(self, name: str, now: float) -> int:
        return self.ended.beginning(name, self.stream_state.time_ns(now))

    def _adopt(self, one: Subscription) -> None:
        self.subscriptions[one.name], self._known = one, None
        self.stream_state.put(saved(one), "subscriber", one.name)

    def _everything(self) -> Cut:
        chains = self.stream_state.chains.values()
        if len(chains) > RANGES_MAX:
            return ()
        return tuple((chain.publisher, chain.cat(chain.top)) for chain in chains if chain.top)

    def jump(self, one: Subscription, cut: Cut, lacks: Lacks = ()) -> None:
        """The subscriber, or a sibling, says what it has: our sync may go on to the first message not among that.

        What it lacks it was told as a gap, unless it was handed out and not acknowledged. If that is forgotten here,
        the sync stays before it: the next reader is to hear that it will not come.
        """
        upto = sync_of_position(self.stream_state, cut, lacks) if cut and not self._has_forgotten(one, lacks) else 0
        if upto > one.sync:
            one.acked.add(1, upto)
            self._pass_voids(one)
            self.save(one)

    def _has_forgotten(self, one: Subscription, lacks: Lacks) -> bool:
        """Whether something that is out, and is lacking, lay below what is kept."""
        for publisher, first, last, _ in one.out:
            chain = self.stream_state.chains.get((publisher, life_of(first)))
            gone = chain is not None and number_of(first) <= chain.expired
            if gone and any(who == publisher and low <= last and first <= high for who, low, high in lacks):
                return True
        return False

    def note_consumed(self, one: Subscription, cut: Cut = ()) -> None:
        """Its sync has moved: note which messages those are; `cut` is what it says itself."""
        if one.consumed_at != one.sync:
            one.consumed_at = one.sync
            one.consumed = merged_position(one.consumed, position_for_siblings(self.stream_state, one.sync, cut))

    def hear_consumed(self, one: Subscription, told: ConsumedPosition) -> None:
        """A sibling says what it has had."""
        known = merged_position(one.consumed, told)
        if known != one.consumed:
            one.consumed = known
            self.save(one)
        self.jump(one, *one.consumed)

    def _pass_voids(self, one: Subscription) -> None:
        """Where nothing lies its sync goes on, also past what was given up if it has something later of that life.

        The repository that steers it hears that it has passed a gap. The others hear of messages only.
        """
        stream_state = self.stream_state
        if stream_state.phase == "leaving":
            return  # Nothing will lie in our places, unless we die before we are gone: then we come back and fill them.
        for row in sorted(stream_state.voids, key=lambda one: one.first):
            if row.first <= one.sync + 1 <= row.last and (not row.publisher or self._has_later(one, row)):
                one.acked.add(one.sync + 1, row.last)

    def _has_later(self, one: Subscription, row: Row) -> bool:
        chain = self.stream_state.chains.get((row.publisher, life_of(row.cat)))
        top = chain.cat(chain.top) if chain is not None else 0
        later = row.cat + row.count
        found = self.stream_state.table.places_of(row.publisher, later, top) if later <= top else []
        return any(one.acked.contains(first) for _, first, _ in found)

    def _rectify(self, one: Subscription, position: int, cut: Cut = ()) -> Effects:
        """R2S-Rectify: its sync, and what lies behind it, or from the position on that it asks for."""
        stream_state = self.stream_state
        first = position or one.sync + 1
        begins: ConsumedPosition | None = None if position else (cut, ())
        if not position and not cut:
            # What others know of it counts: it passes over what it had elsewhere.
            begins = one.known(position_at(stream_state, one.sync) if one.sync else NOTHING)
        if first > stream_state.end:
            return [self._rows_to(one, first, stream_state.end, (), begins)]
        rows, upto = self._recent(first)
        if not rows:
            head = [] if position else [self._rows_to(one, first, first - 1, (), begins)]
            return [*head, *self._read(one.name, first, stream_state.end)]
        if not position:
            rows = [_skipped(row, one.acked) for row in rows]
        return [self._rows_to(one, first, upto, tuple(rows), begins)]

    def _recent(self, first: int) -> tuple[list[Row], int]:
        """The rows from there on, if they are among the latest."""
        stream_state = self.stream_state
        if first < stream_state.notices_from:
            return [], 0
        found = sorted((row for row in stream_state.notices.values() if row.last >= first), key=lambda row: row.first)
        found = found[:ROWS_PAGE]
        return found, found[-1].last if found else 0

    def _rows_to(
        self, one: Subscription, first: int, upto: int, rows: tuple[Row, ...], begins: ConsumedPosition | None = None
    ) -> Say:
        stream_state = self.stream_state
        forgotten = expired(stream_state) if first < stream_state.kept else ()
        cut, lacks = begins or NOTHING
        where, what = (one.sync, first, upto, stream_state.end), (rows, cut, stream_state.session, forgotten)
        said = (stream_state.stream, stream_state.name, stream_state.era, *where, *what)
        if begins is None:
            return stream_state.say_to(one.name, Rectify(*said))
        event = Rectify(*said, lacks=lacks, begins=True, out=one.out, beyond=one.beyond[0])
        return stream_state.say_to(one.name, event)

    # ------------------------------------------------------------------------------------------------- retransmissions

    def on_nak(self, event: SubscriberNak) -> Effects:
        stream_state = self.stream_state
        if (
            event.steering != stream_state.name
            or not stream_state.serving
            or event.subscriber not in self.subscriptions
        ):
            return []
        effects: Effects = []
        for first, last in event.ranges[:NAK_RANGES_MAX]:
            if 1 <= first <= last:
                effects += self._read(event.subscriber, first, min(last, stream_state.end))
        return effects

    def _read(self, asker: str, first: int, last: int) -> Effects:
        # Nobody answers for what is not asked, so a token is taken only if the store is: they are few.
        token = self._token("resend", (asker, first, last)) if first <= last else 0
        if not token:
            return []
        return [Read(token, self.stream_state.stream, first, last, self.stream_state.config.read_bytes_max)]

    def on_fetched(self, asker: str, first: int, last: int, entries: list[Entry], lost: list[Row]) -> Effects:
        """Send what was read, and say what lies between it; `lost` is what is damaged, and nobody has it."""
        one = self.subscriptions.get(asker)
        effects = resent(self.stream_state, asker, entries)
        if one is None:
            return effects
        upto = read_upto(entries, last, self.stream_state.config.read_bytes_max)
        rows = [*void_rows(self.stream_state, first, upto), *lost]
        if rows or not entries:
            effects.append(self._rows_to(one, first, upto, tuple(rows)))
        return effects

    # ------------------------------------------------------------------------------------------------ acknowledgements

    def on_ack(self, event: SubscriberAck, tables: Callable[[str, int], RowTable | None]) -> Effects:
        stream_state = self.stream_state
        one = self.subscriptions.get(event.subscriber)
        if one is None:
            # We missed how it began; an acknowledgement alone does not say where.
            return []
        if self._is_fenced(one, event.reader):
            return self._fence(one) if event.steering == stream_state.name and stream_state.serving else []
        one.steering = event.steering
        if event.account:
            self.accounts.hear(one, event)
        if event.steering != stream_state.name:
            table = tables(event.steering, event.era)
            if table is not None:
                # Numbers of an era that is over must not wait for the gossip of the next: they mean other messages.
                self._translate(one, event.steering, event.ranges, table)
            if not event.ranges or one.pending.get(event.steering):
                self.jump(one, event.cut)
            return []
        if event.era == stream_state.era:
            before = one.sync
            for first, last in event.ranges:
                self._acknowledge(one, first, min(last, stream_state.end))
            if one.sync != before:
                # What lies below what we know by heart, as after a restart, we know only by what it says.
                self.save(one, event.cut if one.sync + 1 < stream_state.table_from else ())
        if not stream_state.serving:
            return []
        sync = Sync(
            stream_state.stream, stream_state.name, stream_state.era, one.sync, stream_state.end, stream_state.session
        )
        return [stream_state.say_to(one.name, sync)]

    def _acknowledge(self, one: Subscription, first: int, last: int) -> None:
        if not 1 <= first <= last:
            return
        try:
            one.acked.add(first, last)
        except WindowFull:
            # The sync lags until what lies between is acknowledged, too.
            return

    def _translate(self, one: Subscription, repository: str, ranges: Ranges, table: RowTable) -> None:
        before = one.sync
        for first, last in ranges:
            if not 1 <= first <= last:
                continue
            reached = first
            for row in table.between(first, last):
                if row.first > reached:
                    self._keep(one, repository, reached, row.first - 1)
                self._translate_row(one, repository, row)
                reached = row.last + 1
            if reached <= last:
                self._keep(one, repository, reached, last)
        if self.stream_state.voids:
            self._pass_voids(one)
        if one.sync != before:
            self.save(one)

    def _translate_row(self, one: Subscription, repository: str, row: Row) -> None:
        if row.kind != MESSAGES:
            return
        reached, cat_last = row.cat, row.cat + row.count - 1
        for cat, first, count in self.stream_state.table.places_of(row.publisher, row.cat, cat_last):
            if cat > reached:
                self._keep(one, repository, row.first + reached - row.cat, row.first + cat - row.cat - 1)
            self._acknowledge(one, first, first + count - 1)
            reached = cat + count
        if reached <= cat_last:
            self._keep(one, repository, row.first + reached - row.cat, row.last)

    def _keep(self, one: Subscription, repository: str, first: int, last: int) -> None:
        """Keep an acknowledgement until it can be translated."""
        pending = one.pending.get(repository)
        if pending is None:
            pending = one.pending[repository] = RangeTracker(ranges_max=self.stream_state.config.pending_max)
            self._pending.setdefault(repository, {})[one.name] = None
        try:
            pending.add(first, last)
        except WindowFull:
            return

    def retry(self, repository: str, table: RowTable) -> None:
        """That repository has said more of what lies under its numbers, or we have stored more."""
        for name in self._pending.pop(repository, {}):
            one = self.subscriptions.get(name)
            pending = one.pending.pop(repository, None) if one is not None else None
            if one is not None and pending is not None:
                ranges = [(1, pending.prefix)] * bool(pending.prefix) + pending.ranges()
                self._translate(one, repository, tuple(ranges), table)

    def on_gossip(self, repository: str, syncs: tuple[tuple[str, int, int], ...], table: RowTable) -> None:
        """Another repository says how far the subscribers are that it steers."""
        for name, sync, since_ns in syncs:
            if self.ended.is_over(name, since_ns):
                continue  # It has not heard of that yet.
            one = self.subscriptions.get(name) or self.hear_of(name, since_ns, repository)
            if one is None:
                continue
            looked_at = one.translated.get(repository, 0)
            if sync > looked_at:
                one.translated[repository] = sync
                self._translate(one, repository, ((looked_at + 1, sync),), table)

    def hear_of(self, name: str, since_ns: int, repository: str) -> Subscription | None:
        """A sibling knows a subscription that we do not know; `None` if there is no room for it."""
        if len(self.subscriptions) >= self.stream_state.config.subscribers_max:
            return None
        one = Subscription(name, self.stream_state.stream, since_ns)
        one.steering = repository
        self._adopt(one)
        return one

    def known(self) -> int:
        """The same at two repositories that know the same subscriptions; 0 if there is none."""
        if self._known is None:
            self._known = crc32(repr(sorted(self.subscriptions)).encode()) if self.subscriptions else 0
        return self._known

    def syncs(self) -> tuple[tuple[str, int, int], ...]:
        """Where the subscribers are that we steer, those that have moved."""
        name = self.stream_state.name
        moved = [one for one in self.subscriptions.values() if one.steering == name and one.sync > one.said_sync]
        for one in moved[:RANGES_MAX]:
            one.said_sync = one.sync
        return tuple((one.name, one.sync, one.since_ns) for one in moved[:RANGES_MAX])

    def drop(self, name: str) -> None:
        """The subscription is over."""
        del self.subscriptions[name]
        self._known = None
        self.stream_state.put(b"", "subscriber", name)

    def forget_repository(self, repository: str) -> None:
        self._pending.pop(repository, None)
        for one in self.subscriptions.values():
            one.pending.pop(repository, None)
            one.translated.pop(repository, None)

    def has_pending(self, repository: str) -> bool:
        return repository in self._pending

    # -------------------------------------------------------------------------------------------------------- storing

    def save(self, one: Subscription, cut: Cut = ()) -> None:
        """Store how far it is, when there is something to store: a sync that is lost costs repeats, and no more."""
        if self.stream_state.end - one.sync <= NEAR or cut:
            # After a restart we could not tell any more which messages those are.
            self.note_consumed(one, cut)
        self.stream_state.put_later(saved(one), "subscriber", one.name)

    def restore(self, pairs: dict[str, bytes]) -> None:
        prefix = self.stream_state.key("subscriber") + "/"
        for key, value in pairs.items():
            if key.startswith(prefix):
                name = key[len(prefix) :].replace("%2F", "/").replace("%25", "%")
                self.subscriptions[name] = restored(name, value)
        over = pairs.get(self.stream_state.key("ended"))
        if over:
            self.ended.restore(over)


def _skipped(row: Row, acked: RangeTracker) -> Row:
    """Messages that the subscriber has acknowledged already are nothing that it need release. A gap is not had."""
    if row.kind != MESSAGES or acked.new_part(row.first, row.last):
        return row
    return Row(row.first, row.count, row.publisher, row.cat, SKIPPED)
