"""Drives one node on an asyncio event loop, by the contract in `protocols.node`.

The path of a message is: bytes arrive, frames are cut, `receive` returns effects, frames to send are encoded and
collected; at the end of the turn, once, `settle` is called and each connection is written to once. There is no task, no
future and no timer per message.

What ends a connection is told apart: a peer that breaks the rules of the wire is cut and logged with its fault; a node
that raises anything else has a bug, its state is not to be trusted, and the driver stops driving it (`failed`).

For experiments a driver can be cut off from some of its peers: it then behaves as if the network between them were
gone, until it is healed.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from ssl import SSLContext
from time import monotonic
from typing import Any

from holdfast.model.errors import LocalMisuse, PeerViolation
from holdfast.model.messages import REASON_CHARACTERS_MAX, Frame, Hello, Ping, Refusal
from holdfast.model.wire import UnreadableError, WireError, pieces
from holdfast.protocols.node import (
    CancelTimer,
    Connect,
    Dialler,
    Disconnect,
    Doorkeeper,
    Effect,
    Evictor,
    Node,
    Persist,
    Report,
    Send,
    SetTimer,
)
from holdfast.runtime.connection import Connection, ConnectionLimits
from holdfast.runtime.logs import ProcessLog
from holdfast.runtime.places import Address, listen_error, place_of, sentence_of, wordless
from holdfast.runtime.reading import ReadBuffer
from holdfast.runtime.timers import Timers

ACCEPT_BACKLOG = 1024

Handler = Callable[[Any], None]
Sink = Callable[[Report], None]
_NO_ADDRESS = "no address is known for it"
_CUT_OFF = "it is cut off"


class Driver:
    """One node, its connections and its timers.

    `address_of` says where a peer that the node wants to connect to is, unless the node knows it itself; it is asked
    anew for every attempt. `handlers` carry out the effects that only the caller understands (those of clients, and a
    broker's `Restart`); `sinks` get every `Report`. `keep` makes what a node persists durable
    before it returns.
    """

    def __init__(
        self,
        node: Node,
        address_of: Callable[[str], Address | None],
        *,
        handlers: Mapping[type[Effect], Handler] | None = None,
        sinks: Sequence[Sink] = (),
        limits: ConnectionLimits | None = None,
        log: ProcessLog | None = None,
        ssl_client: SSLContext | None = None,
        on_dial_failed: Callable[[str, str], None] | None = None,
        on_no_broker: Callable[[str, str], None] | None = None,
        keep: Callable[[Mapping[str, bytes]], None] | None = None,
    ) -> None:
        self._node, self._address_of = node, address_of
        self._loop = asyncio.get_running_loop()
        self._limits = limits or ConnectionLimits()
        self._log = log or ProcessLog("holdfast.driver", node=node.name)
        self._sinks = tuple(sinks)
        self._ssl_client = ssl_client
        self._on_dial_failed, self._on_no_broker = on_dial_failed, on_no_broker
        self._introduction: Sequence[Frame] = ()
        self._keep = keep
        self._unsaved: dict[str, bytes] = {}
        self._handlers: dict[type[Effect], Handler] = {
            Connect: self._connect,
            Disconnect: self._disconnect,
            SetTimer: lambda effect: self._timers.set(effect.name, effect.after_s),
            CancelTimer: lambda effect: self._timers.cancel(effect.name),
            Persist: self._persist,
            Report: self._report,
            **(handlers or {}),
        }
        self._timers = Timers(self._loop, self._timer_rang)
        self._buffer = ReadBuffer()
        self._connections: dict[str, Connection] = {}
        self._open: set[Connection] = set()
        self._strangers: dict[Connection, asyncio.TimerHandle] = {}
        self._dials: dict[str, asyncio.Task[None]] = {}
        self._dialling: dict[str, Connection] = {}
        self._places: dict[str, Address | None] = {}
        self._cut_off: set[str] = set()
        self.dialled: Address | None = None
        """Where the last attempt to connect went."""
        self._unflushed: list[Connection] = []
        self._server: asyncio.Server | None = None
        self._all_ended = asyncio.Event()
        self._all_ended.set()
        self.settle_pending = False
        self.failed: asyncio.Future[None] = self._loop.create_future()

    # ------------------------------------------------------------------------------------------------ life

    def start(self) -> None:
        """Start the node."""
        self.enter(self._node.start)

    async def listen(self, host: str, port: int, ssl: SSLContext | None = None) -> Address:
        """Accept connections there; returns the address, with the port that was chosen if `port` is 0."""
        try:
            self._server = await self._loop.create_server(
                lambda: Connection(self, None, self._limits, self._buffer), host, port, backlog=ACCEPT_BACKLOG, ssl=ssl
            )
        except OSError as error:
            raise listen_error(self._node.name, host, port, error) from None
        bound = self._server.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    def stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()

    async def close(self, linger: bool = True) -> None:
        """Drive the node no more and close every connection; `linger` sees to it that what was sent arrives."""
        self._settle()
        self._fail_quietly()
        self.stop_listening()
        self._timers.close()
        for peer in list(self._dials):
            dial = self._stop_dialling(peer)
            if dial is not None:
                dial.cancel()
        for connection in list(self._open):
            connection.close() if linger else connection.abort()
        await self._all_ended.wait()

    def replace(self, node: Node) -> None:
        """Drive another node from now on, on the same listener; nothing that the old one knew is left.

        Not from inside an entry point. Whoever was connected has to say hello anew.
        """
        self._save()
        self._flush()
        self._timers.close()
        for peer in list(self._dials):
            dial = self._stop_dialling(peer)
            if dial is not None:
                dial.cancel()
        self._places.clear()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._node = node

    def _fail_quietly(self) -> None:
        if not self.failed.done():
            self.failed.set_result(None)

    # ---------------------------------------------------------------------------------------- entering the node

    def enter(self, entry: Callable[[float], list[Effect]]) -> None:
        """Call an entry point of the node and carry its effects out. A node that has failed is left alone."""
        if self.failed.done():
            return
        try:
            self.carry_out(entry(monotonic()))
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        else:
            self.settle_soon()

    def frames_arrived(self, connection: Connection, frames: list[Frame]) -> None:
        peer = connection.peer
        if self.failed.done():
            return
        try:
            if peer is None:
                if isinstance(frames[0], Ping) and self._introduction:
                    self._answer_stranger(connection, self._introduction)
                    return
                if self._is_turned_away(connection, frames[0]):
                    return
                peer = self._introduce(connection, frames[0])
            now, receive, carry_out = monotonic(), self._node.receive, self.carry_out
            for frame in frames:
                effects = receive(peer, frame, now)
                if effects:
                    carry_out(effects)
                    # What follows on a connection that the node has just closed is not for it any more.
                    if connection.closed:
                        break
        except PeerViolation as violation:
            self.peer_violated(connection, violation)
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        else:
            if self._unflushed:
                # Somebody waits for what is to be sent: the next turn is for whatever else there is to do.
                self._settle()
            else:
                self.settle_soon()

    def settle_soon(self) -> None:
        """Settle the node and write to its connections at the end of this turn of the loop."""
        if not self.settle_pending:
            self.settle_pending = True
            self._loop.call_soon(self._settle_turn)

    def settle_now(self) -> None:
        """The same, at once: there is a write's worth waiting. Only from outside the node's entry points."""
        self._settle()

    def _settle_turn(self) -> None:
        if self.settle_pending:
            self._settle()

    def _settle(self) -> None:
        # Whatever was to be settled is settled now; what comes after this asks again.
        self.settle_pending = False
        if self.failed.done():
            return
        try:
            effects = self._node.settle(monotonic())
            if effects:
                self.carry_out(effects)
            if self._unsaved:
                self._save()
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        else:
            if self._unflushed:
                self._flush()

    def _flush(self) -> None:
        unflushed, self._unflushed = self._unflushed, []
        for connection in unflushed:
            connection.flush()

    def _timer_rang(self, name: str) -> None:
        self.enter(lambda now: self._node.timer(name, now))

    def _fail(self, error: Exception) -> None:
        """The node raised what it never should: nothing it holds can be trusted, so nothing of it goes out."""
        if self.failed.done():
            return
        self._log.error("node failed", error, fault="ours", reason=f"{type(error).__name__}: {error}")
        self.failed.set_exception(error)
        # Whoever waits for it gets it; nobody has to.
        self.failed.exception()
        for connection in list(self._open):
            connection.abort()

    # --------------------------------------------------------------------------------------------- its effects

    def carry_out(self, effects: list[Effect]) -> None:
        """Carry effects out, in order; the caller sees to it that the node is settled afterwards."""
        connections, handlers = self._connections, self._handlers
        for effect in effects:
            if type(effect) is Send:
                connection = connections.get(effect.peer)
                if connection is not None:
                    if not connection.out:
                        self._unflushed.append(connection)
                    connection.out += pieces(effect.frame)
            else:
                handlers[type(effect)](effect)

    def _report(self, report: Report) -> None:
        for sink in self._sinks:
            sink(report)

    def _persist(self, effect: Persist) -> None:
        if self._keep is None:
            raise LocalMisuse(f"{self._node.name} wants to keep {effect.key!r}, but its driver was given no storage")
        # Nothing leaves before the turn ends or a connection closes; whatever is kept until then is written at once.
        self._unsaved[effect.key] = effect.value

    def _save(self) -> None:
        if self._keep is not None and self._unsaved:
            unsaved, self._unsaved = self._unsaved, {}
            self._keep(unsaved)

    def _connect(self, effect: Connect) -> None:
        peer = effect.peer
        if effect.address:
            self._places[peer] = place_of(effect.address)
        if peer in self._dials:
            return
        self._drop(peer)
        self._dials[peer] = self._loop.create_task(self._dial(peer))

    def _disconnect(self, effect: Disconnect) -> None:
        self._save()
        dial = self._stop_dialling(effect.peer)
        if dial is not None:
            dial.cancel()
        connection = self._connections.pop(effect.peer, None)
        if connection is not None:
            self._log.debug("disconnect", peer=effect.peer, address=connection.address, reason=effect.reason)
            connection.close()

    def _stop_dialling(self, peer: str) -> asyncio.Task[None] | None:
        """That attempt to connect counts no more; its task, if there is one."""
        self._dialling.pop(peer, None)
        return self._dials.pop(peer, None)

    def _drop(self, peer: str) -> None:
        connection = self._connections.pop(peer, None)
        if connection is not None:
            connection.abort()

    # --------------------------------------------------------------------------------------------- connections

    async def _dial(self, peer: str) -> None:
        address = self._places[peer] if peer in self._places else self._address_of(peer)
        self.dialled = address
        made = Connection(self, peer, self._limits, self._buffer)
        self._dialling[peer] = made
        try:
            if peer in self._cut_off:
                # Nobody says no: an attempt across a broken network hangs.
                await asyncio.sleep(self._limits.connect_s)
                raise OSError(_CUT_OFF)
            if address is None:
                raise OSError(_NO_ADDRESS)
            async with asyncio.timeout(self._limits.connect_s):
                await self._loop.create_connection(lambda: made, *address, ssl=self._ssl_client)
        except asyncio.CancelledError:
            # A connection that was made in the same turn is closed by the loop, and nobody is told.
            self._forget(made)
            raise
        except OSError as error:
            self._forget(made)
            if self._dialling.get(peer) is not made:
                return
            self._stop_dialling(peer)
            reason = sentence_of(error, tls=self._ssl_client is not None)
            self._log.debug("cannot connect", peer=peer, address=address, reason=reason)
            if self._on_dial_failed is not None:
                self._on_dial_failed(peer, reason)
            node = self._node
            if isinstance(error, ConnectionRefusedError) and isinstance(node, Dialler):
                self.enter(lambda now: node.nobody_listens(peer, now))
            self.enter(lambda now: self._node.peer_down(peer, now))

    def connection_opened(self, connection: Connection) -> None:
        self._open.add(connection)
        self._all_ended.clear()
        if self.failed.done():
            connection.abort()
        elif connection.peer is None:
            self._receive_stranger(connection)
        elif self._dialling.get(connection.peer) is not connection:
            # The node took its wish back while the connection was being made.
            connection.close()
        else:
            peer = connection.peer
            self._stop_dialling(peer)
            self._adopt(peer, connection)
            self.enter(lambda now: self._node.peer_up(peer, now))

    def _receive_stranger(self, connection: Connection) -> None:
        limits = self._limits
        if len(self._strangers) >= limits.half_open_max:
            oldest = next(iter(self._strangers))
            self._turn_away(oldest, f"more than {limits.half_open_max} connections have not said who they are")
        late = f"no Hello within {limits.hello_s:g} s"
        self._strangers[connection] = self._loop.call_later(limits.hello_s, self._turn_away, connection, late)

    def _turn_away(self, connection: Connection, reason: str, refusal: Frame | None = None) -> None:
        self._strangers.pop(connection).cancel()
        self._log.warning("connection closed", address=connection.address, fault="peer", reason=reason)
        if refusal is not None:
            connection.out += pieces(refusal)
        connection.close()

    def introduce_as(self, introduction: Sequence[Frame]) -> None:
        """Say that from now on to strangers who ask who is there."""
        self._introduction = introduction

    def _answer_stranger(self, connection: Connection, introduction: Sequence[Frame]) -> None:
        """Somebody wants to know who is there, and nothing more."""
        self._strangers.pop(connection).cancel()
        for frame in introduction:
            connection.out += pieces(frame)
        connection.close()

    def _is_turned_away(self, connection: Connection, first: Frame) -> bool:
        """Whether the node will have nothing of whoever says that: then nobody's connection is touched for it."""
        node = self._node
        refusal = node.turn_away(first) if isinstance(first, Hello) and isinstance(node, Doorkeeper) else None
        if refusal is not None:
            self._turn_away(connection, refusal.reason, refusal)
        return refusal is not None

    def _introduce(self, connection: Connection, first: Frame) -> str:
        """The name in the first frame of an accepted connection, which is from now on the connection's."""
        if not isinstance(first, Hello):
            raise WireError(f"the first frame was a {type(first).__name__}; whoever connects says Hello first")
        if first.node in self._cut_off:
            raise PeerViolation(f"{first.node} is cut off from here")
        self._strangers.pop(connection).cancel()
        connection.peer = first.node
        if first.kind == "client":
            connection.be_strict()
        self._adopt(first.node, connection)
        self._log.debug("connected", peer=first.node, address=connection.address, kind=first.kind)
        return first.node

    def _adopt(self, peer: str, connection: Connection) -> None:
        """A newer connection replaces the older one of the same peer, which is reported down first."""
        older = self._connections.pop(peer, None)
        if older is not None:
            older.abort()
            self.carry_out(self._node.peer_down(peer, monotonic()))
        self._connections[peer] = connection

    def peer_violated(self, connection: Connection, violation: PeerViolation) -> None:
        # Somebody who is told of those that are no brokers says so, in a sentence that names them.
        told = self._on_no_broker is not None and connection.peer is not None and not connection.heard
        write = self._log.info if told else self._log.warning
        write(
            "connection closed",
            peer=connection.peer or "",
            address=connection.address,
            fault="peer",
            reason=str(violation),
        )
        if not isinstance(violation, UnreadableError):
            connection.abort()
        elif connection.peer is not None:
            self._throw_out(connection, connection.peer, str(violation))
        else:
            # It speaks our language and says what we cannot read: it would do so again if nobody told it.
            connection.out += pieces(Refusal("misuse", str(violation)[:REASON_CHARACTERS_MAX]))
            connection.close()

    def _throw_out(self, connection: Connection, peer: str, reason: str) -> None:
        node = self._node
        if isinstance(node, Evictor) and self._connections.get(peer) is connection:
            self.enter(lambda now: node.throw_out(peer, reason, now))
        if not connection.closed:
            connection.abort()

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        if not self._open:
            self._all_ended.set()

    def connection_ended(self, connection: Connection, reason: str) -> None:
        self._forget(connection)
        hello_timer = self._strangers.pop(connection, None)
        if hello_timer is not None:
            hello_timer.cancel()
        peer = connection.peer
        if peer is None or self._connections.get(peer) is not connection:
            return
        del self._connections[peer]
        if self._on_no_broker is not None and not connection.heard:
            self._on_no_broker(peer, wordless(connection.first_bytes()))
        self._log.debug("connection ended", peer=peer, address=connection.address, reason=reason)
        self.enter(lambda now: self._node.peer_down(peer, now))

    # --------------------------------------------------------------------------------------------------- cuts

    def cut(self, peer: str) -> None:
        """Let nothing pass from or to that peer, silently, until `heal`."""
        self._cut_off.add(peer)
        connection = self._connections.get(peer)
        if connection is not None:
            connection.mute(True)

    def heal(self) -> None:
        """Take every cut back."""
        self._cut_off.clear()
        for connection in list(self._connections.values()):
            connection.mute(False)

    @property
    def cuts(self) -> list[str]:
        """From whom this driver is cut off."""
        return sorted(self._cut_off)

    @property
    def peers(self) -> list[str]:
        """Who is connected now."""
        return sorted(self._connections)
