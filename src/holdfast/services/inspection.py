"""Whether a repository's store is as it was written: looked at in the background, now and then and when asked.

A second handle reads everything in a thread of its own, so that what is being stored need not wait. What is found goes
to the machine, which gets it from a sibling, and to whoever asks for the status.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import time

from holdfast.model.errors import HoldfastError
from holdfast.model.reliable import Entry
from holdfast.protocols.narada.damaged_messages import Harm
from holdfast.runtime.logs import ProcessLog
from holdfast.storage.stores import Damage, Store, StoreAway, open_store

FIRST_S_MAX = 30.0
"""Whoever begins has other things to do first."""
AGAIN_S = 1.0
"""Between one look and the next there is at least so much time, whoever asks for it."""
SHOWN_MAX = 20
READ_BYTES = 1 << 20

Tell = Callable[[str, list[Harm]], None]


class Inspection:
    """The looks at one store. `tell` gets what is damaged of each stream."""

    def __init__(self, url: str, every_s: float, streams: tuple[str, ...], tell: Tell, log: ProcessLog) -> None:
        self._url, self._every_s, self._streams, self._tell, self._log = url, every_s, streams, tell, log
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inspection")
        self._asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.damages: list[Damage] = []
        self.inspected_at: float | None = None
        self.ended: BaseException | None = None
        """What ended the looks before anybody closed them: nobody looks any more."""

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self.ended = None if task.cancelled() else task.exception()
        if self.ended is not None:
            self._log.error("the store is not looked at any more", self.ended)

    def ask(self) -> None:
        """Something is missing in the store: look soon."""
        self._asked.set()

    async def _run(self) -> None:
        wait_s = min(self._every_s, FIRST_S_MAX) if self._every_s else None
        while True:
            try:
                async with asyncio.timeout(wait_s):
                    await self._asked.wait()
            except TimeoutError:
                pass
            self._asked.clear()
            await self._look()
            await asyncio.sleep(AGAIN_S)
            wait_s = self._every_s or None

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        before = self.damages
        try:
            self.damages = await loop.run_in_executor(self._thread, self._verified)
        except StoreAway as error:
            self._log.info("the store could not be looked at", reason=str(error))
            return
        except (HoldfastError, OSError) as error:
            self.damages = [Damage(stream="", first=0, last=0, what=str(error))]
        self.inspected_at = time()
        if self.damages and self.damages != before:
            self._log.warning("the store is damaged", count=len(self.damages), first=self.damages[0].what)
        for stream in self._streams:
            mine = [one for one in self.damages if one.stream == stream and one.first]
            self._tell(stream, [Harm(one.first, one.last, one.publisher, one.cat) for one in mine])

    def _verified(self) -> list[Damage]:
        with open_store(self._url, write=False) as store:
            return store.verify()

    def status(self) -> dict[str, object]:
        """For people: when it was looked at, and what is damaged."""
        return {
            "inspected_at": self.inspected_at,
            "count": len(self.damages),
            "damages": [_sentence(one) for one in self.damages[:SHOWN_MAX]],
        }

    def waiting_for(self) -> list[str]:
        """What nobody can put right by asking a sibling over the network."""
        if self.ended is not None:
            return [f"an operator: the store is not looked at any more ({self.ended}); restart the repository"]
        helpless = [one for one in self.damages if not (one.first and one.publisher) and not one.tail]
        if not helpless:
            return []
        command = f"holdfast store mend {self._url} --from SIBLING"
        return [f"an operator: {_sentence(helpless[0])}; stop the repository and run `{command}`"]

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)


def entries_of(store: Store, stream: str) -> Iterator[Entry]:
    """Everything that is sound of a stream, in order."""
    first, following = store.bounds(stream)
    while first < following and (some := store.read(stream, first, following, READ_BYTES)):
        yield from some
        first = some[-1].last + 1


def settle_lost(store: Store) -> None:
    """What was lost with the youngest commits will come from a sibling: it counts as dealt with."""
    for stream in store.streams():
        store.mend(stream, [])


def _sentence(damage: Damage) -> str:
    if not damage.first:
        return f"{damage.stream}: {damage.what}" if damage.stream else damage.what
    whose = f" of {damage.publisher}" if damage.publisher else ""
    return f"{damage.stream} {damage.first}..{damage.last}{whose}: {damage.what}"
