"""A broker that is moved below another child of its parent: the mover's side of `shaping`.

    ASKED --connected, those below know--> READY --freeze--> FROZEN --Open--> a child of the new parent
      any of these --thaw--> as if nothing had been         FROZEN --the parent is lost--> IN DOUBT

While it is frozen it sends nothing to its parent: what it has to say waits, as on a slow link. It says `drained` when
everything that went over the link before is stable, and no cut crosses it. Only the new parent's `Open` moves it. If
its parent is lost before that, the new parent knows whether it has been handed over, and is asked.
"""

from enum import Enum

from holdfast.model.messages import Interest, Move, Open, Refusal, SessionMessage
from holdfast.model.terms import Contact
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger.expecting import SUSPECT_TIMER
from holdfast.protocols.ginger.orphans import REPAIRED
from holdfast.protocols.ginger.warding import WardingBroker
from holdfast.protocols.links import Link
from holdfast.protocols.node import Disconnect, Effects, Report, SetTimer

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


class RelocatingBroker(WardingBroker):
    """The mover's side of a move."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self._journey: Journey | None = None
        self._frozen = ""
        """The neighbour whose link is frozen; what is said to it waits in the outbox."""
        self._outbox: list[SessionMessage] = []

    @property
    def _is_moving(self) -> bool:
        return super()._is_moving or self._journey is not None

    # ---------------------------------------------------------------------------------------------- between two parents

    def _is_neighbour(self, peer: str) -> bool:
        return super()._is_neighbour(peer) and not self._is_target(peer)

    def _neighbours_alive(self) -> list[str]:
        """Who is in doubt has a parent, too, and takes nobody in whom that does not know: `Open` tells which it is."""
        alive = super()._neighbours_alive()
        journey = self._journey
        in_doubt = journey is not None and journey.stage is Stage.DOUBT
        return [*alive, journey.target.name] if journey is not None and in_doubt else alive

    # --------------------------------------------------------------------------------------------------- a frozen link

    def _send(self, peer: str, message: SessionMessage) -> None:
        if peer and peer == self._frozen:
            self._outbox.append(message)
        else:
            super()._send(peer, message)

    def _freeze(self, peer: str) -> int:
        """Say nothing more on that link for now; returns how many records went over it before."""
        self._frozen = peer
        return self.log.flows[peer].sent

    def _unfreeze(self, say: bool) -> None:
        """Go on as if the link had merely been slow, or forget what was to be said: another link carries it."""
        peer, self._frozen = self._frozen, ""
        outbox, self._outbox = self._outbox, []
        if say:
            for message in outbox:
                self._send(peer, message)

    def _is_drained(self, peer: str, base: int) -> bool:
        """Whether nothing that went over the link before it was frozen may ever be needed again."""
        crossing = any(peer in one.ins or one.outs.get(peer, base + 1) <= base for one in self.log.records())
        return not crossing and not self.healing_turning.involves(peer)

    # ------------------------------------------------------------------------------------------------------- messages

    def _on_move(self, peer: str, move: Move) -> None:
        journey = self._journey
        if move.step == "ask" and peer == self.parent:
            self._on_ask(peer, move)
        elif journey is None or move.serial != journey.serial:
            super()._on_move(peer, move)
        elif move.step == "freeze" and peer == journey.parent:
            self._on_freeze(journey)
        elif move.step == "thaw" and peer == journey.parent:
            self._on_thaw(journey)
        elif move.step == "no" and peer == journey.target.name and journey.stage is Stage.DOUBT:
            self._turn_back()
        else:
            super()._on_move(peer, move)

    def _on_ask(self, parent: str, move: Move) -> None:
        target = move.contact
        if target is None or self._is_moving or not self._is_calm or target.name in self.hub.links:
            self._send(parent, Move("declined", move.serial, self.name))
            return
        self._journey = Journey(move.serial, parent, target)
        self.view.detour = (target,)
        self.view.avoided.add(target.name)
        self._journey.version = self._tell(self.view.hops - 2)
        self._journey.informed = self._tell_clients()
        self.hub.dial(target.name, self._now, target.address)

    def _tell_clients(self) -> dict[str, int]:
        """Clients learn, too, who may be above us soon; returns how much of its link each has to acknowledge."""
        clients = [peer for peer, link in self.hub.links.items() if link.kind == "client" and peer in self.log.flows]
        message = self.view.message_for_clients(self.parent is None)
        for client in clients:
            self._send(client, message)
            self.hub.ask(client)
        return {client: self.hub.links[client].queued for client in clients}

    def _everybody_knows(self, journey: Journey) -> bool:
        links = [(self.hub.links[one], mark) for one, mark in journey.informed.items() if one in self.hub.links]
        # Fewer messages may be under way by now: a slow client has dropped some.
        informed = all(link.acked >= min(mark, link.queued) for link, mark in links)
        return informed and self.view.acknowledged(journey.version)

    def _on_freeze(self, journey: Journey) -> None:
        if any(record.pending and record.concerns(journey.parent) for record in self.log.records()):
            # A total batch is asked for, and nothing behind it is stable before it is released: not now.
            self._send(journey.parent, Move("declined", journey.serial, self.name))
            return
        journey.stage = Stage.FROZEN
        self.healing_turning.hush(True)
        self.hub.send(journey.parent, Move("frozen", journey.serial, self.name))
        journey.told = self.interests.announced(journey.parent)
        journey.base = self._freeze(journey.parent)

    def _on_thaw(self, journey: Journey) -> None:
        self._end_journey()
        self.hub.send(journey.parent, Move("thawed", journey.serial, self.name))
        self._unfreeze(say=True)
        self.healing_turning.hush(False)
        self._tell_down()

    def _end_journey(self) -> None:
        journey, self._journey = self._journey, None
        if journey is not None:
            self.view.detour = ()
            self.view.avoided.discard(journey.target.name)
            self.view.give_up_on(journey.target.name)
            if self.hub.set_aside(journey.target.name) is not None:
                self.hub.out.append(Disconnect(journey.target.name, "the move was given up"))

    def settle(self, now: float) -> Effects:
        self._now = now
        if self._journey is not None:
            self._go_on(self._journey)
        return super().settle(now)

    def _go_on(self, journey: Journey) -> None:
        link = self.hub.links.get(journey.target.name)
        connected = link is not None and link.is_open
        if journey.stage is Stage.ASKED and connected and self._everybody_knows(journey):
            journey.stage = Stage.READY
            journey.hush_until_s = self._now + self.config.move_s
            self.healing_turning.hush(True)
            self._send(journey.parent, Move("ready", journey.serial, self.name))
        elif journey.stage is Stage.READY and 0 < journey.hush_until_s <= self._now:
            journey.hush_until_s = 0.0
            self.healing_turning.hush(False)
        elif journey.stage is Stage.FROZEN and not journey.drained and self._is_drained(journey.parent, journey.base):
            journey.drained = True
            self.hub.send(journey.parent, Move("drained", journey.serial, self.name))

    # ------------------------------------------------------------------------------------------------------ switching

    def link_opened(self, link: Link, fresh: bool) -> None:
        if self._journey is not None and link.peer == self._journey.target.name:
            self.hub.out.append(Report("attach" if fresh else "resume", peer=link.peer))
            self._measure(link.peer)
        else:
            super().link_opened(link, fresh)

    def _on_open(self, peer: str, message: Open) -> None:
        journey = self._journey
        if journey is not None and peer == journey.target.name and self._frozen:
            self._switch(journey, message)
        else:
            super()._on_open(peer, message)

    def _switch(self, journey: Journey, message: Open) -> None:
        """The new parent has us. What waits in the outbox is in the log, and is said to the new parent."""
        old, new = journey.parent, journey.target.name
        self._journey = None
        self.view.detour = ()
        self._unfreeze(say=False)
        if self.hub.set_aside(old) is not None:
            self.hub.out.append(Disconnect(old, f"moved below {new}"))
        self.view.give_up_on(old)
        self.parent, self._fenced, self._hold = new, new, 0
        self.log.relabel(old, new)
        self.log.restack(new)
        self.interests.rename(old, new)
        self.healing_turning.rename(old, new)
        self.confirmations.rename(old, new)
        self.holes.rename(old, new)
        self.view.also_wait_for(new)
        self._fence_base = self._fence_version = 0
        self._opened_as = "moved"
        self._on_open(new, message)
        self._opened_as = REPAIRED
        self.healing_turning.hush(False)
        for interest in sorted(journey.told - self.interests.announced(new)):
            self.interests.retract(new, interest)

    # ----------------------------------------------------------------------------------------------- losing somebody

    def _orphaned(self, old: str) -> None:
        journey = self._journey
        if journey is None or old != journey.parent:
            super()._orphaned(old)
        elif journey.stage is Stage.FROZEN and journey.target.name in self.hub.links:
            journey.stage = Stage.DOUBT
            doubt = Move("doubt", journey.serial, self.name, dead=self.view.dead())
            self.hub.send(journey.target.name, doubt)
            # It may be lost as well, or come back to us like any other.
            if not self.hub.links[journey.target.name].is_open:
                self._await_target(journey.target.name)
        else:
            self._turn_back()

    def _await_target(self, target: str) -> None:
        self.hub.out.append(SetTimer(SUSPECT_TIMER + target, self._patience_s(target)))

    def _matters(self, peer: str) -> bool:
        in_doubt = self._journey is not None and self._journey.stage is Stage.DOUBT
        return super()._matters(peer) or (in_doubt and self._is_target(peer))

    def _turn_back(self) -> None:
        """The parent is lost, and we are still its child: its loss is repaired like any other."""
        journey = self._journey
        if journey is not None:
            self._end_journey()
            self._unfreeze(say=False)
            self.healing_turning.hushed = False
            super()._orphaned(journey.parent)

    def _cannot_go(self) -> None:
        """The new parent cannot be reached, or is lost."""
        journey = self._journey
        if journey is None:
            return
        if journey.stage is Stage.DOUBT:
            self._turn_back()
        elif journey.parent in self.hub.links:
            self.hub.send(journey.parent, Move("declined", journey.serial, self.name))

    def _is_target(self, peer: str) -> bool:
        return self._journey is not None and self._journey.target.name == peer

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        if self._is_target(link.peer) and refusal.code != "excluded":
            self.hub.set_aside(link.peer)
            self._cannot_go()
        else:
            super().link_refused(link, refusal)

    def link_closed(self, link: Link) -> None:
        if not self._is_target(link.peer):
            super().link_closed(link)
        elif self._matters(link.peer):
            self._await_target(link.peer)

    def link_ended(self, link: Link, reason: str) -> None:
        if self._is_target(link.peer):
            self._cannot_go()
        else:
            super().link_ended(link, reason)

    def suspect(self, name: str, epoch: int, reason: str) -> None:
        gone = self._is_target(name) and not self.view.is_gone(name, epoch)
        super().suspect(name, epoch, reason)
        if gone and self._is_target(name):
            self._cannot_go()

    # ----------------------------------------------------------------------------------------------------- inspection

    def waiting_for(self) -> list[str]:
        journey = self._journey
        if journey is None:
            return super().waiting_for()
        whither = f"its move from {journey.parent} to {journey.target.name} ({journey.stage.value})"
        return [*super().waiting_for(), whither]
