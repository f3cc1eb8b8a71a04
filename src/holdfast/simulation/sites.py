"""Sites in the simulator: each node of the tree is a site, and its brokers are named after it, as in `lisbon.1`."""

from msgspec.structs import replace

from holdfast.model.errors import ConfigError
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.sesdad.sites import REPLICAS
from holdfast.simulation.trees import Parents

REPLICAS_USUALLY = 3


class Sites:
    """The sites of a simulation and their brokers."""

    def __init__(self, parents: Parents, replicas: int) -> None:
        if replicas not in REPLICAS:
            raise ConfigError(f"replicas: {replicas} cannot be; a site has 1, 3 or 5 brokers.")
        self.parents = parents
        self.members = {site: members_of(site, replicas) for site in parents}

    def brokers(self) -> Parents:
        """Every broker, with the first one of the site above its own."""
        return {
            member: None if parent is None else self.members[parent][0]
            for site, parent in self.parents.items()
            for member in self.members[site]
        }

    def site_of(self, name: str) -> str:
        """The site of that name, or of the broker of that name; nothing if there is neither."""
        if name in self.members:
            return name
        return next((site for site, members in self.members.items() if name in members), "")

    def placed(self, config: BrokerConfig) -> BrokerConfig:
        """What a broker is told of the sites around it."""
        site = self.site_of(config.name)
        upper = self.parents[site] or ""
        near = [site, *([upper] if upper else []), *(name for name, above in self.parents.items() if above == site)]
        return replace(
            config, parent=None, site=site, sites=tuple((name, self.members[name]) for name in near), upper_site=upper
        )


def members_of(site: str, replicas: int) -> tuple[str, ...]:
    """The names of the brokers of a site."""
    return tuple(f"{site}.{number}" for number in range(1, replicas + 1))
