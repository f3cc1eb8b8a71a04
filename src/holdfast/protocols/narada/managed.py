"""One stream at one repository, with the parts that work on it, and what people are told of it."""

from collections.abc import Callable

from holdfast.model.plurals import counted
from holdfast.protocols.narada.config import RepositoryConfig
from holdfast.protocols.narada.dissemination import Dissemination
from holdfast.protocols.narada.forgetting import Forgetting
from holdfast.protocols.narada.gossip import Bundle
from holdfast.protocols.narada.intake import Intake
from holdfast.protocols.narada.keeping import Keeping
from holdfast.protocols.narada.mending import Mending
from holdfast.protocols.narada.retention import Retaining
from holdfast.protocols.narada.tidings import Telling


class Managed:
    """One stream and the parts that work on it."""

    def __init__(self, config: RepositoryConfig, stream: str, era: int, token: Callable[..., int]) -> None:
        self.keeping = Keeping(config, stream, era)
        self.intake = Intake(self.keeping)
        self.dissemination = Dissemination(self.keeping, lambda kind, what: token(stream, kind, what))
        self.forgetting = Forgetting(self.dissemination)
        self.bundle = Bundle(self.keeping, self.dissemination, lambda kind, what: token(stream, kind, what))
        self.telling = Telling(self.dissemination, self.bundle.members)
        self.mending = Mending(self.keeping, lambda kind, what: token(stream, kind, what))
        self.retaining = Retaining(self.keeping, self.dissemination, self.bundle)

    def has_changes(self) -> bool:
        return self.keeping.has_changes() or self.mending.has_changes() or self.retaining.has_changes()

    def waiting_for(self, committing: bool) -> list[str]:
        """In words, what is waited for before everything is as it should be."""
        keeping, mending, stream = self.keeping, self.mending, self.keeping.stream
        reasons: list[str] = []
        if keeping.state == "left":
            return reasons
        if keeping.state != "serving":
            reasons.append(f"{stream} to be {keeping.state}")
        if self.has_changes() or committing:
            reasons.append(f"{stream} to be committed")
        if keeping.places and keeping.state != "leaving":
            reasons.append(f"{counted(keeping.places, 'range')} of places of {stream} to be filled")
        if mending.is_waiting:
            reasons.append(f"{counted(mending.messages, 'damaged message')} of {stream} to be mended by a sibling")
        behind = [member.name for member in self.bundle.members.values() if member.cover < member.end]
        return reasons + [f"{name} to be covered" for name in behind]

    def status(self) -> dict[str, object]:
        """A snapshot for people."""
        keeping, mending = self.keeping, self.mending
        return {
            "state": keeping.state,
            "era": keeping.era,
            "kept": keeping.kept,
            "end": keeping.end,
            "places": sum(place.count for _, place in keeping.place_rows()),
            "publishers": len(keeping.lives),
            "members": {one.name: {"cover": one.cover, "end": one.end} for one in self.bundle.members.values()},
            "subscribers": {
                one.name: {"sync": one.sync, "lag": keeping.end - one.sync, "steering": one.steering}
                for one in self.dissemination.subscriptions.values()
            },
            "buffered": len(keeping.pieces),
            "recovery_s": self.bundle.recovery_s,
            "damaged": mending.messages,
            "nameless": mending.nameless,
            "lost": mending.lost,
            "mended": mending.mended,
        }
