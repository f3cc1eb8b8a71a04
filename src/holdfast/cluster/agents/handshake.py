"""Who speaks to an agent: both ends prove that they know the shared secret, and every frame carries a proof.

1. agent → master: a nonce. 2. master → agent: its own nonce, and an HMAC over both under the secret. 3. agent → master:
another HMAC over both. A key for the connection is derived from secret and nonces, and each frame after that has an
HMAC over its direction, its number and its body: nothing can be forged, repeated, left out or turned around. Whoever
lacks the secret gets the first nonce and nothing else. Frames are not encrypted.

Without a secret, on loopback, the same is done with an empty one.
"""

import hmac
import os
import secrets
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path

from msgspec import Struct

from holdfast.model.errors import ConfigError

NONCE_BYTES = 32
TAG_BYTES = 32
SECRET_BYTES_MIN = 16
SECRET_BYTES_MAX = 4096
GREETING_BYTES_MAX = 1024
"""Nothing that is said before the proofs is longer."""
FRAME_BYTES_MAX = 8 << 20
LENGTH_BYTES = 4
SECRET_VARIABLE, SECRET_FILE_VARIABLE = "HOLDFAST_AGENT_SECRET", "HOLDFAST_AGENT_SECRET_FILE"
VERSION = 1


class Challenge(Struct, frozen=True):
    """What an agent says first."""

    nonce: bytes
    version: int = VERSION


class Answer(Struct, frozen=True):
    """What a master answers."""

    nonce: bytes
    proof: bytes


class Welcome(Struct, frozen=True):
    """The agent's own proof."""

    proof: bytes


class ForgedError(Exception):
    """A frame or a proof that nobody with the secret has made."""


def new_nonce() -> bytes:
    return secrets.token_bytes(NONCE_BYTES)


def proof(secret: bytes, who: str, challenge: bytes, answer: bytes) -> bytes:
    """What `master` or `agent` can say about these nonces only with the secret; `session` is the connection's key."""
    return hmac.digest(secret, b"holdfast\0" + who.encode() + b"\0" + challenge + answer, sha256)


def is_proof(found: bytes, secret: bytes, who: str, challenge: bytes, answer: bytes) -> bool:
    return len(answer) == NONCE_BYTES and hmac.compare_digest(found, proof(secret, who, challenge, answer))


class Seal:
    """One direction of a connection: seals bodies, or opens what the other end has sealed, in their order."""

    def __init__(self, key: bytes, direction: str) -> None:
        self._key, self._direction = key, direction.encode()
        self._number = 0

    def _tag(self, body: bytes) -> bytes:
        number = self._number.to_bytes(8, "big")
        self._number += 1
        return hmac.digest(self._key, self._direction + b"\0" + number + body, sha256)

    def seal(self, body: bytes) -> bytes:
        return self._tag(body) + body

    def open(self, sealed: bytes) -> bytes:
        tag, body = sealed[:TAG_BYTES], sealed[TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(body)):
            raise ForgedError("a frame was not made by the other end of this connection")
        return body


def framed(body: bytes) -> bytes:
    """The body with its length before it."""
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


# ------------------------------------------------------------------------------------------------------ the secret


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach a listener there."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def read_secret(file: Path | None) -> bytes:
    """The shared secret: from that file, or from the environment; empty if there is none."""
    if file is None and (named := os.environ.get(SECRET_FILE_VARIABLE)):
        file = Path(named)
    if file is None:
        return _checked(os.environ.get(SECRET_VARIABLE, "").encode().strip(), f"the variable {SECRET_VARIABLE}")
    try:
        mode = file.stat().st_mode
        secret = file.read_bytes()[: SECRET_BYTES_MAX + 1].strip()
    except OSError as error:
        raise ConfigError(f"the secret file {file} cannot be read: {error.strerror or error}.") from None
    if mode & 0o077:
        raise ConfigError(f"the secret file {file} can be read by others: say `chmod 600 {file}` first.")
    if not secret:
        raise ConfigError(f"the secret file {file} is empty; `openssl rand -hex 32 > {file}` makes a secret.")
    return _checked(secret, f"the secret file {file}")


def _checked(secret: bytes, where: str) -> bytes:
    if secret and not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        raise ConfigError(
            f"{where} holds {len(secret)} bytes; a secret has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}: "
            "`openssl rand -hex 32` makes one."
        )
    return secret
