"""What a publisher gets for a message: its identity, and how far it is known to have come."""

from typing import Literal, Protocol

from msgspec import Struct

from holdfast.model.batches import Attributes
from holdfast.model.errors import LocalMisuse

Level = Literal["sent", "accepted", "held", "stored", "confirmed", "taken", "refused"]
By = Literal["client", "application"]


def is_by_application(by: By) -> bool:
    """Whether that is asked for; raises `LocalMisuse` for what nobody can say."""
    if by not in ("client", "application"):
        raise LocalMisuse(f"confirmed(by={by!r}): a publication is confirmed by 'client' or by 'application'.")
    return by == "application"


class Publisher(Protocol):
    """What a receipt asks of the client that made it."""

    @property
    def name(self) -> str: ...

    def level_of(self, seq: int) -> Level: ...

    async def wait_accepted(self, seq: int) -> None: ...

    async def wait_held(self, seq: int) -> None: ...

    async def wait_confirmed(self, topic: str, seq: int, attributes: Attributes, taken: bool) -> bool: ...

    def has_crossed(self, seq: int) -> bool: ...


class Receipt(Struct, gc=False, eq=False):
    """`(publisher, seq)` is the message's identity. `level` grows from `sent` to `accepted` to `held` to `confirmed`.

    - `sent`: the client keeps the message and sends it until it is accepted, over as many connections as that takes.
    - `accepted`: the client's broker has the message, which will be delivered to every subscriber to which it is owed.
      Where brokers repair their tree the client keeps its copy, for the case that this broker is lost.
    - `held`: so many brokers have the message that the losses that the cluster tolerates cannot destroy it; the client
      keeps no copy any more. Only where brokers repair their tree: with a tolerance of 0 `accepted` is all there is.
    - `stored`: a repository of its reliable topic has it, as safely as `storage` says. Only of durable publications.
    - `confirmed`: the client process of every subscriber to which the message is owed said that it has the message.
    - `taken`: each of these client processes said that its application has taken the message.
    - `refused`: the broker declined the message; no subscriber gets it.
    """

    client: Publisher
    topic: str
    seq: int
    attributes: Attributes | None = None
    """Of the message, if it has any: an empty table for every receipt would cost as much as the receipt."""
    is_confirmed: bool = False
    is_taken: bool = False
    found_crossed: bool = False

    @property
    def publisher(self) -> str:
        return self.client.name

    @property
    def level(self) -> Level:
        if self.is_confirmed:
            return "taken" if self.is_taken else "confirmed"
        return self.client.level_of(self.seq)

    @property
    def crossed(self) -> bool:
        """Whether subscribers may have received the message on different sides of a `total` message on one of its keys.

        It was published with keys where no majority of the brokers could be reached, or crossed a `total` message while
        parts of the network came together: at some subscribers it stands before that one, at others behind it. All
        that can be known of it is known when it is confirmed.
        """
        return self.found_crossed or self.client.has_crossed(self.seq)

    async def accepted(self) -> "Receipt":
        """Wait until the broker has the message. Raises `Refused` if declined, `SessionLost` if it is not known."""
        await self.client.wait_accepted(self.seq)
        return self

    async def held(self) -> "Receipt":
        """Wait until the losses that the cluster tolerates, and the loss of this client, cannot lose the message.

        With a tolerance of 0 it returns when the message is accepted.
        """
        await self.client.wait_held(self.seq)
        return self

    async def stored(self) -> "Receipt":
        """Wait until a repository has stored the message; for durable publications."""
        raise LocalMisuse(
            f"{self.publisher}#{self.seq} was published without durable=True: nobody was asked to store it."
        )

    async def confirmed(self, by: By = "client") -> "Receipt":
        """Wait until every subscriber has the message whose matching subscription was confirmed before the publication.

        It returns on evidence alone: the client process of each such subscriber said that it has handed the message to
        its subscription, or, with `by="application"`, that its application has taken the message. It waits for
        subscribers that are away, and for parts of the network that are out of reach. Raises `NotConfirmed`, with the
        names and the reason, if a subscriber lacks the message or was given up, or if a broker let messages go.
        """
        taken = is_by_application(by)
        if not (self.is_taken if taken else self.is_confirmed):
            self.found_crossed = await self.client.wait_confirmed(self.topic, self.seq, self.attributes or {}, taken)
            self.is_confirmed, self.is_taken = True, taken
        return self

    def __repr__(self) -> str:
        return f"Receipt({self.publisher}#{self.seq} on {self.topic!r}, {self.level})"
