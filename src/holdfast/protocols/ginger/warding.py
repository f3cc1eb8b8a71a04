"""A broker below which another child of its parent is moved: the new parent's side of `shaping`.

From `adopt` on the mover is its ward: a neighbour whose link carries nothing yet. What it wants is wanted here, and
what it will have to be given is kept for it, in order. `commit` makes it a child; `cancel`, or the loss of the parent
before that, lets it go.
"""

from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import Interest, Join, Move, Open, Publish, Refusal, SessionMessage, Twig
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.edges import Phase
from holdfast.protocols.ginger.absences import names_in
from holdfast.protocols.ginger.partitions import PartitionBroker
from holdfast.protocols.links import Link
from holdfast.protocols.node import Report
from holdfast.protocols.wanted_parts import opens

NOT_OURS_MAX = 100


class Ward:
    """Who is to become a child of ours, and what it wants."""

    __slots__ = ("doubts", "interests", "serial", "twig")

    def __init__(self, serial: int, twig: Twig, interests: tuple[Interest, ...]) -> None:
        self.serial, self.twig, self.interests = serial, twig, interests
        self.doubts = False
        """Whether it has lost the parent that it had, and asks whether it is ours."""

    @property
    def name(self) -> str:
        return self.twig.name


class WardingBroker(PartitionBroker):
    """The new parent's side of a move."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self._ward: Ward | None = None
        self._not_ours: dict[str, Twig] = {}
        """Those whose loss somebody else repairs, though they may have been told to ask us: the latest last."""

    # ------------------------------------------------------------------------------------------------------ a ward

    def _is_ward(self, peer: str) -> bool:
        return self._ward is not None and self._ward.name == peer

    def _is_neighbour(self, peer: str) -> bool:
        return super()._is_neighbour(peer) and not self._is_ward(peer)

    def _matters(self, peer: str) -> bool:
        return super()._matters(peer) and not self._is_ward(peer)

    def _neighbours_alive(self) -> list[str]:
        return [peer for peer in super()._neighbours_alive() if not self._is_ward(peer)]

    def in_transit(self, topic: str) -> bool:
        ward = self._ward
        return super().in_transit(topic) or (ward is not None and self.interests.table.wants(ward.name, topic))

    @property
    def _is_calm(self) -> bool:
        """Whether nothing is going on around here that a move could get in the way of."""
        busy = self._flushes or self._fenced or self._hold or self.settling or self._early or len(self.absences)
        return self.phase is Phase.SERVING and not busy

    @property
    def _is_moving(self) -> bool:
        """Whether this broker takes part in a move already."""
        return self._ward is not None

    def _is_here(self, peer: str) -> bool:
        return super()._is_here(peer) and not self._is_ward(peer)

    # ----------------------------------------------------------------------------------------------------- messages

    def _handle_from_neighbour(self, peer: str, message: SessionMessage) -> None:
        if isinstance(message, Move):
            self._on_move(peer, message)
        else:
            super()._handle_from_neighbour(peer, message)

    def _on_move(self, peer: str, move: Move) -> None:
        if move.step == "doubt":
            self._on_doubt(peer, move)
        elif peer == self.parent:
            if move.step == "adopt":
                self._on_adopt(peer, move)
            elif move.step == "commit":
                self._on_commit(peer, move)
            elif move.step == "cancel" and self._ward is not None and self._ward.serial == move.serial:
                self._drop_ward()

    def _on_adopt(self, parent: str, move: Move) -> None:
        name, twig = move.name, move.twig
        known = name in self.interests.neighbours or name in self.log.flows
        if twig is None or known or self._is_moving or not self._is_calm or self.view.is_gone(name, twig.epoch):
            self._send(parent, Move("declined", move.serial, name))
            return
        self._ward = Ward(move.serial, twig, move.interests)
        self.log.link(name)
        self.log.begin(name)
        self.interests.neighbours[name] = None
        self.interests.suspend(name)
        self.interests.learn(name, move.interests)
        self._owe_what_crosses(parent, move)
        self._send(parent, Move("adopted", move.serial, name))

    def _owe_what_crosses(self, parent: str, move: Move) -> None:
        """What the parent gets from us only now it will not pass to the ward any more: that is ours to do."""
        crossing = {
            record.record_id: record
            for record in self.log.records()
            if record.outs.get(parent, 0) > move.position and record.number > 0 and record.batch.guarantee != TOTAL
        }
        for record in sorted(crossing.values(), key=lambda record: record.number):
            if move.name in self.interests.table.takers(record.batch):
                self.log.went(record, move.name)

    def _on_commit(self, parent: str, move: Move) -> None:
        ward = self._ward
        if ward is None or ward.serial != move.serial or ward.name not in self.hub.links:
            if ward is not None and ward.serial == move.serial:
                self._drop_ward()
            self._send(parent, Move("declined", move.serial, move.name))
            return
        self._ward = None
        self._take_ward_in(ward)
        self.census.below[ward.name] = move.size
        self._send(parent, Move("committed", move.serial, move.name))
        self._tell(self.view.hops - 2)
        self.hub.out.append(Report("taken_in", peer=ward.name, detail=f"from {parent}"))
        self.turning.pump()

    def _take_ward_in(self, ward: Ward) -> None:
        name = ward.name
        self._ahead_of.pop(name, None)
        self._not_ours.pop(name, None)
        self.view.adopt(ward.twig, self.parent is None)
        upward = self.view.upward_for("broker", self.parent is None)
        for message in opens(Open(self._wanted_besides(name), upward, self.view.deaths.all_for(name), 0, 0)):
            self.hub.send(name, message)
        for record in sorted(self.log.concerning(name), key=lambda record: record.outs[name]):
            self._send(name, Publish(record.batch))
        self.interests.replace(name, {name: ward.interests})
        self.confirmations.replace(name, (name,), self.interests.table.wants)
        self.holes.retell(name)
        self.log.say_again(name)
        self.names.greet(name)

    def _drop_ward(self) -> None:
        """It stays where it is: nothing of what was kept for it is needed."""
        ward, self._ward = self._ward, None
        if ward is None:
            return
        self._disown(ward.twig)
        self.log.unlink(ward.name)
        self.interests.drop(ward.name)
        self.confirmations.drop(ward.name)
        self.turning.pump()

    def _on_doubt(self, peer: str, move: Move) -> None:
        """The ward has lost the parent that it had. If it is ours, `Open` is under way; else it is not, for certain.

        One whom we expect because its parent is lost, and who would wait for our answer, is not ours either.
        """
        if self._is_ward(peer) and self._ward is not None:
            self._ward.doubts = True
            self._hear_of(move.dead, peer)
        if not self._is_ward(peer) and peer not in self.interests.neighbours and peer in self.hub.links:
            self.hub.send(peer, Move("no", move.serial, peer))

    def suspect(self, name: str, epoch: int, reason: str) -> None:
        ward = self._ward
        if ward is not None and not self.view.is_gone(name, epoch) and name in (ward.name, self.parent):
            # Whatever the parent has said before has been heard, and it has not said that the ward is ours.
            self._drop_ward()
            if ward.doubts and ward.name in self.hub.links:
                self.hub.send(ward.name, Move("no", ward.serial, ward.name))
        super().suspect(name, epoch, reason)

    # ------------------------------------------------------------------------------------------------------ not ours

    def _disown(self, twig: Twig) -> None:
        self._not_ours.pop(twig.name, None)
        self._not_ours[twig.name] = twig
        while len(self._not_ours) > NOT_OURS_MAX:
            del self._not_ours[next(iter(self._not_ours))]

    def _on_join(self, link: Link, join: Join) -> None:
        if self._belongs_elsewhere(link.peer, join):
            self._ahead_of.pop(link.peer, None)
            self.hub.refuse(link.peer, Refusal("moved", f"{self.name} does not repair this loss: ask others"))
        else:
            super()._on_join(link, join)

    def _belongs_elsewhere(self, name: str, join: Join) -> bool:
        """Whether it was below one that is not ours and has died: somebody else expects it.

        A newcomer under that name is nobody's, and may join where it likes.
        """
        dead = {one for one, _ in join.dead}
        lost = [twig for one, twig in self._not_ours.items() if one in dead and name in names_in(twig) - {one}]
        is_new = not (join.processed or join.twig.twigs)
        return bool(lost) and not is_new and not self._is_expected(name)
