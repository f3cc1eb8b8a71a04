"""The few facts that a broker keeps across its lives, in one small file: all of them are there, or the ones before.

A change writes the whole file anew under another name, syncs it, and puts it in the place of the old one. A crash at
any moment so leaves the one or the other. What is neither, because the disk failed or somebody else wrote there, is
refused with a sentence and set aside: nothing is guessed, and nothing is destroyed.
"""

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct

from holdfast.model.errors import LocalMisuse

SUFFIX = ".state"
MAGIC = b"holdfast broker state, version 1\n"
DIGEST_BYTES = 32
FILE_BYTES_MAX = 1 << 26


class StateError(LocalMisuse):
    """Raised when the state of a broker cannot be read or written."""


class _Content(Struct, frozen=True, array_like=True):
    cluster: str
    name: str
    pairs: dict[str, bytes]


class StateFile:
    """The state of one broker of one cluster, in a directory that others may share."""

    def __init__(self, directory: Path, cluster: str, name: str) -> None:
        self.path = directory / (quote(name, safe="") + SUFFIX)
        self._cluster, self._name = cluster, name
        self.pairs: dict[str, bytes] = {}
        self.refused = ""
        """Why what was there is not used, and where it is now; empty if there was nothing wrong with it."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._read()
        except OSError as error:
            raise StateError(
                f"broker {name} cannot keep its state in {directory}: {error.strerror or error}; name another place"
            ) from None

    def _read(self) -> None:
        try:
            with self.path.open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            return
        try:
            self.pairs = _decoded(data, self._cluster, self._name)
        except ValueError as wrong:
            aside = self._set_aside()
            self.refused = f"{self.path} {wrong}: it was set aside as {aside.name}, and the broker begins without it"

    def _set_aside(self) -> Path:
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.refused-{number}")).exists():
            number += 1
        self.path.rename(aside)
        return aside

    def write(self, changes: Mapping[str, bytes]) -> None:
        """Store these pairs, durably, before this returns; an empty value erases its key."""
        pairs = {key: value for key, value in {**self.pairs, **changes}.items() if value}
        if pairs == self.pairs:
            return
        body = msgspec.msgpack.encode(_Content(self._cluster, self._name, pairs))
        temporary = self.path.with_name(self.path.name + ".new")
        try:
            with temporary.open("wb") as file:
                file.write(MAGIC + sha256(body).digest() + body)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
            _sync_directory(self.path.parent)
        except OSError as error:
            raise StateError(
                f"broker {self._name} cannot write its state to {self.path}: {error.strerror or error}; without it "
                "nobody may hear from this broker, so it ends"
            ) from None
        self.pairs = pairs


def _decoded(data: bytes, cluster: str, name: str) -> dict[str, bytes]:
    if not data.startswith(MAGIC):
        raise ValueError("is not the state of a broker in a version that is understood here")
    digest, body = data[len(MAGIC) :][:DIGEST_BYTES], data[len(MAGIC) + DIGEST_BYTES :]
    if sha256(body).digest() != digest:
        raise ValueError("is damaged: its checksum is not that of its content")
    try:
        content = msgspec.msgpack.decode(body, type=_Content)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ValueError("is not the state of a broker in a version that is understood here") from None
    if (content.cluster, content.name) != (cluster, name):
        raise ValueError(f"belongs to broker {content.name} of cluster {content.cluster}")
    return content.pairs


def _sync_directory(directory: Path) -> None:
    """A name is durable when its directory is."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
