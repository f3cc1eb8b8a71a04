"""A client's host with an application on top: it gives the commands of a timetable, consumes, and reacts."""

from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from holdfast.model.batches import Attributes, Batch, Message
from holdfast.model.errors import LocalMisuse
from holdfast.model.guarantees import RANKS
from holdfast.model.identities import STRIDE_BITS, is_tagged
from holdfast.model.topics import matches
from holdfast.model.trace import Event
from holdfast.protocols.node import (
    Accepted,
    Attached,
    ClientCommands,
    Completed,
    Deliver,
    Ended,
    Failed,
    Missing,
    Unconfirmed,
)
from holdfast.simulation.checkers.names import End, Session
from holdfast.simulation.checkers.survivors import as_survivors_see_it
from holdfast.simulation.disk import Disk
from holdfast.simulation.faults import Confirm, Detach, Publish, React, Subscribe, Unsubscribe
from holdfast.simulation.hosts import Host, Reports
from holdfast.simulation.network import Network

BACKLOG_BYTES_MAX = 1 << 20
"""An application waits with the next publication while the broker has not accepted this much."""

LOSSES = ("crash", "suspect")
"""What is reported when a broker is lost, or is taken to be."""

Request = Publish | Subscribe | Unsubscribe | Confirm | Detach
Hook = Callable[[Message], None]


def stride_of(chance_for: Callable[[str], Random]) -> int:
    """What a client draws for its numbers, where others may have its name."""
    return chance_for("stride").getrandbits(STRIDE_BITS)


