"""The thread in which callbacks of a client without asyncio are called: there they may block, and use the client."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from holdfast.runtime.logs import ProcessLog


class CallbackThread:
    """Calls what it is given, one call after the other. What a callback raises is logged."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[Any], object], object] | None] = SimpleQueue()
        self._log = ProcessLog("holdfast.client")
        self._thread = threading.Thread(target=self._run, name="holdfast-callbacks", daemon=True)
        self._thread.start()

    def calling(self, callback: Callable[[Any], object]) -> Callable[[Any], None]:
        """The callback, as one that returns at once and is called here."""
        return lambda what: self._calls.put((callback, what))

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            callback, what = call
            try:
                callback(what)
            except Exception as error:  # noqa: BLE001
                self._log.error("a callback of the application raised", error)

    def close(self) -> None:
        """Call what was to be called, then end; a callback that closes the client does not wait for itself."""
        self._calls.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()
