"""The sessions of clients at a broker's edge: how many there may be, and when one ends because nobody uses it.

A session ends in three ways without its client's consent: the client is away for `session_keep_s`; it leaves a full
buffer untouched for `stall_s` while publishers wait for it; or a subscription's own wish says so (`slow_readers`). Each
time the broker notes it (`given_up`), before the hub ends the session. The check is made with every beat.
"""

from collections.abc import Callable

from holdfast.model.messages import Hello, Refusal
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.hub import Hub
from holdfast.protocols.slow_readers import SlowReaders

NoteGivenUp = Callable[[str], None]


class ClientSessions:
    """The sessions of one broker's clients, and of the brokers that dialled it."""

    def __init__(self, config: BrokerConfig, hub: Hub, slow_readers: SlowReaders, note_given_up: NoteGivenUp) -> None:
        self._config, self._hub, self._slow_readers, self._note_given_up = config, hub, slow_readers, note_given_up
        self.detached_at: dict[str, float] = {}
        """By peer: since when it has no connection."""
        self._congested_at: dict[str, float] = {}

    def refusal(self, hello: Hello) -> Refusal | None:
        """Why a client cannot have a session here: there are as many as there may be."""
        newcomer = hello.kind == "client" and hello.node not in self._hub.links
        if newcomer and len(self._hub.links) >= self._config.sessions_max:
            most = self._config.sessions_max
            return Refusal("full", f"broker {self._config.name} has {most} sessions: try another broker")
        return None

    def expire(self, now: float) -> None:
        """End the sessions of peers that do not come back, and of clients that do not take what they asked for."""
        self._end_absent(now)
        self._end_stalled(now)
        for peer, reason in self._slow_readers.too_slow(now):
            self._end_slow(peer, reason)

    def _end_absent(self, now: float) -> None:
        for peer, since in list(self.detached_at.items()):
            link = self._hub.links.get(peer)
            if link is None or link.dialler or link.is_open:
                # It was an earlier session of that peer that was away: it only asked something, and left.
                del self.detached_at[peer]
            elif now - since >= self._config.session_keep_s:
                self._note_given_up(peer)
                self._hub.end(peer, f"{peer} was away for {now - since:.1f} s", say=False)

    def _end_stalled(self, now: float) -> None:
        # Time counts from a full buffer on: a client that was idle for long before is not to blame.
        self._congested_at = {peer: self._congested_at.get(peer, now) for peer in self._hub.congested}
        for peer, since in list(self._congested_at.items()):
            link = self._hub.links[peer]
            idle_s = now - max(since, link.progress_at)
            if link.kind == "client" and idle_s >= self._config.stall_s:
                self._end_slow(peer, f"{peer} took nothing from a full buffer for {idle_s:.1f} s")

    def _end_slow(self, peer: str, reason: str) -> None:
        self._note_given_up(peer)
        self._hub.end_slow(peer, reason)
