"""A broker that may have slept, and asks around before it accuses anybody.

A broker that was frozen wakes up to closed connections and to silence that was its own: it may be the one who was given
up. For a while it is in doubt. Its parent, when it is dialled again, tells it; a root asks those who would have taken
its place. Whoever is asked (`_probes`) only has to answer whether it knows this epoch; a session with it that could be
resumed waits aside meanwhile.
"""

from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger.taking_in import TakingInBroker
from holdfast.protocols.links import Link
from holdfast.protocols.node import Disconnect, Report

SLEEP_BEATS = 3
"""A heartbeat that comes so many times too late shows that this broker has not run meanwhile."""


class DoubtingBroker(TakingInBroker):
    """Whether it is others who were lost, or this one."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self._beat_at = 0.0
        self._doubt_until = 0.0
        self._doubted: set[str] = set()
        """Whose connection was lost while we were in doubt who was given up."""
        self._parted_asleep: set[str] = set()
        """The same, if they have not come back since: they may have closed it since we were silent, and be alive."""
        self._probes: set[str] = set()
        self._aside: dict[str, Link] = {}
        """Sessions that wait for a connection while the one at the other end is asked something."""

    def _begin_epoch(self) -> None:
        """From now on nobody takes us for whom they knew by this name, or gave up."""
        self.view.epoch += 1
        self.hub.incarnation = self.view.epoch
        self.hub.out += self.notebook.epoch(self.view.epoch)

    def _check_sleep(self, now: float) -> None:
        """Whoever has slept may be the one who was given up: for a while it accuses nobody, and asks around."""
        slept_s = now - self._beat_at if self._beat_at else 0.0
        self._beat_at = now
        if slept_s < SLEEP_BEATS * self.config.link.heartbeat_s:
            return
        self._doubt_until = now + self.config.doubt_s
        self.hub.out.append(Report("slept", detail=f"{slept_s:.1f} s"))
        for link in self.hub.links.values():
            link.heard_at = now
            if link.kind == "broker" and not link.is_open:
                # What came while we slept was read before anybody looked at the clock, the end of connections, too.
                self._doubted.add(link.peer)
        self._ask_around()

    def _ask_around(self) -> None:
        """Of a root: dial those who would have taken its place, unless they are there."""
        for contact in self.view.senior if self.parent is None else ():
            link = self.hub.links.get(contact.name)
            if contact.name not in self._probes and (link is None or not link.is_open):
                aside = self.hub.set_aside(contact.name)
                if aside is not None:
                    self._aside[contact.name] = aside
                self._probes.add(contact.name)
                self.hub.dial(contact.name, self._now, contact.address)

    def _end_probe(self, peer: str) -> None:
        self._drop_probe(peer)
        self.hub.out.append(Disconnect(peer, "it was only asked"))

    def _drop_probe(self, peer: str) -> None:
        """The question is answered. A session that waited meanwhile may be resumed as if nothing had happened."""
        self._probes.discard(peer)
        self.hub.set_aside(peer)
        # What was said to it meanwhile went to the question, not into that session.
        self.view.deaths.told_nothing(peer)
        self.view.told_nobody()
        aside = self._aside.pop(peer, None)
        if aside is not None:
            self.hub.links[peer] = aside
