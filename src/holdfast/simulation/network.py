"""Connections between hosts: lossless FIFO streams that may be slow, held up, or end with a loss.

A `Path` is one direction between two hosts: how long frames take, how fast it is, whether it is cut. A connection is
two `NetworkStream`s over the two paths between its ends. A stream belongs to one connection and delivers in order; when
the connection ends, its receiver learns so behind everything that survived.

What faults mean here
- cut: frames are held and connection attempts hang, then fail. After the heal what was held arrives, in order, unless
  a side has given the connection up in the meantime.
- reset: in each direction a random suffix of what is in flight is lost; each side learns it at a moment of its own.
- crash: the same for what the dead host had sent; what was sent to it is gone.
- flip: bits of frames are not those that were sent; whoever reads what is no frame ends the connection (see `flips`).
- freeze: the host takes nothing in; its connections stay, and what arrives waits (see `hosts`).
"""

from collections import defaultdict
from heapq import heappush
from random import Random
from typing import TYPE_CHECKING, Any

from holdfast.model.messages import Data, Frame, Hello
from holdfast.model.wire import HEADER_BYTES, decode, encode
from holdfast.protocols.node import Dialler, Doorkeeper
from holdfast.simulation.carriers import Port, Underlay, Weigh, wire_weight
from holdfast.simulation.flips import Flips
from holdfast.simulation.kernel import Action, Entry, Kernel, stream
from holdfast.simulation.latencies import Sampler, at_most, sampler
from holdfast.simulation.network_settings import LinkSettings, NetworkConfig

if TYPE_CHECKING:
    from holdfast.simulation.hosts import Host

__all__ = ["LinkSettings", "Network", "NetworkConfig", "NetworkStream", "Path"]


class Path:
    """One direction between two hosts."""

    __slots__ = ("base_factor", "cut", "factor", "flipped_share", "port", "sample")

    def __init__(self, sample: Sampler, factor: float, port: Port | None) -> None:
        self.sample, self.base_factor, self.port = sample, factor, port
        self.factor = factor
        self.cut = False
        self.flipped_share = 0.0

    def delay_s(self) -> float:
        return self.factor * self.sample()


