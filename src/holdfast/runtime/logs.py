"""Structured logs: one JSON object a line, with the time, the level, the event and whatever belongs to it.

Everything goes through the standard `logging` module, under the name `holdfast`, so an application that uses the client
sees and filters these records like any others; only a process of our own installs the JSON format. Handlers that know
nothing of the fields, among them the one that `logging` itself has for programs without any, print them with the event.
"""

import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import msgspec

from holdfast.model.errors import ConfigError
from holdfast.runtime.repeats import Repeats

LEVELS = ("debug", "info", "warning", "error")


class ProcessLog:
    """A logger that takes an event and its fields; `fields` given here stand in every line.

    Warnings that repeat are counted, not repeated: see `runtime.repeats`.
    """

    __slots__ = ("_fields", "_logger", "_repeats")

    def __init__(self, name: str, **fields: object) -> None:
        self._logger = logging.getLogger(name)
        self._fields = fields
        self._repeats = Repeats()

    def debug(self, event: str, **fields: object) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.WARNING):
            times = self._repeats.count(event, fields, monotonic())
            if times:
                self._write(logging.WARNING, event, {**fields, "times": times} if times > 1 else fields)

    def error(self, event: str, error: BaseException | None = None, **fields: object) -> None:
        self._write(logging.ERROR, event, fields, error)

    def _write(self, level: int, event: str, fields: dict[str, object], error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            everything = {**self._fields, **fields}
            extra = {"event": event, "fields": everything}
            self._logger.log(level, Line(event, everything), extra=extra, exc_info=error)


class Line:
    """What a record says to handlers that know nothing of its fields: a bare event tells nobody anything."""

    __slots__ = ("_event", "_fields")

    def __init__(self, event: str, fields: dict[str, object]) -> None:
        self._event, self._fields = event, fields

    def __str__(self) -> str:
        reason = str(self._fields.get("reason", ""))
        said = f": {reason}" if reason and reason not in self._event else ""
        rest = ", ".join(f"{name}={value}" for name, value in self._fields.items() if name != "reason" and value != "")
        return f"{self._event}{said} ({rest})" if rest else f"{self._event}{said}"


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object; fields of ours keep their types, whatever else they hold becomes text."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", None) or record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def install(path: str = "", level: str = "info") -> logging.Handler:
    """Send this process's Holdfast records as JSON lines to the file, or to stderr without one."""
    if level not in LEVELS:
        raise ConfigError(f"unknown log level {level!r}: choose one of {', '.join(LEVELS)}")
    handler: logging.Handler
    if path:
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            handler = logging.FileHandler(path, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"the log file {path} cannot be written: {error.strerror}") from None
    else:
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("holdfast")
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
    return handler
