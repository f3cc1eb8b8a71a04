"""The state of one stream at one repository: its order, the messages on their way into the store, its publishers.

The parts of the repository work on this state: `intake` puts messages into it, `dissemination` and `gossip` read it.
Sequence numbers are given here and nowhere else.
"""

import itertools
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from holdfast.model.batches import Batch
from holdfast.model.ranges import without
from holdfast.model.reliable import Entry, Level
from holdfast.protocols.narada.chains import Chain, Place
from holdfast.protocols.narada.config import RepositoryConfig
from holdfast.protocols.narada.events import (
    FORGOTTEN,
    GIVEN_UP,
    LIVES_TOLD_MAX,
    MESSAGES,
    SKIPPED,
    ControlEvent,
    Cut,
    Past,
    Registration,
    Row,
    encode,
    life_of,
    number_of,
)
from holdfast.protocols.narada.fingerprints import fingerprint
from holdfast.protocols.narada.message_buffer import MessageBuffer
from holdfast.protocols.narada.participant import Effects, Put, Say
from holdfast.protocols.narada.publisher_lives import EndedLives, Settled, settled
from holdfast.protocols.narada.rows import RowTable
from holdfast.protocols.narada.topics import inbox_topic
from holdfast.protocols.node import Report

NOTICES_MAX = 2048
_encoder = msgspec.msgpack.Encoder()


class StreamHead(Struct, array_like=True):
    """What is kept of a stream in the store, beside its publishers and subscribers."""

    era: int
    next: int
    reserved: int
    voids: list[Row]
    left: bool = False
    kept: int = 1


_head_decoder = msgspec.msgpack.Decoder(StreamHead)
_registration_decoder = msgspec.msgpack.Decoder(Registration)


