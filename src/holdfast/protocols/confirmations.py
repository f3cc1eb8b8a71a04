"""Questions that go through the tree, and whose answers are gathered on the way back.

A publisher that wants to know whether everybody has a message sends a `Confirm` after it. On FIFO streams the question
travels behind the message along every link that the message took. Each client that it reaches says what it knows
(`witness`), each broker adds what it knows of those whom it cannot ask any more, and all of it is gathered on the way
back: a message is confirmed if there is nothing to say against it. Nothing is paid for messages about which nobody
asks.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from holdfast.model.messages import Confirm, ConfirmAck, SessionMessage
from holdfast.model.receipt_messages import CLEAN, Finding

Account = Callable[[Confirm, float], Finding]
"""What a broker knows, when it answers, about those whom it cannot ask: of a message, and its age in seconds then."""


class _Question:
    __slots__ = ("asked", "asked_at", "awaiting", "finding", "source")

    def __init__(self, source: str, asked: Confirm, asked_at: float, awaiting: set[str]) -> None:
        self.source, self.asked, self.asked_at, self.awaiting = source, asked, asked_at, awaiting
        self.finding = CLEAN

    def passed_on(self, token: int, now: float) -> Confirm:
        """The same question under our token; what it asks about has become older while it was here."""
        return replace(self.asked, token=token, age_s=self.asked.age_s + now - self.asked_at)


class Confirmations:
    """The questions that this broker has passed on and not answered."""

    def __init__(
        self,
        send: Callable[[str, SessionMessage], None],
        account: Account = lambda _asked, _age_s: CLEAN,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._send, self._account, self._now = send, account, now
        self._tokens = 0
        self._open: dict[int, _Question] = {}

    def begin(self, source: str, asked: Confirm, behind: Sequence[str]) -> None:
        """Ask everybody `behind` us; answer the source when all have answered."""
        self._tokens += 1
        token = self._tokens
        question = self._open[token] = _Question(source, asked, self._now(), set(behind))
        for peer in behind:
            self._send(peer, question.passed_on(token, question.asked_at))
        self._answer_if_done(token)

    def on_ack(self, peer: str, token: int, finding: Finding = CLEAN) -> None:
        question = self._open.get(token)
        if question is not None and peer in question.awaiting:
            question.finding = question.finding.joined(finding)
            question.awaiting.discard(peer)
            self._answer_if_done(token)

    def wait_no_longer(self, peer: str, waited_s: float, finding: Finding) -> None:
        """Answer, with that finding, what this peer was asked and has not answered for so long."""
        for token, question in list(self._open.items()):
            if peer in question.awaiting and self._now() - question.asked_at >= waited_s:
                self.on_ack(peer, token, finding=finding)

    def drop(self, peer: str) -> None:
        """A peer whose session is over answers no more, and its questions are not for its next session."""
        self.forget_source(peer)
        for token, question in list(self._open.items()):
            question.awaiting.discard(peer)
            self._answer_if_done(token)

    def rename(self, old: str, new: str, in_doubt: bool = False) -> None:
        """The old parent's questions died with it; what it was asked waits for the new one.

        While it is in doubt whether somebody else may come in its place, that is waited for, too.
        """
        self.forget_source(old)
        for question in self._open.values():
            if old in question.awaiting:
                if not in_doubt:
                    question.awaiting.discard(old)
                question.awaiting.add(new)

    def replace(
        self, old: str, joined: Sequence[str], wants: Callable[[str, str], bool], in_doubt: bool = False
    ) -> None:
        """What the old neighbour was asked, those in its place are asked now, behind what they were given.

        While it is in doubt whether somebody else may come in its place, that is waited for, too.
        """
        self.forget_source(old)
        for token, question in list(self._open.items()):
            if old in question.awaiting:
                asked = question.asked
                if not in_doubt:
                    question.awaiting.discard(old)
                for peer in joined:
                    if wants(peer, asked.topic):
                        question.awaiting.add(peer)
                        self._send(peer, question.passed_on(token, self._now()))
                self._answer_if_done(token)

    def forget_source(self, source: str) -> None:
        """Nobody waits for the answer any more."""
        for token in [token for token, question in self._open.items() if question.source == source]:
            del self._open[token]

    def _answer_if_done(self, token: int) -> None:
        question = self._open[token]
        if question.awaiting:
            return
        del self._open[token]
        asked = question.asked
        age_s = asked.age_s + self._now() - question.asked_at
        self._send(question.source, ConfirmAck(asked.token, question.finding.joined(self._account(asked, age_s))))

    def awaits(self, peer: str) -> bool:
        """Whether that peer has yet to answer something."""
        return any(peer in question.awaiting for question in self._open.values())

    def waiting_for(self) -> list[str]:
        """In words, who has not answered what."""
        return [
            f"{', '.join(sorted(question.awaiting))} to confirm {question.asked.publisher}#{question.asked.seq}"
            for question in self._open.values()
        ]
