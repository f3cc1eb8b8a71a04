"""The host of a repository: its store, which misfortunes may befall, and what a driver does now and then.

The store in memory loses, when its repository crashes, what was not synced; half of the commits that a crash interrupts
were done and nobody was told.
"""

from random import Random
from typing import ClassVar

from holdfast.model.errors import LocalMisuse
from holdfast.model.reliable import Entry, Level, Retention
from holdfast.protocols.narada import Repository, RepositoryConfig
from holdfast.protocols.narada.damaged_messages import Harm
from holdfast.protocols.narada.participant import (
    Append,
    Commit,
    Discard,
    Effects,
    Find,
    Inspect,
    Locate,
    Mend,
    Put,
    Read,
)
from holdfast.simulation.kernel import Kernel
from holdfast.simulation.reliable.harm import EVERYTHING, HarmedStore
from holdfast.simulation.reliable.history import Discarded, Identity, ReliableHistory, identities
from holdfast.simulation.reliable.hosts import Medium, ParticipantHost
from holdfast.storage.stores import MemoryStore
from holdfast.storage.stores.expiry import STEP_BYTES, STEP_S, expired

COMMIT_S = 0.001
READ_S = 0.0005
ROUND_S = 0.2

Work = tuple[list[Append | Mend | Discard], list[Put]]
"""What one commit does."""


