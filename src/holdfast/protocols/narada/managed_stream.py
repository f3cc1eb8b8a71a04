"""One stream at one repository: the parts that work on it, and its status."""

from collections.abc import Callable

from holdfast.model.plurals import counted
from holdfast.protocols.narada.config import RepositoryConfig
from holdfast.protocols.narada.damaged_messages import DamagedMessages
from holdfast.protocols.narada.dissemination import Dissemination
from holdfast.protocols.narada.gossip import BundleGossip
from holdfast.protocols.narada.intake import Intake
from holdfast.protocols.narada.position_reports import PositionReports
from holdfast.protocols.narada.retention import StreamRetention
from holdfast.protocols.narada.stream_state import RepositoryStream
from holdfast.protocols.narada.subscription_removal import SubscriptionRemoval


class ManagedStream:
    """One stream and the parts that work on it."""

    def __init__(self, config: RepositoryConfig, stream: str, era: int, token: Callable[..., int]) -> None:
        self.stream_state = RepositoryStream(config, stream, era)
        self.intake = Intake(self.stream_state)
        self.dissemination = Dissemination(self.stream_state, lambda kind, what: token(stream, kind, what))
        self.removal = SubscriptionRemoval(self.dissemination)
        self.bundle = BundleGossip(self.stream_state, self.dissemination, lambda kind, what: token(stream, kind, what))
        self.position_reports = PositionReports(self.dissemination, self.bundle.members)
        self.damage = DamagedMessages(self.stream_state, lambda kind, what: token(stream, kind, what))
        self.retention = StreamRetention(self.stream_state, self.dissemination, self.bundle)

    def has_changes(self) -> bool:
        return self.stream_state.has_changes() or self.damage.has_changes() or self.retention.has_changes()

    def waiting_for(self, committing: bool) -> list[str]:
        """In words, what is waited for before everything is as it should be."""
        stream_state, damage, stream = self.stream_state, self.damage, self.stream_state.stream
        reasons: list[str] = []
        if stream_state.phase == "left":
            return reasons
        if stream_state.phase != "serving":
            reasons.append(f"{stream} to be {stream_state.phase}")
        if self.has_changes() or committing:
            reasons.append(f"{stream} to be committed")
        if stream_state.places and stream_state.phase != "leaving":
            reasons.append(f"{counted(stream_state.places, 'range')} of places of {stream} to be filled")
        if damage.is_waiting:
            reasons.append(f"{counted(damage.messages, 'damaged message')} of {stream} to be mended by a sibling")
        behind = [member.name for member in self.bundle.members.values() if member.cover < member.end]
        return reasons + [f"{name} to be covered" for name in behind]

    def status(self) -> dict[str, object]:
        """A snapshot for people."""
        stream_state, damage = self.stream_state, self.damage
        return {
            "state": stream_state.phase,
            "era": stream_state.era,
            "kept": stream_state.kept,
            "end": stream_state.end,
            "places": sum(place.count for _, place in stream_state.place_rows()),
            "publishers": len(stream_state.lives),
            "members": {one.name: {"cover": one.cover, "end": one.end} for one in self.bundle.members.values()},
            "subscribers": {
                one.name: {"sync": one.sync, "lag": stream_state.end - one.sync, "steering": one.steering}
                for one in self.dissemination.subscriptions.values()
            },
            "buffered": len(stream_state.pieces),
            "recovery_s": self.bundle.recovery_s,
            "damaged": damage.messages,
            "nameless": damage.nameless,
            "lost": damage.lost,
            "mended": damage.mended,
        }
