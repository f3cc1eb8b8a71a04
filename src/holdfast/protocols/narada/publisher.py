"""A reliable publisher: it numbers its messages, orders them, and keeps them until they are stored.

| state | meaning | leaves it |
| --- | --- | --- |
| choosing | looking for a steering repository | somebody answered the probe → opening, or open if it was open before |
| opening | asking for its last catenation number | `Opened` → open; `Refusal` → refused |
| open | publishing | silence or `Migrate` → choosing; `Refusal` → refused |
| refused | nothing is taken any more | never |

What is published before the publisher is open waits, so that a refusal is definite: nothing has been said yet. Then
each batch is emitted on its topic, and in tandem with it goes the `Order` that says which catenation number its first
message has (paper, 3.4). A message stays in the buffer until the steering repository says that enough repositories have
stored it. After silence the orders are repeated; what a repository lacks it asks for, and gets for the whole bundle.

Invariants: numbers in the buffer are consecutive; everything below them was reported as `Stored`.
"""

import itertools
from collections import deque
from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.model.batches import BATCH_COUNT_MAX, Attributes, Batch, Keys, make_batch
from holdfast.model.errors import LocalMisuse
from holdfast.model.plurals import counted
from holdfast.model.topics import check_topic, matches
from holdfast.protocols.narada.config import RELIABLE_PAYLOAD_BYTES_MAX, PublisherConfig
from holdfast.protocols.narada.events import (
    LIFE_MAX,
    NUMBER_MAX,
    ControlEvent,
    Migrate,
    Open,
    Opened,
    Order,
    Past,
    ProbeReply,
    PublisherAck,
    PublisherNak,
    Refusal,
    Retransmit,
    Run,
    catenation,
    encode,
)
from holdfast.protocols.narada.fingerprints import fingerprint
from holdfast.protocols.narada.participant import (
    Effects,
    Emit,
    Listen,
    Opening,
    Rejected,
    Say,
    Stored,
    control_events,
)
from holdfast.protocols.narada.steering import PROBE_TIMER, Steering
from holdfast.protocols.narada.topics import bundle_topic, inbox_topic
from holdfast.protocols.node import CancelTimer, SetTimer
from holdfast.protocols.trackers import RangeTracker

RESEND_TIMER = "resend"
MESSAGE_BYTES = 64
"""What a message weighs in the buffer beside its payload."""


class BufferFull(LocalMisuse):
    """Raised when more is published than the buffer holds. Nothing was taken; publish again when there is room."""


class _Kept:
    """Messages published together, until they are stored."""

    __slots__ = ("batch", "bytes", "crc", "emitted", "number")

    def __init__(self, number: int, batch: Batch, cost_bytes: int) -> None:
        self.number, self.batch, self.bytes = number, batch, cost_bytes
        self.crc = fingerprint(batch)
        self.emitted = False

    @property
    def last(self) -> int:
        return self.number + self.batch.count - 1

    def run(self) -> Run:
        return Run(self.number, self.batch.first, self.batch.count, self.crc)


class _Forming:
    """Messages that will be emitted together. The columns of keys and attributes are empty until one has some."""

    __slots__ = ("attributes", "bytes", "count_max", "guarantee", "keys", "number", "payloads", "topic")

    def __init__(self, number: int, topic: str, guarantee: int, count_max: int) -> None:
        self.number, self.topic, self.guarantee, self.bytes = number, topic, guarantee, 0
        self.count_max = count_max
        self.payloads: list[bytes] = []
        self.keys: list[Keys] = []
        self.attributes: list[Attributes] = []

    def add_columns(self, keys: Keys, attributes: Attributes | None) -> None:
        """Note what the message that is about to be added has; those before it had nothing if there is no column."""
        if keys and not self.keys:
            self.keys = [()] * len(self.payloads)
        if attributes and not self.attributes:
            self.attributes = [{} for _ in self.payloads]
        if keys or self.keys:
            self.keys.append(keys)
        if attributes or self.attributes:
            self.attributes.append(attributes or {})


