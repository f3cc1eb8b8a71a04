"""What processes that are clients share: how they begin and end, and a trace that ends before they say goodbye."""

import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from holdfast.cluster.broker_process import ATTACHED, follow_starter
from holdfast.model.errors import HoldfastError
from holdfast.model.trace import Event
from holdfast.runtime.logs import ProcessLog, install
from holdfast.runtime.process import run
from holdfast.storage.traces import TraceWriter


class ClientName(Protocol):
    """Settings of a client."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=ClientName)


def main_of_client(
    arguments: list[str], kind: type[T], log: str, serve: Callable[[T], Coroutine[Any, Any, None]]
) -> int:
    """Be the client that the settings describe, the first argument as JSON; the exit code."""
    settings = msgspec.json.decode(arguments[0], type=kind)
    if ATTACHED in arguments[1:]:
        threading.Thread(target=follow_starter, daemon=True).start()
    install()
    try:
        run(serve(settings))
    except HoldfastError as error:
        ProcessLog(log, node=settings.name).warning("ended", reason=str(error))
        return 1
    return 0


class ClientRecord:
    """A client's trace, up to the moment when everybody was done.

    A client that closes takes its subscriptions back, and nothing is owed to a subscription that was taken back: with
    those rows in it, no trace could show a loss.
    """

    def __init__(self, file: Path, *, at_once: bool = False) -> None:
        """`at_once`: each row is in the file when it is recorded, so that nobody knows more of a killed client."""
        self._writer, self._at_once = TraceWriter(file, fresh=True), at_once
        self._ended = False

    def __call__(self, event: Event) -> None:
        if not self._ended:
            self._writer.append(event)
            if self._at_once:
                self._writer.flush()

    def flush(self) -> None:
        """Let others read what was recorded so far."""
        if not self._ended:
            self._writer.flush()

    def end(self) -> None:
        """Record nothing more."""
        self._ended = True
        self._writer.close()
