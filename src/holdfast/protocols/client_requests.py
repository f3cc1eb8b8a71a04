"""What a client has asked its broker for and has no answer to yet, by number."""

from collections.abc import Iterable

ClientRequest = tuple[str, str, str]
"""A verb, and its pattern and filter; of a confirmation the topic and the number of the publication."""
UNKNOWN: ClientRequest = ("", "", "")


class ClientRequests:
    """Requests under way; those for a subscription are found by their pattern and filter, too."""

    def __init__(self) -> None:
        self._by_token: dict[int, ClientRequest] = {}
        self._subscribing: dict[tuple[str, str], list[int]] = {}

    def __contains__(self, token: object) -> bool:
        return token in self._by_token

    def __len__(self) -> int:
        return len(self._by_token)

    def values(self) -> Iterable[ClientRequest]:
        return self._by_token.values()

    def add(self, token: int, verb: str, pattern: str, where: str) -> None:
        self._by_token[token] = (verb, pattern, where)
        if verb == "subscribe":
            self._subscribing.setdefault((pattern, where), []).append(token)

    def leave(self, pattern: str, where: str) -> None:
        """The subscription is taken back: an answer to a request for it says nothing of it any more."""
        for token in self._subscribing.pop((pattern, where), ()):
            self._by_token[token] = ("subscribe and leave", pattern, where)

    def answered(self, token: int) -> ClientRequest:
        """What was asked for under that number, which is answered now; `UNKNOWN` if nothing was."""
        request = self._by_token.pop(token, UNKNOWN)
        if request[0] == "subscribe":
            under_way = self._subscribing[request[1:]]
            under_way.remove(token)
            if not under_way:
                del self._subscribing[request[1:]]
        return request

    def clear(self) -> None:
        self._by_token.clear()
        self._subscribing.clear()