class Publisher:
    """One publisher on one stream."""

    def __init__(self, config: PublisherConfig, life: int) -> None:
        if not 0 <= life <= LIFE_MAX:
            raise LocalMisuse(f"publisher {config.name} was given the life {life}; lives are 0..{LIFE_MAX}.")
        self.name, self.config, self.life = config.name, config, life
        self.state = "choosing"
        self.after: Past = ()
        self.next_number = 1
        self.stored_number = 0
        self.buffer_bytes = self.buffer_count = 0
        self.unsent_bytes = 0
        """What waits for the next `settle`, or for a repository that lets us publish."""
        self._opened = False
        self._steering = Steering(config.steering, config.stream, config.name)
        self._forming: _Forming | None = None
        self._kept: deque[_Kept] = deque()
        self._unsent: deque[_Kept] = deque()
        self._emitting: dict[int, _Kept] = {}
        self._acked = RangeTracker(ranges_max=1 << 16)
        self._tokens = 0
        self._resend_s = config.resend_s
        self._timing = False
        self._refusal = ""
        self._inbox = inbox_topic(config.stream, config.name)
        self._covered = ""
        """The topic of the last publication, which the stream covers."""

    # ------------------------------------------------------------------------------------------------------- commands

    def room(self) -> bool:
        """Whether `publish` takes one more."""
        config = self.config
        return (
            self.buffer_bytes < config.buffer_bytes_max
            and self.buffer_count < config.buffer_count_max
            and self.next_number <= NUMBER_MAX
        )

    def publish(
        self,
        topic: str,
        payload: bytes,
        guarantee: int,
        keys: Keys = (),
        attributes: Attributes | None = None,
    ) -> int:
        """Take a publication and return its number in this life; it leaves with the next `settle`."""
        self._check(topic, payload)
        number, forming, size = self.next_number, self._forming, len(payload)
        if forming is None or not self._fits(forming, topic, guarantee, size):
            self._close_run()
            most = min(self.config.batch_count_max, BATCH_COUNT_MAX)
            forming = self._forming = _Forming(number, topic, guarantee, min(most, NUMBER_MAX - number + 1))
        if keys or attributes or forming.keys or forming.attributes:
            forming.add_columns(keys, attributes)
        forming.payloads.append(payload)
        forming.bytes += size
        self.unsent_bytes += size
        self.buffer_bytes += size + MESSAGE_BYTES
        self.buffer_count += 1
        self.next_number = number + 1
        return number

    def publish_alike(self, topic: str, payload: bytes, guarantee: int) -> int:
        """The same for a message that has neither keys nor attributes, if it fits behind the one before it.

        Returns 0 if it does not, or if the buffer is full: then nothing was taken. It need not be checked again.
        """
        forming, size = self._forming, len(payload)
        if (
            forming is None
            or forming.topic != topic
            or forming.guarantee != guarantee
            or forming.keys
            or forming.attributes
            or len(forming.payloads) >= forming.count_max
            or forming.bytes + size > self.config.batch_bytes_max
            or self.buffer_bytes >= self.config.buffer_bytes_max
            or self.buffer_count >= self.config.buffer_count_max
        ):
            return 0
        number = self.next_number
        forming.payloads.append(payload)
        forming.bytes += size
        self.unsent_bytes += size
        self.buffer_bytes += size + MESSAGE_BYTES
        self.buffer_count += 1
        self.next_number = number + 1
        return number

    def _check(self, topic: str, payload: bytes) -> None:
        if self.state == "refused":
            raise LocalMisuse(f"{self._refusal}; nothing was published.")
        if topic != self._covered:
            self._check_topic(topic)
        if len(payload) > RELIABLE_PAYLOAD_BYTES_MAX:
            raise LocalMisuse(
                f"{self.name} published {len(payload)} bytes; a message that is stored has at most "
                f"{RELIABLE_PAYLOAD_BYTES_MAX}. Nothing was published."
            )
        if not self.room():
            raise BufferFull(
                f"{self.buffer_count} messages of {self.name} wait to be stored, as many as its buffer holds; "
                "wait until there is room, and publish again. Nothing was published."
            )

    def _check_topic(self, topic: str) -> None:
        if not matches(self.config.stream, check_topic(topic)):
            raise LocalMisuse(
                f"{self.name} published on {topic}, which the stream {self.config.stream} does not cover; "
                "publish on a topic that it matches. Nothing was published."
            )
        self._covered = topic

    def _fits(self, forming: _Forming, topic: str, guarantee: int, size: int) -> bool:
        return (
            forming.topic == topic
            and forming.guarantee == guarantee
            and len(forming.payloads) < forming.count_max
            and forming.bytes + size <= self.config.batch_bytes_max
        )

    def _close_run(self) -> None:
        forming, self._forming = self._forming, None
        if forming is not None:
            payloads = forming.payloads
            batch = make_batch(
                self.name, 1, forming.topic, forming.guarantee, payloads, forming.keys, forming.attributes
            )
            kept = _Kept(forming.number, batch, forming.bytes + MESSAGE_BYTES * len(payloads))
            self._kept.append(kept)
            self._unsent.append(kept)

    # --------------------------------------------------------------------------------------------------- entry points

    def start(self, now: float) -> Effects:
        return [Listen(self._inbox), *self._steering.look(now)]

    def settle(self, now: float) -> Effects:  # noqa: ARG002 - every entry point takes the time
        self._close_run()
        if self.state != "open" or not self._unsent:
            return []
        effects: Effects = []
        self.unsent_bytes = 0
        while self._unsent:
            kept = self._unsent.popleft()
            self._tokens += 1
            self._emitting[self._tokens] = kept
            effects.append(Emit(self._tokens, kept.batch))
        return effects

    def emitted(self, token: int, first: int, now: float) -> Effects:
        """The session has published the messages of that `Emit`, the first of them under the number `first`."""
        kept = self._emitting.pop(token)
        kept.batch = replace(kept.batch, first=first, checksum=None)
        kept.emitted = True
        if self.state == "refused":
            return []
        return [self._order([kept]), *self._expect(now)]

    def heard(self, batch: Batch, now: float) -> Effects:
        effects: Effects = []
        if batch.topic != self._inbox:
            return effects
        for event in control_events(batch, effects):
            if event.stream == self.config.stream and self.state != "refused":
                effects += self._on_event(event, now)
        return effects

    def _on_event(self, event: ControlEvent, now: float) -> Effects:
        match event:
            case ProbeReply():
                return self._steering.on_reply(event, now)
            case Migrate():
                found = self._steering.on_migrate(event, now)
                if found:
                    self.state = "choosing"
                return found
            case Opened():
                return self._on_opened(event, now)
            case PublisherAck():
                return self._on_ack(event, now)
            case PublisherNak():
                return self._on_nak(event)
            case Refusal(role="publish"):
                return self._on_refusal(event)
            case _:
                return []

    def timer(self, name: str, now: float) -> Effects:
        if self.state == "refused":
            return []
        if name == PROBE_TIMER:
            return self._steered(self._steering.on_timer(now), now)
        self._timing = False
        if self.state == "choosing":
            return []
        if self._steering.is_silent(now):
            self.state = "choosing"
            return self._steering.give_up(now, "it does not acknowledge")
        self._resend_s = min(2 * self._resend_s, self.config.resend_max_s)
        if self.state == "opening":
            return self._open(now)
        return [*self._repeat(), *self._expect(now)]

    # ------------------------------------------------------------------------------------------------------- steering

    def _steered(self, effects: Effects, now: float) -> Effects:
        if self._steering.looking:
            return effects
        self._resend_s = self.config.resend_s
        if not self._opened:
            self.state = "opening"
            return [*effects, *self._open(now)]
        self.state = "open"
        return [*effects, *self._repeat(), *self._expect(now), *self.settle(now)]

    def _open(self, now: float) -> Effects:
        event = Open(self.config.stream, self.name, self.life, self._steering.repository)
        return [self._to_bundle(event), *self._expect(now)]

    def _on_opened(self, event: Opened, now: float) -> Effects:
        if self._opened or event.life != self.life or event.repository != self._steering.repository:
            return []
        self._steering.heard_from(event.repository)
        if event.taken >= self.life:
            # The clock that gave us our life went back: some other life has these numbers already.
            self.life = event.taken + 1
            return self._open(now)
        self._opened, self.state, self.after = True, "open", event.last
        self._resend_s = self.config.resend_s
        opening = Opening(self.config.stream, self.life, max(event.last, default=0))
        return [opening, *self._expect(now), *self.settle(now)]

    def _on_refusal(self, event: Refusal) -> Effects:
        first, definite = self.stored_number + 1, not self._opened
        self.state, self._refusal = "refused", event.reason
        self._forming = None
        self._kept.clear()
        self._unsent.clear()
        self.buffer_bytes = self.buffer_count = self.unsent_bytes = 0
        timers = [CancelTimer(RESEND_TIMER), CancelTimer(PROBE_TIMER)]
        return [*timers, Rejected(self.config.stream, first, definite, event.reason)]

    # ---------------------------------------------------------------------------------------------- acknowledgements

    def _on_ack(self, ack: PublisherAck, now: float) -> Effects:
        if ack.life != self.life or not self._opened:
            return []
        self._steering.heard_from(ack.repository)
        copies = self.config.copies
        upto = ack.upto[copies - 1] if len(ack.upto) >= copies else 0
        if upto > self._acked.prefix and upto < self.next_number:
            self._acked.add(1, upto)
        if copies == 1:
            for first, last in ack.ranges:
                if 1 <= first <= last < self.next_number:
                    self._acked.add(first, last)
        return self._settle_acks(ack.level, now)

    def _settle_acks(self, level: str, now: float) -> Effects:
        prefix = self._acked.prefix
        if prefix <= self.stored_number:
            return self._expect(now)
        self.stored_number = prefix
        self._resend_s = self.config.resend_s
        while self._kept and self._kept[0].last <= prefix:
            kept = self._kept.popleft()
            self.buffer_bytes -= kept.bytes
            self.buffer_count -= kept.batch.count
        self._timing = False
        return [Stored(self.config.stream, prefix, level, self.config.copies), *self._expect(now)]

    def _on_nak(self, nak: PublisherNak) -> Effects:
        if nak.life != self.life or not self._opened:
            return []
        self._steering.heard_from(nak.repository)
        missing = [kept for kept in self._kept if kept.emitted and _meets(kept, nak.ranges)]
        return [self._to_bundle(self._retransmit(kept)) for kept in missing[: self.config.resend_runs_max]]

    def _retransmit(self, kept: _Kept) -> Retransmit:
        return Retransmit(
            self.config.stream,
            self.name,
            self.life,
            self._steering.repository,
            self.after,
            kept.number,
            kept.batch,
        )

    # -------------------------------------------------------------------------------------------------------- sending

    def _order(self, runs: Iterable[_Kept]) -> Say:
        return self._to_bundle(
            Order(
                self.config.stream,
                self.name,
                self.life,
                self._steering.repository,
                self.after,
                self.stored_number + 1,
                self._highest(),
                tuple(kept.run() for kept in runs),
            )
        )

    def _highest(self) -> int:
        """The highest number that was emitted."""
        return next((kept.last for kept in reversed(self._kept) if kept.emitted), self.stored_number)

    def _repeat(self) -> Effects:
        """Order again what is not acknowledged: whoever lacks the messages asks for them."""
        acked = self._acked
        open_runs = [kept for kept in self._kept if kept.emitted and acked.new_part(kept.number, kept.last)]
        if not open_runs:
            return []
        return [self._order(open_runs[: self.config.resend_runs_max])]

    def _expect(self, now: float) -> Effects:
        """Be woken if what must be answered is not."""
        waits = self.state == "opening" or (self.state == "open" and any(kept.emitted for kept in self._kept))
        if not waits:
            was, self._timing = self._timing, False
            return [CancelTimer(RESEND_TIMER)] if was else []
        self._steering.asked(now)
        if self._timing:
            return []
        self._timing = True
        return [SetTimer(RESEND_TIMER, self._resend_s)]

    def _to_bundle(self, event: Open | Order | Retransmit) -> Say:
        return Say(bundle_topic(self.config.stream), encode(event))

    # ----------------------------------------------------------------------------------------------------- inspection

    def catenation_of(self, number: int) -> int:
        """The catenation number of a publication, once the publisher is open."""
        return catenation(self.life, number)

    def waiting_for(self) -> list[str]:
        if self.state == "refused":
            return []
        reasons = [] if self._opened else ["a repository that lets it publish"]
        if self.next_number - 1 > self.stored_number:
            reasons.append(f"{counted(self.next_number - 1 - self.stored_number, 'message')} to be stored")
        return reasons

    def status(self) -> dict[str, object]:
        return {
            "stream": self.config.stream,
            "state": self.state,
            "life": self.life,
            "steering": self._steering.repository,
            "published": self.next_number - 1,
            "stored": self.stored_number,
            "buffer_bytes": self.buffer_bytes,
            "failovers": self._steering.failovers,
        }

    def check_invariants(self) -> None:
        numbers = [(kept.number, kept.last) for kept in self._kept]
        for before, after in itertools.pairwise(numbers):
            assert before[1] + 1 == after[0], f"{self.name} keeps {before} and then {after}"
        if numbers:
            assert numbers[0][0] <= self.stored_number + 1, f"{self.name} has lost {self.stored_number + 1}"
        assert self.stored_number < self.next_number, f"{self.name} has stored what it did not publish"


def _meets(kept: _Kept, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(first <= kept.last and last >= kept.number for first, last in ranges)
