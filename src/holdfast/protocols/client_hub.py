"""The hub of a client: one link, whose other end says what it is."""

from collections.abc import Callable

from holdfast.model.messages import Refusal, Welcome
from holdfast.protocols.config import LinkConfig
from holdfast.protocols.hub import Hub
from holdfast.protocols.links import Link


class ClientHub(Hub):
    """A hub that remembers what the broker said of itself, and lets the client judge its numbers first."""

    said: Welcome | None = None
    taken_by = ""
    """The identity of the later session that has our name."""
    may_begin: Callable[[int], bool]
    link_at: Callable[[int], LinkConfig]
    """How often a broker of that tolerance is asked for a sign of life, and which silence it is allowed."""

    def on_welcome(self, link: Link, welcome: Welcome, fresh: bool) -> bool:
        self.said = welcome
        if welcome.received < link.acked:
            # Two of our calls have crossed, and it took the older one for a new beginning. What it had is gone there.
            self._on_refusal(link, Refusal("unknown-session", f"{welcome.node} has forgotten what we told it"))
            return False
        self.config = self.link_at(welcome.tolerance)
        return not fresh or self.may_begin(welcome.published)

    def _on_refusal(self, link: Link, refusal: Refusal) -> None:
        if refusal.code == "taken":
            self.taken_by = refusal.later
        super()._on_refusal(link, refusal)
