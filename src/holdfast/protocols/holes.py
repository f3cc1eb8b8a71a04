"""Holes that are announced: the last line of defence, whatever else went wrong.

A broker that lets go of something that somebody may still need (it begins anew, a bound is exceeded, an order had to be
broken) says so: `HoleNotices.announce` sends a `Hole` to everybody to whom something may be missing, and the brokers
among them pass it on. It travels on the links like any other message, so it stands in each stream where the hole is.
The client at its end raises a `Gap` in every subscription.

A notice must not be lost with a broker that was to pass it on:
1. 0 announces a hole to 1, and 1 dies before 4, which is below it, has heard of it.
2. 4 joins 0 in its place, and is handed what 1 had passed on. A notice is not among it: it is no record.
So a broker remembers the latest notices and tells every link that is opened (`retell`). Clients and brokers know a
notice by its identity: one that comes by two ways counts once.

Bounds: `RETOLD_MAX` notices are told again, each for `RETOLD_S` (whoever missed an older one has missed later ones,
which say the same); `HEARD_MAX` identities are remembered.
"""

from collections.abc import Callable, Collection, Iterable

from holdfast.model.hole_messages import Hole
from holdfast.model.messages import SessionMessage
from holdfast.protocols.node import Effects, Missing, Report

RETOLD_MAX = 64
RETOLD_S = 1800.0
HEARD_MAX = 1024
REASON_CHARACTERS_MAX = 1000

Identity = tuple[str, int, int]


class HolesHeard:
    """The identities of the notices that somebody has heard of: the latest `HEARD_MAX`."""

    def __init__(self) -> None:
        self._heard: dict[Identity, None] = {}

    def is_new(self, hole: Hole) -> bool:
        """Whether this is the first time that the notice comes; from now on it is not."""
        identity = (hole.origin, hole.epoch, hole.number)
        if identity in self._heard:
            return False
        self._heard[identity] = None
        if len(self._heard) > HEARD_MAX:
            del self._heard[next(iter(self._heard))]
        return True

    def hear(self, hole: Hole, peer: str, is_owed: bool) -> Effects:
        """What a client does about a notice; nothing if it has heard of it before, or if nothing was owed to it."""
        if not self.is_new(hole) or not is_owed:
            return []
        return [Report("gap", peer=peer, detail=hole.reason), Missing(hole.reason)]


def over(broker: str, reason: str, is_owed: bool) -> Effects:
    """What a client says whose session has ended for good: everything from here on is missing, if it wanted any."""
    gap = [Report("gap", peer=broker, detail=reason)] if is_owed else []
    return [*gap, Report("over", peer=broker, detail=reason)]


class _Notice:
    __slots__ = ("heard_at", "hole", "source", "towards")

    def __init__(self, hole: Hole, source: str, towards: Collection[str] | None, heard_at: float) -> None:
        self.hole, self.source, self.heard_at = hole, source, heard_at
        self.towards = None if towards is None else set(towards)
        """Whom our own notice concerns alone, and those in their place; `None`: everybody but the source."""

    def concerns(self, peer: str, instead_of: str) -> bool:
        if self.towards is not None:
            return peer in self.towards or instead_of in self.towards
        return self.hole.everywhere or self.source not in (peer, instead_of)


class HoleNotices:
    """The notices of one broker. `peers` are those, clients and brokers, whom its links reach now."""

    def __init__(
        self,
        name: str,
        epoch: int,
        send: Callable[[str, SessionMessage], None],
        peers: Callable[[], Iterable[str]],
        report: Callable[[Report], None],
        now: Callable[[], float],
    ) -> None:
        self._name, self._epoch, self._send, self._peers, self._report = name, epoch, send, peers, report
        self._now = now
        self._number = 0
        self._heard = HolesHeard()
        self._notices: list[_Notice] = []

    def announce(
        self, reason: str, except_peer: str | None = None, towards: Collection[str] | None = None
    ) -> Hole | None:
        """Something that this broker let go may be missing: tell everybody, but for one peer, or only some.

        `towards` names peers, also such that are out of reach: they are told when they, or others in their place, are
        let in. Nobody is told if it is empty.
        """
        if towards is not None and not towards:
            return None
        self._number += 1
        everywhere = except_peer is None and towards is None
        hole = Hole(self._name, self._epoch, self._number, everywhere, reason[:REASON_CHARACTERS_MAX])
        self._heard.is_new(hole)
        self._report(Report("hole", peer=",".join(sorted(towards or ())), detail=hole.reason))
        self._tell(_Notice(hole, except_peer or "", towards, self._now()))
        return hole

    def on_hole(self, peer: str, hole: Hole) -> None:
        """A neighbour says that something may be missing here and behind us."""
        if self._heard.is_new(hole):
            self._tell(_Notice(hole, peer, None, self._now()))

    def _tell(self, notice: _Notice) -> None:
        self._notices.append(notice)
        del self._notices[:-RETOLD_MAX]
        for peer in self._peers():
            if peer != notice.source and notice.concerns(peer, peer):
                self._send(peer, notice.hole)

    def retell(self, peer: str, instead_of: str = "") -> None:
        """A link is opened, with somebody in the place of another one perhaps: it may have missed a notice."""
        oldest = self._now() - RETOLD_S
        self._notices = [notice for notice in self._notices if notice.heard_at >= oldest]
        for notice in self._notices:
            if notice.concerns(peer, instead_of):
                self._send(peer, notice.hole)
                if notice.towards is not None:
                    notice.towards.add(peer)

    def rename(self, old: str, new: str) -> None:
        """What came from the old parent, or was meant for it, has come from, or is meant for, the new one."""
        for notice in self._notices:
            if notice.source == old:
                notice.source = new
            if notice.towards is not None and old in notice.towards:
                notice.towards.add(new)

    def since(self, age_s: float) -> str:
        """The reason of the latest notice that came within that time; empty if there was none."""
        oldest = self._now() - age_s
        return next((notice.hole.reason for notice in reversed(self._notices) if notice.heard_at >= oldest), "")
