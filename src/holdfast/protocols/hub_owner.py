"""What a hub (`protocols.hub`) asks of the node that it belongs to."""

from typing import Protocol

from holdfast.model.messages import Hello, Levels, Refusal, SessionMessage
from holdfast.protocols.links import Link


class HubOwner(Protocol):
    """What a hub asks of the node that it belongs to."""

    def admit(self, hello: Hello) -> Refusal | None:
        """Why this session may not begin, or `None`."""
        ...

    def link_opened(self, link: Link, fresh: bool) -> None:
        """A session begins (`fresh`) or goes on over a new connection."""
        ...

    def link_closed(self, link: Link) -> None:
        """The connection is gone; the session waits for the next one."""
        ...

    def link_ended(self, link: Link, reason: str) -> None:
        """The session is over for good; the hub has forgotten it."""
        ...

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        """The peer that we dialled said no."""
        ...

    def link_message(self, link: Link, message: SessionMessage) -> None:
        """The next message of the session. The owner calls `link.consume` when it is done with it."""
        ...

    def link_levels(self, link: Link, levels: Levels) -> None:
        """The peer says how stable what went over the link is."""
        ...

    def link_acknowledged(self, link: Link) -> None:
        """The peer has more of what was sent to it."""
        ...

    def welcome(self, hello: Hello) -> tuple[int, str, tuple[int, ...]]:
        """What `Welcome` says: the highest number published under that name, the protocol, its guarantees."""
        ...
