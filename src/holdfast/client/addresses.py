"""Where brokers are: `holdfast://host:port`, several separated by commas, or a list of such texts."""

import re
from collections.abc import Iterable

from holdfast.client.errors import AddressError
from holdfast.runtime.places import NOBODY

DEFAULT_PORT = 7400
SCHEME = "holdfast://"
STRANGE_MAX = 3
SILENT_MAX = 6
"""So often an address may answer with other words than a broker's, or with none at all, before it is given up."""

_HOST_AND_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\],@?#]+)(?::(?P<port>[0-9]{1,5}))?/?\Z")

Address = tuple[str, int]


def parse_addresses(addresses: str | Iterable[str]) -> tuple[Address, ...]:
    """Every (host, port) in an address, or in several; at least one."""
    if not isinstance(addresses, str | Iterable):
        raise AddressError(f"broker addresses are strings such as 'holdfast://127.0.0.1:7400', not {addresses!r}")
    texts = [addresses] if isinstance(addresses, str) else list(addresses)
    found = [address for text in texts for address in _parse(text)]
    if not found:
        raise AddressError("no broker's address was given; write it as in 'holdfast://127.0.0.1:7400'")
    return tuple(dict.fromkeys(found))


def shown(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _parse(text: object) -> list[Address]:
    if not isinstance(text, str):
        raise AddressError(f"a broker's address is a string such as 'holdfast://127.0.0.1:7400', not {text!r}")
    places = [place.strip().removeprefix(SCHEME) for place in text.split(",")]
    if any("://" in place for place in places):
        raise AddressError(f"the address {text!r} has another scheme; Holdfast's begin with {SCHEME}")
    return [_host_and_port(place, text) for place in places]


def _host_and_port(place: str, text: str) -> Address:
    parts = _HOST_AND_PORT.match(place)
    if parts is None:
        raise AddressError(f"the address {text!r} cannot be read at {place!r}; write 'holdfast://host:port'")
    port = int(parts["port"] or DEFAULT_PORT)
    if not 1 <= port <= 65535:
        raise AddressError(f"the address {text!r} has the port {port}; a port is between 1 and 65535")
    return parts["host"].strip("[]"), port


class AddressBook:
    """Which address to dial next: each in turn until one has our session, then that one alone.

    The session lives at the broker that took us in. Dialling another one with it would be refused.
    """

    def __init__(self, addresses: tuple[Address, ...]) -> None:
        self.addresses = addresses
        self._turn = -1
        self._pinned = False
        self.reasons: dict[Address, str] = {}
        self._strange: dict[Address, int] = {}

    def next(self) -> Address:
        if not self._pinned:
            self._turn = (self._turn + 1) % len(self.addresses)
        return self.addresses[self._turn]

    @property
    def current(self) -> Address:
        return self.addresses[max(self._turn, 0)]

    def pin(self) -> None:
        """The address dialled last has our session."""
        self._pinned = True

    def note_failure(self, reason: str) -> bool:
        """The address dialled last does not answer; returns whether none does and none ever did."""
        return self.note_reason(self.current, reason)

    def note_reason(self, address: Address, reason: str) -> bool:
        """The same for that address."""
        self.reasons[address] = reason
        return not self._pinned and len(self.reasons) == len(self.addresses)

    def note_stranger(self, reason: str, said_something: bool) -> bool:
        """A peer at the address dialled last did not speak as a broker does; the same.

        A bit that flips on the way makes a broker end the connection without a word: what counts is if it happens
        again and again.
        """
        count = self._strange[self.current] = self._strange.get(self.current, 0) + 1
        return count >= (STRANGE_MAX if said_something else SILENT_MAX) and self.note_failure(reason)

    def advice(self) -> str:
        """What somebody can do who finds no broker anywhere; nothing where the reasons say it."""
        if any(reason != NOBODY for reason in self.reasons.values()):
            return ""
        return ". Is the cluster running? `holdfast up` starts one on this machine; otherwise give its address"

    def tried(self) -> str:
        """Every address, with what went wrong at it."""
        unknown = "it has not let the client in"
        return "; ".join(f"{shown(one)} ({self.reasons.get(one, unknown)})" for one in self.addresses)
