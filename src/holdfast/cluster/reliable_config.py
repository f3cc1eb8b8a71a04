"""What a cluster's file says of reliable topics: who keeps them, how, how long, and who may use them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from holdfast.cluster.sections import converted, listed, meant
from holdfast.model.errors import ConfigError, LocalMisuse
from holdfast.model.reliable import INSPECT_S, Level, Retention
from holdfast.model.topics import check_stream
from holdfast.protocols.narada import Registration

Port = Annotated[int, Meta(ge=1, le=65535)]
Age = Annotated[float, Meta(gt=0)]
Bytes = Annotated[int, Meta(ge=1)]
Pause = Annotated[float, Meta(ge=0)]


class RepositoryEntry(Struct, frozen=True):
    """One repository of the cluster: where it is attached, what it keeps, and how."""

    name: str
    broker: str
    streams: tuple[str, ...]
    health_port: int
    store: str = ""
    level: Level = Level.FSYNCED
    inspect_s: float = INSPECT_S
    retention: dict[str, Retention] = {}
    """By stream; what is not here is kept for good."""
    machine: str = ""


class _Keeping(Struct, frozen=True):
    keep_s: Age | None = None
    keep_bytes: Bytes | None = None
    keep_unread: bool | None = None

    def over(self, other: "_Keeping | None") -> Retention:
        """What this says, and where it says nothing, the other."""
        parts = [self] if other is None else [self, other]
        found = {
            name: next((value for one in parts if (value := getattr(one, name)) is not None), None)
            for name in ("keep_s", "keep_bytes", "keep_unread")
        }
        return Retention(found["keep_s"], found["keep_bytes"], found["keep_unread"] is not False)


class _RepositoryEntry(_Keeping, frozen=True, kw_only=True):
    broker: str
    streams: tuple[str, ...]
    store: str = ""
    level: Level = Level.FSYNCED
    health_port: Port | None = None
    inspect_s: Pause = INSPECT_S
    machine: str = ""


class _ReliableEntry(_Keeping, frozen=True, kw_only=True):
    owner: str = ""
    version: Annotated[int, Meta(ge=1)] = 1
    publishers: tuple[str, ...] | None = None
    subscribers: tuple[str, ...] | None = None


def repositories_of(
    repositories: Mapping[str, Any], reliable: Mapping[str, Any], next_port: int, source: str
) -> tuple[tuple[RepositoryEntry, ...], tuple[Registration, ...]]:
    """The repositories, from that health port on where they name none, and what owners say of their streams."""
    declared = {
        stream: converted(raw, _ReliableEntry, source, f"reliable.{stream}.") for stream, raw in reliable.items()
    }
    kept = []
    for index, (name, raw) in enumerate(repositories.items()):
        entry = converted(raw, _RepositoryEntry, source, f"repositories.{name}.")
        port = entry.health_port or next_port + index
        retention = {stream: entry.over(declared.get(stream)) for stream in entry.streams}
        settings = (entry.store, entry.level, entry.inspect_s, {k: v for k, v in retention.items() if v.bounded})
        kept.append(RepositoryEntry(name, entry.broker, entry.streams, port, *settings, entry.machine))
    known = {stream for one in kept for stream in one.streams}
    for stream, said in declared.items():
        if stream not in known:
            raise ConfigError(f"{source}: reliable.{stream}: no repository keeps it; expected {listed(sorted(known))}.")
        if not said.owner and (said.publishers is not None or said.subscribers is not None):
            raise ConfigError(f"{source}: reliable.{stream}.owner: expected who says who may publish and subscribe.")
    registered = [
        Registration(stream, said.owner, said.version, said.publishers, said.subscribers)
        for stream, said in declared.items()
        if said.owner
    ]
    return tuple(kept), tuple(registered)


def check_repositories(
    repositories: Sequence[RepositoryEntry], reliable: Sequence[Registration], brokers: list[str], source: str
) -> None:
    """Raise `ConfigError` if a repository is nowhere or keeps nothing, or something is said of what nobody keeps."""
    for one in repositories:
        key = f"repositories.{one.name}"
        if one.broker not in brokers:
            raise ConfigError(
                f"{source}: {key}.broker: there is no broker {one.broker!r}{meant(one.broker, brokers)}; "
                f"expected {listed(brokers)}."
            )
        if not one.streams:
            raise ConfigError(f"{source}: {key}.streams: expected at least one topic or pattern to keep.")
        for stream in one.streams:
            try:
                check_stream(stream)
            except LocalMisuse as error:
                raise ConfigError(f"{source}: {key}.streams: {error}") from None
    kept = {stream for one in repositories for stream in one.streams}
    for registration in reliable:
        if registration.stream not in kept:
            raise ConfigError(
                f"{source}: reliable.{registration.stream}: no repository keeps it; expected {listed(sorted(kept))}."
            )
