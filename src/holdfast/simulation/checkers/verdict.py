"""What the checkers have found so far."""

from collections.abc import Callable
from typing import ParamSpec

from holdfast.model.verdicts import EXAMPLES_MAX, KINDS, Kind, Verdict

__all__ = ["EXAMPLES_MAX", "KINDS", "Kind", "Verdict", "VerdictTally"]

P = ParamSpec("P")


class VerdictTally:
    """Counts faults while a trace is judged, and keeps the sentences about the first few of each kind."""

    def __init__(self, examples_max: int) -> None:
        self.examples_max = examples_max
        self.deliveries = 0
        self.place = ""
        self._counts = dict.fromkeys(KINDS, 0)
        self._examples: dict[Kind, list[str]] = {kind: [] for kind in KINDS}

    def add(self, kind: Kind, sentence: Callable[P, str], *args: P.args, **kwargs: P.kwargs) -> None:
        """Count one fault; the sentence is only made if it will be kept."""
        self._counts[kind] += 1
        if len(self._examples[kind]) < self.examples_max:
            self._examples[kind].append(self.place + sentence(*args, **kwargs))

    def verdict(self) -> Verdict:
        examples = [sentence for kind in KINDS for sentence in self._examples[kind]]
        return Verdict(self.deliveries, **self._counts, examples=examples)
