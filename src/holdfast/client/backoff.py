"""How long to wait between attempts: longer each time up to a bound, and spread by chance."""

from random import Random

FIRST_S = 0.05
LONGEST_S = 5.0


class Backoff:
    """`next_s` is the wait before the next attempt: half to one and a half times what is planned, doubled each time."""

    def __init__(self, chance: Random, first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> None:
        self._chance, self._planned_s, self._longest_s = chance, first_s, longest_s

    def next_s(self) -> float:
        planned_s = self._planned_s
        self._planned_s = min(2 * planned_s, self._longest_s)
        return planned_s * (0.5 + self._chance.random())
