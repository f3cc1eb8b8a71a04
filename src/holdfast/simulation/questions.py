"""How often applications of a random run ask whether their publications have arrived.

Their own stream of chance: a run in which nobody asks more often is the same as before.
"""

from collections.abc import Iterable, Iterator
from random import Random

from holdfast.simulation.faults import Confirm, Publish
from holdfast.simulation.scenarios import Timed

ASKED_ABOUT = 0.2
"""The share of publications that are asked about."""
AFTER_S = (0.0, 0.0, 0.01, 0.3, 3.0, 12.0)
"""How long after the publish: at once, in the midst of a fault, when it may be over."""
OFTEN: tuple[str, ...] = ("flap", "remerge")
"""Classes of failures that are judged for false confirmations above all."""


def questions(chance: Random, entries: Iterable[Timed]) -> Iterator[Timed]:
    """Questions about some of the publications of a timetable."""
    for timed in list(entries):
        if isinstance(timed.command, Publish) and chance.random() < ASKED_ABOUT:
            after_s = chance.choice(AFTER_S)
            yield Timed(round(timed.time_s + after_s, 6), Confirm(timed.command.client, timed.command.topic))