class ClientHost(Host):
    """The driver of one client. Commands wait until the session is up, as an application awaits its connection."""

    __slots__ = (
        "_blocks",
        "_busy_until_s",
        "_eaten",
        "_latest",
        "_pump_bound",
        "_requests",
        "accepted_seq",
        "broker",
        "buried",
        "commands",
        "completed",
        "consume_s",
        "delivered",
        "doubts",
        "ended",
        "failures",
        "gaps",
        "hooks",
        "reactions",
        "ready",
        "recalling",
        "taken",
    )
    node: ClientCommands

    def __init__(
        self,
        name: str,
        broker: str,
        network: Network,
        disk: Disk,
        reports: Reports,
        chance_for: Callable[[str], Random],
        make_node: Callable[[int], ClientCommands],
        check_invariants: bool = False,
    ) -> None:
        super().__init__(name, network, disk, reports, chance_for, make_node, check_invariants, is_broker=False)
        self.broker = broker
        self.consume_s = 0.0
        self.ready = self.ended = False
        self.buried = False
        """Whether it died with its broker, for good."""
        self.taken = False
        """Whether a later session has its name."""
        self.recalling = 0
        """The request for the numbers of its name, which others may have: nothing is done before it is answered."""
        self.commands: deque[Request] = deque()
        self.completed: list[Request] = []
        self.failures: list[str] = []
        self.delivered: list[tuple[float, Batch]] = []
        self.doubts: list[tuple[Request, str]] = []
        """What was asked to be confirmed and could not be, and why."""
        self.gaps: list[tuple[float, str]] = []
        """When it was told that something may be missing, and why."""
        self.hooks: list[Hook] = []
        self.reactions: list[tuple[React, list[int]]] = []
        self._requests: dict[int, Request] = {}
        self._latest: dict[str, tuple[int, Attributes]] = {}
        self.accepted_seq = 0
        """Every publication up to this number was accepted by a broker."""
        self._eaten: list[Batch] = []
        self._busy_until_s = 0.0
        self._blocks = False
        """Whether some subscription blocks: of the others the process takes everything, and their application reads."""
        self._pump_bound = self._pump

    def start(self) -> None:
        if self.buried:
            return
        if not self.up:
            self.ready = self.ended = False
            self.recalling = 0
            self._requests.clear()
            self._latest.clear()
            self._eaten.clear()
        super().start()

    # ------------------------------------------------------------------------------------------------------ commands

    def give(self, command: Request) -> None:
        """Carry a command out as soon as the client can."""
        self.commands.append(command)
        if self.up and not self.taken:
            self.when_free(self._pump_bound)
        else:
            self._refuse_all("the client is down")

    def react(self, reaction: React) -> None:
        self.reactions.append((reaction, [reaction.times]))

    def _pump(self, _: object) -> None:
        commands = self.commands
        while commands and self.ready and not self.paused:
            command = commands[0]
            if isinstance(command, Publish) and self._backlog_bytes() > BACKLOG_BYTES_MAX:
                return  # Until the broker accepts some.
            commands.popleft()
            try:
                self._do(command)
            except LocalMisuse as misuse:
                self.failures.append(f"{command}: {misuse}")

    def _backlog_bytes(self) -> int:
        return getattr(self.node, "backlog_bytes", 0)

    def _do(self, command: Request) -> None:
        node, now = self.node, self.now
        if isinstance(command, Publish):
            rank = RANKS[command.guarantee]
            seq = node.publish(command.topic, command.payload, rank, command.keys, command.attributes)
            self._latest[command.topic] = (seq, command.attributes)
            self.enter([])
            return
        if isinstance(command, Detach):
            self.enter(node.stop(now))
            return
        if isinstance(command, Subscribe):
            self._blocks |= command.slow == "block"
            token, effects = node.subscribe(
                command.pattern, command.where, now, slow=command.slow, slow_s=command.slow_s
            )
        elif isinstance(command, Unsubscribe):
            token, effects = node.unsubscribe(command.pattern, command.where, now)
        elif command.topic in self._latest:
            seq, attributes = self._latest[command.topic]
            token, effects = node.confirm(command.topic, seq, now, attributes, command.taken)
        else:
            raise LocalMisuse(f"{self.name} has published nothing on {command.topic} that could be confirmed")
        self._requests[token] = command
        self.enter(effects)

    def _refuse_all(self, why: str) -> None:
        self.failures += [f"{command}: {why}" for command in self.commands]
        self.commands.clear()

    def _gone(self) -> None:
        super()._gone()
        self.ready = False
        self._refuse_all("the client is gone")

    # ------------------------------------------------------------------------------------------------------- effects

    def _deliver(self, effect: Deliver) -> None:
        batch, kernel = effect.batch, self.kernel
        self.delivered.append((kernel.now, batch))
        if self.consume_s:
            self._busy_until_s = max(self._busy_until_s, kernel.now) + self.consume_s * batch.count
            kernel.at(self._busy_until_s, self._consume, (self.node, batch))
            if not self._blocks:
                self.node.consumed(batch)
                if not self.touched:
                    self.touch()
        else:
            self._eaten.append(batch)
            if not self.touched:
                self.touch()
        if self.reactions or self.hooks:
            for message in batch.messages():
                self._tell(message)

    def _tell(self, message: Message) -> None:
        for hook in self.hooks:
            hook(message)
        for reaction, left in self.reactions:
            if left[0] and matches(reaction.pattern, message.topic):
                left[0] -= 1
                self.kernel.after(reaction.after_s, self.give, reaction.publication())

    def _consume(self, eaten: tuple[ClientCommands, Batch]) -> None:
        """A slow application has got through a batch; one that was handed out before a crash concerns nobody now."""
        node, batch = eaten
        if self.paused:
            self.inbox.append((self._consume, eaten))
        elif self.up and node is self.node:
            self._eaten.append(batch)
            if not self.touched:
                self.touch()

    def _settle(self, _: object) -> None:
        if self._eaten and self.up and not self.paused:
            eaten, self._eaten = self._eaten, []
            for batch in eaten:
                self.node.consumed(batch)
                self.node.taken(batch)
        super()._settle(None)

    @property
    def over(self) -> bool:
        """Whether it is owed nothing more, through no fault of the brokers."""
        return self.buried or self.taken or _was_promised_nothing(self)

    def acknowledged(self) -> int:
        """The number up to which all that it published was acknowledged so that it cannot be lost.

        A session that is taken over takes its copies along: where brokers were lost, what they held counts.
        """
        node, lossy = self.node, any(report.event in LOSSES for _, _, report in self.reports)
        return getattr(node, "held_seq", 0) if lossy and getattr(node, "keeps", False) else node.accepted_seq

    def session(self) -> list[Session]:
        """What became of its session, if others may have its name, and it has ever begun."""
        if not is_tagged(self.name) or not self._lives or self.buried:
            return []
        end: End = "taken" if self.taken else "left" if self.ended or not self.up else "there"
        return [Session(self.name, end, self.node.accepted_seq)]

    def _attached(self, _: Attached) -> None:
        if is_tagged(self.name) and self.recalling >= 0:
            if not self.recalling:
                self.kernel.after(0.0, lambda _: self.when_free(self._recall))
            return
        self.ready = True
        if self.commands:
            self.kernel.after(0.0, self._resume)

    def _recall(self, _: object) -> None:
        if not self.recalling and not self.ended:
            self.recalling, effects = self.node.recall(self.now)
            self.enter(effects)

    def _accepted(self, effect: Accepted) -> None:
        self.accepted_seq = effect.seq
        if self.commands:
            self.kernel.after(0.0, self._resume)

    def _resume(self, _: object) -> None:
        self.when_free(self._pump_bound)

    def _completed(self, effect: Completed) -> None:
        if effect.token == self.recalling:
            self.recalling, self.ready = -1, True
            self.kernel.after(0.0, self._resume)
            return
        command = self._requests.pop(effect.token, None)
        if command is not None:
            self.completed.append(command)

    def _failed(self, effect: Failed) -> None:
        command = self._requests.pop(effect.token, None)
        what = str(command) if command is not None else f"publications {effect.first}..{effect.last}"
        self.failures.append(f"{what}: {effect.reason}")

    def _unconfirmed(self, effect: Unconfirmed) -> None:
        command = self._requests.pop(effect.token, None)
        if command is not None:
            self.doubts.append((command, str(effect.finding)))

    def _missing(self, effect: Missing) -> None:
        self.gaps.append((self.kernel.now, effect.reason))

    def _ended(self, effect: Ended) -> None:
        self.ready, self.ended = False, True
        self.taken = bool(self.node.taken_by)
        if not effect.clean:
            self.failures.append(f"session of {self.name} at {self.broker}: {effect.reason}")
        self._refuse_all("the session is over")

    def _handlers(self) -> dict[type, Callable[[Any], None]]:
        return super()._handlers() | {
            Deliver: self._deliver,
            Attached: self._attached,
            Accepted: self._accepted,
            Completed: self._completed,
            Failed: self._failed,
            Missing: self._missing,
            Unconfirmed: self._unconfirmed,
            Ended: self._ended,
        }

    def unanswered_subscriptions(self) -> list[tuple[str, str]]:
        """The patterns and filters that it has asked for, and not heard of since."""
        asked = [request for request in self._requests.values() if isinstance(request, Subscribe)]
        return [(request.pattern, request.where) for request in asked]

    def waiting_for(self) -> list[str]:
        if self.ended:
            # Its application was told that the session is over.
            return []
        reasons = super().waiting_for()
        if self.commands:
            reasons.append(f"a chance to carry out {len(self.commands)} commands, first {self.commands[0]}")
        return reasons


def _was_promised_nothing(client: ClientHost) -> bool:
    """Whether the one broker that a client knew died before it had let the client in, which was told so."""
    home = client.network.hosts.get(client.broker)
    if not client.ended or home is None or home.up:
        return False
    return not any(name == client.name and report.event == "attach" for _, name, report in client.reports)


def judged_rows(events: list[Event], clients: Mapping[str, ClientHost]) -> list[Event]:
    """The trace as it is judged: the dead are owed nothing, nor are those whose name another one has."""
    dead = {name: client.unanswered_subscriptions() for name, client in clients.items() if client.over}
    kept = {name: client.acknowledged() for name, client in clients.items() if client.taken}
    return as_survivors_see_it(events, dead, kept) if dead else events
