"""A repository: it stores streams exactly once, without gaps and in each publisher's order, and hands them on.

| state of a stream | meaning | leaves it |
| --- | --- | --- |
| learning | asks an assistant what was missed; what comes is held back | told → filling; nobody there → serving |
| filling | fetches what was missed into the places set aside; stores what comes | has it → serving |
| serving | answers probes, steers clients | `leave` → leaving |
| leaving | silent towards clients; waits until another repository has everything | so → left |
| left | does nothing | never |

The parts of a stream (`managed_stream`): `stream_state` gives sequence numbers, `intake` takes messages from
publishers, `dissemination` serves subscribers, `gossip` exchanges rows with the other repositories,
`position_reports` tells them how far subscribers are, `subscription_removal` ends subscriptions, `damaged_messages`
mends the store, `retention` forgets. This module hands events to the parts, commits, and keeps time. One commit is
under way at a time; everything that arrives meanwhile is in the next one. A repository acknowledges, announces and
gossips nothing before its commit is done.
"""

from collections.abc import Callable, Iterable

import msgspec

from holdfast.model.batches import Batch
from holdfast.model.errors import LocalMisuse
from holdfast.model.reliable import Entry
from holdfast.model.topics import check_stream, matches
from holdfast.protocols.narada import salvage
from holdfast.protocols.narada.config import RepositoryConfig
from holdfast.protocols.narada.damaged_messages import Harm
from holdfast.protocols.narada.events import (
    AskRegistration,
    ControlEvent,
    Cut,
    Explain,
    Fetch,
    Forget,
    Gossip,
    Leave,
    Migrate,
    Open,
    Order,
    Probe,
    ProbeReply,
    Recovery,
    Refetch,
    Registration,
    Resent,
    Retransmit,
    SubscriberAck,
    SubscriberNak,
    Tidings,
    encode,
)
from holdfast.protocols.narada.managed_stream import ManagedStream
from holdfast.protocols.narada.participant import Append, Commit, Effects, Listen, Say, Unlisten, control_events
from holdfast.protocols.narada.topics import bundle_topic, gossip_topic, inbox_topic, is_control, stable_topic
from holdfast.protocols.node import SetTimer

TICK_TIMER, NAK_TIMER = "tick", "nak"
Trust = Callable[[Registration], bool]


def trust_everybody(registration: Registration) -> bool:  # noqa: ARG001
    """Whoever says that it owns a stream does; a check of signatures takes this one's place."""
    return True