class NetworkStream:
    """One direction of one connection, from `sender` to `receiver`, who knows the sender as `peer`.

    The accepting side does not know whom it talks to before the first frame, so `peer` is empty until then. `clear` is
    the one flag that traffic looks at: false whenever anything is out of the ordinary.
    """

    __slots__ = (
        "arrive",
        "clear",
        "flips",
        "held",
        "kernel",
        "last_s",
        "network",
        "path",
        "peer",
        "receiver",
        "reverse",
        "send",
        "sender",
        "sent",
        "shut",
    )
    reverse: "NetworkStream"

    def __init__(self, network: "Network", sender: "Host", receiver: "Host", peer: str) -> None:
        self.network, self.kernel, self.sent = network, network.kernel, network.sent
        self.sender, self.receiver, self.peer = sender, receiver, peer
        self.path = network.path(sender, receiver)
        self.last_s = 0.0
        self.shut = False
        self.held: list[tuple[Action, Any]] | None = None
        self.flips: Flips | None = None
        # Bound once: the queue's entries are recognised by it, and binding anew for every frame would cost.
        self.arrive = self._arrive
        self.choose()
        self.clear = False
        receiver.inputs[self] = None

    # ------------------------------------------------------------------------------------------------- traffic

    def choose(self) -> None:
        """Take the shortest way that frames on this path can be sent in."""
        network = self.network
        if network.underlay is not None and self.is_between_brokers:
            self.send = self._send_below
        elif self.flips is not None or self.path.flipped_share:
            # What has begun as bytes goes on as bytes: the receiver may have half a frame.
            self.flips = self.flips or Flips(network.flips_chance)
            self.send = self._send_bytes
        else:
            self.send = self._send_measured if network.measures(self.path) else self._send

    def choose_again(self) -> None:
        """The same when that may have changed; what nobody sends on any more stays so."""
        if self.send != self._drop:
            self.choose()

    @property
    def is_between_brokers(self) -> bool:
        return self.sender.is_broker and self.receiver.is_broker

    def _send(self, frame: Frame) -> None:
        """Put a frame under way. It arrives after everything sent before it."""
        kernel, path = self.kernel, self.path
        kind = type(frame)
        self.sent[type(frame.message) if kind is Data else kind] += 1  # type: ignore[union-attr]
        when = kernel.now + path.factor * path.sample()
        if when < self.last_s:
            when = self.last_s
        self.last_s = when
        heappush(kernel.queue, (when, kernel.next_number(), self.arrive, frame))

    def _send_measured(self, frame: Frame) -> None:
        """The same for whoever wants to know the frame's size, or what the wire makes of it."""
        network, path, now = self.network, self.path, self.kernel.now
        if network.config.codec_check:
            frame = _decoded(frame, encode(frame))
        self.sent[type(frame.message) if isinstance(frame, Data) else type(frame)] += 1
        size_bytes = network.weigh(self.sender.name, self.receiver.name, frame)
        network.sent_bytes += size_bytes
        if path.port is not None:
            now = path.port.send(size_bytes, now, path.factor)
        self.last_s = max(self.last_s, now + path.delay_s())
        self.kernel.at(self.last_s, self.arrive, frame)

    def _send_below(self, frame: Frame) -> None:
        """The same where the network lies above another one."""
        self.sent[type(frame.message) if isinstance(frame, Data) else type(frame)] += 1
        assert self.network.underlay is not None
        self.network.underlay.send(self, frame)

    def _send_bytes(self, frame: Frame) -> None:
        """The same where bits flip: what arrives is what the receiver's reader makes of it."""
        assert self.flips is not None
        self.sent[type(frame.message) if isinstance(frame, Data) else type(frame)] += 1
        self.last_s = max(self.last_s, self.kernel.now + self.path.delay_s())
        arriving = self.flips.passed(frame, self.path.flipped_share)
        if arriving is None:
            # The receiver will close at this place, so nothing behind it matters; the sender learns it later.
            self.deaden()
            self.kernel.at(self.last_s, self.garbled)
            return
        for one in arriving:
            self.kernel.at(self.last_s, self.arrive, one)

    def garbled(self, _: object) -> None:
        """Bytes have come that are no frame: the receiver closes the connection."""
        if self._waits(self.garbled, None):
            return
        host = self.receiver
        self.close()
        self.reverse.finish()
        if self.peer and host.streams.get(self.peer) is self.reverse:
            del host.streams[self.peer]
            host.hand_down(self.peer)

    def _drop(self, frame: Frame) -> None:
        """What is written to a connection that has ended goes nowhere."""

    def deaden(self) -> None:
        self.send = self._drop

    def _arrive(self, frame: Frame) -> None:
        receiver = self.receiver
        if self.clear and not receiver.paused:
            kernel = self.kernel
            receiver.carry_out(receiver.receive(self.peer, frame, kernel.now + receiver.skew_s))
            if not receiver.touched:
                receiver.touched = True
                kernel.endings.append(receiver.settle)
        elif not self._waits(self.arrive, frame):
            self._introduce(frame)

    def _waits(self, action: Action, argument: Any) -> bool:
        """Whether something that came on this stream cannot be handed over now: it is gone, held, or queued."""
        if self.shut:
            return True
        if self.path.cut or self.held is not None:
            self.held = self.held or []
            self.held.append((action, argument))
            return True
        if self.receiver.paused:
            self.receiver.inbox.append((action, argument))
            return True
        return False

    def _introduce(self, frame: Frame) -> None:
        """The first frame on the accepting side says who is there."""
        host = self.receiver
        if not isinstance(frame, Hello):
            self.close()
            self.reverse.finish()
            return
        node = host.node
        refusal = node.turn_away(frame) if isinstance(node, Doorkeeper) else None
        if refusal is not None:
            self.reverse.send(refusal)
            self.close()
            self.reverse.finish()
            return
        self.peer = frame.node
        host.adopt(self.peer, self.reverse)
        self.refresh()
        # Reporting an older connection down may have made the host write to its disk; then the frame waits for that.
        self._arrive(frame)

    @classmethod
    def frame_of(cls, entry: Entry) -> Frame | None:
        """The frame that an entry of the queue brings, if it brings one."""
        stream = getattr(entry[2], "__self__", None)
        if isinstance(stream, cls) and entry[2] == stream.arrive:
            frame: Frame = entry[3]
            return frame
        return None

    # ---------------------------------------------------------------------------------------------- the connection

    def refresh(self) -> None:
        self.clear = bool(self.peer) and not self.shut and not self.path.cut and self.held is None

    def opened(self, attempt: int) -> None:
        """The dialler's connection is there: the first thing that comes on the stream towards it."""
        host, peer = self.receiver, self.peer
        if self.shut:
            self.network.failed((host, peer, attempt))  # Whoever accepted has died since.
        elif host.dialing.get(peer) != attempt or self.path.cut or self.reverse.path.cut:
            # Given up in the meantime, or cut off in mid-handshake: then the attempt hangs, and fails later.
            self.close()
            self.reverse.finish()
            self.kernel.after(self.network.config.connect_timeout_s, self.network.failed, (host, peer, attempt))
        elif host.paused:
            host.inbox.append((self.opened, attempt))
        else:
            del host.dialing[peer]
            host.adopt(peer, self.reverse)
            self.refresh()
            host.when_free(host.hand_up, peer)

    def finish(self) -> None:
        """The sender closes: the receiver learns so after everything that was sent."""
        self.deaden()
        self.last_s = max(self.last_s, self.kernel.now + self.path.delay_s())
        self.kernel.at(self.last_s, self.ended)

    def break_off(self, chance: Random) -> None:
        """The connection breaks: a random suffix of what is in flight is lost, and the receiver learns it later."""
        kernel = self.kernel
        flying = sorted(entry[:2] for entry in kernel.queue if entry[2] is self.arrive)
        survivors = chance.randint(0, len(flying)) if self.held is None else 0
        lost = {number for _, number in flying[survivors:]}
        if lost:
            kernel.remove(lambda entry: entry[1] in lost)
        if self.held is not None:
            self.held.clear()
        self.deaden()
        survived_s = flying[survivors - 1][0] if survivors else kernel.now
        noticed_s = kernel.now + self.path.delay_s() * chance.uniform(0.1, 3.0)
        self.last_s = max(survived_s, noticed_s)
        kernel.at(self.last_s, self.ended)

    def ended(self, _: object) -> None:
        """The end of the stream has come: the receiver's side of the connection is over."""
        if self._waits(self.ended, None):
            return
        host = self.receiver
        self.close()
        self.reverse.deaden()
        if self.peer and host.streams.get(self.peer) is self.reverse:
            del host.streams[self.peer]
            host.hand_down(self.peer)

    def close(self) -> None:
        """The receiver takes nothing more from this stream."""
        self.shut, self.clear = True, False
        self.held = None
        self.receiver.inputs.pop(self, None)

    def healed(self) -> None:
        """The path works again: what was held arrives together, and nothing overtakes it."""
        if self.held:
            self.kernel.after(self.path.delay_s(), self._release)
        else:
            self.held = None
            self.refresh()

    def _release(self, _: object) -> None:
        if self.path.cut or self.shut:
            return
        held, self.held = self.held or [], None
        self.refresh()
        for action, argument in held:
            action(argument)


