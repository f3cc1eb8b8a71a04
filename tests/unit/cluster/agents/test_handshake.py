"""Proofs of a shared secret, sealed frames, and where secrets come from."""

from pathlib import Path

import pytest

from holdfast.cluster.agents.handshake import (
    SECRET_FILE_VARIABLE,
    SECRET_VARIABLE,
    ForgedError,
    Seal,
    is_loopback,
    is_proof,
    new_nonce,
    proof,
    read_secret,
)
from holdfast.cluster.agents.server import AgentSettings
from holdfast.model.errors import ConfigError

SECRET = b"0123456789abcdef"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(SECRET_VARIABLE, raising=False)
    monkeypatch.delenv(SECRET_FILE_VARIABLE, raising=False)


def test_a_proof_is_of_one_secret_one_end_and_one_pair_of_nonces():
    one, other = new_nonce(), new_nonce()
    found = proof(SECRET, "master", one, other)
    assert is_proof(found, SECRET, "master", one, other)
    assert not is_proof(found, b"another secret!!", "master", one, other)
    assert not is_proof(found, SECRET, "agent", one, other)
    assert not is_proof(found, SECRET, "master", new_nonce(), other)
    assert not is_proof(proof(SECRET, "master", one, b""), SECRET, "master", one, b"")


def test_a_frame_is_opened_once_in_its_place_and_in_its_direction():
    there, here = Seal(b"key", "master"), Seal(b"key", "master")
    first, second = there.seal(b"one"), there.seal(b"two")
    assert here.open(first) == b"one"
    with pytest.raises(ForgedError):
        here.open(first)
    assert Seal(b"key", "master").open(first) == b"one"
    for forged in (second, first[:-1] + b"x", b"", first[:32]):
        with pytest.raises(ForgedError):
            Seal(b"key", "master").open(forged)
    with pytest.raises(ForgedError):
        Seal(b"key", "agent").open(first)


def test_the_secret_is_in_a_file_that_nobody_else_can_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "secret"
    file.write_bytes(SECRET + b"\n")
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="can be read by others: say `chmod 600"):
        read_secret(file)
    file.chmod(0o600)
    assert read_secret(file) == SECRET
    monkeypatch.setenv(SECRET_FILE_VARIABLE, str(file))
    assert read_secret(None) == SECRET
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_secret(tmp_path / "nowhere")
    file.write_bytes(b"\n")
    with pytest.raises(ConfigError, match="is empty"):
        read_secret(file)


def test_the_secret_may_be_in_the_environment_and_has_a_length(monkeypatch: pytest.MonkeyPatch):
    assert read_secret(None) == b""
    monkeypatch.setenv(SECRET_VARIABLE, SECRET.decode())
    assert read_secret(None) == SECRET
    monkeypatch.setenv(SECRET_VARIABLE, "short")
    with pytest.raises(ConfigError, match="holds 5 bytes; a secret has 16 to 4096"):
        read_secret(None)


@pytest.mark.parametrize(
    ("host", "here"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)]
)
def test_only_loopback_needs_no_secret(host: str, here: bool, tmp_path: Path):
    assert is_loopback(host) is here
    AgentSettings(host, 0, tmp_path, SECRET).check()
    if here:
        AgentSettings(host, 0, tmp_path).check()
    else:
        with pytest.raises(ConfigError, match="whoever reaches it can start processes here: give it a secret"):
            AgentSettings(host, 0, tmp_path).check()
