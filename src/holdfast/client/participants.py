"""Drives a participant of a reliable topic over a client's session: its effects become publications and subscriptions.

The driver's contract stands at the top of `protocols/narada/participant.py`. What a participant asks for beyond talking
and timers (releases, a store) goes to the `handlers` of whoever owns the driver.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Protocol

from holdfast.client.listening import Listener
from holdfast.client.subscriptions import Source, Subscription
from holdfast.model.batches import Attributes, Batch, Keys
from holdfast.model.errors import HoldfastError
from holdfast.model.guarantees import RANKS
from holdfast.protocols.narada.participant import Effects, Emit, Listen, Participant, Say, Unlisten
from holdfast.protocols.node import CancelTimer, Report, SetTimer
from holdfast.runtime.logs import ProcessLog
from holdfast.runtime.timers import Timers

EVENTUAL = RANKS["eventual"]
SAID_BYTES_MAX = 16 << 20
"""Control events are dropped while the session has this much that the broker did not take: they may get lost."""

Answer = Callable[[], Effects]


class Session(Source, Protocol):
    """What a driver asks of the client whose session it uses."""

    @property
    def backlog_bytes(self) -> int: ...

    def publish_nowait(
        self, topic: str, payload: bytes, rank: int, keys: Keys = (), attributes: Attributes | None = None
    ) -> int: ...

    def publish_batch(self, batch: Batch) -> int: ...

    async def subscribe_as(self, subscription: Subscription) -> Subscription: ...


class ParticipantDriver:
    """One participant above one client. `handlers` take the effects that are the owner's to carry out.

    `before` is called before every entry point: by an owner that has something to tell the machine all the time.
    """

    def __init__(
        self,
        client: Session,
        machine: Participant,
        handlers: Mapping[type, Callable[[Any], object]],
        log: ProcessLog,
        before: Callable[[], object] | None = None,
    ) -> None:
        self._client, self._machine, self._log, self._before = client, machine, log, before
        self._loop = asyncio.get_running_loop()
        self._timers = Timers(self._loop, lambda name: self.enter(lambda: machine.timer(name, monotonic())))
        self._carry: dict[type, Callable[[Any], object]] = {
            Say: self._say,
            Emit: self.emit,
            Listen: lambda effect: self._listen(effect.pattern),
            Unlisten: lambda effect: self._unlisten(effect.pattern),
            SetTimer: lambda effect: self._timers.set(effect.name, effect.after_s),
            CancelTimer: lambda effect: self._timers.cancel(effect.name),
            Report: self._report,
            **handlers,
        }
        self._answers: deque[Answer] = deque()
        self._entering = self._settling = self._closed = False
        self._listeners: dict[str, Listener] = {}
        self._unconfirmed = 0
        self._unsaid: list[Say] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self.enter(lambda: self._machine.start(monotonic()))

    def attach(self, client: Session) -> None:
        """Go on over another session, the earlier one being lost: listen there to everything again."""
        self._client = client
        for pattern in list(self._listeners):
            self._listen(pattern)

    # ---------------------------------------------------------------------------------------------------- entering

    def enter(self, entry: Answer) -> None:
        """Call an entry point and carry out its effects; from inside of another one it waits for its turn."""
        if self._closed:
            return
        self._answers.append(entry)
        if self._entering:
            return
        self._entering = True
        if self._before is not None:
            self._before()
        try:
            while self._answers:
                for effect in self._answers.popleft()():
                    self._carry[type(effect)](effect)
        finally:
            self._entering = False
        self.settle_soon()

    def settle_soon(self) -> None:
        """Settle at the end of this turn."""
        if not self._settling:
            self._settling = True
            self._loop.call_soon(self._settle)

    def settle_now(self) -> None:
        """Settle at once: there is enough to say. Not from inside of an entry point."""
        self.enter(lambda: self._machine.settle(monotonic()))

    def _settle(self) -> None:
        # What settling sets off is settled with it: it ends when there is nothing more to say.
        if not self._closed:
            self.enter(lambda: self._machine.settle(monotonic()))
        self._settling = False

    def _hear(self, batch: Batch) -> None:
        self.enter(lambda: self._machine.heard(batch, monotonic()))

    # ----------------------------------------------------------------------------------------------------- effects

    def _say(self, effect: Say) -> None:
        if self._unconfirmed:
            # Whoever answers must be heard: it is said when what we listen to is confirmed.
            self._unsaid.append(effect)
            return
        if self._client.backlog_bytes > SAID_BYTES_MAX:
            self._log.debug("a control event was dropped: the broker takes nothing", topic=effect.topic)
            return
        with suppress(HoldfastError):
            self._client.publish_nowait(effect.topic, effect.payload, EVENTUAL)

    def emit(self, effect: Emit) -> int:
        """Publish the messages, and return the number of the first; 0 if the session is over."""
        try:
            first = self._client.publish_batch(effect.batch)
        except HoldfastError:
            return 0  # Whoever owns the driver learns it from the client, and goes on with another one or ends.
        emitted = self._machine.emitted  # type: ignore[attr-defined]  # only publishers emit
        self._answers.append(lambda: emitted(effect.token, first, monotonic()))
        return first

    def _listen(self, pattern: str) -> None:
        listener = self._listeners[pattern] = Listener(self._client, pattern, self._hear)
        self._unconfirmed += 1
        self._do(self._confirm(listener))

    async def _confirm(self, listener: Listener) -> None:
        try:
            await self._client.subscribe_as(listener)
        finally:
            self._unconfirmed -= 1
            if not self._unconfirmed:
                unsaid, self._unsaid = self._unsaid, []
                for effect in unsaid:
                    self._say(effect)

    def _unlisten(self, pattern: str) -> None:
        listener = self._listeners.pop(pattern, None)
        if listener is not None:
            self._do(listener.unsubscribe())

    def _do(self, request: Coroutine[Any, Any, object]) -> None:
        async def do() -> None:
            # A session that is lost answers nothing; what was not confirmed is asked for by timers.
            with suppress(HoldfastError):
                await request

        task = self._loop.create_task(do())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _report(self, effect: Report) -> None:
        self._log.info(effect.event, detail=effect.detail, peer=effect.peer)

    # ------------------------------------------------------------------------------------------------------- end

    async def close(self) -> None:
        """Stop at once; what was said is on its way."""
        self._closed = True
        self._timers.close()
        for pattern in list(self._listeners):
            self._unlisten(pattern)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5.0)
        for task in self._tasks:
            task.cancel()
