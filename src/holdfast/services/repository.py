"""A repository as a service: the pure machine over a client's session, a store behind a thread of its own.

What the machine wants stored is collected on the event loop and committed in the thread, one commit at a time: whatever
comes while the disk is busy is in the next commit. A small commit that need not wait for the disk is made at once. A
session that is lost is opened anew; the machine goes on.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic, time_ns
from typing import Any, TypeVar

import msgspec

from holdfast.client import Client, connect
from holdfast.client.listening import Listener
from holdfast.client.participants import ParticipantDriver
from holdfast.model.batches import Batch
from holdfast.model.errors import Definite, HoldfastError, LocalMisuse
from holdfast.model.reliable import Entry, Level
from holdfast.protocols.narada import Repository, RepositoryConfig
from holdfast.protocols.narada import participant as effects
from holdfast.protocols.narada.damaged_messages import Harm
from holdfast.protocols.narada.directory import ASKING_TOPIC, answer
from holdfast.runtime.logs import ProcessLog
from holdfast.runtime.process import new_incarnation
from holdfast.services.housekeeping import Housekeeping
from holdfast.services.inspection import Inspection, entries_of, settle_lost
from holdfast.services.repository_settings import RepositorySettings
from holdfast.storage.stores import Store, StoreAway, StoreError, open_store, shown_url

T = TypeVar("T")

RECONNECT_S = 0.5
REOPEN_S = 1.0
"""So long is waited before a store that was away is asked again."""
LEARN_S = 1.5
"""How long one that begins waits for another to learn from: longer than a busy machine takes to answer."""
LIGHT_BYTES_MAX = 1 << 17
"""A commit of so little is made at once, if it need not wait for the disk."""
CORRECTION_NS = 50_000_000
"""A wall clock that has moved by more than this was put right; less may be that somebody looked at it late."""
STATUS_BYTES_MAX = 1 << 19
"""What is told to whoever asks which streams there are; a longer status is not told, and `/status` still has it."""


class RepositoryService:
    """A repository inside the current event loop. `open`, then `serve` until `stop`, or `close` at any time."""

    def __init__(self, settings: RepositorySettings) -> None:
        if not settings.streams:
            raise LocalMisuse(f"repository {settings.name} is to keep nothing: name at least one stream.")
        self.settings = settings
        self._log = ProcessLog("holdfast.repository", node=settings.name)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._loop = asyncio.get_running_loop()
        self._writes: list[Callable[[Store], None]] = []
        self._write_bytes = 0
        self._under_way = 0
        """What the thread was asked for and has not answered: while that is 0, the store is nobody else's."""
        self._stopped = asyncio.Event()
        self._client: Client | None = None
        self._store: Store | None = None
        self._failure: BaseException | None = None
        self._away: StoreAway | StoreError | None = None
        """Why the store cannot be asked at present."""
        self._has_ended = asyncio.Event()
        """Set when it is to stop, or its store is away."""
        self._inspection: Inspection | None = None
        self._housekeeping: Housekeeping | None = None
        self._wall_ns = 0
        """The wall clock minus the one that the machine is told."""
        self.commits = 0
        self.opening_s = 0.0
        """How long it took to open the store and to get a session, before it could take part."""
        config = RepositoryConfig(settings.name, settings.level, learn_s=LEARN_S)
        self.machine = Repository(config, settings.streams, new_incarnation())

    # ---------------------------------------------------------------------------------------------------- beginning

    async def open(self) -> "RepositoryService":
        """Open the store, connect, and begin to take part."""
        began = monotonic()
        await self._restore()
        self._client = await self._connect()
        self.opening_s = monotonic() - began
        await self._begin(self._client)
        return self

    async def _restore(self) -> None:
        """Open the store; the machine is what its pairs say."""
        settings = self.settings
        store: Store = await self._in_thread(lambda: opened(settings.store_url, settings.level))
        self._store = store
        restored = await self._in_thread(lambda: dict(store.items()))
        lost: list[str] = await self._in_thread(store.lost)
        for what in lost:
            self._log.warning("the store has lost something: a sibling has it, if there is one", what=what)
        self.machine = Repository(self.machine.config, settings.streams, new_incarnation(), restored)
        await self._in_thread(lambda: self._adopt(store, bool(lost)))
        # With the first commit, which also says that nobody is to trust our earlier numbers.
        self._writes, self._write_bytes = [settle_lost] if lost else [], 0

    async def _begin(self, client: Client) -> None:
        """Take part, with what is in the store."""
        settings, store = self.settings, self._open_store()
        self._driver = ParticipantDriver(client, self.machine, self._handlers(), self._log, self._tell_time)
        await self._listen_for_questions()
        self.enter(lambda: self.machine.start(monotonic(), time_ns()))
        for registration in settings.owners:
            self.enter(partial(self.machine.register, registration))
        self._housekeeping = Housekeeping(self.machine, store, settings.retention, self._in_thread, self.enter)
        self._housekeeping.start(partial(self._fail, self.machine))
        url = settings.store_url
        if not url.startswith("memory:"):
            self._inspection = Inspection(url, settings.inspect_s, settings.streams, self._harmed, self._log)
            self._inspection.start()

    def _tell_time(self) -> None:
        wall_ns = time_ns() - int(monotonic() * 1e9)
        if abs(wall_ns - self._wall_ns) > CORRECTION_NS:
            self._wall_ns = wall_ns
            self.machine.set_clock(wall_ns)

    def _adopt(self, store: Store, lost: bool) -> None:
        """What the store has and its pairs do not tell of: the youngest commits were lost, or were mended by hand."""
        for stream in self.machine.streams:
            if lost or self.machine.knows_less(stream, store.bounds(stream)[1]):
                self.machine.adopt(stream, entries_of(store, stream))

    def _harmed(self, stream: str, harms: list[Harm]) -> None:
        self.enter(lambda: self.machine.harmed(stream, harms, monotonic()))

    def _inspect(self, effect: effects.Inspect) -> None:  # noqa: ARG002 - the whole store is looked at
        if self._inspection is not None:
            self._inspection.ask()

    def _handlers(self) -> dict[type, Callable[[Any], object]]:
        return {
            effects.Append: self._append,
            effects.Mend: self._mend,
            effects.Discard: self._discard,
            effects.Put: self._put,
            effects.Commit: self._commit,
            effects.Read: self._read,
            effects.Find: self._find,
            effects.Inspect: self._inspect,
            effects.Locate: self._locate,
        }

    async def _connect(self) -> Client:
        settings = self.settings
        return await connect(settings.addresses, name=settings.name, cluster=settings.cluster)

    async def _listen_for_questions(self) -> None:
        """Clients ask which streams there are."""
        client = self._client
        assert client is not None

        def hear(batch: Batch) -> None:
            status = msgspec.json.encode(self.status(), enc_hook=str)
            if len(status) > STATUS_BYTES_MAX:
                status = b""
            for payload in batch.payload_list():
                said = answer(
                    payload, self.settings.name, self.serving(), status if len(status) <= STATUS_BYTES_MAX else b""
                )
                if said is not None:
                    client.publish_nowait(*said, 0)

        await client.subscribe_as(Listener(client, ASKING_TOPIC, hear))

    # ---------------------------------------------------------------------------------------------------- the store

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await self._begun(work)

    def _begun(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Work that the thread has begun, or will when it is done with what it was given before."""
        asked = self._loop.run_in_executor(self._thread, work)
        self._under_way += 1
        asked.add_done_callback(self._ended)
        return asked

    def _ended(self, _: "asyncio.Future[Any]") -> None:
        self._under_way -= 1

    async def in_store(self, work: Callable[[Store], T]) -> T:
        """What somebody who only reads finds in the store. It has its turn among the commits: let it be short."""
        store = self._store
        if store is None:
            raise Definite(f"repository {self.settings.name} has not opened its store yet; ask again.")
        found: T = await self._in_thread(lambda: work(store))
        return found

    def _open_store(self) -> Store:
        if self._store is None:
            raise LocalMisuse(f"repository {self.settings.name} was not opened.")
        return self._store

    def _append(self, effect: effects.Append) -> None:
        self._write_bytes += sum(entry.batch.cost_bytes for entry in effect.entries)
        self._writes.append(lambda store: store.append(effect.stream, effect.entries))

    def _mend(self, effect: effects.Mend) -> None:
        self._writes.append(lambda store: store.mend(effect.stream, effect.entries))

    def _discard(self, effect: effects.Discard) -> None:
        self._writes.append(lambda store: store.forget(effect.stream, effect.before))

    def _put(self, effect: effects.Put) -> None:
        self._writes.append(lambda store: store.put(effect.key, effect.value))

    def _commit(self, effect: effects.Commit) -> None:
        writes, self._writes = self._writes, []
        size_bytes, self._write_bytes = self._write_bytes, 0
        store = self._open_store()

        def commit() -> None:
            for write in writes:
                write(store)
            store.commit(effect.level)

        self.commits += 1
        waits = effect.level is Level.FSYNCED or size_bytes > LIGHT_BYTES_MAX
        if waits or self._under_way or not store.is_light(size_bytes):
            self._ask(commit, lambda _: self.machine.stored(effect.token, monotonic()))
            return
        # Waking the thread, and being woken by it, would take longer than the commit.
        try:
            commit()
        except HoldfastError as error:
            self._fail(self.machine, error)
        else:
            # In a turn of its own, so that what it sets off is settled.
            self._loop.call_soon(self.enter, lambda: self.machine.stored(effect.token, monotonic()))

    def _read(self, effect: effects.Read) -> None:
        store = self._open_store()

        def read() -> tuple[list[Entry], int]:
            entries = store.read(effect.stream, effect.first, effect.last, effect.bytes_max)
            return entries, store.bounds(effect.stream)[0]

        self._ask(read, lambda found: self.machine.fetched(effect.token, found[0], found[1], monotonic()))

    def _find(self, effect: effects.Find) -> None:
        store = self._open_store()

        def find() -> tuple[list[Entry], int]:
            cats = (effect.cat_first, effect.cat_last)
            entries = store.by_identity(effect.stream, effect.publisher, *cats, effect.bytes_max)
            return entries, store.bounds(effect.stream)[0]

        self._ask(find, lambda found: self.machine.fetched(effect.token, found[0], found[1], monotonic()))

    def _locate(self, effect: effects.Locate) -> None:
        store = self._open_store()
        self._ask(
            lambda: store.at_time(effect.stream, effect.time_ns),
            lambda number: self.machine.located(effect.token, number, monotonic()),
        )

    def _ask(self, work: Callable[[], Any], then: Callable[[Any], effects.Effects]) -> None:
        """Have the thread do something, and give the machine the answer. A store that fails ends the repository."""
        asked, machine = self._begun(work), self.machine

        def done(answered: "asyncio.Future[Any]") -> None:
            if answered.cancelled():
                return
            error = answered.exception()
            if error is not None:
                self._fail(machine, error)
            elif machine is self.machine:
                self.enter(lambda: then(answered.result()))

        asked.add_done_callback(done)

    def _fail(self, machine: Repository, error: BaseException) -> None:
        """The store has failed under this machine; if there is another one by now, that is over."""
        if machine is not self.machine or self._store is None:
            return
        if isinstance(error, StoreAway):
            self._away = self._away or error
            self._has_ended.set()
            return
        self._failure = error
        if isinstance(error, HoldfastError):
            self._log.error("the store failed", reason=str(error))
        else:
            self._log.error("the store failed", error)
        self.stop()

    # --------------------------------------------------------------------------------------------------------- life

    def enter(self, entry: Callable[[], effects.Effects]) -> None:
        """Give the machine a command."""
        self._driver.enter(entry)

    def serving(self) -> list[str]:
        """The streams whose clients it may steer now."""
        if self._store is None:
            return []
        return [stream for stream, managed in self.machine.streams.items() if managed.stream_state.serving]

    def status(self) -> dict[str, object]:
        broker = self._client.broker if self._client is not None else ""
        inspection = self._inspection
        return {
            "name": self.settings.name,
            "broker": broker,
            "store": shown_url(self.settings.store_url),
            "level": str(self.settings.level),
            "ready": self.ready(),
            "commits": self.commits,
            "opening_s": self.opening_s,
            "streams": {stream: self._stream_status(stream) for stream in self.machine.streams},
            "inspection": inspection.status() if inspection is not None else {},
            "waiting_for": self._waiting_for(),
        }

    def _waiting_for(self) -> list[str]:
        if self._away is not None:
            return [f"its store: {self._away}"]
        return [*self.machine.waiting_for(), *(self._inspection.waiting_for() if self._inspection else ())]

    def _stream_status(self, stream: str) -> dict[str, object]:
        info = self._housekeeping.infos.get(stream) if self._housekeeping is not None else None
        stored = {"messages": info.messages, "bytes": info.bytes} if info is not None else {}
        return {**self.machine.streams[stream].status(), **stored}

    def ready(self) -> bool:
        return len(self.serving()) == len(self.settings.streams)

    def stop(self) -> None:
        self._stopped.set()
        self._has_ended.set()

    async def serve(self) -> None:
        """Take part until `stop`; a session that is lost, or a store that is away, is opened anew when it can be."""
        while not self._stopped.is_set():
            client = self._client
            assert client is not None
            ended = asyncio.ensure_future(client.wait_ended())
            told = asyncio.ensure_future(self._has_ended.wait())
            await asyncio.wait({ended, told}, return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            told.cancel()
            if self._stopped.is_set():
                break
            if self._away is not None:
                await self._come_back(self._away)
            else:
                await self._reconnect()
        if self._failure is not None:
            raise self._failure

    async def _reconnect(self) -> None:
        client = await self._connected()
        if client is not None:
            self._driver.attach(client)
            await self._listen_for_questions()
            self._log.info("attached again", broker=client.broker)

    async def _connected(self) -> Client | None:
        """A session, for as long as it takes; none if it is to stop."""
        while not self._stopped.is_set():
            try:
                self._client = await self._connect()
            except HoldfastError as error:
                self._log.warning("no broker takes the repository in", reason=str(error))
                await asyncio.sleep(RECONNECT_S)
            else:
                return self._client
        return None

    async def _come_back(self, error: StoreError | StoreAway) -> None:
        """The store is away: let go of everything, and begin as after a restart when it answers again."""
        await self._let_go()
        while not self._stopped.is_set():
            self._log.warning("the store is away, and asked again soon", reason=str(error))
            try:
                async with asyncio.timeout(REOPEN_S):
                    await self._stopped.wait()
            except TimeoutError:
                pass
            if self._stopped.is_set():
                return
            try:
                await self._restore()
            except (StoreAway, StoreError) as again:
                # Also while the server takes the earlier session for alive, which holds the store.
                error = self._away = again
                await self._let_go()
                continue
            client = await self._connected()
            if client is not None:
                self._away = None
                self._has_ended.clear()
                await self._begin(client)
                self._log.info("the store answers again")
            return

    async def _let_go(self) -> None:
        for part in (self._inspection, self._housekeeping):
            if part is not None:
                part.close()
        self._inspection = self._housekeeping = None
        if self._client is not None:
            await self._driver.close()
            try:
                await self._client.close()
            except HoldfastError as error:
                self._log.info("left without a goodbye", reason=str(error))
            self._client = None
        store, self._store = self._store, None
        if store is not None:
            await self._in_thread(partial(self._end_store, store))

    async def close(self) -> None:
        """Stop at once: what is not committed was not acknowledged. How far subscribers are is written down."""
        self._stopped.set()
        await self._let_go()
        self._thread.shutdown()

    def _end_store(self, store: Store) -> None:
        puts = [effect for effect in self.machine.last_words() if isinstance(effect, effects.Put)]
        if puts and self._failure is None and self._away is None:
            for put in puts:
                store.put(put.key, put.value)
            store.commit(Level.WRITTEN)
        store.close()


def opened(url: str, level: Level) -> Store:
    """The store of a repository whose acknowledgements stand for this level, with everything in it as safe as that.

    A process that was killed may have left commits that are written and not synced. What they hold is found here and
    acknowledged at once when it is sent again: as `fsynced`, which it has to be by then.
    """
    store = open_store(url)
    if level is Level.FSYNCED:
        try:
            store.commit(level)
        except BaseException:
            store.close()
            raise
    return store
