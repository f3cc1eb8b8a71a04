"""A broker that is moved below another child of its parent: the mover's side of a move (`tree_shape`).

    ASKED --connected, those below know--> READY --freeze--> FROZEN --Open--> a child of the new parent
      any of these --thaw--> as if nothing had been         FROZEN --the parent is lost--> IN DOUBT

While it is frozen it sends nothing to its parent: what it has to say waits, as on a slow link. It says `drained` when
everything that went over the link before is stable, and nothing climbs over it. Only the new parent's `Open` moves it.
If its parent is lost before that, the new parent knows whether it has been handed over, and is asked.
"""

from enum import Enum
from typing import TYPE_CHECKING

from holdfast.model.messages import Interest, Move, Open, Refusal, SessionMessage
from holdfast.model.terms import Contact
from holdfast.protocols.ginger.suspicion import SUSPECT_TIMER
from holdfast.protocols.links import Link
from holdfast.protocols.node import Disconnect, Report, SetTimer

if TYPE_CHECKING:
    from holdfast.protocols.ginger.repairing_broker import RepairingBroker

OUTBOX_MAX = 20_000
"""Messages that may wait for the end of a move; a move with more is given up."""


class Stage(Enum):
    ASKED = "asked"
    READY = "ready"
    FROZEN = "frozen"
    DOUBT = "in doubt"


class Journey:
    """A move of ours, from `parent` to `target`."""

    __slots__ = (
        "base",
        "drained",
        "hush_until_s",
        "informed",
        "parent",
        "serial",
        "stage",
        "target",
        "told",
        "version",
    )

    def __init__(self, serial: int, parent: str, target: Contact) -> None:
        self.serial, self.parent, self.target = serial, parent, target
        self.stage = Stage.ASKED
        self.version = self.base = 0
        self.drained = False
        self.hush_until_s = 0.0
        """Until then nothing new climbs, unless the link is frozen by then."""
        self.informed: dict[str, int] = {}
        self.told: set[Interest] = set()
        """What the parent knew us to want when the link was frozen: the new one knows that from it."""


