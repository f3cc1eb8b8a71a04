"""A broker that may have slept asks around before it accuses anybody.

A broker that was frozen wakes up to closed connections and to silence that was its own: it may be the one that was
given up. For a while it is in doubt. Its parent, when it is dialled again, tells it; a root asks those who would have
taken its place. A broker that is only asked (`is_probed`) has to answer whether it knows this epoch; a session with it
that could be resumed waits aside meanwhile.
"""

from typing import TYPE_CHECKING

from holdfast.protocols.links import Link
from holdfast.protocols.node import Disconnect, Report

if TYPE_CHECKING:
    from holdfast.protocols.ginger.repairing_broker import RepairingBroker

SLEEP_BEATS = 3
"""A heartbeat that comes so many times too late shows that this broker has not run meanwhile."""


class SelfDoubt:
    """Whether it is others that were lost, or this broker."""

    def __init__(self, broker: "RepairingBroker") -> None:
        self._broker = broker
        self._hub = broker.hub
        self._view = broker.view
        self._beat_at = 0.0
        self._doubt_until = 0.0
        self._doubted: set[str] = set()
        """Whose connection was lost while we were in doubt who was given up."""
        self._parted_asleep: set[str] = set()
        """The same, if they have not come back since: they may have closed it since we were silent, and be alive."""
        self._probes: set[str] = set()
        self._aside: dict[str, Link] = {}
        """Sessions that wait for a connection while the one at the other end is asked something."""

    def check_sleep(self, now: float) -> None:
        """Whoever has slept may be the one who was given up: for a while it accuses nobody, and asks around."""
        slept_s = now - self._beat_at if self._beat_at else 0.0
        self._beat_at = now
        if slept_s < SLEEP_BEATS * self._broker.config.link.heartbeat_s:
            return
        self._doubt_until = now + self._broker.config.doubt_s
        self._hub.out.append(Report("slept", detail=f"{slept_s:.1f} s"))
        for link in self._hub.links.values():
            link.heard_at = now
            if link.kind == "broker" and not link.is_open:
                # What came while we slept was read before anybody looked at the clock, the end of connections, too.
                self._doubted.add(link.peer)
        self.ask_around()

    def ask_around(self) -> None:
        """Of a root: dial those who would have taken its place, unless they are there."""
        for contact in self._view.senior if self._broker.parent is None else ():
            link = self._hub.links.get(contact.name)
            if contact.name not in self._probes and (link is None or not link.is_open):
                aside = self._hub.set_aside(contact.name)
                if aside is not None:
                    self._aside[contact.name] = aside
                self._probes.add(contact.name)
                self._hub.dial(contact.name, self._broker.now, contact.address)

    def is_probed(self, peer: str) -> bool:
        """Whether that broker is only asked something."""
        return peer in self._probes

    def add_probe(self, peer: str) -> None:
        """That broker is dialled to be asked something."""
        self._probes.add(peer)

    def end_probe(self, peer: str) -> None:
        self.drop_probe(peer)
        self._hub.out.append(Disconnect(peer, "it was only asked"))

    def drop_probe(self, peer: str) -> None:
        """The question is answered. A session that waited meanwhile may be resumed as if nothing had happened."""
        self._probes.discard(peer)
        self._hub.set_aside(peer)
        # What was said to it meanwhile went to the question, not into that session.
        self._view.deaths.told_nothing(peer)
        self._view.told_nobody()
        aside = self._aside.pop(peer, None)
        if aside is not None:
            self._hub.links[peer] = aside

    def lost_connection(self, peer: str) -> None:
        """The connection with that broker is gone."""
        if self._broker.now < self._doubt_until:
            self._doubted.add(peer)

    def is_back(self, peer: str) -> None:
        """That peer has a connection again: nobody has to ask about it any more.

        1. The connection with a neighbour is lost while this broker, which has slept, is in doubt.
        2. The neighbour comes back. Hours later it dies, and its connection is closed.
        3. If it were still doubted, its loss would be put off, and repaired as if it had fallen silent.
        """
        self._doubted.discard(peer)
        self._parted_asleep.discard(peer)

    def was_parted_asleep(self, peer: str) -> bool:
        """Whether that peer, which is given up now, may have closed its connection since this broker was silent."""
        parted = peer in self._parted_asleep
        self._parted_asleep.discard(peer)
        return parted

    def is_in_doubt_of(self, peer: str) -> bool:
        """Whether it may be this broker, not that one, that was given up."""
        return peer in self._doubted or self._broker.now < self._doubt_until

    def asks_about(self, peer: str) -> float:
        """Ask around before that peer is given up; returns for how long this broker is in doubt."""
        self._doubted.discard(peer)
        self._parted_asleep.add(peer)
        self.ask_around()
        return self._doubt_until - self._broker.now
