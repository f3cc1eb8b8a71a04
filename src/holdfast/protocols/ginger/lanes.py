"""What has to wait at a broker before it enters, in the order in which it came, a lane per peer.

A lane is shut for a whole peer, or only for some publishers behind it. Whatever waits, everything that could depend on
it waits behind it:

- A client's lane is shut whole: what a publisher says later, even an eventual message, may carry on the causal chain.
- From a neighbour behind which somebody wants the topic, the message may have been delivered already, and whatever that
  subscriber published next comes along the same link: the whole link waits.
- From a neighbour behind which nobody wants the topic, only the publisher itself knows of the message, so only what it
  published later waits. (If somebody there had wanted the topic before the message passed, its subscription would have
  come along the same link ahead of it.)
"""

from collections import deque

from holdfast.model.messages import Confirm, Publish, SessionMessage, TotalRequest

EVERYBODY = ""
"""Shuts a lane for all publishers."""


def publisher_of(message: SessionMessage) -> str:
    """Whose publication a message is or follows; empty for everything else."""
    if isinstance(message, Publish | TotalRequest):
        return message.batch.publisher
    return message.publisher if isinstance(message, Confirm) else ""


class Lane:
    """Messages of one peer that wait, and for whom the lane is shut."""

    __slots__ = ("held", "shut")

    def __init__(self) -> None:
        self.held: deque[SessionMessage] = deque()
        self.shut: set[str] = set()

    def stops(self, message: SessionMessage) -> bool:
        """Whether a message has to queue behind what waits."""
        return EVERYBODY in self.shut or publisher_of(message) in self.shut

    def hold(self, message: SessionMessage, publisher: str) -> None:
        self.held.append(message)
        self.shut.add(publisher)
