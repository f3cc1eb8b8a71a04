"""Durable subscriptions that are over: how everybody comes to forget one, and who asks for it.

A repository that is told that a subscription is over drops its row, and remembers that it did: name, time and the token
of whoever asked. It tells in its gossip what the sum of all that is; a sibling that has another sum is told everything,
so that one which was away, or did not hear it, forgets as well. Of two that were told different things both keep what
is later. A subscription that begins under the name of one that is over is later than its end, and stays.

Bound: `ends.FORGOTTEN_MAX` ends are remembered. Of what is older, a repository that was away all the time may bring a
row back, which is bounded itself.
"""

from holdfast.model.batches import Batch
from holdfast.protocols.narada.dissemination import Dissemination
from holdfast.protocols.narada.ends import End
from holdfast.protocols.narada.events import Forget, encode
from holdfast.protocols.narada.participant import Effects, Ended, Listen, Say, Unlisten, control_events
from holdfast.protocols.narada.topics import bundle_topic, inbox_topic
from holdfast.protocols.node import CancelTimer, SetTimer

AGAIN_TIMER = "again"
AGAIN_S, AGAIN_MAX_S = 0.2, 1.0


class Forgetting:
    """The ends of the subscriptions of one stream, at one repository."""

    def __init__(self, dissemination: Dissemination) -> None:
        self._dissemination, self._keeping = dissemination, dissemination.keeping
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
            now_ns = max(self._keeping.time_ns(now), known.since_ns if known is not None else 0)
            end = (name, self._ended.at(name, token, now_ns), token)
            self._forget(*end)
            self._answers.append((event.teller, end))
            self._keeping.mark()

    def _forget(self, name: str, end_ns: int, token: int) -> None:
        if self._ended.add(name, end_ns, token):
            self._keeping.put(self._ended.save(), "ended")
        one = self._dissemination.subscriptions.get(name)
        if one is not None and self._ended.is_over(name, one.since_ns):
            self._dissemination.drop(name)

    def tell(self, repository: str, digest: int, now: float) -> Effects:
        """A sibling has forgotten other things: tell it what we have forgotten, now and then."""
        keeping = self._keeping
        if digest == self._ended.digest or not self._ended.digest:
            return []
        if now - self._told_at.get(repository, -1e9) < keeping.config.beat_s:
            return []
        self._told_at[repository] = now
        return [keeping.say_to(repository, Forget(keeping.stream, keeping.name, self._ended.ends()))]

    def begin_commit(self) -> None:
        """What is over by now is in the commit that begins."""
        self._committing, self._answers = self._answers, []

    def committed(self) -> Effects:
        """Answer whoever has ended a subscription."""
        ended, self._committing = self._committing, []
        keeping = self._keeping
        return [keeping.say_to(client, Forget(keeping.stream, keeping.name, (end,))) for client, end in ended]


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
                ended = Ended(self.stream, self.subscription, event.teller)
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
