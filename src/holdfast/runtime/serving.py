"""A server as a process, whatever it serves: its settings come as JSON, it runs until a signal, and has an exit code.

0 after an orderly stop, 1 if it failed, 2 if it could not begin, with one sentence on stderr.
"""

import sys
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

import msgspec

from holdfast.model.errors import ConfigError, LocalMisuse
from holdfast.runtime.logs import install
from holdfast.runtime.process import run

EXIT_STOPPED, EXIT_FAILED, EXIT_MISUSE = 0, 1, 2


class ServerSettings(Protocol):
    """What the settings of every server have."""

    @property
    def log(self) -> str: ...

    @property
    def log_level(self) -> str: ...


S = TypeVar("S", bound=ServerSettings)


def run_server(
    settings: S, serve: Callable[[S], Coroutine[Any, Any, int]], what: str, complain: Callable[[str], object] | None
) -> int:
    """Serve until a signal ends it; returns the exit code. `complain` gets the sentence of exit code 2."""
    try:
        install(settings.log, settings.log_level)
        return run(serve(settings))
    except LocalMisuse as misuse:
        (complain or complainer(what))(str(misuse))
        return EXIT_MISUSE


def complainer(what: str) -> Callable[[str], object]:
    """Writes a sentence to stderr, under the name of the command."""
    return lambda sentence: sys.stderr.write(f"holdfast {what}: {sentence}\n")


def settings_from_json(text: str, kind: type[S], what: str) -> S:
    """The settings in a JSON text, or a sentence that names the key at fault."""
    try:
        return msgspec.json.decode(text.encode(), type=kind)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"the {what}'s settings are not what they should be: {error}") from None


def main_of(arguments: list[str], kind: type[S], what: str, serve: Callable[[S], int]) -> int:
    """The settings are the first argument; returns the exit code."""
    try:
        settings = settings_from_json(arguments[0], kind, what)
    except ConfigError as error:
        complainer(what)(str(error))
        return EXIT_MISUSE
    return serve(settings)
