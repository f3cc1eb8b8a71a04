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

A notice may be `about` some clients: a broker gives up a session that was away, and drops what it had sent to it. If
its client is alive, it is somewhere else by now, with a broker that does not know what was dropped:
1. c1 is a client of 6, and is cut off from it together with 5. 6 keeps what it sends to c1, and a diary for 5.
2. 5 is the root of its part, and takes c1 in, which has lost 6. The two parts come together, by the diary.
3. What 6 had sent to c1 before it lost 5 is in no diary. 6 waits for c1 to come back, and drops it in the end.
Such a notice goes to all brokers, and by them to the clients that it names. Receipts name these as given up anyway.

Bounds: `RETOLD_MAX` notices of each of the two kinds are told again, each for `RETOLD_S` (whoever missed an older one
has missed later ones, which say the same); `HEARD_MAX` identities are remembered.
"""

from collections.abc import Callable, Collection, Iterable

from holdfast.model.hole_messages import ABOUT_MAX, Hole
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

    def concerns(self, peer: str, instead_of: str, is_broker: bool) -> bool:
        if self.hole.about and not is_broker:
            return peer in self.hole.about
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
        is_broker: Callable[[str], bool],
    ) -> None:
        self._name, self._epoch, self._send, self._peers, self._report = name, epoch, send, peers, report
        self._now, self._is_broker = now, is_broker
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
        self._begin(_Notice(hole, except_peer or "", towards, self._now()), ",".join(sorted(towards or ())))
        return hole

    def announce_about(self, clients: Iterable[str], reason: str) -> None:
        """Something that was kept for these clients alone is dropped: they are told, wherever they are by now."""
        names = sorted(clients)
        for start in range(0, len(names), ABOUT_MAX):
            self._number += 1
            about = tuple(names[start : start + ABOUT_MAX])
            hole = Hole(self._name, self._epoch, self._number, True, reason[:REASON_CHARACTERS_MAX], about)
            self._begin(_Notice(hole, "", None, self._now()), ",".join(about))

    def _begin(self, notice: _Notice, whom: str) -> None:
        self._heard.is_new(notice.hole)
        self._report(Report("hole", peer=whom, detail=notice.hole.reason))
        self._tell(notice)

    def on_hole(self, peer: str, hole: Hole) -> None:
        """A neighbour says that something may be missing here and behind us."""
        if self._heard.is_new(hole):
            self._tell(_Notice(hole, peer, None, self._now()))

    def _tell(self, notice: _Notice) -> None:
        alike = [one for one in self._notices if bool(one.hole.about) is bool(notice.hole.about)]
        if len(alike) >= RETOLD_MAX:
            self._notices.remove(alike[0])
        self._notices.append(notice)
        for peer in self._peers():
            if peer != notice.source and notice.concerns(peer, peer, self._is_broker(peer)):
                self._send(peer, notice.hole)

    def retell(self, peer: str, instead_of: str = "") -> None:
        """A link is opened, with somebody in the place of another one perhaps: it may have missed a notice."""
        oldest = self._now() - RETOLD_S
        self._notices = [notice for notice in self._notices if notice.heard_at >= oldest]
        is_broker = self._is_broker(peer)
        for notice in self._notices:
            if notice.concerns(peer, instead_of, is_broker):
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
        """The reason of the latest notice that came within that time; empty if there was none.

        Not of those about clients: they are known as given up, with what they wanted (`given_up`).
        """
        oldest = self._now() - age_s
        holes = [one.hole for one in self._notices if one.heard_at >= oldest and not one.hole.about]
        return holes[-1].reason if holes else ""
