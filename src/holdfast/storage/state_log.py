"""What a broker keeps across its lives when that changes with every message: a file that grows at its end.

The first frame has everything; each one behind it has the changes of one write, all of them or none. When the changes
outweigh what they come to, the file is written anew under another name and put in the place of the old one.

A crash in the midst of a write leaves half a frame at the end. Nobody has heard of what it would have said, so it is
cut off. Whatever else is wrong with a file is no crash's doing, and an error: a broker that went on without it would
give numbers a second time that others know already.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from struct import Struct as Layout
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from holdfast.model.checksums import crc32
from holdfast.storage.files import sync_directory, write_all
from holdfast.storage.state_file import StateError

SUFFIX = ".journal"
MAGIC = b"holdfast broker journal, version 1\n"
HEADER = Layout("<III")
"""Bytes of the body, its checksum, and the checksum of these two: a wrong size would hide everything behind it."""
GROWTH_BYTES_MIN = 4 << 20
GROWTH = 4
"""A file so many times larger than what it comes to, and larger than the bound above, is written anew."""


class _Content(Struct, frozen=True, array_like=True):
    cluster: str
    name: str
    pairs: dict[str, bytes]


class StateLog:
    """The state of one broker of one cluster, in a directory that others may share."""

    def __init__(self, directory: Path, cluster: str, name: str) -> None:
        self.path = directory / (quote(name, safe="") + SUFFIX)
        self._cluster, self._name = cluster, name
        self.pairs: dict[str, bytes] = {}
        self.refused = ""
        """Always empty: what cannot be used is an error. A `StateFile` is more forgiving."""
        self._live_bytes = self._file_bytes = 0
        self._descriptor = -1
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise StateError(
                f"broker {name} cannot keep its state in {directory}: {error.strerror or error}; name another place"
            ) from None

    # ------------------------------------------------------------------------------------------------------ reading

    def _open(self) -> None:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        self._file_bytes = self._read(data)
        self._live_bytes = _bytes_of(self.pairs)
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        if self._file_bytes < len(data):
            os.ftruncate(self._descriptor, self._file_bytes)
            os.fsync(self._descriptor)

    def _read(self, data: bytes) -> int:
        """Take over what the file says; returns where its last whole frame ends."""
        if not data.startswith(MAGIC):
            raise self._damaged("is not the journal of a broker in a version that is understood here")
        at, first = len(MAGIC), True
        while at < len(data):
            body, end = _frame(data, at)
            if body is None:
                if first or end < len(data):
                    raise self._damaged(f"is damaged at byte {at}")
                return at
            self._apply(body, first)
            at, first = end, False
        if first:
            raise self._damaged("is empty")
        return at

    def _apply(self, body: bytes, first: bool) -> None:
        try:
            if first:
                content = msgspec.msgpack.decode(body, type=_Content)
                if (content.cluster, content.name) != (self._cluster, self._name):
                    raise self._damaged(f"belongs to broker {content.name} of cluster {content.cluster}")
                self.pairs = content.pairs
            else:
                _change(self.pairs, msgspec.msgpack.decode(body, type=dict[str, bytes]))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._damaged(f"has a frame that is not understood here ({error})") from None

    def _damaged(self, what: str) -> StateError:
        return StateError(
            f"broker {self._name} cannot begin: {self.path} {what}. Without what it has written down it would repeat "
            "numbers that others know; bring the file back, or leave it out of the cluster"
        )

    # ------------------------------------------------------------------------------------------------------ writing

    def write(self, changes: Mapping[str, bytes]) -> None:
        """Store these pairs, durably, before this returns; an empty value erases its key."""
        before = sum(len(key) + len(self.pairs[key]) for key in changes if key in self.pairs)
        after = sum(len(key) + len(value) for key, value in changes.items() if value)
        _change(self.pairs, changes)
        self._live_bytes += after - before
        try:
            if self._descriptor < 0 or self._file_bytes > max(GROWTH_BYTES_MIN, GROWTH * self._live_bytes):
                self._write_anew()
            else:
                self._append(msgspec.msgpack.encode(changes))
        except OSError as error:
            raise StateError(
                f"broker {self._name} cannot write its state to {self.path}: {error.strerror or error}; without it "
                "nobody may hear from this broker, so it ends"
            ) from None

    def _append(self, body: bytes) -> None:
        frame = _framed(body)
        write_all(self._descriptor, frame)
        os.fdatasync(self._descriptor)
        self._file_bytes += len(frame)

    def _write_anew(self) -> None:
        content = MAGIC + _framed(msgspec.msgpack.encode(_Content(self._cluster, self._name, self.pairs)))
        temporary = self.path.with_name(self.path.name + ".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
            temporary.replace(self.path)
            sync_directory(self.path.parent)
        except OSError:
            os.close(descriptor)
            raise
        self.close()
        self._descriptor, self._file_bytes = descriptor, len(content)

    def close(self) -> None:
        """Nothing more is written."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _change(pairs: dict[str, bytes], changes: Mapping[str, bytes]) -> None:
    for key, value in changes.items():
        if value:
            pairs[key] = value
        else:
            pairs.pop(key, None)


def _bytes_of(pairs: Mapping[str, Any]) -> int:
    return sum(len(key) + len(value) for key, value in pairs.items())


def _framed(body: bytes) -> bytes:
    return _header(len(body), crc32(body)) + body


def _header(size: int, checksum: int) -> bytes:
    return HEADER.pack(size, checksum, crc32(HEADER.pack(size, checksum, 0)))


def _frame(data: bytes, at: int) -> tuple[bytes | None, int]:
    """The body of the frame that begins there, or `None` if it is not whole, and where it ends, or would."""
    if at + HEADER.size > len(data):
        return None, len(data)
    header = data[at : at + HEADER.size]
    if not any(header):
        # The file had grown already, and the beginning of the frame was not in it yet.
        return None, len(data)
    size, checksum, _ = HEADER.unpack(header)
    if header != _header(size, checksum):
        return None, at
    end = at + HEADER.size + size
    body = data[at + HEADER.size : end]
    return (body if end <= len(data) and crc32(body) == checksum else None), end
