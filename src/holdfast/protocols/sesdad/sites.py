"""The tree of sites around a broker: its own site, the sites next to it, and the brokers of each."""

from msgspec import Struct

from holdfast.model.errors import ConfigError
from holdfast.protocols.config import BrokerConfig

REPLICAS = (1, 3, 5)
LOCAL = ""
"""The source of what clients of the site itself publish."""
SESSION_MARK = "|"


class Site(Struct, frozen=True):
    """A site: its brokers by rank, the first of which is the first designated broker."""

    name: str
    members: tuple[str, ...]

    @property
    def losses_max(self) -> int:
        """f: how many of its brokers may be lost at a time."""
        return (len(self.members) - 1) // 2


class SiteMap:
    """What a broker knows of sites: its own, and those next to it."""

    def __init__(self, config: BrokerConfig) -> None:
        """A broker that is told of no sites is one by itself."""
        own = config.site or config.name
        sites = {name: Site(name, members) for name, members in config.sites or ((own, (config.name,)),)}
        if own not in sites or config.name not in sites[own].members:
            raise ConfigError(f"broker {config.name} is told sites, and is in none of them")
        self.own = sites.pop(own)
        self.neighbours = sites
        self.others = tuple(name for name in self.own.members if name != config.name)
        """The other brokers of our site."""
        self._site_of = {member: site.name for site in sites.values() for member in site.members}
        self.upper = config.upper_site
        """The site above ours; nothing if there is none."""
        self._name = config.name

    def site_of(self, broker: str) -> str:
        """The neighbouring site that a broker belongs to; nothing if it is none of theirs."""
        return self._site_of.get(broker, "")

    def is_member(self, broker: str) -> bool:
        """Whether that is another broker of our own site."""
        return broker in self.others

    def knows(self, broker: str) -> bool:
        return broker in self.others or broker in self._site_of

    def to_dial(self) -> list[str]:
        """The brokers that we dial: those of our site with a lower rank, and those of the site above."""
        rank = self.own.members.index(self._name)
        above = self.neighbours[self.upper].members if self.upper else ()
        return [*self.own.members[:rank], *above]


def subscriber_id(client: str, session: int) -> str:
    """A client in one of its sessions: the next one under its name begins anew."""
    return f"{client}{SESSION_MARK}{session:x}"


def client_of(subscriber: str) -> str:
    """The client that a subscriber is."""
    return subscriber.rpartition(SESSION_MARK)[0]


def is_subscriber(destination: str) -> bool:
    """Whether that is a client of the site, not another site."""
    return SESSION_MARK in destination


class Picker:
    """Draws among brokers, from the number of the node's life: nobody can tell the order, and a seed repeats it."""

    def __init__(self, seed: int) -> None:
        self._state = seed & 0xFFFFFFFFFFFFFFFF

    def pick(self, names: list[str]) -> str:
        """One of them."""
        # The steps of SplitMix64 (Steele, Lea, Flood 2014).
        self._state = self._state + 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        mixed = (self._state ^ self._state >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        return names[(mixed ^ mixed >> 31) % len(names)]
