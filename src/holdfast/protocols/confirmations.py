"""Receipts of delivery on request.

A publisher that wants to know whether everybody has a message sends a `Confirm` after it. On FIFO streams the question
travels behind the message along every link that the message took, so whoever answers has the message; answers are
gathered on the way back. Nothing is paid for messages about which nobody asks.
"""

from collections.abc import Callable, Sequence

from holdfast.model.messages import Confirm, ConfirmAck, SessionMessage


class _Question:
    __slots__ = ("awaiting", "confirm", "source")

    def __init__(self, source: str, confirm: Confirm, awaiting: set[str]) -> None:
        self.source, self.confirm, self.awaiting = source, confirm, awaiting


class Confirmations:
    """The questions that this broker has passed on and not answered."""

    def __init__(self, send: Callable[[str, SessionMessage], None]) -> None:
        self._send = send
        self._tokens = 0
        self._open: dict[int, _Question] = {}

    def begin(self, source: str, confirm: Confirm, behind: Sequence[str]) -> None:
        """Ask everybody `behind` us; answer the source when all have answered."""
        self._tokens += 1
        token = self._tokens
        self._open[token] = _Question(source, confirm, set(behind))
        for peer in behind:
            self._send(peer, Confirm(token, confirm.topic, confirm.publisher, confirm.seq))
        self._answer_if_done(token)

    def on_ack(self, peer: str, token: int) -> None:
        question = self._open.get(token)
        if question is not None:
            question.awaiting.discard(peer)
            self._answer_if_done(token)

    def drop(self, peer: str) -> None:
        """A peer whose session is over answers no more, and its questions are not for its next session."""
        self.forget_source(peer)
        for token, question in list(self._open.items()):
            question.awaiting.discard(peer)
            self._answer_if_done(token)

    def rename(self, old: str, new: str) -> None:
        """The old parent's questions died with it; what it was asked waits for the new one."""
        self.forget_source(old)
        for question in self._open.values():
            if old in question.awaiting:
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
                if not in_doubt:
                    question.awaiting.discard(old)
                confirm = question.confirm
                for peer in joined:
                    if wants(peer, confirm.topic):
                        question.awaiting.add(peer)
                        self._send(peer, Confirm(token, confirm.topic, confirm.publisher, confirm.seq))
                self._answer_if_done(token)

    def forget_source(self, source: str) -> None:
        """Nobody waits for the answer any more."""
        for token in [token for token, question in self._open.items() if question.source == source]:
            del self._open[token]

    def _answer_if_done(self, token: int) -> None:
        question = self._open[token]
        if not question.awaiting:
            del self._open[token]
            self._send(question.source, ConfirmAck(question.confirm.token))

    def waiting_for(self) -> list[str]:
        """In words, who has not answered what."""
        return [
            f"{', '.join(sorted(question.awaiting))} to confirm {question.confirm.publisher}#{question.confirm.seq}"
            for question in self._open.values()
        ]
