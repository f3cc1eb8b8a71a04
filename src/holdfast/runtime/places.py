"""Where a node listens or is reached, and why it cannot, in one sentence."""

from errno import EACCES, EADDRINUSE, EADDRNOTAVAIL

from holdfast.model.errors import LocalMisuse

Address = tuple[str, int]

TLS_ALERT = b"\x15\x03"


class ListenError(LocalMisuse):
    """Raised when the process cannot listen where it was told to."""


def place_of(address: str) -> Address | None:
    """The host and the port in a `host:port` that a peer told the node; `None` if that is no such thing."""
    host, _, port = address.rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdecimal() else None


def listen_error(who: str, host: str, port: int, error: OSError) -> ListenError:
    """One sentence about why a port cannot be had, and what to do."""
    where = f"{who} cannot listen on {host}:{port}"
    if error.errno == EADDRINUSE:
        return ListenError(f"{where}: the port is in use by another process; stop it or choose another port")
    if error.errno == EACCES:
        return ListenError(f"{where}: this user may not use that port; choose one above 1023")
    if error.errno == EADDRNOTAVAIL:
        return ListenError(f"{where}: this machine has no such address; choose one of its own, such as 127.0.0.1")
    return ListenError(f"{where}: {sentence_of(error)}")


def sentence_of(error: OSError, *, tls: bool = False) -> str:
    """What went wrong with a connection, with TLS or without, and without numbers."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionRefusedError):
        return NOBODY
    if isinstance(error, ConnectionResetError):
        return "it closed the connection" + (" instead of beginning with TLS: connect without ssl=" if tls else "")
    return error.strerror or str(error) or type(error).__name__


NOBODY = "nobody is listening there"
SAID_NOTHING = "it closed the connection without saying who it is, which a broker does not"


def wordless(first_bytes: bytes) -> str:
    """Why a connection on which no frame came is not one with a broker, from the beginning of what came instead."""
    if first_bytes.startswith(TLS_ALERT):
        return "it wants TLS: connect with ssl="
    if not first_bytes:
        return SAID_NOTHING
    line = first_bytes.split(b"\n")[0].strip()
    said = repr(line.decode()) if line and line.isascii() and line.decode().isprintable() else first_bytes[:16].hex(" ")
    return f"it is no broker: it says {said}"
