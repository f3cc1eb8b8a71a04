"""A host drives one node: it fulfils the driver's contract of `protocols.node` in virtual time.

Everything that reaches the node goes through its host, one entry point at a time; the effects are carried out in order
before the next. While the host is *paused* (frozen, or waiting for its disk) what comes queues up in the inbox.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from heapq import heappush
from itertools import chain
from random import Random
from typing import Any

from msgspec import Struct

from holdfast.model.errors import LocalMisuse
from holdfast.model.messages import Frame
from holdfast.protocols.node import (
    CancelTimer,
    Connect,
    Disconnect,
    Effect,
    Effects,
    KeepsLog,
    Node,
    Persist,
    Report,
    Restart,
    Restorable,
    Retiring,
    Send,
    SetTimer,
)
from holdfast.simulation.disk import Disk
from holdfast.simulation.kernel import Action
from holdfast.simulation.network import Network, NetworkStream

TIMER_S_MIN = 1e-9
"""Time moves before a timer fires, whatever it was set to."""
CHANCE_BITS = 40
"""An incarnation is the number of the life, then this much chance: later ones are larger, and none can be guessed."""
SKEW_S_MAX = 1000.0
"""Clocks of different nodes have nothing to do with each other: each starts somewhere below this."""

Reports = list[tuple[float, str, Report]]


class Watch(Struct):
    """Waits for the n-th frame or message of a kind that a host sends, then acts: for faults in the midst of things."""

    kind: str
    left: int
    action: Callable[[], None]


class Host:
    """The driver of one node. `receive` is the node's own entry point, bound at each start."""

    __slots__ = (
        "_chance_for",
        "_check",
        "_disk",
        "_kept",
        "_lives",
        "_make_node",
        "_overdue",
        "_timers",
        "_unfinished",
        "dialing",
        "fire",
        "frozen",
        "handlers",
        "inbox",
        "inputs",
        "is_broker",
        "kernel",
        "name",
        "network",
        "node",
        "paused",
        "receive",
        "reports",
        "settle",
        "skew_s",
        "streams",
        "touched",
        "up",
        "watches",
        "writing",
    )
    node: Node
    receive: Callable[[str, Frame, float], Effects]

    def __init__(
        self,
        name: str,
        network: Network,
        disk: Disk,
        reports: Reports,
        chance_for: Callable[[str], Random],
        make_node: Callable[[int], Node],
        check_invariants: bool = False,
        is_broker: bool = True,
    ) -> None:
        self.name, self.network, self.kernel, self.is_broker = name, network, network.kernel, is_broker
        self.reports, self._disk, self._chance_for, self._make_node = reports, disk, chance_for, make_node
        self._lives = 0
        self._kept: Sized | None = None
        self.up = self.paused = self.frozen = self.writing = self.touched = False
        self.skew_s = chance_for("clock").uniform(0.0, SKEW_S_MAX)
        self.inputs: dict[NetworkStream, None] = {}
        self.streams: dict[str, NetworkStream] = {}
        self.dialing: dict[str, int] = {}
        self.inbox: deque[tuple[Action, Any]] = deque()
        self._overdue: list[tuple[str, int]] = []
        self._timers: dict[str, int] = {}
        self._unfinished: Iterator[Effect] | None = None
        self.watches: list[Watch] = []
        self.fire = self._fire
        self.settle = self._settle
        self.handlers = self._handlers()
        self._check = self._check_invariants if check_invariants else None
        network.hosts[name] = self

    # ------------------------------------------------------------------------------------------------ life and death

    def start(self) -> None:
        """Begin anew with a fresh node, which gets back what an earlier one persisted."""
        if self.up:
            return
        self.up = True
        self._lives += 1
        chance = self._chance_for(f"life {self._lives}")
        self.node = self._make_node((self._lives << CHANCE_BITS) | chance.getrandbits(CHANCE_BITS))
        self.receive = self.node.receive
        self._kept = self.node.log if isinstance(self.node, KeepsLog) else None
        if self._disk.pairs and isinstance(self.node, Restorable):
            self.node.restore(dict(self._disk.pairs))
        self.enter(self.node.start(self.now))

    def crash(self) -> None:
        """Stop in the midst of whatever was going on; nothing but what was synced is left."""
        if not self.up:
            return
        self._gone()
        self.network.crash(self)
        self._disk.crash()
        self.report(Report("crash"))

    def recover(self) -> None:
        """Come back after a crash or a stop."""
        if not self.up:
            self.report(Report("recover"))
            self.start()

    def _gone(self) -> None:
        self.up = self.paused = self.frozen = self.writing = False
        self.streams.clear()
        self.dialing.clear()
        self.inbox.clear()
        self._overdue.clear()
        self._timers.clear()
        self._unfinished = None

    def leave(self, _: object = None) -> None:
        """The node has stopped by itself: its connections close behind what it said."""
        if self.up:
            outgoing = [incoming.reverse for incoming in self.inputs]
            self._gone()
            for one in outgoing:
                one.reverse.close()
                one.finish()

    def restart(self, node: Node) -> None:
        """Begin anew in the place of a node that was given up, unless it died of something else first."""
        if self.up and self.node is node:
            self.leave()
            self._disk.crash()
            self.start()

    def freeze(self) -> None:
        if self.up and not self.frozen:
            self.frozen = self.paused = True
            self.report(Report("freeze"))

    def thaw(self) -> None:
        """Go on. A loop that wakes up finds input and overdue timers at once; which it takes first is up to chance."""
        if not self.frozen:
            return
        self.frozen, self.paused = False, self.writing
        self.report(Report("thaw"))
        timers = [(self.fire, timer) for timer in self._overdue]
        self._overdue.clear()
        if self._chance_for(f"thaw {self.kernel.now}").random() < 0.5:
            self.inbox.extend(timers)
        else:
            self.inbox.extendleft(reversed(timers))
        self._drain()

    # ------------------------------------------------------------------------------------------------- entry points

    @property
    def now(self) -> float:
        """The time on this node's clock."""
        return self.kernel.now + self.skew_s

    def enter(self, effects: Effects) -> None:
        """Carry out what an entry point returned, and settle when the instant ends."""
        self.carry_out(effects)
        if not self.touched:
            self.touch()

    def touch(self) -> None:
        self.touched = True
        self.kernel.at_end(self.settle)

    def when_free(self, action: Action, argument: Any = None) -> None:
        """Call `action(argument)`, which enters the node, as soon as it may be entered."""
        if self.paused:
            self.inbox.append((action, argument))
        elif self.up:
            action(argument)

    def hand_up(self, peer: str) -> None:
        self.enter(self.node.peer_up(peer, self.now))

    def hand_down(self, peer: str) -> None:
        self.enter(self.node.peer_down(peer, self.now))

    def adopt(self, peer: str, outgoing: NetworkStream) -> None:
        """A new connection with that peer takes the place of an older one, which is reported down first."""
        older = self.streams.get(peer)
        self.streams[peer] = outgoing
        if older is not None:
            older.reverse.close()
            older.finish()
            self.hand_down(peer)

    def stop(self) -> None:
        """Ask the node to leave gracefully."""
        self.when_free(lambda _: self.enter(self.node.stop(self.now)))

    def retire(self) -> None:
        """Ask the node to leave the tree for good; it refuses if it cannot."""
        self.when_free(self._retire)

    def _retire(self, _: object) -> None:
        if isinstance(self.node, Retiring):
            try:
                self.enter(self.node.leave(self.now))
            except LocalMisuse as refused:
                self.report(Report("refused", detail=str(refused)))

    def _fire(self, timer: tuple[str, int]) -> None:
        name, number = timer
        if self._timers.get(name) != number:
            return
        if self.paused:
            if self.frozen:
                self._overdue.append(timer)
            else:
                self.inbox.append((self.fire, timer))
            return
        del self._timers[name]
        self.enter(self.node.timer(name, self.kernel.now + self.skew_s))

    def _settle(self, _: object) -> None:
        self.touched = False
        if self.paused:
            self.inbox.append((self.settle, None))
        elif self.up:
            effects = self.node.settle(self.kernel.now + self.skew_s)
            if effects or self._check is not None:
                self.carry_out(effects)

    def _drain(self) -> None:
        """Finish what the disk interrupted, then hand over what has queued up, until the host is paused again."""
        inbox, unfinished = self.inbox, self._unfinished
        if unfinished is not None and not self.paused:
            self._unfinished = None
            self.carry_out(unfinished)
        while inbox and not self.paused:
            action, argument = inbox.popleft()
            action(argument)

    # ------------------------------------------------------------------------------------------------------ effects

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Carry out what an entry point returned, or what is left of it."""
        if self._check is not None:
            self._check()
        if not effects:
            return
        streams, watches = self.streams, self.watches
        left = iter(effects)
        for effect in left:
            if type(effect) is Send:
                outgoing = streams.get(effect.peer)
                if outgoing is not None:
                    outgoing.send(effect.frame)
                    if watches and self._seen(effect.frame):
                        return
            elif type(effect) is Persist:
                self._persist(effect, left)
                return
            else:
                self.handlers[type(effect)](effect)

    def _persist(self, first: Persist, effects: Iterator[Effect]) -> None:
        """Write what is to be persisted next; the rest of the effects, and everything else, waits until it is."""
        writes, rest = [first], effects
        for effect in effects:
            if not isinstance(effect, Persist):
                rest = chain((effect,), effects)
                break
            writes.append(effect)
        self.writing = self.paused = True
        self._unfinished = rest
        self._disk.write(writes, self._written)

    def _written(self, _: object) -> None:
        # The disk works on while a process stands still, which learns of it when it goes on.
        self.writing, self.paused = False, self.frozen
        self._drain()

    def _seen(self, frame: Frame) -> bool:
        """Let the watches see a frame that was sent; whether the host died of it."""
        kinds = {type(frame).__name__, type(getattr(frame, "message", frame)).__name__}
        for watch in list(self.watches):
            if watch.kind in kinds:
                watch.left -= 1
                if watch.left <= 0:
                    self.watches.remove(watch)
                    watch.action()
        return not self.up

    def _set_timer(self, effect: SetTimer) -> None:
        kernel = self.kernel
        number = self._timers[effect.name] = kernel.next_number()
        when = kernel.now + max(effect.after_s, TIMER_S_MIN)
        heappush(kernel.queue, (when, number, self.fire, (effect.name, number)))

    def _cancel_timer(self, effect: CancelTimer) -> None:
        self._timers.pop(effect.name, None)

    def _connect(self, effect: Connect) -> None:
        self.network.dial(self, effect.peer, effect.address)

    def _disconnect(self, effect: Disconnect) -> None:
        self.dialing.pop(effect.peer, None)
        outgoing = self.streams.pop(effect.peer, None)
        if outgoing is not None:
            outgoing.reverse.close()
            outgoing.finish()

    def report(self, effect: Report) -> None:
        self.reports.append((self.kernel.now, self.name, effect))
        if effect.event == "stopped":
            # What stands behind it in the list of effects still has to happen.
            self.kernel.at_end(self.leave)

    def _restart(self, effect: Restart) -> None:
        node = self.node
        self.report(Report("restart", detail=effect.reason))
        self.kernel.at_end(lambda _: self.restart(node))

    def _handlers(self) -> dict[type, Callable[[Any], None]]:
        """What carries out which effects, but for those that `carry_out` knows."""
        return {
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Connect: self._connect,
            Disconnect: self._disconnect,
            Report: self.report,
            Restart: self._restart,
        }

    # --------------------------------------------------------------------------------------------------- inspection

    def _check_invariants(self) -> None:
        try:
            self.node.check_invariants()
        except AssertionError as error:
            error.add_note(f"in node {self.name} at {self.kernel.now:.9f} s")
            raise

    def waiting_for(self) -> list[str]:
        """What keeps this host from being at rest, in words; nothing when it is down."""
        if not self.up:
            return []
        reasons = list(self.node.waiting_for())
        if self._kept is not None and len(self._kept):
            reasons.append(f"{len(self._kept)} records to become stable")
        halves = [incoming for incoming in self.inputs if incoming.flips is not None and incoming.flips.pending_bytes]
        reasons += [f"the rest of a frame from {incoming.sender.name}" for incoming in halves]
        if self.inbox:
            why = "frozen" if self.frozen else "waiting for its disk"
            reasons.append(f"{why}, with {len(self.inbox)} inputs queued up")
        return reasons

    @classmethod
    def is_timer(cls, action: Action) -> bool:
        """Whether an action of the queue is a node's timer."""
        host = getattr(action, "__self__", None)
        return isinstance(host, cls) and action == host.fire
