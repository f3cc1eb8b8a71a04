"""The hub of a client: one link, whose other end says what it is."""

from collections.abc import Callable
from random import Random

from holdfast.model.messages import Refusal, Welcome
from holdfast.protocols.config import LinkConfig
from holdfast.protocols.hub import Hub
from holdfast.protocols.links import Link

LASTS_S = 0.1
"""A connection that has brought something for so long counts as one: after it the first attempt follows at once."""


class ClientHub(Hub):
    """A hub that remembers what the broker said of itself, and lets the client judge its numbers first."""

    said: Welcome | None = None
    taken_by = ""
    """The identity of the later session that has our name."""
    at_a_site = False
    """Whether a broker has said that it is one of several of a site, for which we are the wrong kind of client."""
    may_begin: Callable[[int], bool]
    link_at: Callable[[int], LinkConfig]
    """How often a broker of that tolerance is asked for a sign of life, and which silence it is allowed."""
    chance: Random | None = None
    """Spreads attempts to connect over time: clients that lost one broker at one moment do not all return at one."""
    _opened_at = 0.0
    _redial_s = 0.0
    """How long the last attempt had waited when it succeeded."""

    def _on_welcome(self, link: Link, welcome: Welcome, now: float) -> None:
        self._opened_at, self._redial_s = now, link.redial_s
        super()._on_welcome(link, welcome, now)

    def _redial(self, link: Link) -> None:
        """Wait longer each time, also if the broker lets us in each time and cuts the connection at once."""
        if self._redial_s and link.heard_at - self._opened_at < LASTS_S:
            link.redial_s = max(link.redial_s, self._redial_s)
        self._redial_s = 0.0
        super()._redial(link)

    def _spread(self, wait_s: float) -> float:
        return wait_s if self.chance is None else wait_s * (0.5 + self.chance.random())

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
        self.at_a_site |= refusal.code == "site"
        super()._on_refusal(link, refusal)
