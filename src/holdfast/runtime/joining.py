"""A newcomer looks for somebody who takes it in: one candidate after the other, round and round.

A candidate that refuses, or does not answer in time, is followed by the next one; one that has answered is given the
time that a repair may take. Each attempt is a new start of the node, under a later incarnation, so nothing that an
earlier candidate may still believe is in the way.
"""

import asyncio
from collections.abc import Callable

ANSWER_S = 0.3
"""How long a candidate may take to answer at all; it is doubled with every round, up to `ANSWER_MAX_S`."""
ANSWER_MAX_S = 5.0
ROUNDS_ALONE = 2
"""Whoever could begin a tree itself does so when nobody has answered in so many rounds."""
OPEN_S = 5.0
"""How long one that has answered may take to open the link."""


class Candidates:
    """`attempt` begins anew below a candidate; `joined` says whether we serve, and whether that one answers.

    `alone`, if it is given, is asked after some rounds in vain whether that is the end of it.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        attempt: Callable[[str], None],
        joined: Callable[[str], tuple[bool, bool]],
        alone: Callable[[], bool] | None = None,
    ) -> None:
        self._names, self._attempt, self._joined, self._alone = names, attempt, joined, alone
        self._tries = 0
        self._asked = ""
        self._asked_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Ask the first candidate."""
        self._tries = 0
        self._ask()

    def refused(self, name: str) -> None:
        """That broker said no: the next one is asked at once, unless all have been asked just now."""
        if self._asked and name == self._asked:
            rounds_over = self._tries % len(self._names) == 0
            self._wait(self._answer_s() if rounds_over else 0.0, self._ask)

    def close(self) -> None:
        """Ask nobody any more."""
        self._asked = ""
        if self._timer is not None:
            self._timer.cancel()

    def _answer_s(self) -> float:
        rounds: int = self._tries // max(len(self._names), 1)
        return min(ANSWER_S * 2.0 ** min(rounds, 10), ANSWER_MAX_S)

    def _ask(self) -> None:
        if not self._names:
            return
        rounds, left = divmod(self._tries, len(self._names))
        if self._alone is not None and rounds >= ROUNDS_ALONE and not left and self._alone():
            self.close()
            return
        answer_s = self._answer_s()
        self._asked = self._names[self._tries % len(self._names)]
        self._asked_at = asyncio.get_running_loop().time()
        self._tries += 1
        self._wait(answer_s, self._look)
        self._attempt(self._asked)

    def _look(self) -> None:
        serves, answers = self._joined(self._asked)
        waited_s = asyncio.get_running_loop().time() - self._asked_at
        if serves:
            self.close()
        elif answers and waited_s < OPEN_S:
            self._wait(ANSWER_S, self._look)
        else:
            self._ask()

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, then)
