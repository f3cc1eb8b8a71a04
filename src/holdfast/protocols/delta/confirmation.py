"""Confirmations on their way back: those for one peer leave together, at the end of a turn."""

from collections.abc import Callable, Iterable

from holdfast.model.delta_messages import NUMBERS_MAX, Conf
from holdfast.model.messages import SessionMessage


class Confirmations:
    """What is to be confirmed to each peer."""

    def __init__(self, send: Callable[[str, SessionMessage], None]) -> None:
        self._send = send
        self._due: dict[str, list[int]] = {}
        self._lacking: dict[str, dict[int, tuple[str, ...]]] = {}

    def say(self, peer: str, number: int, lacking: Iterable[str]) -> None:
        """All behind us have the message to which that peer gave this number; it is kept for those that are lacking."""
        self._due.setdefault(peer, []).append(number)
        missing = tuple(lacking)
        if missing:
            self._lacking.setdefault(peer, {})[number] = missing

    def forget(self, peer: str) -> None:
        self._due.pop(peer, None)
        self._lacking.pop(peer, None)

    def settle(self) -> None:
        due, self._due = self._due, {}
        lacking, self._lacking = self._lacking, {}
        for peer, numbers in due.items():
            missing = lacking.get(peer, {})
            for at in range(0, len(numbers), NUMBERS_MAX):
                some = tuple(numbers[at : at + NUMBERS_MAX])
                self._send(peer, Conf(some, tuple((one, missing[one]) for one in some if one in missing)))
