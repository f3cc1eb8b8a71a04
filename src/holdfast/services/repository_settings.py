"""What a repository is told: a process that only starts repositories loads neither their stores nor a client."""

from msgspec import Struct

from holdfast.model.reliable import INSPECT_S, Level, Retention
from holdfast.protocols.narada import Registration


class RepositorySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a repository is told."""

    name: str
    addresses: tuple[str, ...] = ("holdfast://127.0.0.1:7400",)
    """Brokers to attach to: the first that takes it in is used, the others when that one is lost."""
    store: str = ""
    """Where it keeps things, as `sqlite:PATH`, `segments:DIR` or `postgresql://...`; empty: `sqlite:NAME.db`."""
    streams: tuple[str, ...] = ()
    """The reliable topics that it keeps, each a topic or a pattern."""
    cluster: str = "holdfast"
    level: Level = Level.FSYNCED
    """What its acknowledgements stand for."""
    owners: tuple[Registration, ...] = ()
    """Who may publish and subscribe, where the owner of a stream says so from the beginning."""
    inspect_s: float = INSPECT_S
    """So often it looks whether what it keeps is as it was stored; 0: only when something is missing."""
    retention: dict[str, Retention] = {}
    """By stream, how long what is stored of it is kept; for good if it is not here."""
    host: str = "127.0.0.1"
    health_port: int | None = None
    log: str = ""
    log_level: str = "info"

    @property
    def store_url(self) -> str:
        return self.store or f"sqlite:{self.name}.db"
