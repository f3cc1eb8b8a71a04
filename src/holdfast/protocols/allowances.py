"""How much one client may subscribe to: every subscription costs every broker memory, and every filter time.

Bounds: `subscriptions_max` subscriptions, and `subscription_characters_max` characters of patterns and filters, a
client. What goes beyond either is refused with a sentence, and surely did not happen. A subscription that the client
has already counts once.
"""

from collections.abc import Iterable

from holdfast.model.messages import Confirm, Interest, Subscribe, Unsubscribe
from holdfast.protocols.publishers import request_problem


class Allowances:
    """What each client of a broker has subscribed to, and how much more it may."""

    def __init__(self, subscriptions_max: int, characters_max: int) -> None:
        self._subscriptions_max, self._characters_max = subscriptions_max, characters_max
        self._held: dict[str, set[Interest]] = {}
        self._characters: dict[str, int] = {}

    def take(self, client: str, interest: Interest) -> str:
        """Count one more; why not, if the client may not have it."""
        held = self._held.get(client, set())
        if interest in held:
            return ""
        problem = self._problem(client, len(held) + 1, self._characters.get(client, 0) + _characters(interest))
        if not problem:
            self._held.setdefault(client, held).add(interest)
            self._characters[client] = self._characters.get(client, 0) + _characters(interest)
        return problem

    def give_back(self, client: str, interest: Interest) -> None:
        held = self._held.get(client, set())
        if interest in held:
            held.discard(interest)
            self._characters[client] -= _characters(interest)

    def problem_with(self, client: str, message: Subscribe | Unsubscribe | Confirm) -> str:
        """Count what a client asks for; why that cannot be, if it cannot. A filter that is one too many is not read."""
        if isinstance(message, Confirm):
            return request_problem(message)
        interest = (message.pattern, message.where)
        problem = self.take(client, interest) if isinstance(message, Subscribe) else ""
        if not problem:
            problem = request_problem(message)
            if problem or isinstance(message, Unsubscribe):
                self.give_back(client, interest)
        return problem

    def reset(self, client: str, interests: Iterable[Interest]) -> None:
        """The client comes from elsewhere with these; they were counted there."""
        self._held[client] = set(interests)
        self._characters[client] = sum(map(_characters, self._held[client]))

    def forget(self, client: str) -> None:
        """Its session is over."""
        self._held.pop(client, None)
        self._characters.pop(client, None)

    def problem_of(self, client: str, interests: Iterable[Interest]) -> str:
        """Why a client may not have all these; empty if it may."""
        wanted = set(interests)
        return self._problem(client, len(wanted), sum(map(_characters, wanted)))

    def _problem(self, client: str, count: int, characters: int) -> str:
        if count > self._subscriptions_max:
            return (
                f"client {client} may have {self._subscriptions_max} subscriptions at a time, and has them: take some "
                "back, or ask for wider patterns"
            )
        if characters > self._characters_max:
            return (
                f"client {client} may have patterns and filters of {self._characters_max} characters together, and "
                "this would be more: take some back, or ask for wider patterns and shorter filters"
            )
        return ""


def _characters(interest: Interest) -> int:
    return len(interest[0]) + len(interest[1])
