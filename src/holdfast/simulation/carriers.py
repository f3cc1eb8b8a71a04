"""What carries frames between brokers: ports that all links of a broker share, and a tree below a mesh.

A `Port` sends one frame after the other, so whoever has several links through it has its bandwidth for all of them
together. What a frame weighs there is said by a `Weigh`: its bytes on our wire, if nobody says otherwise.

Protocols in which every broker reaches every other one directly can be given an `Underlay`: then what they send goes
along the edges of a tree, through the port of every broker on the way. Copies of one message that take the same edge
travel as one, which weighs as much as the heaviest of them: a multicast on a tree, as forwarding it would be.
"""

from collections.abc import Callable, Mapping
from heapq import heappush
from typing import TYPE_CHECKING

from holdfast.model.messages import Data, Frame
from holdfast.model.wire import encode
from holdfast.protocols.neighbourhoods import children_of
from holdfast.simulation.kernel import Kernel

if TYPE_CHECKING:
    from holdfast.simulation.network import NetworkStream

Weigh = Callable[[str, str, Frame], int]
"""What a frame from one broker to another weighs, in bytes."""


def wire_weight(_sender: str, _receiver: str, frame: Frame) -> int:
    """Its bytes on our wire."""
    return len(encode(frame))


class Port:
    """Sends one frame after the other."""

    __slots__ = ("bytes_per_s", "free_at", "sent_bytes")

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s, self.free_at = bytes_per_s, 0.0
        self.sent_bytes = 0

    def send(self, size_bytes: int, now: float, factor: float = 1.0) -> float:
        """When a frame has left that is handed over now."""
        self.sent_bytes += size_bytes
        self.free_at = max(now, self.free_at) + factor * size_bytes / self.bytes_per_s
        return self.free_at


class _Parcel:
    """Copies of one message on their way over one edge, by receiver."""

    __slots__ = ("at", "copies")

    def __init__(self, at: str) -> None:
        self.at = at
        self.copies: dict[str, tuple[NetworkStream, Frame, int]] = {}


class Underlay:
    """A tree whose edges carry everything that brokers say to each other."""

    def __init__(self, kernel: Kernel, parents: Mapping[str, str | None], edge_s: float, weigh: Weigh) -> None:
        self._kernel, self._edge_s, self.weigh = kernel, edge_s, weigh
        self._parents, self._children = parents, children_of(parents)
        self._spans = spans(self._children, next(name for name, above in parents.items() if above is None))
        self.ports: dict[str, Port] = {}
        self._open: dict[tuple[str, int], _Parcel] = {}
        self._distances: dict[tuple[str, str], int] = {}

    def limit(self, bytes_per_s: float) -> None:
        """What each broker may send in a second from now on."""
        self.ports = {name: Port(bytes_per_s) for name in self._parents}

    def send(self, stream: "NetworkStream", frame: Frame) -> None:
        """Put a frame under way. Acknowledgements and the like weigh nothing: on a tree there would be few of them.

        As long as nobody has a limit nothing weighs anything: a mesh comes up by frames that nobody has to pass on.
        """
        sender, receiver = stream.sender.name, stream.receiver.name
        if type(frame) is not Data or not self.ports:
            entry = (self._kernel.now + self._hops(sender, receiver) * self._edge_s, self._kernel.next_number())
            heappush(self._kernel.queue, (*entry, stream.arrive, frame))
            return
        batch = getattr(frame.message, "batch", None)
        # The same batch to somebody else, said in the same instant, is a copy of the same message.
        key = (sender, id(batch if batch is not None else frame))
        parcel = self._open.get(key)
        if parcel is None or receiver in parcel.copies:
            if not self._open:
                self._kernel.at_end(self._leave)
            parcel = self._open[key] = _Parcel(sender)
        parcel.copies[receiver] = (stream, frame, self.weigh(sender, receiver, frame))

    def _leave(self, _: object) -> None:
        parcels, self._open = list(self._open.values()), {}
        for parcel in parcels:
            self._pass_on(parcel)

    def _arrive(self, parcel: _Parcel) -> None:
        own = parcel.copies.pop(parcel.at, None)
        if own is not None:
            stream, frame, _ = own
            stream.arrive(frame)
        if parcel.copies:
            self._pass_on(parcel)

    def _pass_on(self, parcel: _Parcel) -> None:
        onward: dict[str, _Parcel] = {}
        for receiver, copy in parcel.copies.items():
            towards = self._next(parcel.at, receiver)
            if towards not in onward:
                onward[towards] = _Parcel(towards)
            onward[towards].copies[receiver] = copy
        kernel, port = self._kernel, self.ports[parcel.at]
        for one in onward.values():
            left_s = port.send(max(size for _, _, size in one.copies.values()), kernel.now)
            kernel.at(left_s + self._edge_s, self._arrive, one)

    # ----------------------------------------------------------------------------------------------------- the tree

    def _next(self, at: str, receiver: str) -> str:
        """Who comes next on the way."""
        for child in self._children[at]:
            first, last = self._spans[child]
            if first <= self._spans[receiver][0] < last:
                return child
        above = self._parents[at]
        assert above is not None, f"{receiver} is not in the tree of {at}"
        return above

    def _hops(self, one: str, other: str) -> int:
        found = self._distances.get((one, other))
        if found is None:
            at, found = one, 0
            while at != other:
                at, found = self._next(at, other), found + 1
            self._distances[one, other] = found
        return found


def spans(children: Mapping[str, list[str]], root: str) -> dict[str, tuple[int, int]]:
    """For every broker, where it and all below it stand when the tree is walked."""
    order, stack = [], [root]
    while stack:
        order.append(stack.pop())
        stack += children[order[-1]]
    sizes: dict[str, int] = {}
    for name in reversed(order):
        sizes[name] = 1 + sum(sizes[child] for child in children[name])
    return {name: (at, at + sizes[name]) for at, name in enumerate(order)}
