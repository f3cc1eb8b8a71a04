"""Random failures for trees of sites: brokers of each site that die, freeze, are cut off and come back.

A site of 2f + 1 brokers survives the loss of f of them at a time, each site by itself. Half of the crashes wait for the
n-th message of some kind that the broker sends, so that they fall between a multicast and a delivery, or into the
midst of a change of the routing table. Only the class `majority` takes more brokers of a site than that, and lets them
stand still: then the site waits.
"""

from collections.abc import Iterator
from random import Random

from holdfast.simulation.failures import FailureClass
from holdfast.simulation.faults import Command, Crash, Cut, Freeze, Heal, Recover, Thaw, When
from holdfast.simulation.scenarios import Timed
from holdfast.simulation.sites import Sites

DESIGNATED_SAYS = ("Propose", "Establish", "Announce", "SiteAnswer", "Marks", "Replicated", "Announced", "Notification")
CHOSEN_SAYS = ("Replicate", "Replicate", "Forward", "Forward", "Replicated")
TRANSFER_SAYS = ("SiteState", "StreamState", "Owed", "StateEnd", "Marks")
AWAY_S = (0.02, 0.2, 1.0, 3.0)
FROZEN_S = (0.3, 2.0, 4.0, 8.0)
RECOVERY_S = 3.0
"""How long a broker that comes back may take to be told everything, on the slowest network."""
STORM_EVENTS_MAX = 5


class SiteFailureAuthor:
    """Makes up the failures of one scenario on sites."""

    def __init__(
        self, chance: Random, sites: Sites, clients: list[str], begin_s: float, span_s: float, says: tuple[str, ...]
    ) -> None:
        self.chance, self.sites, self.clients = chance, sites, clients
        self.begin_s, self.span_s, self.says = begin_s, span_s, says

    def entries(self, failure: FailureClass) -> Iterator[Timed]:
        """What happens in a scenario of that class."""
        for time_s, command in getattr(self, f"_{failure}")():
            yield Timed(round(max(0.0, time_s), 6), command)

    def _moment(self) -> float:
        return self.begin_s + self.span_s * self.chance.uniform(-0.1, 1.2)

    def _some_sites(self) -> list[str]:
        every = list(self.sites.members)
        return self.chance.sample(every, self.chance.randint(1, len(every)))

    def _victims(self, site: str) -> list[str]:
        """As many brokers of a site as it may lose at a time."""
        members = self.sites.members[site]
        losses = (len(members) - 1) // 2
        return self.chance.sample(list(members), self.chance.randint(1, losses) if losses > 1 else losses)

    def _end(self, node: str, time_s: float, says: tuple[str, ...]) -> tuple[float, Command]:
        if self.chance.random() < 0.4:
            return time_s, Crash(node)
        count = self.chance.choice((1, 1, 2, 3, 5, 8, 13))
        return time_s - self.span_s / 2, When(node, self.chance.choice(says), Crash(node), count)

    def _crash(self) -> Iterator[tuple[float, Command]]:
        for site in self._some_sites():
            for node in self._victims(site):
                yield self._end(node, self._moment(), self.says)

    def _designated(self) -> Iterator[tuple[float, Command]]:
        for site in self._some_sites():
            if len(self.sites.members[site]) > 1:
                yield self._end(self.sites.members[site][0], self._moment(), DESIGNATED_SAYS)

    def _chosen(self) -> Iterator[tuple[float, Command]]:
        for site in self._some_sites():
            for node in self._victims(site):
                count = self.chance.randint(1, 20)
                yield self.begin_s, When(node, self.chance.choice(CHOSEN_SAYS), Crash(node), count)

    def _recover(self) -> Iterator[tuple[float, Command]]:
        for site in self._some_sites():
            time_s = self._moment()
            for _ in range(self.chance.choice((1, 1, 2, 3))):
                for node in self._victims(site)[:1]:
                    yield time_s, Crash(node)
                    time_s += self.chance.choice(AWAY_S) * self.chance.uniform(0.5, 1.5)
                    yield time_s, Recover(node)
                    if self.chance.random() < 0.2:
                        # In the midst of its return it dies again, before another one may.
                        word, back_s = self.chance.choice(TRANSFER_SAYS), time_s + 1.0
                        yield time_s, When(node, word, Crash(node), self.chance.randint(1, 3), within_s=0.5)
                        yield back_s, Recover(node)
                        time_s = back_s
                    time_s += RECOVERY_S

    def _freeze(self) -> Iterator[tuple[float, Command]]:
        for site in self._some_sites():
            time_s = self._moment()
            for node in self._victims(site):
                yield time_s, Freeze(node)
                yield time_s + self.chance.choice(FROZEN_S), Thaw(node)

    def _cut(self) -> Iterator[tuple[float, Command]]:
        for _ in range(self.chance.randint(1, 4)):
            one, other = self.chance.choice(self.pairs())
            time_s = self._moment()
            yield time_s, Cut(one, other)
            yield time_s + self.chance.choice(FROZEN_S), Heal(one, other)

    def pairs(self) -> list[tuple[str, str]]:
        """Those who have a link: brokers of a site, of sites next to each other, and clients with those of theirs."""
        found = []
        for site, members in self.sites.members.items():
            found += [(one, other) for one in members for other in members if one < other]
            above = self.sites.parents[site]
            if above is not None:
                found += [(one, other) for one in self.sites.members[above] for other in members]
        for client in self.clients:
            found += [(broker, client) for broker in self.sites.members[client.partition("@")[2]]]
        return found

    def _majority(self) -> Iterator[tuple[float, Command]]:
        """More brokers of a site stand still than it may lose, one of them perhaps dead for a while before."""
        site = self.chance.choice(list(self.sites.members))
        members = list(self.sites.members[site])
        lost = self.chance.sample(members, (len(members) + 1) // 2)
        time_s, until_s = self._moment(), self.chance.choice(FROZEN_S)
        for node in lost:
            begin_s = time_s + self.chance.choice((0.0, 0.01, 0.3)) * self.chance.random()
            yield begin_s, Freeze(node)
            yield begin_s + until_s * self.chance.uniform(0.8, 1.2), Thaw(node)

    def _storm(self) -> Iterator[tuple[float, Command]]:
        """One after another, each when its site has had time to get over the one before."""
        for site in self._some_sites():
            time_s = self.begin_s + self.chance.uniform(0.0, self.span_s)
            for _ in range(self.chance.randint(2, STORM_EVENTS_MAX)):
                for node in self._victims(site)[:1]:
                    if self.chance.random() < 0.6:
                        yield time_s, Crash(node)
                        time_s += self.chance.choice(AWAY_S)
                        yield time_s, Recover(node)
                    else:
                        yield time_s, Freeze(node)
                        time_s += self.chance.choice(FROZEN_S)
                        yield time_s, Thaw(node)
                time_s += RECOVERY_S
