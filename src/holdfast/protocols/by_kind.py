"""Peers by name, with the brokers among them at hand.

A broker has a few neighbours and thousands of clients. What concerns its neighbours alone must not cost a look at every
client. So links and children lie in a dict that knows which of its values are brokers.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar


class HasKind(Protocol):
    """Something that is a broker's or a client's."""

    @property
    def kind(self) -> str: ...


P = TypeVar("P", bound=HasKind)


class ByKind(dict[str, P]):
    """A dict of which `brokers` has the values of kind `broker`, in the same order."""

    __slots__ = ("brokers",)

    def __init__(self) -> None:
        super().__init__()
        self.brokers: dict[str, P] = {}

    def __setitem__(self, name: str, value: P) -> None:
        super().__setitem__(name, value)
        if value.kind == "broker":
            self.brokers[name] = value
        else:
            self.brokers.pop(name, None)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self.brokers.pop(name, None)

    def pop(self, name: str, default: P | None = None) -> P | None:  # type: ignore[override]
        """The peer of that name, which is not there any more; the default if it never was."""
        self.brokers.pop(name, None)
        return super().pop(name, default)

    def popitem(self) -> tuple[str, P]:
        name, value = super().popitem()
        self.brokers.pop(name, None)
        return name, value

    def setdefault(self, name: str, default: P) -> P:
        if name not in self:
            self[name] = default
        return self[name]

    def clear(self) -> None:
        super().clear()
        self.brokers.clear()

    def update(self, others: Mapping[str, P] | Iterable[tuple[str, P]]) -> None:  # type: ignore[override]
        for name, value in dict(others).items():
            self[name] = value