class Relocation:
    """The mover's side of a move."""

    def __init__(self, broker: "RepairingBroker") -> None:
        self._broker = broker
        self._hub = broker.hub
        self._log = broker.log
        self._view = broker.view
        self._interests = broker.interests
        self._turning = broker.healing_turning
        self._journey: Journey | None = None
        self._frozen = ""
        """The neighbour whose link is frozen; what is said to it waits in the outbox."""
        self._outbox: list[SessionMessage] = []

    @property
    def is_busy(self) -> bool:
        """Whether this broker is being moved."""
        return self._journey is not None

    # ---------------------------------------------------------------------------------------------- between two parents

    def is_target(self, peer: str) -> bool:
        """Whether this broker is being moved below that one."""
        return self._journey is not None and self._journey.target.name == peer

    def parent_in_doubt(self) -> str:
        """The new parent, if only that one knows whether it is the parent; or nobody.

        A broker in doubt has a parent, too, and takes nobody in whom that does not know: `Open` tells which it is.
        """
        journey = self._journey
        return journey.target.name if journey is not None and journey.stage is Stage.DOUBT else ""

    # --------------------------------------------------------------------------------------------------- a frozen link

    def holds_back(self, peer: str, message: SessionMessage) -> bool:
        """Keep a message whose link is frozen; returns whether it was kept."""
        if not peer or peer != self._frozen:
            return False
        self._outbox.append(message)
        return True

    @property
    def outbox(self) -> list[SessionMessage]:
        """The messages that wait for the end of a move."""
        return self._outbox

    def freeze(self, peer: str) -> int:
        """Say nothing more on that link for now; returns how many records went over it before."""
        self._frozen = peer
        return self._log.flows[peer].sent

    def unfreeze(self, say: bool) -> None:
        """Go on as if the link had merely been slow, or forget what was to be said: another link carries it."""
        peer, self._frozen = self._frozen, ""
        outbox, self._outbox = self._outbox, []
        if say:
            for message in outbox:
                self._broker.send(peer, message)

    def is_drained(self, peer: str, base: int) -> bool:
        """Whether nothing that went over the link before it was frozen may ever be needed again."""
        crossing = any(peer in one.ins or one.outs.get(peer, base + 1) <= base for one in self._log.records())
        return not crossing and not self._turning.involves(peer)

    # ------------------------------------------------------------------------------------------------------- messages

    def on_move(self, peer: str, move: Move) -> bool:
        """A step of a move; returns whether it concerns one of this broker itself."""
        journey = self._journey
        if move.step == "ask" and peer == self._broker.parent:
            self._on_ask(peer, move)
        elif journey is None or move.serial != journey.serial:
            return False
        elif move.step == "freeze" and peer == journey.parent:
            self._on_freeze(journey)
        elif move.step == "thaw" and peer == journey.parent:
            self._on_thaw(journey)
        elif move.step == "no" and peer == journey.target.name and journey.stage is Stage.DOUBT:
            self._turn_back()
        else:
            return False
        return True

    def _on_ask(self, parent: str, move: Move) -> None:
        target = move.contact
        if target is None or self._broker.is_moving or not self._broker.is_calm or target.name in self._hub.links:
            self._broker.send(parent, Move("declined", move.serial, self._broker.name))
            return
        self._journey = Journey(move.serial, parent, target)
        self._view.detour = (target,)
        self._view.avoided.add(target.name)
        self._journey.version = self._broker.neighbours.tell_neighbours(self._view.hops - 2)
        self._journey.informed = self._tell_clients()
        self._hub.dial(target.name, self._broker.now, target.address)

    def _tell_clients(self) -> dict[str, int]:
        """Clients learn, too, who may be above us soon; returns how much of its link each has to acknowledge."""
        clients = [peer for peer, link in self._hub.links.items() if link.kind == "client" and peer in self._log.flows]
        message = self._view.message_for_clients(self._broker.parent is None)
        for client in clients:
            self._broker.send(client, message)
            self._hub.ask(client)
        return {client: self._hub.links[client].queued for client in clients}

    def _everybody_knows(self, journey: Journey) -> bool:
        links = [(self._hub.links[one], mark) for one, mark in journey.informed.items() if one in self._hub.links]
        # Fewer messages may be under way by now: a slow client has dropped some.
        informed = all(link.acked >= min(mark, link.queued) for link, mark in links)
        return informed and self._view.acknowledged(journey.version)

    def _on_freeze(self, journey: Journey) -> None:
        if any(record.pending and record.concerns(journey.parent) for record in self._log.records()):
            # Something climbs, and nothing behind it is stable before it has turned: not now.
            self._broker.send(journey.parent, Move("declined", journey.serial, self._broker.name))
            return
        journey.stage = Stage.FROZEN
        self._turning.hush(True)
        self._hub.send(journey.parent, Move("frozen", journey.serial, self._broker.name))
        journey.told = self._interests.announced(journey.parent)
        journey.base = self.freeze(journey.parent)

    def _on_thaw(self, journey: Journey) -> None:
        self._end_journey()
        self._hub.send(journey.parent, Move("thawed", journey.serial, self._broker.name))
        self.unfreeze(say=True)
        self._turning.hush(False)
        self._broker.neighbours.tell_down()

    def _end_journey(self) -> None:
        journey, self._journey = self._journey, None
        if journey is not None:
            self._view.detour = ()
            self._view.avoided.discard(journey.target.name)
            self._view.give_up_on(journey.target.name)
            if self._hub.set_aside(journey.target.name) is not None:
                self._hub.out.append(Disconnect(journey.target.name, "the move was given up"))

    def settle(self) -> None:
        """Go on with the journey as far as it can go now."""
        if self._journey is not None:
            self._go_on(self._journey)

    def _go_on(self, journey: Journey) -> None:
        link = self._hub.links.get(journey.target.name)
        connected = link is not None and link.is_open
        if journey.stage is Stage.ASKED and connected and self._everybody_knows(journey):
            journey.stage = Stage.READY
            journey.hush_until_s = self._broker.now + self._broker.config.move_s
            self._turning.hush(True)
            self._broker.send(journey.parent, Move("ready", journey.serial, self._broker.name))
        elif journey.stage is Stage.READY and 0 < journey.hush_until_s <= self._broker.now:
            journey.hush_until_s = 0.0
            self._turning.hush(False)
        elif journey.stage is Stage.FROZEN and not journey.drained and self.is_drained(journey.parent, journey.base):
            journey.drained = True
            self._hub.send(journey.parent, Move("drained", journey.serial, self._broker.name))

    # ------------------------------------------------------------------------------------------------------ switching

    def link_opened(self, link: Link, fresh: bool) -> bool:
        """Returns whether that is the link with the broker below which this one is being moved."""
        if not self.is_target(link.peer):
            return False
        self._hub.out.append(Report("attach" if fresh else "resume", peer=link.peer))
        self._broker.neighbours.measure(link.peer)
        return True

    def on_open(self, peer: str, message: Open) -> bool:
        """The new parent opens the link; returns whether it was that one, and a switch was due."""
        journey = self._journey
        if journey is None or peer != journey.target.name or not self._frozen:
            return False
        self._switch(journey, message)
        return True

    def _switch(self, journey: Journey, message: Open) -> None:
        """The new parent has us. What waits in the outbox is in the log, and is said to the new parent."""
        old, new = journey.parent, journey.target.name
        self._journey = None
        self._view.detour = ()
        self.unfreeze(say=False)
        if self._hub.set_aside(old) is not None:
            self._hub.out.append(Disconnect(old, f"moved below {new}"))
        self._view.give_up_on(old)
        self._broker.rejoin.switch_parent(old, new, message)
        self._turning.hush(False)
        for interest in sorted(journey.told - self._interests.announced(new)):
            self._interests.retract(new, interest)

    # ----------------------------------------------------------------------------------------------- losing somebody

    def orphaned(self, old: str) -> bool:
        """The parent is lost in the midst of a journey; returns whether this broker is on one away from it."""
        journey = self._journey
        if journey is None or old != journey.parent:
            return False
        if journey.stage is Stage.FROZEN and journey.target.name in self._hub.links:
            journey.stage = Stage.DOUBT
            doubt = Move("doubt", journey.serial, self._broker.name, dead=self._view.dead())
            self._hub.send(journey.target.name, doubt)
            # It may be lost as well, or come back to us like any other.
            if not self._hub.links[journey.target.name].is_open:
                self._await_target(journey.target.name)
        else:
            self._turn_back()
        return True

    def _await_target(self, target: str) -> None:
        self._hub.out.append(SetTimer(SUSPECT_TIMER + target, self._broker.neighbours.patience_s(target)))

    def _turn_back(self) -> None:
        """The parent is lost, and we are still its child: its loss is repaired like any other."""
        journey = self._journey
        if journey is not None:
            self._end_journey()
            self.unfreeze(say=False)
            self._turning.no_longer_hushed()
            self._broker.rejoin.orphaned(journey.parent)

    def _cannot_go(self) -> None:
        """The new parent cannot be reached, or is lost."""
        journey = self._journey
        if journey is None:
            return
        if journey.stage is Stage.DOUBT:
            self._turn_back()
        elif journey.parent in self._hub.links:
            self._hub.send(journey.parent, Move("declined", journey.serial, self._broker.name))

    def link_refused(self, link: Link, refusal: Refusal) -> bool:
        """Returns whether the broker that was to be the new parent has refused."""
        if not self.is_target(link.peer) or refusal.code == "excluded":
            return False
        self._hub.set_aside(link.peer)
        self._cannot_go()
        return True

    def link_closed(self, link: Link) -> bool:
        """Returns whether that was the link with the broker below which this one is being moved."""
        if not self.is_target(link.peer):
            return False
        if self._broker.neighbours.matters(link.peer):
            self._await_target(link.peer)
        return True

    def link_ended(self, link: Link) -> bool:
        """The same for a session that is over."""
        if not self.is_target(link.peer):
            return False
        self._cannot_go()
        return True

    def may_lose(self, name: str, epoch: int) -> bool:
        """Whether the loss of that node, if it is given up now, is that of the new parent."""
        return self.is_target(name) and not self._view.is_gone(name, epoch)

    def lost(self, name: str) -> None:
        """That node was given up, and may be the new parent still."""
        if self.is_target(name):
            self._cannot_go()

    # ----------------------------------------------------------------------------------------------------- inspection

    def waiting_for(self) -> list[str]:
        """In words, the move that this broker is on."""
        journey = self._journey
        if journey is None:
            return []
        return [f"its move from {journey.parent} to {journey.target.name} ({journey.stage.value})"]
