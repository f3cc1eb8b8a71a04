"""Traces as files: a directory of `*.jsonl` files, or one such file.

The simulator writes a whole run into one file; of real processes each writes its own beside the others, and reading
the directory puts the histories together again.
"""

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.model.trace import Event, TraceError, decode_line, encode_line

SUFFIX = ".jsonl"
FILE_NAME = "trace.jsonl"
BUFFER_BYTES = 1 << 18


def trace_file(path: Path | str) -> Path:
    """The file that rows for `path` go to: itself if it ends in `.jsonl`, else `trace.jsonl` in that directory."""
    path = Path(path)
    return path if path.suffix == SUFFIX else path / FILE_NAME


def write_trace(path: Path | str, events: Iterable[Event]) -> Path:
    """Write a whole trace, in place of what the file held, and return the file."""
    with TraceWriter(path, fresh=True) as writer:
        writer.extend(events)
    return writer.path


def read_trace(path: Path | str) -> list[Event]:
    """Every row of a file, or of all `*.jsonl` files in a directory, ordered by run, node and index."""
    events: list[Event] = []
    for file in _files(Path(path)):
        events.extend(_read_file(file))
    events.sort(key=lambda event: (event.run, event.node, event.index))
    return events


def go_on(path: Path | str) -> int:
    """Prepare a file whose writer ended, perhaps in the middle of a line, to be appended to; the next row's index.

    Half a line at the end is removed: whoever wrote it was killed, and nothing can be known of what it would have said.
    """
    file = trace_file(path)
    try:
        content = file.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            with file.open("r+b") as cut:
                cut.truncate(len(whole))
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise TraceError(f"cannot go on with the trace {file}: {error.strerror or error}.") from None
    lines = whole.splitlines()
    return decode_line(lines[-1], len(lines), str(file)).index + 1 if lines else 0


def count_lines(path: Path | str, limit: int) -> int:
    """How many lines a trace has; counting ends soon after `limit`."""
    lines = 0
    for file in _files(Path(path)):
        with file.open("rb") as read:
            while lines < limit and (block := read.read(1 << 20)):
                lines += block.count(b"\n")
    return lines


class TraceWriter:
    """Appends rows to one file. What is buffered reaches the file on `flush`, on `close` and when the buffer is full.

    ```python
    with TraceWriter(directory / "alice.jsonl") as writer:
        writer.extend(recorder.record(time_ns, "deliver", batch))
    ```
    """

    def __init__(self, path: Path | str, fresh: bool = False, buffer_bytes: int = BUFFER_BYTES) -> None:
        """Open the file (directories are made); `fresh` empties it first."""
        self.path = trace_file(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("wb" if fresh else "ab", buffering=buffer_bytes)
        except OSError as error:
            raise TraceError(
                f"cannot write the trace to {self.path}: {error.strerror or error}; name a directory that can be "
                f"made and written to, or a file in one that ends in {SUFFIX}."
            ) from None

    def append(self, event: Event) -> None:
        self._file.write(encode_line(event))

    def extend(self, events: Iterable[Event]) -> None:
        self._file.writelines(map(encode_line, events))

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Write what is buffered and close the file; closing again does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.glob(f"*{SUFFIX}") if file.is_file())
        if not files:
            raise TraceError(f"there is no trace in the directory {path}: it has no file that ends in {SUFFIX}.")
        return files
    if not path.exists():
        raise TraceError(f"there is no trace at {path}; name a {SUFFIX} file, or a directory with such files.")
    return [path]


def _read_file(file: Path) -> list[Event]:
    source = str(file)
    try:
        with file.open("rb") as lines:
            return [decode_line(line, number, source) for number, line in enumerate(lines, 1) if not line.isspace()]
    except OSError as error:
        raise TraceError(f"cannot read the trace {file}: {error.strerror or error}.") from None