class Repository:
    """One repository of the bundles of some streams. `incarnation` is larger than any that it had before."""

    def __init__(
        self,
        config: RepositoryConfig,
        streams: Iterable[str],
        incarnation: int,
        restored: dict[str, bytes] | None = None,
        trusts: Trust = trust_everybody,
    ) -> None:
        self.name, self.config, self._trusts = config.name, config, trusts
        self.streams: dict[str, ManagedStream] = {}
        self._reads: dict[int, tuple[str, str, object]] = {}
        self._tokens = 0
        self._committing = 0
        self._ticking_s = self._ripened_at = 0.0
        self._nak_timing = False
        self._topics: set[str] = set()
        for stream in streams:
            managed = ManagedStream(config, check_stream(stream), incarnation, self._token)
            self.streams[stream] = managed
            managed.stream_state.restore(restored or {}, config.level, incarnation)
            managed.dissemination.restore(restored or {})
            managed.bundle.restore(restored or {})

    def _token(self, stream: str, kind: str, what: object) -> int:
        """A token for something that the store is asked for; 0 if it is asked for too much at once."""
        if len(self._reads) >= self.config.reads_max:
            return 0
        self._tokens += 1
        self._reads[self._tokens] = (stream, kind, what)
        return self._tokens

    # --------------------------------------------------------------------------------------------------- entry points

    def start(self, now: float, wall_ns: int = 0) -> Effects:
        effects: Effects = []
        self.set_clock(wall_ns - int(now * 1e9))
        for stream, managed in self.streams.items():
            managed.bundle.begin(now)
            topics = (inbox_topic(stream, self.name), gossip_topic(stream), bundle_topic(stream))
            self._topics |= set(topics)
            effects += [Listen(topic) for topic in (*topics, stream)]
            effects += managed.bundle.gossip(now, asks=True)
        return [*effects, *self._keep_time(now, anew=True)]

    def set_clock(self, wall_ns: int) -> None:
        """So far the wall clock is ahead of `now`: somebody has put it right, or the machine has slept."""
        for managed in self.streams.values():
            managed.stream_state.wall_ns = wall_ns

    def heard(self, batch: Batch, now: float) -> Effects:
        effects: Effects = []
        if not is_control(batch.topic):
            for stream, managed in self.streams.items():
                if matches(stream, batch.topic) and managed.stream_state.phase not in ("leaving", "left"):
                    effects += managed.intake.on_message(batch, now)
            return effects
        if batch.topic not in self._topics:
            return effects  # Said to somebody else.
        for event in control_events(batch, effects):
            managed_one = self.streams.get(event.stream)
            if managed_one is None:
                continue
            if managed_one.stream_state.phase != "left":
                effects += self._on_event(managed_one, event, now)
            elif isinstance(event, Gossip):
                effects += self._remind(managed_one, event)
        return effects

    def _on_published(self, managed: ManagedStream, event: Order | Retransmit, now: float) -> Effects:
        if managed.stream_state.phase == "leaving":
            return []  # The others store it; what only we had would keep us here.
        if isinstance(event, Order):
            return managed.intake.on_order(event, now)
        return managed.intake.on_retransmit(event, now)

    def _on_event(self, managed: ManagedStream, event: ControlEvent, now: float) -> Effects:  # noqa: PLR0912 - a table
        match event:
            case Order() | Retransmit():
                return self._on_published(managed, event, now)
            case SubscriberAck():
                return managed.dissemination.on_ack(event, managed.bundle.table_of)
            case Gossip():
                return self._on_gossip(managed, event, now)
            case Tidings():
                managed.position_reports.on_tidings(event)
                return []
            case Probe():
                return self._on_probe(managed, event)
            case Open():
                return managed.intake.on_open(event)
            case Recovery():
                return managed.dissemination.on_recovery(event, now)
            case SubscriberNak():
                return managed.dissemination.on_nak(event)
            case Explain():
                return managed.bundle.on_explain(event)
            case Fetch():
                return managed.bundle.on_fetch(event)
            case Refetch():
                return managed.damage.on_refetch(event)
            case Resent():
                managed.damage.on_resent(event)
                managed.bundle.on_resent(event, now)
                managed.intake.tidy()
                return [] if event.more else self._hasten(managed, now)
            case Leave():
                managed.bundle.on_leave(event)
                return []
            case Forget():
                managed.removal.on_forget(event, now)
                return []
            case Registration():
                return self._on_registration(managed, event)
            case AskRegistration():
                known = managed.stream_state.registration
                return [managed.stream_state.say_to(event.asker, known)] if known else []
            case _:
                return []

    def timer(self, name: str, now: float) -> Effects:
        if name == NAK_TIMER:
            self._nak_timing = False
            return [effect for managed in self.streams.values() for effect in managed.intake.naks()]
        self._ticking_s = 0.0
        return self._tick(now)

    def settle(self, now: float) -> Effects:
        effects: Effects = []
        for managed in self.streams.values():
            effects += managed.intake.acks(managed.bundle.covers())
        effects += self._commit(now)
        if not self._nak_timing and any(managed.intake.wants() for managed in self.streams.values()):
            self._nak_timing = True
            effects.append(SetTimer(NAK_TIMER, self.config.nak_s))
        return [*effects, *self._keep_time(now)]

    def last_words(self) -> Effects:
        """What is worth storing when the repository ends in order; nobody was promised it."""
        return [put for managed in self.streams.values() for put in managed.stream_state.lazy_puts()]

    # ---- answers of the store

    def _commit(self, now: float) -> Effects:
        if self._committing or not any(managed.has_changes() for managed in self.streams.values()):
            return []
        effects: Effects = []
        for stream, managed in self.streams.items():
            if not managed.has_changes():
                continue
            effects += [*managed.damage.changes(), *managed.retention.changes()]
            entries, puts = managed.stream_state.changes(self.config.level)
            if entries:
                effects.append(Append(stream, entries))
            effects += puts
            managed.removal.begin_commit()
            managed.dissemination.accounts.begin_commit()
        self._tokens += 1
        self._committing = self._tokens
        effects.append(Commit(self._committing, self.config.level))
        for managed in self.streams.values():
            effects += managed.intake.resume(now)
        return effects

    def stored(self, token: int, now: float) -> Effects:
        """The commit is done: say so to whoever waits for it."""
        if token != self._committing:
            raise LocalMisuse(f"{self.name} was told that commit {token} is done; {self._committing} is under way.")
        self._committing = 0
        effects: Effects = []
        for managed in self.streams.values():
            effects += managed.damage.committed()
            rows = managed.stream_state.committed()
            if rows:
                managed.bundle.on_stored(rows)
                effects += managed.dissemination.announce(rows)
                managed.intake.note_stored(rows)
            effects += [*managed.removal.committed(), *managed.dissemination.accounts.committed()]
            managed.bundle.note_recovered(now)
        return effects

    def fetched(self, token: int, entries: list[Entry], kept: int, now: float) -> Effects:  # noqa: ARG002
        """What a `Read` found; everything below `kept` was forgotten by retention."""
        stream, kind, what = self._reads.pop(token)
        managed = self.streams[stream]
        managed.stream_state.kept = max(managed.stream_state.kept, kept)
        if managed.stream_state.phase == "left":
            return []
        asker, first, last = msgspec.convert(what, tuple[str, int, int])
        effects = managed.damage.look(first, last, entries) if first else []
        lost = managed.damage.lost_rows(first, last, entries) if first else []
        if kind == "resend":
            return [*effects, *managed.dissemination.on_fetched(asker, first, last, entries, lost)]
        if kind == "explain":
            return [*effects, *managed.bundle.on_explain_fetched(asker, first, last, entries, lost)]
        return [*effects, *managed.bundle.on_fetch_read(asker, entries, lost)]

    def harmed(self, stream: str, harms: Iterable[Harm], now: float) -> Effects:
        """The driver has looked at what is stored of a stream: this is damaged, and is asked for from the others."""
        effects = self._managed(stream).damage.found(harms, now)
        return [*effects, *self._keep_time(now)]

    def located(self, token: int, number: int, now: float) -> Effects:
        stream, _, what = self._reads.pop(token)
        if not isinstance(what, Recovery):
            raise LocalMisuse(f"{self.name} was told where a time begins that it did not ask for.")
        return self.streams[stream].dissemination.on_located(what, number, now)

    # ----------------------------------------------------------------------------------------------------------- time

    def _tick(self, now: float) -> Effects:
        effects: Effects = []
        ripe = now - self._ripened_at >= self.config.ripen_s
        self._ripened_at = now if ripe else self._ripened_at
        for managed in self.streams.values():
            if ripe:
                managed.position_reports.look_again()
                managed.stream_state.ripen()
            if managed.stream_state.phase != "left":
                effects += self._tick_stream(managed, now)
        return [*effects, *self._keep_time(now, anew=True)]

    def _tick_stream(self, managed: ManagedStream, now: float) -> Effects:
        bundle, stream_state = managed.bundle, managed.stream_state
        effects = self._catch_up(managed, now)
        managed.retention.look(now)
        effects += managed.damage.ask([one.name for one in bundle.others_there(now)], now)
        effects += managed.damage.give_up(not bundle.members, now)
        for member in list(bundle.members.values()):
            if managed.dissemination.has_pending(member.name):
                managed.dissemination.retry(member.name, member.table)
        managed.intake.on_covers(bundle.covers())
        effects += bundle.gossip(now)
        if stream_state.phase == "leaving":
            effects += self._finish_leaving(managed, now)
        return effects

    def _catch_up(self, managed: ManagedStream, now: float) -> Effects:
        """Ask for what is missing, and go on from learning to filling to serving when that is due."""
        bundle, stream_state = managed.bundle, managed.stream_state
        effects: Effects = []
        before = stream_state.phase
        if bundle.learn(now):
            effects.append(stream_state.report(stream_state.phase))
            if before == "learning":
                effects += managed.intake.resume(now)
            if stream_state.serving:
                managed.intake.note_all()
                bundle.note_recovered(now)
        return [*effects, *bundle.catch_up(now)]

    def _keep_time(self, now: float, anew: bool = False) -> Effects:
        """Tick often while there is something to do, and else for the sign of life."""
        busy = any(managed.bundle.busy(now) or managed.damage.is_waiting for managed in self.streams.values())
        wanted_s = self.config.gossip_s if busy else self.config.beat_s
        if not anew and self._ticking_s and self._ticking_s <= wanted_s:
            return []
        self._ticking_s = wanted_s
        return [SetTimer(TICK_TIMER, wanted_s)]

    # ------------------------------------------------------------------------------------------------------- the bundle

    def _on_probe(self, managed: ManagedStream, event: Probe) -> Effects:
        stream_state = managed.stream_state
        if not stream_state.serving:
            return []
        return [stream_state.say_to(event.client, ProbeReply(stream_state.stream, self.name, event.token))]

    def _on_gossip(self, managed: ManagedStream, event: Gossip, now: float) -> Effects:
        managed.bundle.on_gossip(event, now)
        effects = self._hasten(managed, now)
        effects += managed.removal.tell(event.repository, event.ended, now)
        effects += managed.position_reports.tell(event.repository, now, begins=event.asks)
        if event.asks:
            # Whoever has just begun waits for it.
            effects += managed.bundle.gossip(now)
        known = managed.stream_state.registration
        version = known.version if known else 0
        if event.registration > version and event.repository != self.name:
            ask = AskRegistration(managed.stream_state.stream, self.name)
            effects.append(managed.stream_state.say_to(event.repository, ask))
        return effects

    def _hasten(self, managed: ManagedStream, now: float) -> Effects:
        """One that begins goes on as soon as it is told something: many wait for it to serve."""
        return self._catch_up(managed, now) if managed.stream_state.phase in ("learning", "filling") else []

    def _on_registration(self, managed: ManagedStream, event: Registration) -> Effects:
        stream_state = managed.stream_state
        known = stream_state.registration
        if known is not None and event.version <= known.version:
            return []
        if (known is not None and known.owner != event.owner) or not self._trusts(event):
            return [stream_state.report("untrusted", f"a registration by {event.owner}")]
        stream_state.registration = event
        stream_state.put(encode(event), "registration")
        return [stream_state.report("registered", f"version {event.version} by {event.owner}")]

    # ------------------------------------------------------------------------------------------------------- commands

    def knows_less(self, stream: str, following: int) -> bool:
        """Whether the store has more of a stream than its pairs tell of; `following` is one behind its highest."""
        return following > self._managed(stream).stream_state.next

    def adopt(self, stream: str, entries: Iterable[Entry]) -> None:
        """Before the start, where the store has lost its youngest commits: what it has nevertheless, in its order."""
        stream_state = self._managed(stream).stream_state
        stream_state.begin_anew()
        entry = salvage.adopt(stream_state, entries)
        if entry is not None:
            raise LocalMisuse(
                f"{self.name} has lost messages of {entry.publisher} to {stream} in the midst of its store, below "
                f"{entry.first}; run `holdfast store mend` with the store of a sibling, or move the store away: a "
                "repository with an empty one gets everything from the others. It does not start."
            )

    def forgettable(self, stream: str, keep_unread: bool = True) -> int:
        """The sequence number below which retention may forget everything."""
        return self._managed(stream).retention.limit(keep_unread)

    def forgotten(self, stream: str, before: int, whose: Cut, keep_unread: bool = True) -> Effects:
        """What lies below has expired: forget it, if that may be. `whose` has the last of each publisher's life."""
        managed = self._managed(stream)
        # Somebody may have come since the driver asked: then it asks again.
        return managed.retention.forget(before, whose) if before <= managed.retention.limit(keep_unread) else []

    def register(self, registration: Registration) -> Effects:
        """The owner of a stream says who may publish and subscribe; the other repositories learn it by gossip."""
        managed = self._managed(registration.stream)
        return self._on_registration(managed, registration)

    def give_up(self, stream: str, publisher: str, life: int | None = None) -> tuple[int, Effects]:
        """Give up the places set aside for a publisher that will not come back: how many messages that concerns.

        Subscribers are told of the gap. If another repository has the messages after all, they come late.
        """
        stream_state = self._managed(stream).stream_state
        count = 0
        for chain in list(stream_state.chains.values()):
            if chain.publisher == publisher and life in (None, chain.life) and chain.places:
                count += stream_state.give_up(chain, 1, chain.top)
        report = stream_state.report("given_up", f"{count} messages of {publisher}")
        return count, [report] if count else []

    def leave(self, stream: str, now: float) -> Effects:
        """Leave the bundle: clients migrate, and when another repository has everything, we are gone."""
        managed = self._managed(stream)
        stream_state = managed.stream_state
        if not managed.bundle.others_there(now):
            raise LocalMisuse(
                f"{self.name} was asked to leave the bundle of {stream}, but no other repository serves it now; "
                "add one first. It stays."
            )
        stream_state.phase = "leaving"
        for _, place in list(stream_state.place_rows()):
            # What is missing will not be stored here any more: for those who look it was never to be.
            stream_state.skip(place.first, place.first + place.count - 1)
        stream_state.mark()
        migrate = Migrate(stream, self.name)
        clients = {chain.publisher for chain in stream_state.chains.values() if chain.steering == self.name}
        effects: Effects = [stream_state.say_to(client, migrate) for client in sorted(clients)]
        effects += managed.position_reports.tell_all(now)
        return [Say(stable_topic(stream, self.name), encode(migrate)), *effects, *self._keep_time(now, anew=True)]

    def _finish_leaving(self, managed: ManagedStream, now: float) -> Effects:
        stream_state = managed.stream_state
        if stream_state.staged or self._committing or not managed.bundle.may_leave(now):
            return []
        stream_state.phase = "left"
        stream_state.mark()
        stream = stream_state.stream
        leave = Say(gossip_topic(stream), encode(Leave(stream, self.name, stream_state.era)))
        topics = (bundle_topic(stream), stream)
        return [
            *managed.position_reports.tell_all(now),
            leave,
            *(Unlisten(topic) for topic in topics),
            stream_state.report("left"),
        ]

    def _remind(self, managed: ManagedStream, event: Gossip) -> Effects:
        """Somebody has not heard that we left."""
        stream_state = managed.stream_state
        if not any(name == self.name and era == stream_state.era for name, era, _ in event.covers):
            return []
        return [stream_state.say_to(event.repository, Leave(stream_state.stream, self.name, stream_state.era))]

    def _managed(self, stream: str) -> ManagedStream:
        managed = self.streams.get(stream)
        if managed is None:
            raise LocalMisuse(
                f"{self.name} does not manage {stream}; it manages {', '.join(self.streams) or 'nothing'}."
            )
        return managed

    # ----------------------------------------------------------------------------------------------------- inspection

    def waiting_for(self) -> list[str]:
        return [reason for managed in self.streams.values() for reason in managed.waiting_for(bool(self._committing))]

    def status(self) -> dict[str, object]:
        return {stream: managed.status() for stream, managed in self.streams.items()}

    def check_invariants(self) -> None:
        for managed in self.streams.values():
            managed.stream_state.check()
            managed.bundle.check()
            for one in managed.dissemination.subscriptions.values():
                assert one.sync <= managed.stream_state.end, f"{self.name} has a sync of {one.name} behind its end"
