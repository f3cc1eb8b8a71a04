"""A recording: the messages that a client received, in their order, numbered from 0, in append-only segment files.

```
orders/
  00000000000000000000.log     frames one after the other; the name is the position of the first message
  00000000000000000000.index   pairs (position, byte) of every so many bytes: hints, never needed to be right
  lock                         held by whoever writes
```

A message that is in a complete frame is recorded. Whoever is killed while writing leaves at most an incomplete frame at
the end of the last segment; the next writer cuts it off, and readers stop in front of it. Positions have no gaps, and a
position that was on disk (`flush`) means the same message for ever.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct as Layout
from types import TracebackType
from typing import Self

from holdfast.model.batches import Message
from holdfast.model.errors import LocalMisuse
from holdfast.storage.files import sync_directory, write_all
from holdfast.storage.frames import HEADER, Frame, FrameBuilder, Read, decode_frame, encode_frame, read_header
from holdfast.storage.locks import Locked, hold

SEGMENT_BYTES_MAX = 128 << 20
FRAME_COUNT_MAX = 1 << 16
FRAME_BYTES_MAX = 4 << 20
"""A frame is closed when it has as many messages or, without their keys and attributes, as many bytes."""
INDEX_EVERY_BYTES = 1 << 18
READ_BYTES = 1 << 20

_LOG, _INDEX = ".log", ".index"
_ENTRY = Layout("<QQ")


class RecordingError(LocalMisuse, ValueError):
    """Raised when a recording cannot be read or written: it says which and what would have been legal."""


class RecordingWriter:
    """Appends messages. What is buffered is on disk after `flush`, which returns the position behind it.

    ```python
    with RecordingWriter("orders") as writer:
        async for messages in subscription.batches():
            writer.append(messages, time.time_ns())
            writer.flush()
    ```
    """

    def __init__(self, path: Path | str, segment_bytes_max: int = SEGMENT_BYTES_MAX) -> None:
        """Open the recording in this directory, which is made if needed; one process at a time may."""
        self.path = Path(path)
        self._segment_bytes_max = segment_bytes_max
        self._builder = FrameBuilder()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = hold(self.path / "lock")
        except OSError as error:
            raise RecordingError(
                f"cannot record to {self.path}: {error.strerror or error}; name a directory that can be made."
            ) from None
        except Locked:
            raise RecordingError(
                f"{self.path} is being written by another process; end it first, or record to another directory."
            ) from None
        self.next_position = self._open_last_segment()

    @property
    def pending(self) -> int:
        """How many messages are buffered."""
        return self._builder.count

    def append(self, messages: Sequence[Message], time_ns: int) -> None:
        """Take messages that were received at this time; full frames are written, the rest waits for `flush`."""
        for message in messages:
            self._builder.add(message, time_ns)
            if self._builder.count >= FRAME_COUNT_MAX or self._builder.payload_bytes >= FRAME_BYTES_MAX:
                self._write_frame()

    def flush(self, sync: bool = True) -> int:
        """Write what is buffered, and with `sync` wait until the disk has it; the position of the next message."""
        if self._builder.count:
            self._write_frame()
        if sync:
            os.fdatasync(self._log.fileno())
        return self.next_position

    def close(self) -> None:
        """Write what is buffered and let others write; closing again does nothing."""
        if self._lock.closed:
            return
        try:
            self.flush()
        finally:
            self._log.close()
            self._index.close()
            self._lock.close()

    def _open_last_segment(self) -> int:
        segments = _segments(self.path)
        first = segments[-1] if segments else 0
        end, end_byte = _scan(self.path, first) if segments else (0, 0)
        self._open_segment(first)
        # Behind a frame that nobody finished nothing could be found again.
        self._log.truncate(end_byte)
        entries = [entry for entry in _index_entries(self.path, first) if entry[1] < end_byte]
        self._index.truncate(len(entries) * _ENTRY.size)
        self._bytes, self._indexed_bytes = end_byte, entries[-1][1] if entries else 0
        return end

    def _open_segment(self, first: int) -> None:
        self._first = first
        self._log = _segment(self.path, first).open("ab", buffering=0)
        self._index = _segment(self.path, first, _INDEX).open("ab", buffering=0)
        self._bytes = self._indexed_bytes = 0
        sync_directory(self.path)

    def _write_frame(self) -> None:
        count = self._builder.count
        data = encode_frame(self.next_position, count, self._builder.take())
        if self._bytes and self._bytes + len(data) > self._segment_bytes_max:
            os.fdatasync(self._log.fileno())
            self._log.close()
            self._index.close()
            self._open_segment(self.next_position)
        write_all(self._log.fileno(), data)
        if self._bytes - self._indexed_bytes >= INDEX_EVERY_BYTES:
            self._index.write(_ENTRY.pack(self.next_position, self._bytes))
            self._indexed_bytes = self._bytes
        self._bytes += len(data)
        self.next_position += count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Recording:
    """Reads a recording, also while it is written: what is there when it is asked."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        if not is_recording(self.path):
            raise RecordingError(
                f"there is no recording in {self.path}: it has no segment file; make one with `holdfast sub --record`."
            )

    def first(self) -> int:
        """The position of the oldest message that is still there."""
        return _segments(self.path)[0]

    def end(self) -> int:
        """The position behind the newest message."""
        return _scan(self.path, _segments(self.path)[-1])[0]

    def frames(self, start: int, end: int) -> Iterator[Frame]:
        """The frames that hold some message of start..end-1, in their order.

        Raises `RecordingError` if one of these messages is not there: it was removed, or its frame is damaged.
        """
        if start >= end:
            return
        segments = _segments(self.path)
        if start < segments[0]:
            raise RecordingError(
                f"messages {start}..{segments[0] - 1} of {self.path} were removed; the oldest left is {segments[0]}."
            )
        next_position = start
        for at, first in enumerate(segments):
            following = segments[at + 1] if at + 1 < len(segments) else None
            if first >= end or (following is not None and following <= start):
                continue
            for frame in _frames_of(self.path, first, start, end):
                next_position = frame.first + frame.count
                yield frame
        if next_position < end:
            raise RecordingError(
                f"message {next_position} of {self.path} cannot be read: its segment ends before it or is damaged."
            )


