"""Brokers that were given up, and where they were: one of them may be alive, in a tree of its own.

1. 0 and 1 lose each other, and each finds the connection closed: each takes the other for dead.
2. Both are roots now. Nobody was missed, so nobody looks for anybody, and there would be two trees for ever.

So a root that counts fewer brokers than there should be asks its strays in turn; and a root that looks for others in
vain, who may all be dead, looks for its strays, too.
"""

from collections.abc import Iterable, Iterator

from holdfast.model.terms import Contact
from holdfast.protocols.ginger.absences import Absence

STRAYS_MAX = 32


class Strays:
    """The strays of one broker, those that were given up or asked last at the end."""

    def __init__(self) -> None:
        self._all: dict[str, Contact] = {}
        self.asked: set[str] = set()
        """Those that were asked, and may answer: one that takes us for dead may be slow to say so."""

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Contact]:
        return iter(list(self._all.values()))

    def get(self, name: str) -> Contact | None:
        return self._all.get(name)

    def note(self, name: str, known: Iterable[Contact]) -> None:
        """That broker is given up; `known` are all brokers whose place is known."""
        for contact in (one for one in known if one.name == name):
            self._all.pop(name, None)
            self._all[name] = contact
        while len(self._all) > STRAYS_MAX:
            del self._all[next(iter(self._all))]

    def next(self) -> Contact:
        """The one whose turn it is to be asked."""
        contact = next(iter(self._all.values()))
        self._all[contact.name] = self._all.pop(contact.name)
        return contact

    def forget(self, name: str) -> None:
        """It is in our tree."""
        self._all.pop(name, None)

    def widen(self, absence: Absence) -> None:
        """One more of them is looked for along with those who were lost."""
        others = [one for one in self._all.values() if not absence.knows(one.name)]
        absence.contacts += tuple(others[:1])
