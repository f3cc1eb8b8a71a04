"""A question to every broker: which numbers were used under a name?

Whoever begins a session under a name that others may have used asks with a `Recall`. It goes through the tree; every
broker says what it knows, and the highest number counts. The answer is *certain* if all have answered, nobody is out of
reach, and every earlier session of the name is known to have ended: then the new session goes on with the next number.
Else somebody may be using the next numbers at this moment. Then the edge broker adds the stride that the client drew,
and the session numbers where nobody else does.

Bound: a question that is not answered in `ANSWER_S` is answered with what is known, uncertainly.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from holdfast.model.messages import SessionMessage
from holdfast.model.name_messages import Recall, Recalled

ANSWER_S = 2.0


class _Question:
    __slots__ = ("asked", "awaiting", "begun_at", "certain", "last", "source")

    def __init__(self, source: str, asked: Recall, awaiting: set[str], last: int, certain: bool, now: float) -> None:
        self.source, self.asked, self.awaiting = source, asked, awaiting
        self.last, self.certain, self.begun_at = last, certain, now


class Recalls:
    """The questions that this broker has passed on and not answered.

    `answer` is called with whoever asked, its question, the highest number, and whether that is certain.
    """

    def __init__(
        self, send: Callable[[str, SessionMessage], None], answer: Callable[[str, Recall, int, bool], None]
    ) -> None:
        self._send, self._answer = send, answer
        self._tokens = 0
        self._open: dict[int, _Question] = {}

    def begin(self, source: str, asked: Recall, behind: Sequence[str], last: int, certain: bool, now: float) -> None:
        """Ask everybody `behind` us; `last` and `certain` are what is known here."""
        self._tokens += 1
        token = self._tokens
        self._open[token] = _Question(source, asked, set(behind), last, certain, now)
        for peer in behind:
            self._send(peer, replace(asked, token=token))
        self._answer_if_done(token)

    def on_answer(self, peer: str, recalled: Recalled) -> None:
        question = self._open.get(recalled.token)
        if question is not None and peer in question.awaiting:
            question.last = max(question.last, recalled.last)
            question.certain &= recalled.certain
            question.awaiting.discard(peer)
            self._answer_if_done(recalled.token)

    def drop(self, peer: str) -> None:
        """A peer is lost, or has begun anew: it answers no more, and nobody waits there for answers."""
        for token in [token for token, question in self._open.items() if question.source == peer]:
            del self._open[token]
        for token, question in list(self._open.items()):
            if peer in question.awaiting:
                question.certain = False
                question.awaiting.discard(peer)
                self._answer_if_done(token)

    def expire(self, now: float) -> None:
        """Nobody waits with a new session until those are back who are out of reach."""
        for token, question in list(self._open.items()):
            if now - question.begun_at >= ANSWER_S:
                question.certain = False
                question.awaiting.clear()
                self._answer_if_done(token)

    def _answer_if_done(self, token: int) -> None:
        question = self._open[token]
        if not question.awaiting:
            del self._open[token]
            self._answer(question.source, question.asked, question.last, question.certain)

    def waiting_for(self) -> list[str]:
        """In words, who has not answered what."""
        return [
            f"{', '.join(sorted(question.awaiting))} to say which numbers {question.asked.publisher} has used"
            for question in self._open.values()
        ]
