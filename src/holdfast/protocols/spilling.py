"""Clients that may miss something: beyond a bound a broker does not hold it for them, nor make others wait.

A durable subscriber gets from a repository what it did not hear, and so does a repository from another. What such a
client does not take lies on its link; when half of what a link may hold lies there, whatever only subscriptions of that
kind want is left out until the client has taken some. A subscription without the mark is served as ever, also where it
asks for the same.
"""

from collections.abc import Mapping

from holdfast.model.messages import Subscribe, Unsubscribe
from holdfast.model.topics import matches
from holdfast.protocols.links import Link

Key = tuple[str, str]


class Spilling:
    """What each client of one broker subscribes to, and whether it may be left out."""

    def __init__(self, links: Mapping[str, Link], bytes_max: int) -> None:
        self._links, self._bytes_max = links, bytes_max
        self._clients: dict[str, dict[Key, bool]] = {}
        self.left_out: dict[str, int] = {}
        """By client: how many messages were left out."""

    def note(self, client: str, message: Subscribe | Unsubscribe) -> None:
        """A client subscribes, or takes its last such subscription back."""
        wanted, key = self._clients.setdefault(client, {}), (message.pattern, message.where)
        if isinstance(message, Subscribe):
            wanted[key] = message.spills and wanted.get(key, True)
        else:
            wanted.pop(key, None)

    def forget(self, client: str) -> None:
        self._clients.pop(client, None)
        self.left_out.pop(client, None)

    def clients(self) -> list[str]:
        """Those of whom something is remembered."""
        return sorted(self._clients.keys() | self.left_out.keys())

    def leaves_out(self, client: str, topic: str, count: int) -> bool:
        """Whether so many messages to that topic are left out: the client has enough to take, and may miss them."""
        link = self._links.get(client)
        if link is None or link.backlog_bytes <= self._bytes_max:
            return False
        wanted = self._clients.get(client, {})
        if not wanted or any(not spills and matches(pattern, topic) for (pattern, _), spills in wanted.items()):
            return False
        self.left_out[client] = self.left_out.get(client, 0) + count
        return True
