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

    - `sent`: the client keeps it and sends it until it is accepted, over as many connections as that takes.
    - `accepted`: the client's broker has it; it will be delivered to every subscriber that it was promised to. Where
      brokers repair their tree the client keeps its copy: a broker that is lost with it is given it again.
    - `held`: so many brokers have it that the cluster's tolerated losses cannot take it; the client keeps no copy any
      more. Only where brokers repair their tree: elsewhere one broker is all there is, and `accepted` says it.
    - `stored`: a repository of its reliable topic has it, as safely as `storage` says. Only of durable publications.
    - `confirmed`: the client process of every subscriber that it was promised to said that it has it.
    - `taken`: each of them said that its application has taken it.
    - `refused`: the broker declined it; it was delivered to nobody.
    """

    client: Publisher
    topic: str
    seq: int
    attributes: Attributes = {}
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
        """Whether it is known that the message takes no part in the total order of its keys.

        It was published with keys where no majority of the brokers could be reached, or crossed a `total` message while
        parts of the network came together: at some subscribers it stands before that one, at others behind it. All
        that can be known of it is known when it is confirmed.
        """
        return self.found_crossed or self.client.has_crossed(self.seq)

    async def accepted(self) -> "Receipt":
        """Wait until the broker has the message. Raises `Refused` if it declined, `SessionLost` if nobody can know."""
        await self.client.wait_accepted(self.seq)
        return self

    async def held(self) -> "Receipt":
        """Wait until the loss of as many adjacent brokers as the cluster tolerates, and ours, cannot lose the message.

        Where the tolerance is 0 that is when it is accepted.
        """
        await self.client.wait_held(self.seq)
        return self

    async def stored(self) -> "Receipt":
        """Wait until a repository has stored the message; for durable publications."""
        raise LocalMisuse(
            f"{self.publisher}#{self.seq} was published without durable=True: nobody was asked to store it."
        )

    async def confirmed(self, by: By = "client") -> "Receipt":
        """Wait until everybody has the message whose matching subscription was confirmed before it was published.

        It returns on evidence alone: each of their client processes said that it has handed the message to its
        subscription, or, `by="application"`, that the application has taken it from there. A subscriber that is away
        is waited for, and so is a part of the network that is out of reach. Raises `NotConfirmed` if a subscriber lacks
        it, was given up meanwhile, or if something was let go on the way: it says who and why.
        """
        taken = is_by_application(by)
        if not (self.is_taken if taken else self.is_confirmed):
            self.found_crossed = await self.client.wait_confirmed(self.topic, self.seq, self.attributes, taken)
            self.is_confirmed, self.is_taken = True, taken
        return self

    def __repr__(self) -> str:
        return f"Receipt({self.publisher}#{self.seq} on {self.topic!r}, {self.level})"
