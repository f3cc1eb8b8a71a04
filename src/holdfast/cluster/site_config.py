"""Sites in a cluster file: each stands for several brokers that stand in for each other. See `protocols.sesdad`."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from holdfast.cluster.sections import converted, listed, meant
from holdfast.model.errors import ConfigError
from holdfast.protocols.registry import PROTOCOLS
from holdfast.protocols.sesdad.sites import REPLICAS

Routing = Literal["filtering", "flooding"]
Brokers = Mapping[str, dict[str, Any]]


class Site(Struct, frozen=True):
    """A site: several brokers that stand in for each other, and the site above it."""

    name: str
    parent: str | None
    members: tuple[str, ...]


class SiteEntry(Struct, frozen=True):
    """What a file says of one."""

    parent: str | None = None
    host: str | None = None
    replicas: int | None = None
    ports: tuple[Annotated[int, Meta(ge=1, le=65535)], ...] = ()
    machine: str = ""
    machines: tuple[str, ...] = ()


def sites_of(
    raw: Brokers, protocol: str, replicas: int, brokers: Brokers, source: str
) -> tuple[tuple[Site, ...], dict[str, dict[str, Any]]]:
    """The sites of a file, and all brokers: those of its sites, or those that it names itself."""
    if protocol not in PROTOCOLS or not (PROTOCOLS[protocol].sited or raw):
        return (), dict(brokers)
    if not PROTOCOLS[protocol].sited:
        sited = [name for name, info in PROTOCOLS.items() if info.sited]
        raise ConfigError(
            f"{source}: sites: protocol {protocol} has no sites; expected [brokers.NAME], or the protocol "
            f"{listed(sited)}."
        )
    if brokers:
        raise ConfigError(f"{source}: brokers: protocol {protocol} has sites; expected [sites.NAME] alone.")
    if not raw:
        raise ConfigError(f"{source}: sites: expected at least one, such as [sites.lisbon].")
    entries = {name: converted(entry, SiteEntry, source, f"sites.{name}.") for name, entry in raw.items()}
    sites = tuple(_site(name, entry, entries, replicas, source) for name, entry in entries.items())
    _check_tree({site.name: site.parent for site in sites}, source)
    return sites, _brokers_of(sites, entries)


def _site(name: str, entry: SiteEntry, entries: Mapping[str, SiteEntry], replicas: int, source: str) -> Site:
    replicas = replicas if entry.replicas is None else entry.replicas
    if replicas not in REPLICAS:
        raise ConfigError(f"{source}: sites.{name}.replicas: {replicas} cannot be; expected 1, 3 or 5.")
    if entry.ports and len(entry.ports) != replicas:
        raise ConfigError(
            f"{source}: sites.{name}.ports: expected one for each of {replicas} brokers, not {len(entry.ports)}."
        )
    if entry.machines and entry.machine:
        raise ConfigError(f"{source}: sites.{name}.machines: machine is there as well; expected one of the two.")
    if entry.parent is not None and entry.parent not in entries:
        raise ConfigError(
            f"{source}: sites.{name}.parent: there is no site {entry.parent!r}{meant(entry.parent, entries)}; "
            f"expected {listed(entries)}."
        )
    return Site(name, entry.parent, tuple(f"{name}.{number}" for number in range(1, replicas + 1)))


def _check_tree(parents: Mapping[str, str | None], source: str) -> None:
    if cycle := cycle_of(parents):
        raise ConfigError(
            f"{source}: sites.{cycle[0]}.parent: {' -> '.join(cycle)} is a cycle of parents; sites form a tree, so one "
            "of them needs another parent or none."
        )
    roots = [name for name, parent in parents.items() if parent is None]
    if len(roots) != 1:
        raise ConfigError(
            f"{source}: sites: {listed(roots, 'and')} have no parent; exactly one site is the root, so give the others "
            "a parent."
        )


def _brokers_of(sites: Iterable[Site], entries: Mapping[str, SiteEntry]) -> dict[str, dict[str, Any]]:
    """The brokers of sites, as a file would name them: the first of each below the first of the site above."""
    brokers: dict[str, dict[str, Any]] = {}
    for site in sites:
        first, entry = site.members[0], entries[site.name]
        for rank, member in enumerate(site.members):
            broker = brokers[member] = {"parent": first} if rank else {}
            if not rank and site.parent is not None:
                broker["parent"] = f"{site.parent}.1"
            if entry.host is not None:
                broker["host"] = entry.host
            if entry.ports:
                broker["port"] = entry.ports[rank]
            machines = entry.machines or (entry.machine,)
            broker["machine"] = machines[rank % len(machines)]
    return brokers


def cycle_of(parents: Mapping[str, str | None]) -> list[str]:
    """Some cycle of parents, its first broker repeated at the end; empty if there is none."""
    settled: set[str] = set()
    for start in parents:
        path: list[str] = []
        at: str | None = start
        while at is not None and at not in settled:
            if at in path:
                return [*path[path.index(at) :], at]
            path.append(at)
            at = parents[at]
        settled.update(path)
    return []
