"""How messages get from publishers into a repository: orders, acknowledgements, and asking again (paper, 3.4 to 3.6).

A message that was heard waits for its order, an order for its message. Together they are taken. What an order shows to
be missing gets a place, and is asked for by the repository that steers the publisher; the others are passive, and fetch
from it what they miss.
"""

from collections import deque
from collections.abc import Iterable

from holdfast.model.batches import Batch
from holdfast.model.ranges import Range
from holdfast.protocols.narada.chains import Chain
from holdfast.protocols.narada.events import (
    Open,
    Opened,
    Order,
    PublisherAck,
    PublisherNak,
    Refusal,
    Retransmit,
    Row,
    Run,
    life_of,
)
from holdfast.protocols.narada.participant import Effects
from holdfast.protocols.narada.stream_state import RepositoryStream

ACK_RANGES_MAX = 64
NAKS_MAX = 12
"""So often a publisher is asked for something before it is taken for gone; a word from it starts again."""


class Intake:
    """The publishers' side of one stream."""

    def __init__(self, stream_state: RepositoryStream) -> None:
        self.stream_state = stream_state
        self._acks: dict[tuple[str, int], None] = {}
        self._gapped: dict[tuple[str, int], None] = {}
        """Lives of publishers of which something may be missing: those that an order was heard of lately."""
        self._held: deque[Order | str] = deque(maxlen=stream_state.config.orders_max)
        """Orders that wait, and publishers of whom a message came while some did: they are dealt with in this order."""

    # ---------------------------------------------------------------------------------------------------- what is said

    def on_open(self, event: Open) -> Effects:
        stream_state = self.stream_state
        if event.steering != stream_state.name or not stream_state.serving:
            return []
        why = stream_state.refusal(event.publisher, "publish")
        if why:
            return [stream_state.say_to(event.publisher, self._refusal(why))]
        known = stream_state.chains.get((event.publisher, event.life))
        if known is not None:
            # The answer got lost; or the life was given twice, which the driver must not do.
            last = known.after
        else:
            last = stream_state.past(event.publisher, event.life)
        taken = max((life for life in stream_state.lives.get(event.publisher, ()) if life != event.life), default=0)
        opened = Opened(stream_state.stream, stream_state.name, event.life, last, taken)
        return [stream_state.say_to(event.publisher, opened)]

    def on_order(self, event: Order, now: float) -> Effects:
        if self._must_wait():
            self._held.append(event)
            return []
        return [*self._take_held(now, 1 << 62), *self._take_order(event, now)]

    def _must_wait(self) -> bool:
        """Whether what comes is dealt with later.

        What was missed comes first: until that is known, nothing gets a sequence number. And while a full commit
        waits for its turn, more of it would only make everybody wait longer for the acknowledgement; but what cannot
        be kept waiting is taken, however much it is.
        """
        stream_state, config = self.stream_state, self.stream_state.config
        if stream_state.phase == "learning":
            return True
        if not self._held and stream_state.staged_bytes < config.commit_bytes_max:
            return False
        return len(self._held) < config.orders_max and 2 * stream_state.pieces.bytes < config.buffer_bytes_max

    def resume(self, now: float) -> Effects:
        """There is room in the next commit, or what was missed is known: what has waited may follow."""
        if self.stream_state.phase in ("leaving", "left"):
            self._held.clear()
        return self._take_held(now, self.stream_state.config.commit_bytes_max)

    def _take_held(self, now: float, bytes_max: int) -> Effects:
        """Take what has waited, in the order in which it came, until so much is staged."""
        effects: Effects = []
        while self._held and self.stream_state.staged_bytes < bytes_max:
            event = self._held.popleft()
            if isinstance(event, Order):
                effects += self._take_order(event, now)
            else:
                self._match_all(event, now)
        return effects

    def _take_order(self, event: Order, now: float) -> Effects:
        chain, effects = self._chain_of(event)
        if chain is None:
            return effects
        chain.low, chain.high = max(chain.low, event.low), max(chain.high, event.high)
        for run in event.runs:
            if run.count < 1 or run.number < 1:
                continue
            if not chain.taken.new_part(run.number, run.number + run.count - 1):
                # A repeat is acknowledged again: the first acknowledgement may have been lost.
                self.stream_state.pieces.discard(event.publisher, run.seq, run.count, run.crc)
                chain.ack_due = True
            elif run.number in chain.orders or len(chain.orders) < self.stream_state.config.orders_max:
                chain.orders[run.number] = run
        self._match(chain, now)
        self._note_ack(chain)
        return effects

    def on_retransmit(self, event: Retransmit, now: float) -> Effects:
        if self.stream_state.phase == "learning":
            return []
        chain, effects = self._chain_of(event)
        if chain is None:
            return effects
        last = event.number + event.batch.count - 1
        chain.high = max(chain.high, last)
        self.stream_state.take(chain, event.number, event.batch, now)
        self._forget_orders(chain)
        self._note_ack(chain)
        return effects

    def on_message(self, batch: Batch, now: float) -> Effects:
        """A message on a topic of the stream: it waits for its order, if that is not here already."""
        self.stream_state.pieces.add(batch)
        if self.stream_state.phase == "learning":
            return []
        if self._held and self._must_wait():
            self._held.append(batch.publisher)
            return []
        effects = self._take_held(now, 1 << 62)
        self._match_all(batch.publisher, now)
        return effects

    def _match_all(self, publisher: str, now: float) -> None:
        for life in self.stream_state.lives.get(publisher, ()):
            chain = self.stream_state.chains[publisher, life]
            if chain.orders:
                self._match(chain, now)
                self._note_ack(chain)

    def _chain_of(self, event: Order | Retransmit) -> tuple[Chain | None, Effects]:
        stream_state = self.stream_state
        why = stream_state.refusal(event.publisher, "publish")
        if why:
            speaks = event.steering == stream_state.name and stream_state.serving
            return None, [stream_state.say_to(event.publisher, self._refusal(why))] if speaks else []
        chain = stream_state.chain(event.publisher, event.life, event.after)
        if chain is None:
            full = len(stream_state.chains) >= stream_state.config.chains_max
            why = f"{stream_state.name} remembers as many publishers of {stream_state.stream} as it can"
            speaks = full and event.steering == stream_state.name and stream_state.serving
            return None, [stream_state.say_to(event.publisher, self._refusal(why))] if speaks else []
        chain.steering = event.steering
        chain.naks = 0
        self._gapped[chain.publisher, chain.life] = None
        return chain, []

    def _refusal(self, why: str) -> Refusal:
        return Refusal(self.stream_state.stream, self.stream_state.name, "publish", why)

    # -------------------------------------------------------------------------------------------------------- matching

    def _match(self, chain: Chain, now: float) -> None:
        """Take the messages whose order is here; in their own order, so that as few places as possible are needed."""
        stream_state = self.stream_state
        for number in sorted(chain.orders):
            run = chain.orders[number]
            batch = stream_state.pieces.take(chain.publisher, run.seq, run.count, run.crc)
            if batch is None:
                continue
            if stream_state.take(chain, number, batch, now, run.crc):
                del chain.orders[number]
            else:
                stream_state.pieces.add(batch)
                return
        self._forget_orders(chain)

    def tidy(self) -> None:
        """Messages came another way: their orders wait no longer."""
        for chain in self.stream_state.chains.values():
            if chain.orders:
                self._forget_orders(chain)

    def _forget_orders(self, chain: Chain) -> None:
        taken = chain.taken
        for number in [one for one, run in chain.orders.items() if _is_taken(taken.prefix, run)]:
            run = chain.orders.pop(number)
            self.stream_state.pieces.discard(chain.publisher, run.seq, run.count, run.crc)
        for number, run in list(chain.orders.items()):
            if not taken.new_part(number, number + run.count - 1):
                del chain.orders[number]
                self.stream_state.pieces.discard(chain.publisher, run.seq, run.count, run.crc)

    # ------------------------------------------------------------------------------------------------ acknowledgements

    def _note_ack(self, chain: Chain) -> None:
        if chain.ack_due and chain.steering == self.stream_state.name:
            self._acks[chain.publisher, chain.life] = None

    def note_stored(self, rows: Iterable[Row]) -> None:
        """A commit is done: whoever waits for it is told."""
        for who in {(row.publisher, life_of(row.cat)): None for row in rows}:
            chain = self.stream_state.chains.get(who)
            if chain is not None:
                self._note_ack(chain)

    def note_all(self) -> None:
        """We serve from now on: whoever has waited for that is told."""
        for chain in self.stream_state.chains.values():
            self._note_ack(chain)

    def acks(self, covers: list[int]) -> Effects:
        """Acknowledge what is stored; `covers` says up to which of our sequence numbers each other repository is."""
        stream_state = self.stream_state
        if not stream_state.serving:
            return []
        effects: Effects = []
        for who in self._acks:
            chain = stream_state.chains.get(who)
            if chain is None or chain.steering != stream_state.name:
                continue
            chain.ack_due = False
            chain.said = self._upto(chain, covers)
            ranges = tuple(chain.settled.ranges()[:ACK_RANGES_MAX])
            level = stream_state.config.level
            ack = PublisherAck(stream_state.stream, stream_state.name, chain.life, level, chain.said, ranges)
            effects.append(stream_state.say_to(chain.publisher, ack))
        self._acks.clear()
        return effects

    def _upto(self, chain: Chain, covers: list[int]) -> tuple[int, ...]:
        prefix = chain.settled.prefix
        others = sorted((min(prefix, chain.covered(cover)) for cover in covers), reverse=True)
        return (prefix, *others)

    def on_covers(self, covers: list[int]) -> None:
        """Other repositories have caught up: more copies count."""
        name, least = self.stream_state.name, min(covers, default=0)
        for chain in self.stream_state.chains.values():
            if not chain.copies and chain.everywhere[1] <= least:
                continue
            if chain.steering == name and self._upto(chain, covers) != chain.said:
                chain.ack_due = True
                self._note_ack(chain)
            if covers:
                chain.forget_copies(least)

    # --------------------------------------------------------------------------------------------------- asking again

    def naks(self) -> Effects:
        """Ask the publishers that we steer for what is missing."""
        stream_state = self.stream_state
        if not stream_state.serving:
            return []
        effects: Effects = []
        for chain, missing in self._asked():
            chain.naks += 1
            nak = PublisherNak(stream_state.stream, stream_state.name, chain.life, tuple(missing[:ACK_RANGES_MAX]))
            effects.append(stream_state.say_to(chain.publisher, nak))
        return effects

    def wants(self) -> bool:
        """Whether something is missing for which a publisher can be asked."""
        return bool(self._gapped) and bool(self._asked())

    def _asked(self) -> list[tuple[Chain, list[Range]]]:
        """Whom to ask for what; those of whom nothing is missing are looked at again when they say something."""
        found = []
        for who in list(self._gapped):
            chain = self.stream_state.chains.get(who)
            missing = chain.missing() if chain is not None else []
            if chain is None or not missing or chain.naks >= NAKS_MAX or chain.steering != self.stream_state.name:
                del self._gapped[who]
            else:
                found.append((chain, missing))
        return found


def _is_taken(prefix: int, run: Run) -> bool:
    return run.number + run.count - 1 <= prefix
