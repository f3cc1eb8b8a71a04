"""A broker below which another child of its parent is moved: the new parent's side of a move (`tree_shape`).

From `adopt` on the mover is its ward: a neighbour whose link carries nothing yet. What it wants is wanted here, and
what it will have to be given is kept for it, in order. `commit` makes it a child; `cancel`, or the loss of the parent
before that, lets it go.
"""

from typing import TYPE_CHECKING

from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import Interest, Join, Move, Open, Publish, Refusal, Twig
from holdfast.protocols.ginger.absences import names_in
from holdfast.protocols.links import Link
from holdfast.protocols.node import Report
from holdfast.protocols.wanted_parts import opens

if TYPE_CHECKING:
    from holdfast.protocols.ginger.repairing_broker import RepairingBroker

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


class Wards:
    """The new parent's side of a move."""

    def __init__(self, broker: "RepairingBroker") -> None:
        self._broker = broker
        self._hub = broker.hub
        self._log = broker.log
        self._view = broker.view
        self._interests = broker.interests
        self._turning = broker.healing_turning
        self._confirmations = broker.confirmations
        self._holes = broker.holes
        self._census = broker.majority.census
        self._ward: Ward | None = None
        self._not_ours: dict[str, Twig] = {}
        """Those whose loss somebody else repairs, though they may have been told to ask us: the latest last."""

    # ------------------------------------------------------------------------------------------------------ a ward

    @property
    def is_busy(self) -> bool:
        """Whether a child of the parent is being taken in here."""
        return self._ward is not None

    def is_ward(self, peer: str) -> bool:
        """Whether that peer is to become a child of this broker."""
        return self._ward is not None and self._ward.name == peer

    def wants(self, topic: str) -> bool:
        """Whether the ward wants that topic: nothing total turns on it meanwhile."""
        return self._ward is not None and self._interests.table.wants(self._ward.name, topic)

    # ----------------------------------------------------------------------------------------------------- messages

    def on_move(self, peer: str, move: Move) -> None:
        """A step of a move that concerns neither a journey of this broker nor one of its departures."""
        if move.step == "doubt":
            self._on_doubt(peer, move)
        elif peer == self._broker.parent:
            if move.step == "adopt":
                self._on_adopt(peer, move)
            elif move.step == "commit":
                self._on_commit(peer, move)
            elif move.step == "cancel" and self._ward is not None and self._ward.serial == move.serial:
                self._drop_ward()

    def _on_adopt(self, parent: str, move: Move) -> None:
        name, twig = move.name, move.twig
        known = name in self._interests.neighbours or name in self._log.flows
        if (
            twig is None
            or known
            or self._broker.is_moving
            or not self._broker.is_calm
            or self._view.is_gone(name, twig.epoch)
        ):
            self._broker.send(parent, Move("declined", move.serial, name))
            return
        self._ward = Ward(move.serial, twig, move.interests)
        self._log.link(name)
        self._log.begin(name)
        self._interests.neighbours[name] = None
        self._interests.suspend(name)
        self._interests.learn(name, move.interests)
        self._owe_what_crosses(parent, move)
        self._broker.send(parent, Move("adopted", move.serial, name))

    def _owe_what_crosses(self, parent: str, move: Move) -> None:
        """What the parent gets from us only now it will not pass to the ward any more: that is ours to do."""
        crossing = {
            record.record_id: record
            for record in self._log.records()
            if record.outs.get(parent, 0) > move.position and record.number > 0 and record.batch.guarantee != TOTAL
        }
        for record in sorted(crossing.values(), key=lambda record: record.number):
            if move.name in self._interests.table.takers(record.batch):
                self._log.went(record, move.name)

    def _on_commit(self, parent: str, move: Move) -> None:
        ward = self._ward
        if ward is None or ward.serial != move.serial or ward.name not in self._hub.links:
            if ward is not None and ward.serial == move.serial:
                self._drop_ward()
            self._broker.send(parent, Move("declined", move.serial, move.name))
            return
        self._ward = None
        self._take_ward_in(ward)
        self._census.below[ward.name] = move.size
        self._broker.send(parent, Move("committed", move.serial, move.name))
        self._broker.neighbours.tell_neighbours(self._view.hops - 2)
        self._hub.out.append(Report("taken_in", peer=ward.name, detail=f"from {parent}"))
        self._turning.pump()

    def _take_ward_in(self, ward: Ward) -> None:
        name = ward.name
        self._broker.repairs.ahead_of.pop(name, None)
        self._not_ours.pop(name, None)
        self._view.adopt(ward.twig, self._broker.parent is None)
        upward = self._view.upward_for("broker", self._broker.parent is None)
        for message in opens(
            Open(self._broker.neighbours.wanted_besides(name), upward, self._view.deaths.all_for(name), 0, 0)
        ):
            self._hub.send(name, message)
        for record in sorted(self._log.concerning(name), key=lambda record: record.outs[name]):
            self._broker.send(name, Publish(record.batch))
        self._interests.replace(name, {name: ward.interests})
        self._confirmations.replace(name, (name,), self._interests.table.wants)
        self._holes.retell(name)
        self._log.say_again(name)
        self._broker.names.greet(name)

    def _drop_ward(self) -> None:
        """It stays where it is: nothing of what was kept for it is needed."""
        ward, self._ward = self._ward, None
        if ward is None:
            return
        self.disown(ward.twig)
        self._log.unlink(ward.name)
        self._interests.drop(ward.name)
        self._confirmations.drop(ward.name)
        self._turning.pump()

    def _on_doubt(self, peer: str, move: Move) -> None:
        """The ward has lost the parent that it had. If it is ours, `Open` is under way; else it is not, for certain.

        One whom we expect because its parent is lost, and who would wait for our answer, is not ours either.
        """
        if self.is_ward(peer) and self._ward is not None:
            self._ward.doubts = True
            self._broker.suspicion.hear_of(move.dead, peer)
        if not self.is_ward(peer) and peer not in self._interests.neighbours and peer in self._hub.links:
            self._hub.send(peer, Move("no", move.serial, peer))

    def before_loss(self, name: str, epoch: int) -> None:
        """That node is about to be given up: a ward does not outlive its parent, nor itself."""
        ward = self._ward
        if ward is not None and not self._view.is_gone(name, epoch) and name in (ward.name, self._broker.parent):
            # Whatever the parent has said before has been heard, and it has not said that the ward is ours.
            self._drop_ward()
            if ward.doubts and ward.name in self._hub.links:
                self._hub.send(ward.name, Move("no", ward.serial, ward.name))

    # ------------------------------------------------------------------------------------------------------ not ours

    def disown(self, twig: Twig) -> None:
        """Those below that child are expected elsewhere if it dies."""
        self._not_ours.pop(twig.name, None)
        self._not_ours[twig.name] = twig
        while len(self._not_ours) > NOT_OURS_MAX:
            del self._not_ours[next(iter(self._not_ours))]

    def refuses_join(self, link: Link, join: Join) -> bool:
        """Refuse a joiner whose loss another broker repairs; returns whether this was one."""
        if not self._belongs_elsewhere(link.peer, join):
            return False
        self._broker.repairs.ahead_of.pop(link.peer, None)
        self._hub.refuse(link.peer, Refusal("moved", f"{self._broker.name} does not repair this loss: ask others"))
        return True

    def own(self, name: str) -> None:
        """That broker is ours, whatever was thought of it before."""
        self._not_ours.pop(name, None)

    def _belongs_elsewhere(self, name: str, join: Join) -> bool:
        """Whether it was below one that is not ours and has died: somebody else expects it.

        A newcomer under that name is nobody's, and may join where it likes.
        """
        dead = {one for one, _ in join.dead}
        lost = [twig for one, twig in self._not_ours.items() if one in dead and name in names_in(twig) - {one}]
        is_new = not (join.processed or join.twig.twigs)
        return bool(lost) and not is_new and not self._broker.repairs.is_expected(name)