class RepositoryHost(ParticipantHost):
    """A repository and its store."""

    machine: Repository

    def __init__(
        self,
        config: RepositoryConfig,
        streams: list[str],
        kernel: Kernel,
        medium: Medium,
        history: ReliableHistory,
        check: bool,
        chance: Random,
        retention: Retention | None = None,
    ) -> None:
        super().__init__(config.name, kernel, medium, history, check)
        self.config, self.streams, self._chance = config, streams, chance
        self.store: MemoryStore = MemoryStore()
        self._appends: list[Append | Mend | Discard] = []
        self._puts: list[Put] = []
        self._under_way: Work | None = None
        self.retention = retention
        self.step_bytes = STEP_BYTES
        self._journal: list[Work] = []
        self._weights: dict[int, tuple[int, int]] = {}
        """By its first sequence number: the last of an entry, and what it weighs."""
        self._has_lost = False

    def make(self) -> Repository:
        if self.config.level is Level.FSYNCED:
            # As a driver does: what an interrupted commit has left will be acknowledged as synced.
            self.store.commit(Level.FSYNCED)
        machine = Repository(self.config, self.streams, self.lives, dict(self.store.items()))
        try:
            for stream in self.streams:
                if self._has_lost or machine.knows_less(stream, self.store.bounds(stream)[1]):
                    machine.adopt(stream, self.store.read(stream, 1, EVERYTHING, EVERYTHING))
        except LocalMisuse:
            # It says that it does not start, and an operator does what it says: the store is moved away.
            self._new_disk()
            return Repository(self.config, self.streams, self.lives)
        return machine

    def _begin(self) -> Effects:
        if self.retention is not None:
            self.later(ROUND_S, self._round)
        return self.machine.start(self.kernel.now, self._now_ns())

    def _now_ns(self) -> int:
        return int(self.kernel.now * 1e9)

    def crash(self) -> None:
        if self.up:
            work = self._under_way if self._under_way is not None and self._chance.random() < 0.5 else None
            self._under_way = None
            self._appends, self._puts = [], []
            if self.config.level is Level.FSYNCED:
                # Whatever an earlier life left unsynced is gone; what this one was committing is written, not synced.
                self.store.crash()
            if work is not None:
                self._apply(*work, Level.WRITTEN)
            if self.config.level is Level.FSYNCED:
                self.store.kill()
            elif self.config.level is Level.WRITTEN and self._chance.random() < 0.5:
                # Only the process dies: what was written is there.
                self.store.crash(self.store.unsynced)
            else:
                self.store.crash(self._chance.randint(0, self.store.unsynced) if self.store.unsynced else 0)
        super().crash()

    # --------------------------------------------------------------------------------------------------- misfortunes

    def lose_disk(self) -> None:
        """Crash, and come back, if ever, with nothing."""
        self.crash()
        self._new_disk()

    def _new_disk(self) -> None:
        self.store, self._has_lost = MemoryStore(), False
        self._journal, self._weights = [], {}

    def lose_commits(self, share: float) -> None:
        """Crash; the youngest commits are lost, so large a share of all, as the store says when it is opened."""
        self.crash()
        kept = self._journal[: len(self._journal) - max(1, int(share * len(self._journal)))]
        self.lose_disk()
        for work in kept:
            self._apply(*work)
        self._has_lost = True

    def lose_pairs(self, share: float) -> None:
        """Crash; so large a share of the pairs is found damaged when the store is opened, and left out."""
        self.crash()
        lost, had = [Put(key, b"") for key, _ in self.store.items() if self._chance.random() < share], self._has_lost
        self._apply([], lost)
        self._has_lost = had or bool(lost)

    def flip_bits(self, stream: str, share: float, ruin: bool = False) -> None:
        """Some of what is stored is damaged; if it is no `ruin`, nothing that no other repository has."""
        elsewhere: set[Identity] = set()
        for name, stored in self.history.stores.items():
            elsewhere |= stored if name != self.name else set()
        entries = self.store.read(stream, 1, EVERYTHING, EVERYTHING)
        shared = [one for one in entries if ruin or elsewhere.issuperset(identities(one))]
        harmed = [one for one in shared if self._chance.random() < share]
        self.store = HarmedStore(self.store, stream, [one.first for one in harmed])
        if ruin:
            self.history.ruined.update(identity for one in harmed for identity in identities(one))

    def look_after(self, stream: str) -> None:
        """Look at everything that is stored, as a driver does now and then."""
        if self.up:
            self._inspect(Inspect(stream))

    def give_up(self, stream: str, publisher: str, life: int | None = None) -> int:
        """An operator gives up what is missing of a publisher; how many messages that concerns."""
        for who, its_life, number in self.machine.streams[stream].stream_state.status_of_places():
            if who == publisher and life in (None, its_life):
                self.history.give_up((who, its_life, number))
        count, effects = self.machine.give_up(stream, publisher, life)
        self.enter(effects)
        return count

    # ---------------------------------------------------------------------------------------------------- retention

    def _round(self) -> Effects:
        """Look what has expired, as a driver does now and then, and soon again if that was not all of it."""
        effects: Effects = []
        more = False
        retention = self.retention or Retention()
        for stream in self.streams:
            unread = retention.keep_unread
            limit = self.machine.forgettable(stream, unread)
            found = expired(self.store, stream, retention, limit, self._now_ns(), self.step_bytes)
            if found is not None:
                effects += self.machine.forgotten(stream, found.before, found.whose, unread)
                more = more or found.more
        self.later(STEP_S if more else ROUND_S, self._round)
        return effects

    def _discard(self, discard: Discard) -> None:
        """Carry it out, and let the history know what went: how old it was, and what was kept with it and after it."""
        for entry in self.store.read(discard.stream, 1, discard.before - 1, EVERYTHING):
            weight = sum(size for last, size in self._weights.values() if last >= entry.first)
            age_s = self.kernel.now - entry.time_ns / 1e9
            self.history.discards.append(Discarded(self.name, tuple(identities(entry)), age_s, weight))
        self.store.forget(discard.stream, discard.before)
        self._weights = {first: (last, size) for first, (last, size) in self._weights.items() if last >= discard.before}

    # ---------------------------------------------------------------------------------------------------- the store

    def _append(self, effect: Append | Mend | Discard) -> None:
        self._appends.append(effect)

    def _put(self, effect: Put) -> None:
        self._puts.append(effect)

    def _commit(self, effect: Commit) -> None:
        self._under_way = work = (self._appends, self._puts)
        self._appends, self._puts = [], []

        def done() -> Effects:
            self._under_way = None
            self._apply(*work)
            return self.machine.stored(effect.token, self.kernel.now)

        self.later(COMMIT_S * (0.5 + self._chance.random()), done)

    def _apply(self, appends: list[Append | Mend | Discard], puts: list[Put], level: Level | None = None) -> None:
        self._journal.append((appends, puts))
        self._has_lost = False
        for append in appends:
            if isinstance(append, Discard):
                self._discard(append)
                continue
            if isinstance(append, Mend):
                self.store.mend(append.stream, append.entries)
                continue
            self.store.append(append.stream, append.entries)
            for entry in append.entries:
                self.history.committed(self.name, entry)
                self._weights[entry.first] = (entry.last, entry.batch.cost_bytes)
        for put in puts:
            self.store.put(put.key, put.value)
        self.store.commit(level or self.config.level)

    def _read(self, effect: Read) -> None:
        def done() -> Effects:
            entries: list[Entry] = self.store.read(effect.stream, effect.first, effect.last, effect.bytes_max)
            return self.machine.fetched(effect.token, entries, self.store.bounds(effect.stream)[0], self.kernel.now)

        self.later(READ_S, done)

    def _find(self, effect: Find) -> None:
        def done() -> Effects:
            entries: list[Entry] = self.store.by_identity(
                effect.stream, effect.publisher, effect.cat_first, effect.cat_last, effect.bytes_max
            )
            return self.machine.fetched(effect.token, entries, self.store.bounds(effect.stream)[0], self.kernel.now)

        self.later(READ_S, done)

    def _inspect(self, effect: Inspect) -> None:
        def done() -> Effects:
            found = [one for one in self.store.verify() if one.stream == effect.stream and one.first]
            harms = [Harm(one.first, one.last, one.publisher, one.cat) for one in found]
            return self.machine.harmed(effect.stream, harms, self.kernel.now)

        self.later(READ_S, done)

    def _locate(self, effect: Locate) -> None:
        def done() -> Effects:
            return self.machine.located(
                effect.token, self.store.at_time(effect.stream, effect.time_ns), self.kernel.now
            )

        self.later(READ_S, done)

    handlers: ClassVar = ParticipantHost.handlers | {
        Append: _append,
        Mend: _append,
        Discard: _append,
        Put: _put,
        Commit: _commit,
        Read: _read,
        Find: _find,
        Inspect: _inspect,
        Locate: _locate,
    }
