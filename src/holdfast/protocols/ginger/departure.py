"""What a broker remembers of a child that it moves below another one: see `tree_shape`."""

from msgspec import Struct

from holdfast.model.messages import Interest, Join, Twig
from holdfast.model.terms import Contact
from holdfast.protocols.last_numbers import Ahead
from holdfast.protocols.links import Link

Loss = tuple[str, tuple[Twig, ...], bool, tuple[Contact, ...]]
"""Who is lost, who was below it, whether it fell silent, and where it was."""


class Departure:
    """A move of one of our children."""

    def __init__(self, serial: int, mover: str, target: str) -> None:
        self.serial, self.mover, self.target = serial, mover, target
        self.ready = self.is_frozen = self.drained = self.adopted = False
        self.base = self.rounds = 0
        self.not_before = 0.0
        """When the link may be frozen again, after the mover was busy."""
        self.twig: Twig | None = None
        self.interests: tuple[Interest, ...] = ()
        self.lent: set[Interest] = set()
        self.committed = False
        """Whether the new parent was told that the mover is its child: from then on it decides."""
        self.stranded = False
        """Whether the new parent died after that."""
        self.loss: Loss | None = None
        """The mover is dead, and it is not known yet whose loss that is."""
        self.held: list[tuple[Link, Join, list[Ahead]]] = []
        """Those below the mover who came to us because of that."""

    @property
    def froze(self) -> bool:
        """Whether the link with the mover is frozen, on our side."""
        return self.twig is not None


class Moves(Struct):
    """What became of the moves that this broker has begun."""

    begun: int = 0
    done: int = 0
    given_up: int = 0