class Network:
    """All paths and connections of one world."""

    def __init__(self, kernel: Kernel, config: NetworkConfig, seed: int) -> None:
        self.kernel, self.config, self.seed = kernel, config, seed
        self.hosts: dict[str, Host] = {}
        self.sent: defaultdict[type, int] = defaultdict(int)
        self.sent_bytes = 0
        self.chance, self.flips_chance = stream(seed, "network faults"), stream(seed, "flipped bits")
        self._paths: dict[tuple[str, str], Path] = {}
        self._ports: dict[str, Port] = {}
        self.weigh: Weigh = wire_weight
        self.underlay: Underlay | None = None
        self._settings: dict[tuple[str, str], tuple[LinkSettings, float]] = {}
        for link in config.links:
            one, other = link.between
            self._settings[one, other] = (link, link.factor)
            self._settings[other, one] = (link, link.back_factor or link.factor)

    def measures(self, path: Path) -> bool:
        """Whether frames on that path have to be encoded to know their size."""
        return self.config.codec_check or path.port is not None

    def limit_brokers(self, bytes_per_s: float, weigh: Weigh = wire_weight) -> None:
        """From now on, each broker sends so many bytes a second to other brokers, over all its links together."""
        self.weigh = weigh
        if self.underlay is not None:
            self.underlay.weigh = weigh
            self.underlay.limit(bytes_per_s)
            return
        self._ports = {name: Port(bytes_per_s) for name, host in self.hosts.items() if host.is_broker}
        for (sender, receiver), path in self._paths.items():
            if self.hosts[sender].is_broker and self.hosts[receiver].is_broker:
                path.port = self._ports[sender]
        for host in self.hosts.values():
            for incoming in host.inputs:
                incoming.choose_again()

    def waiting(self) -> list[str]:
        """What nodes wait for, in words; one that has crashed waits for nothing."""
        return [f"{name} waits for {reason}" for name, host in self.hosts.items() for reason in host.waiting_for()]

    def busiest_bytes(self) -> int:
        """What the broker that sent most has sent to others since brokers were limited last."""
        return max(self.bytes_by_broker().values(), default=0)

    def bytes_by_broker(self) -> dict[str, int]:
        """What each broker has sent to others since brokers were limited last."""
        ports = self.underlay.ports if self.underlay is not None else self._ports
        return {name: port.sent_bytes for name, port in ports.items()}

    def lie_above(self, underlay: Underlay) -> None:
        """Let the underlay carry what brokers say to each other; before anybody is connected."""
        self.underlay = underlay

    def path(self, sender: "Host", receiver: "Host") -> Path:
        """The path from one host to the other; made when it is first wanted."""
        pair = (sender.name, receiver.name)
        path = self._paths.get(pair)
        if path is None:
            path = self._paths[pair] = self._new_path(pair, sender.is_broker and receiver.is_broker)
        return path

    def _new_path(self, pair: tuple[str, str], between_brokers: bool) -> Path:
        config = self.config
        latency = config.latency if between_brokers else config.client_latency
        bytes_per_s, factor = config.bytes_per_s, 1.0
        name = f"{pair[0]}>{pair[1]}"
        if config.speeds:
            factor = stream(self.seed, f"speed {name}").choice(config.speeds)
        if pair in self._settings:
            link, own_factor = self._settings[pair]
            latency, bytes_per_s = link.latency or latency, link.bytes_per_s or bytes_per_s
            factor *= own_factor
        port = Port(bytes_per_s) if bytes_per_s is not None else self._ports.get(pair[0]) if between_brokers else None
        sample = sampler(latency, lambda: stream(self.seed, f"latency {name}"))
        if config.latency_ms_max is not None:
            sample = at_most(sample, config.latency_ms_max / 1000 / factor)
        return Path(sample, factor, port)

    # --------------------------------------------------------------------------------------------------- dialling

    def dial(self, host: "Host", peer: str, address: str = "") -> None:
        """Try once to connect; the host hears of the outcome. An address here is the name of a host."""
        attempt = self.kernel.next_number()
        host.dialing[peer] = attempt
        target = self.hosts.get(address or peer)
        if target is None:
            self.kernel.after(self.config.connect_timeout_s, self.failed, (host, peer, attempt))
        else:
            self.kernel.after(self.path(host, target).delay_s(), self._knock, (host, target, peer, attempt))

    def _knock(self, call: "tuple[Host, Host, str, int]") -> None:
        host, target, peer, attempt = call
        if host.dialing.get(peer) != attempt:
            return
        there, back = self.path(host, target), self.path(target, host)
        if there.cut or back.cut:
            self.kernel.after(self.config.connect_timeout_s, self.failed, (host, peer, attempt))
        elif not target.up:
            self.kernel.after(back.delay_s(), self._refused, (host, peer, attempt))
        else:
            outgoing = NetworkStream(self, host, target, "")
            incoming = NetworkStream(self, target, host, peer)
            outgoing.reverse, incoming.reverse = incoming, outgoing
            incoming.last_s = self.kernel.now + back.delay_s()
            self.kernel.at(incoming.last_s, incoming.opened, attempt)

    def _refused(self, call: "tuple[Host, str, int]") -> None:
        """The machine of the target answers that nobody listens there."""
        host, peer, attempt = call
        if host.dialing.get(peer) == attempt and not host.paused and isinstance(host.node, Dialler):
            host.enter(host.node.nobody_listens(peer, host.now))
        self.failed(call)

    def failed(self, call: "tuple[Host, str, int]") -> None:
        """A connection could not be made."""
        host, peer, attempt = call
        if host.dialing.get(peer) != attempt:
            return
        if host.paused:
            host.inbox.append((self.failed, call))
            return
        del host.dialing[peer]
        host.hand_down(peer)

    # ------------------------------------------------------------------------------------------------------ faults

    def cut(self, one: "Host", other: "Host") -> None:
        """Hold everything between these two."""
        for sender, receiver in ((one, other), (other, one)):
            path = self.path(sender, receiver)
            path.cut = True
            for incoming in _between(sender, receiver):
                incoming.clear = False

    def heal(self, one: "Host", other: "Host") -> None:
        """Let everything between these two pass again."""
        for sender, receiver in ((one, other), (other, one)):
            path = self.path(sender, receiver)
            if path.cut:
                path.cut = False
                for incoming in _between(sender, receiver):
                    incoming.healed()

    def heal_all(self) -> None:
        for (one, other), path in list(self._paths.items()):
            if path.cut:
                self.heal(self.hosts[one], self.hosts[other])

    def slow(self, one: "Host", other: "Host", factor: float, back_factor: float) -> None:
        """Make the link that many times slower than it was made; a factor of 1 makes it as it was."""
        there, back = self.path(one, other), self.path(other, one)
        there.factor = there.base_factor * factor
        back.factor = back.base_factor * back_factor

    def flip(self, one: "Host", other: "Host", share: float) -> None:
        """Flip bits of that share of the frames between these two, in both directions."""
        for sender, receiver in ((one, other), (other, one)):
            self.path(sender, receiver).flipped_share = share
            for incoming in _between(sender, receiver):
                incoming.choose_again()

    def is_vain(self, action: Action, argument: Any) -> bool:
        """Whether an action of the queue is an attempt to reach a host that is down: nothing will come of it."""
        if action in (self.failed, self._refused):
            return True
        return bool(action == self._knock and not argument[1].up)

    def reset(self, one: "Host", other: "Host") -> None:
        """End the connections between these two, with a loss in each direction."""
        for incoming in (*_between(one, other), *_between(other, one)):
            incoming.break_off(self.chance)

    def crash(self, host: "Host") -> None:
        """End all connections of a host that is gone."""
        for incoming in list(host.inputs):
            incoming.reverse.break_off(self.chance)
            incoming.close()


def _between(sender: "Host", receiver: "Host") -> list[NetworkStream]:
    return [incoming for incoming in receiver.inputs if incoming.sender is sender]


def _decoded(frame: Frame, data: bytes) -> Frame:
    decoded = decode(memoryview(data)[HEADER_BYTES:])
    assert decoded == frame, f"the wire turned {frame} into {decoded}"
    return decoded
