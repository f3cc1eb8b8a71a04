"""How every repository of a bundle removes a durable subscription that has ended, and the client that ends it.

A repository that is told the end of a subscription drops the subscription's row and remembers the end: name, time and
the token of the client that asked. Its gossip carries a checksum of all ends that it remembers. A sibling with another
checksum is told all ends, so that a repository that was away, or missed the event, drops the row as well. Of two ends
of one name the later one counts. A subscription that begins under the name of an ended one begins later than the end,
and stays.

Bound: `ended_subscriptions.FORGOTTEN_MAX` ends are remembered. A repository that was away since before the oldest of
them may bring a row back; the number of rows is bounded, too.
"""

from holdfast.model.batches import Batch
from holdfast.protocols.narada.dissemination import Dissemination
from holdfast.protocols.narada.ended_subscriptions import End
from holdfast.protocols.narada.events import Forget, encode
from holdfast.protocols.narada.participant import Effects, Listen, Say, SubscriptionEnded, Unlisten, control_events
from holdfast.protocols.narada.topics import bundle_topic, inbox_topic
from holdfast.protocols.node import CancelTimer, SetTimer

AGAIN_TIMER = "again"
AGAIN_S, AGAIN_MAX_S = 0.2, 1.0


class SubscriptionRemoval:
    """The ends of the subscriptions of one stream, at one repository."""

    def __init__(self, dissemination: Dissemination) -> None:
        self._dissemination, self._stream_state = dissemination, dissemination.stream_state
        self._ended = dissemination.ended
        self._answers: list[tuple[str, End]] = []
        self._committing: list[tuple[str, End]] = []
        self._told_at: dict[str, float] = {}

    def on_forget(self, event: Forget, now: float) -> None:
        """Subscriptions are over: a client says so, and is answered after the commit, or a repository that knows it."""
        for name, end_ns, token in event.ends:
            if end_ns:
                self._forget(name, end_ns, token)
                continue
            known = self._dissemination.subscriptions.get(name)
            now_ns = max(self._stream_state.time_ns(now), known.since_ns if known is not None else 0)
            end = (name, self._ended.at(name, token, now_ns), token)
            self._forget(*end)
            self._answers.append((event.teller, end))
            self._stream_state.mark()

    def _forget(self, name: str, end_ns: int, token: int) -> None:
        if self._ended.add(name, end_ns, token):
            self._stream_state.put(self._ended.save(), "ended")
        one = self._dissemination.subscriptions.get(name)
        if one is not None and self._ended.is_over(name, one.since_ns):
            self._dissemination.drop(name)

    def tell(self, repository: str, digest: int, now: float) -> Effects:
        """A sibling has forgotten other things: tell it what we have forgotten, now and then."""
        stream_state = self._stream_state
        if digest == self._ended.digest or not self._ended.digest:
            return []
        if now - self._told_at.get(repository, -1e9) < stream_state.config.beat_s:
            return []
        self._told_at[repository] = now
        return [stream_state.say_to(repository, Forget(stream_state.stream, stream_state.name, self._ended.ends()))]

    def begin_commit(self) -> None:
        """What is over by now is in the commit that begins."""
        self._committing, self._answers = self._answers, []

    def committed(self) -> Effects:
        """Answer whoever has ended a subscription."""
        ended, self._committing = self._committing, []
        stream_state = self._stream_state
        return [
            stream_state.say_to(client, Forget(stream_state.stream, stream_state.name, (end,))) for client, end in ended
        ]


class Forgetter:
    """A client that ends a subscription by its name: it says so until a repository has stored it.

    The others learn it from that one, or hear it themselves. `token` is one that was never used before.
    """

    def __init__(self, stream: str, subscription: str, client: str, token: int) -> None:
        self.name, self.stream, self.subscription, self.token = client, stream, subscription, token
        self.repository = ""
        """Who has answered."""
        self._inbox = inbox_topic(stream, client)
        self._again_s = AGAIN_S

    def start(self, now: float) -> Effects:
        return [Listen(self._inbox), *self.timer(AGAIN_TIMER, now)]

    def timer(self, name: str, now: float) -> Effects:  # noqa: ARG002 - every participant has the same entry points
        if self.repository:
            return []
        event = Forget(self.stream, self.name, ((self.subscription, 0, self.token),))
        after_s, self._again_s = self._again_s, min(2 * self._again_s, AGAIN_MAX_S)
        return [Say(bundle_topic(self.stream), encode(event)), SetTimer(AGAIN_TIMER, after_s)]

    def heard(self, batch: Batch, now: float) -> Effects:  # noqa: ARG002
        effects: Effects = []
        if batch.topic != self._inbox or self.repository:
            return effects
        for event in control_events(batch, effects):
            if isinstance(event, Forget) and any(token == self.token for _, _, token in event.ends):
                self.repository = event.teller
                ended = SubscriptionEnded(self.stream, self.subscription, event.teller)
                return [*effects, CancelTimer(AGAIN_TIMER), Unlisten(self._inbox), ended]
        return effects

    def settle(self, now: float) -> Effects:  # noqa: ARG002
        return []

    def check_invariants(self) -> None:
        """There is nothing that could be wrong."""

    def waiting_for(self) -> list[str]:
        return [] if self.repository else [f"a repository that forgets {self.subscription}"]

    def status(self) -> dict[str, object]:
        return {"stream": self.stream, "subscription": self.subscription, "repository": self.repository}
