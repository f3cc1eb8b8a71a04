"""What the checkers found."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, ParamSpec

Kind = Literal["lost", "duplicated", "created", "fifo", "causal", "total"]
KINDS: tuple[Kind, ...] = ("lost", "duplicated", "created", "fifo", "causal", "total")
EXAMPLES_MAX = 5

P = ParamSpec("P")


@dataclass(frozen=True)
class Verdict:
    """How many deliveries there were, how many faults of each kind, and sentences about some of them."""

    deliveries: int = 0
    lost: int = 0
    duplicated: int = 0
    created: int = 0
    fifo: int = 0
    causal: int = 0
    total: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def faults(self) -> dict[str, int]:
        """The number of faults of every kind, zeros included."""
        return {kind: getattr(self, kind) for kind in KINDS}

    @property
    def ok(self) -> bool:
        return not any(self.faults.values())

    def as_dict(self) -> dict[str, object]:
        """What `holdfast audit --json` prints."""
        return {"ok": self.ok, "deliveries": self.deliveries, **self.faults, "examples": list(self.examples)}


class Tally:
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