class RepositoryStream:
    """The state of a stream, and how messages get their sequence numbers."""

    def __init__(self, config: RepositoryConfig, stream: str, era: int) -> None:
        self.config, self.stream, self.name, self.era = config, stream, config.name, era
        self._incarnation = era
        self.session = 0 if config.level is Level.FSYNCED else era
        """Where the disk is not waited for, every life is told apart: one may not know what an earlier one told."""
        self.phase = "learning"
        """`learning`, `filling`, `serving`, `leaving` or `left`."""
        self.restored = False
        """Whether it goes on with what an earlier process stored."""
        self.next = 1
        self.reserved = 0
        self.kept = 1
        """What lies below was forgotten by retention."""
        self.chains: dict[tuple[str, int], Chain] = {}
        self.lives: dict[str, list[int]] = {}
        self.over = EndedLives()
        self.voids: list[Row] = []
        self.table = RowTable(config.table_rows_max)
        self.notices: dict[int, Row] = {}
        """The latest rows with what it takes to find their messages in a subscriber's buffer."""
        self.table_from = self.notices_from = 1
        """From here on the table, and the notices, have everything that is stored; below it the store knows."""
        self.pieces = MessageBuffer(config.buffer_bytes_max)
        self.registration: Registration | None = None
        self.places = 0
        self.staged: list[Entry] = []
        self.staged_bytes = 0
        self._crcs: dict[int, int] = {}
        """By sequence number: the fingerprints of staged entries that were looked at when they were taken."""
        self.voided: list[Row] = []
        self.committing: list[Entry] = []
        self._committing_voids: list[Row] = []
        self._dirty: dict[str, bytes] = {}
        self._lazy: dict[str, bytes] = {}
        """What is worth no commit of its own for a while: if it is lost, something is repeated or looked at again."""
        self._dirty_chains: dict[tuple[str, int], None] = {}
        self._head_dirty = False
        self.wall_ns = 0
        """The wall clock minus the machine's clock, in nanoseconds."""

    @property
    def end(self) -> int:
        """The highest sequence number that was given."""
        return self.next - 1

    @property
    def serving(self) -> bool:
        return self.phase == "serving"

    def time_ns(self, now: float) -> int:
        """The wall clock."""
        return max(0, self.wall_ns + int(now * 1e9))

    def say_to(self, name: str, event: ControlEvent) -> Say:
        return Say(inbox_topic(self.stream, name), encode(event))

    # --------------------------------------------------------------------------------------------------------- chains

    def chain(self, publisher: str, life: int, after: Past = ()) -> Chain | None:
        """That life of that publisher; a new one if there is room, `None` if not or if it is too long ago."""
        found = self.chains.get((publisher, life))
        if found is not None and (found.after or not after):
            return found
        if after and not self._expect(publisher, after):
            return None
        if found is not None:
            found.after = after
            self._dirty_chains[publisher, life] = None
            return found
        lives = self.lives.setdefault(publisher, [])
        if len(self.chains) >= self.config.chains_max or (len(lives) >= self.config.lives_max and life < lives[0]):
            return None
        chain = self.chains[publisher, life] = Chain(publisher, life, after)
        lives.append(life)
        lives.sort()
        if len(lives) > self.config.lives_max:
            self._forget_life(publisher, lives)
        return chain

    def _forget_life(self, publisher: str, lives: list[int]) -> None:
        """The oldest life is over, unless something of it is still missing. Where it ended stays written down."""
        oldest = self.chains[publisher, lives[0]]
        if not oldest.places:
            del self.chains[publisher, lives.pop(0)]
            self.over.add(oldest)
            self._dirty[self.key("chain", publisher, str(oldest.life))] = oldest.save()

    def _expect(self, publisher: str, after: Past) -> bool:
        """What earlier lives are known to have published comes before what this one publishes; false if no room."""
        for last in sorted(after):
            before = self.chain(publisher, life_of(last))
            if before is not None and before.top < number_of(last):
                if not self.has_room():
                    return False
                self.set_aside(before, number_of(last))
        return True

    def has_room(self) -> bool:
        """Whether one more range of places may be set aside."""
        return self.places < self.config.places_max

    def set_aside(self, chain: Chain, number_last: int) -> None:
        count = number_last - chain.top
        held = len(chain.places)
        chain.set_aside(number_last, self.next)
        self.next += count
        self.places += len(chain.places) - held
        self._dirty_chains[chain.publisher, chain.life] = None

    # --------------------------------------------------------------------------------------------------------- taking

    def take(self, chain: Chain, number: int, batch: Batch, now: float, crc: int | None = None) -> bool:
        """Give what is new of these messages its sequence numbers, and stage it; false if there is no room for it.

        `crc` is their fingerprint, if it is known.
        """
        for first, last in chain.taken.new_part(number, number + batch.count - 1):
            if first > chain.top + 1:
                if not self.has_room():
                    return False
                self.set_aside(chain, first - 1)
            held = len(chain.places)
            filled = chain.cut_out(first, min(last, chain.top))
            self.places += len(chain.places) - held
            self._stage_places(chain, filled, number, batch, now, crc)
            # What is neither in a place nor above the top was given up: it comes late, at the end.
            for low, high in without((first, last), [(place.number, place.last) for place in filled]):
                place = Place(low, self.next, high - low + 1)
                self.next += place.count
                chain.top = max(chain.top, high)
                self._stage_places(chain, [place], number, batch, now, crc)
            chain.taken.add(first, last)
            self._dirty_chains[chain.publisher, chain.life] = None
        return True

    def _stage_places(
        self, chain: Chain, places: list[Place], number: int, batch: Batch, now: float, crc: int | None
    ) -> None:
        time_ns = self.time_ns(now)
        for place in places:
            start = batch.first + place.number - number
            part = batch.part(start, start + place.count - 1)
            if part is batch and crc is not None:
                self._crcs[place.first] = crc
            self.staged_bytes += part.cost_bytes
            self.staged.append(Entry(place.first, chain.cat(place.number), part, time_ns))

    def give_up(self, chain: Chain, number_first: int, number_last: int) -> int:
        """Give the places of these numbers up; how many there were."""
        held = len(chain.places)
        places = chain.cut_out(number_first, number_last)
        self.places += len(chain.places) - held
        for place in places:
            chain.give_up(place.number, place.last)
            self._void(Row(place.first, place.count, chain.publisher, chain.cat(place.number), GIVEN_UP))
            self._dirty_chains[chain.publisher, chain.life] = None
        return sum(place.count for place in places)

    def skip(self, first: int, last: int) -> None:
        """These sequence numbers will never be used."""
        self._void(Row(first, last - first + 1, "", 0, SKIPPED))

    # ------------------------------------------------------------------------------------------------------ forgetting

    def forget(self, before: int) -> None:
        """Retention has reached this sequence number: whoever asks what lay below is told that it is gone."""
        self.kept = before
        for row in [row for row in self.voids if row.publisher and row.first < before]:
            chain, gone = self.chains.get((row.publisher, life_of(row.cat))), row.part(row.first, before - 1)
            if chain is not None:
                chain.expired = max(chain.expired, number_of(gone.cat) + gone.count - 1)
                self.touch(chain)
        self.voids = [row for row in self.voids if row.last >= before]
        self.table_from = max(self.table_from, before)
        self.notices_from = max(self.notices_from, before)
        self._head_dirty = True

    def forget_life(self, publisher: str, life: int, number: int) -> None:
        """Everything up to that number of a life was forgotten."""
        chain = self.chains.get((publisher, life))
        if chain is not None:
            chain.forgotten, chain.expired = max(chain.forgotten, number), max(chain.expired, number)
            self.touch(chain)
            return
        changed = self.over.forget(publisher, life, number)
        if changed is not None:
            self.put(changed, "chain", publisher, str(life))

    def touch(self, chain: Chain) -> None:
        """Store what is known of a publisher's life with the next commit."""
        self._dirty_chains[chain.publisher, chain.life] = None

    def pass_over(self, forgotten: Cut) -> None:
        """A sibling has forgotten these, so that we will not get them there: whoever reads here is told."""
        for publisher, cat in forgotten:
            chain, number = self.chain(publisher, life_of(cat)), number_of(cat)
            if chain is None or number <= chain.top:
                continue
            self._void(Row(self.next, number - chain.top, publisher, chain.cat(chain.top + 1), FORGOTTEN))
            self.next += number - chain.top
            for tracker in (chain.taken, chain.stored, chain.settled):
                tracker.add(chain.top + 1, number)
            chain.top = chain.forgotten = number
            self.touch(chain)

    def _void(self, row: Row) -> None:
        """Nothing lies there, and nothing ever will."""
        self.voids.append(row)
        self.voided.append(row)
        self._head_dirty = True

    # -------------------------------------------------------------------------------------------------------- storing

    def key(self, *words: str) -> str:
        quoted = [word.replace("%", "%25").replace("/", "%2F") for word in (self.stream, *words)]
        return "/".join(("narada", *quoted))

    def put(self, value: bytes, *words: str) -> None:
        """Store a pair with the next commit."""
        key = self.key(*words)
        self._lazy.pop(key, None)
        self._dirty[key] = value

    def put_later(self, value: bytes, *words: str) -> None:
        """The same for a pair that may as well wait for a commit which is made for something else."""
        key = self.key(*words)
        if key in self._dirty:
            self._dirty[key] = value
        else:
            self._lazy[key] = value

    def lazy_puts(self) -> Effects:
        """What waits for a commit that is made for something else."""
        return [Put(key, value) for key, value in self._lazy.items()]

    def ripen(self) -> None:
        """What has waited for long enough is stored with the next commit."""
        self._dirty |= self._lazy
        self._lazy = {}

    def mark(self) -> None:
        """Store where the stream stands with the next commit."""
        self._head_dirty = True

    def has_changes(self) -> bool:
        return bool(self.staged or self.voided or self._dirty or self._dirty_chains or self._head_dirty)

    def changes(self, level: Level) -> tuple[list[Entry], Effects]:
        """Everything for the next commit: entries, and pairs."""
        self.committing, self.staged, self.staged_bytes = self.staged, [], 0
        self._committing_voids, self.voided = self.voided, []
        puts: Effects = []
        for who in self._dirty_chains:
            chain = self.chains.get(who)
            if chain is not None:
                puts.append(Put(self.key("chain", chain.publisher, str(chain.life)), chain.save()))
        if level is not Level.FSYNCED and self.next > self.reserved - self.config.reserve // 2:
            self.reserved = self.next + self.config.reserve
        puts.append(Put(self.key("head"), self._head()))
        self.ripen()
        puts += [Put(key, value) for key, value in self._dirty.items()]
        self._dirty, self._dirty_chains, self._head_dirty = {}, {}, False
        self.committing.sort(key=lambda entry: entry.first)
        return self.committing, puts

    def _head(self) -> bytes:
        left = self.phase in ("leaving", "left")
        return _encoder.encode(StreamHead(self.era, self.next, self.reserved, self.voids, left, self.kept))

    def committed(self) -> list[Row]:
        """The commit is done: what it made safe, as rows in order."""
        rows: list[Row] = []
        for entry in self.committing:
            chain = self.chains.get((entry.publisher, life_of(entry.cat)))
            row = notice(entry, self._crcs.pop(entry.first, None))
            rows.append(row)
            if chain is not None:
                number = number_of(entry.cat)
                chain.stored.add(number, number + entry.count - 1)
                chain.settled.add(number, number + entry.count - 1)
                chain.stored_at(number + entry.count - 1, entry.last)
                chain.ack_due = True
        rows += self._committing_voids
        rows.sort(key=lambda row: row.first)
        for row in rows:
            self.table.add(row)
            self.notices[row.first] = row
        while len(self.notices) > NOTICES_MAX:
            self.notices_from = max(self.notices_from, self.notices.pop(next(iter(self.notices))).last + 1)
        self.table_from = max(self.table_from, self.table.dropped + 1)
        self.committing, self._committing_voids = [], []
        return rows

    # ------------------------------------------------------------------------------------------------------ restoring

    def restore(self, pairs: dict[str, bytes], level: Level, now_era: int) -> None:
        """Go on with what an earlier process stored."""
        head = pairs.get(self.key("head"))
        prefix = self.key("chain") + "/"
        for key, value in pairs.items():
            if key.startswith(prefix):
                publisher, life = (
                    word.replace("%2F", "/").replace("%25", "%") for word in key[len(prefix) :].split("/")
                )
                chain = self.chains[publisher, int(life)] = Chain.restored(publisher, int(life), value)
                self.lives.setdefault(publisher, []).append(int(life))
                self.lives[publisher].sort()
                self.places += len(chain.places)
        for publisher, lives in self.lives.items():
            while len(lives) > self.config.lives_max and not self.chains[publisher, lives[0]].places:
                self.over.add(self.chains.pop((publisher, lives.pop(0))))
        said = pairs.get(self.key("registration"))
        if said:
            self.registration = _registration_decoder.decode(said)
        if head:
            self.restored = True
            self._restore_head(_head_decoder.decode(head), level, now_era)
        self.go_on()

    def go_on(self) -> None:
        """Everything is known that the store tells: what comes is behind it, and who covers the end has all of it."""
        self.table_from = self.notices_from = self.next
        for chain in self.chains.values():
            if chain.settled.highest:
                chain.copies = [(chain.settled.highest, self.end)]

    def _restore_head(self, head: StreamHead, level: Level, now_era: int) -> None:
        self.era, self.next, self.reserved, self.voids = head.era, head.next, head.reserved, head.voids
        self.kept = head.kept
        if head.left:
            # It left, or was about to: whoever meets it again meets somebody else, whose places are places once more.
            self.era, self._head_dirty = now_era, True
            places = {place.first for _, place in self.place_rows()}
            self.voids = [row for row in self.voids if row.first not in places]
        for row in self.voids:
            self.table.add(row)
        if self.reserved:
            # Numbers may have been told to others which the disk has lost: they must not be given twice.
            self.skip(self.next, self.reserved)
            self.next = self.reserved + 1
            self.reserved = 0 if level is Level.FSYNCED else self.next

    def begin_anew(self) -> None:
        """The store has lost its youngest commits: what was told of our numbers since is not true of them any more."""
        self.era = self._incarnation
        self._head_dirty = True

    def adopt(self, entry: Entry) -> bool:
        """The store has this, though the pairs that went with it may be lost; false if it does not fit in anywhere."""
        number, last = number_of(entry.cat), number_of(entry.cat_last)
        chain = self.chain(entry.publisher, life_of(entry.cat))
        if chain is None or number > chain.top + 1:
            return False
        if not chain.taken.new_part(number, last):
            return True
        held = len(chain.places)
        chain.cut_out(number, last)
        self.places += len(chain.places) - held
        for tracker in (chain.taken, chain.stored, chain.settled):
            tracker.add(number, last)
        chain.top = max(chain.top, last)
        if entry.first > self.next:
            self.skip(self.next, entry.first - 1)
        self.next = max(self.next, entry.last + 1)
        self._dirty_chains[chain.publisher, chain.life] = None
        return True

    def hear_cover(self, cover: int) -> None:
        """Another one has what lay at or below that number of ours. If we never gave it, our store has lost it."""
        if cover > self.end and self.phase == "learning":
            self.begin_anew()

    # ----------------------------------------------------------------------------------------------------- inspection

    def settled(self) -> Iterator[tuple[str, int, Settled]]:
        """Each life of each publisher, and what of it is settled."""
        yield from self.over.all()
        yield from ((publisher, life, settled(chain)) for (publisher, life), chain in self.chains.items())

    def settled_of(self, publisher: str, life: int) -> Settled:
        """The same of one life; of one that nobody has heard of, nothing is."""
        chain = self.chains.get((publisher, life))
        return self.over.get(publisher, life) if chain is None else settled(chain)

    def place_rows(self) -> Iterator[tuple[Chain, Place]]:
        for chain in self.chains.values():
            for place in chain.places:
                yield chain, place

    def status_of_places(self) -> list[tuple[str, int, int]]:
        """Publisher, life and number of each message that is missing, for people."""
        return [
            (chain.publisher, chain.life, place.number + index)
            for chain, place in self.place_rows()
            for index in range(place.count)
        ]

    def refusal(self, client: str, role: str) -> str:
        return "" if self.registration is None else self.registration.refusal(client, role)

    def past(self, publisher: str, life: int) -> Past:
        """The highest catenation number that is stored of each of that publisher's latest lives before this one."""
        earlier = [self.chains[publisher, one] for one in self.lives.get(publisher, []) if one < life]
        known = [chain.cat(chain.stored.highest) for chain in earlier if chain.stored.highest]
        return tuple(known[-LIVES_TOLD_MAX:])

    def report(self, event: str, detail: str = "") -> Report:
        return Report(event, pattern=self.stream, detail=detail)

    def check(self) -> None:
        numbers: list[tuple[int, int]] = []
        for chain in self.chains.values():
            chain.check()
            numbers += [(place.first, place.first + place.count - 1) for place in chain.places]
        numbers += [(entry.first, entry.last) for entry in (*self.staged, *self.committing)]
        numbers.sort()
        for before, after in itertools.pairwise(numbers):
            assert before[1] < after[0], f"{self.name} gave a sequence number of {before} and {after} twice"
        if numbers:
            assert numbers[-1][1] < self.next, f"{self.name} gave {numbers[-1]}, but {self.next} is next"
        held = sum(len(chain.places) for chain in self.chains.values())
        assert held == self.places, f"{self.name} counts {self.places} places and has {held}"


def notice(entry: Entry, crc: int | None = None) -> Row:
    """What a subscriber is told of an entry; `crc` is its fingerprint, if it is known."""
    batch = entry.batch
    crc = fingerprint(batch) if crc is None else crc
    return Row(entry.first, entry.count, batch.publisher, entry.cat, MESSAGES, batch.topic, batch.first, crc)