def is_recording(path: Path) -> bool:
    """Whether the directory holds a recording, be it an empty one."""
    return path.is_dir() and bool(_segments(path))


# ---------------------------------------------------------------------------------------------------------- segments


def _segment(path: Path, first: int, suffix: str = _LOG) -> Path:
    return path / f"{first:020d}{suffix}"


def _segments(path: Path) -> list[int]:
    """The first positions of the segments, in order."""
    return sorted(int(file.stem) for file in path.glob(f"*{_LOG}") if file.stem.isdecimal())


def _index_entries(path: Path, first: int) -> list[tuple[int, int]]:
    try:
        data = _segment(path, first, _INDEX).read_bytes()
    except FileNotFoundError:
        return []
    return list(_ENTRY.iter_unpack(data[: len(data) - len(data) % _ENTRY.size]))


def _scan(path: Path, first: int) -> tuple[int, int]:
    """Where the segment's complete frames end: the position and the byte behind them."""
    with _segment(path, first).open("rb") as file:
        # A hint whose frame is not there was younger than what a machine without power kept: then an older one.
        for hint in reversed(_hints(path, first)):
            position, byte = hint
            file.seek(byte)
            while (found := _next_frame(file.read, position)) is not None:
                position, byte = position + found[0], byte + HEADER.size + len(found[1])
            if (position, byte) != hint:
                return position, byte
    return first, 0


def _hints(path: Path, first: int) -> list[tuple[int, int]]:
    return [(first, 0), *_index_entries(path, first)]


def _next_frame(read: Read, position: int) -> tuple[int, bytes] | None:
    """How many messages the next frame has, and its body, if it is complete, sound and begins at this position."""
    header = read_header(read(HEADER.size))
    if header is None or header.first != position:
        return None
    body = read(header.body_bytes)
    return (header.count, body) if header.fits(body) else None


def _frames_of(path: Path, first: int, start: int, end: int) -> Iterator[Frame]:
    position, byte = max(hint for hint in _hints(path, first) if hint[0] <= max(start, first))
    with _segment(path, first).open("rb", buffering=READ_BYTES) as file:
        file.seek(byte)
        while position < end:
            found = _next_frame(file.read, position)
            if found is None:
                return
            count, body = found
            if position + count > start:
                yield decode_frame(position, count, body)
            position += count
