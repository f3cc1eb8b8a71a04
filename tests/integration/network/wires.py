"""Wires between network namespaces, in user space: they delay, and they can be cut.

    python wires.py --wire JSON               makes the namespaces and passes packets on until its input ends
    python wires.py --enter PLACE COMMAND     becomes the command, inside the namespace that PLACE (a path) stands for
    python wires.py --try                     says in a sentence why this machine has no such namespaces, if so

Every place is a namespace of its own with one interface, `hf0`: a TUN device whose other end is here. A packet from one
place to another is written out at the other's device after the latency between the two, or never, if they are cut off
from each other. It is `tc netem` for kernels that are built without it, and needs no tools. Nothing has to be cleaned
up: devices go with this process, namespaces with the last process inside, however they end.

It obeys lines of JSON on its standard input, and answers each with `{"event": "done"}`:
`{"cut": [one, other]}`, `{"unplug": place}` (its interface goes down), `{"heal": true}`.
"""

import asyncio
import ctypes
import fcntl
import json
import os
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFMTU = 0x8913, 0x8914, 0x8916, 0x891C, 0x8922
IFF_UP = 0x1
INTERFACE = b"hf0"
MTU_BYTES = 16_000
PACKET_BYTES_MAX = 1 << 16
HEADER_BYTES_MIN = 20

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, doing: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number)}")


def enter(namespace: int) -> None:
    """This thread is in that namespace from now on."""
    _checked(_libc.setns(namespace, CLONE_NEWNET), "cannot enter a network namespace")


def here() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def address_of(index: int) -> str:
    return f"10.77.0.{index + 1}"


class Place:
    """A namespace and our end of its device."""

    def __init__(self, name: str, index: int) -> None:
        self.name, self.address = name, socket.inet_aton(address_of(index))
        _checked(_libc.unshare(CLONE_NEWNET), "cannot make a network namespace")
        self.namespace = here()
        self.device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(self.device, TUNSETIFF, struct.pack("16sH22x", INTERFACE, IFF_TUN | IFF_NO_PI))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            _set_address(control, SIOCSIFADDR, address_of(index))
            _set_address(control, SIOCSIFNETMASK, "255.255.255.0")
            fcntl.ioctl(control, SIOCSIFMTU, struct.pack("16si20x", INTERFACE, MTU_BYTES))
            _set_up(control, INTERFACE, True)
            _set_up(control, b"lo", True)

    def plug(self, up: bool) -> None:
        """Its interface goes up or down, as with `ip link set`."""
        home = here()
        enter(self.namespace)
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
                _set_up(control, INTERFACE, up)
        finally:
            enter(home)
            os.close(home)


def _set_address(control: socket.socket, request: int, address: str) -> None:
    packed = struct.pack("16sHH4s16x", INTERFACE, socket.AF_INET, 0, socket.inet_aton(address))
    fcntl.ioctl(control, request, packed)


def _set_up(control: socket.socket, interface: bytes, up: bool) -> None:
    flags = struct.unpack("16sH22x", fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack("16sH22x", interface, 0)))[1]
    flags = flags | IFF_UP if up else flags & ~IFF_UP
    fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", interface, flags))


class Wires:
    """All the places, and what lies between them; `latency_ms` has an entry for every pair that is not next door."""

    def __init__(self, names: list[str], latency_ms: dict[str, dict[str, float]]) -> None:
        home = here()
        self.places = [Place(name, index) for index, name in enumerate(names)]
        enter(home)
        os.close(home)
        self._by_name = {place.name: place for place in self.places}
        self._by_address = {place.address: place for place in self.places}
        self._latency_ms = latency_ms
        self._cut: set[frozenset[str]] = set()
        self._unplugged: list[Place] = []
        self._loop = asyncio.get_running_loop()
        for place in self.places:
            self._loop.add_reader(place.device, self._pass_on, place)

    def obey(self, order: dict[str, object]) -> None:
        if isinstance(pair := order.get("cut"), list):
            self._cut.add(frozenset(map(str, pair)))
        elif isinstance(name := order.get("unplug"), str):
            self._unplugged.append(self._by_name[name])
            self._by_name[name].plug(False)
        else:
            self._cut.clear()
            while self._unplugged:
                self._unplugged.pop().plug(True)

    def _pass_on(self, source: Place) -> None:
        while True:
            try:
                packet = os.read(source.device, PACKET_BYTES_MAX)
            except (BlockingIOError, OSError):
                return
            target = self._by_address.get(packet[16:20]) if len(packet) >= HEADER_BYTES_MIN else None
            if target is None or frozenset((source.name, target.name)) in self._cut:
                continue
            latency_ms = self._latency_ms.get(source.name, {}).get(target.name, 0.0)
            self._loop.call_later(latency_ms / 1000, self._deliver, source, target, packet)

    def _deliver(self, source: Place, target: Place, packet: bytes) -> None:
        # What was under way when the wire was cut is lost, too.
        if frozenset((source.name, target.name)) not in self._cut:
            try:
                os.write(target.device, packet)
            except OSError:
                # Its interface is down: the packet is lost.
                return


async def wire(settings: dict[str, object]) -> None:
    """Pass packets on until there are no more orders."""
    wires = Wires(settings["places"], settings["latency_ms"])  # type: ignore[arg-type]
    _say({"event": "ready", "namespaces": {place.name: place.namespace for place in wires.places}})
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        wires.obey(json.loads(line))
        _say({"event": "done"})


def _say(fact: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(fact) + "\n")
    sys.stdout.flush()


def attempt() -> str:
    """Why it cannot be done here; empty if it can."""
    try:
        Place("trial", 0)
    except OSError as error:
        return f"{error.strerror or error}; that needs root and /dev/net/tun"
    return ""


def main(arguments: list[str]) -> None:
    if arguments[0] == "--wire":
        asyncio.run(wire(json.loads(arguments[1])))
    elif arguments[0] == "--enter":
        namespace = os.open(Path(arguments[1]), os.O_RDONLY)
        enter(namespace)
        os.close(namespace)
        os.execvp(arguments[2], arguments[2:])
    else:
        sys.stdout.write(attempt())


if __name__ == "__main__":
    main(sys.argv[1:])
