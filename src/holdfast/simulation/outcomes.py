"""What became of one random run."""

import re

from msgspec import Struct

from holdfast.simulation.checkers import Verdict

_NUMBERS = re.compile(r"[0-9]+")


class Outcome(Struct, frozen=True):
    """What one random run came to, and how to see it again."""

    seed: int
    protocol: str
    verdict: Verdict | None
    error: str
    """Why there is no verdict: the run did not come to rest, or a node broke."""
    replay: str
    messages: int = 0
    brokers: int = 0
    events: int = 0
    virtual_s: float = 0.0
    wall_s: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.error and self.verdict is not None and self.verdict.ok

    def what(self) -> str:
        """The kinds of what went wrong, in a word each; empty if nothing did."""
        words = [_NUMBERS.sub("N", self.error.split("\n")[0].split(":")[0])[:40]] if self.error else []
        faults = self.verdict.faults if self.verdict is not None else {}
        return ",".join([*words, *(kind for kind, count in faults.items() if count)])

    def complaint(self) -> str:
        """What went wrong, and the command that shows it again."""
        what = self.error or str(self.verdict)
        return what if self.replay in what else f"{what}\nto see it again: {self.replay}"
