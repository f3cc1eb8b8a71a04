"""What the thesis' text says of figures 5.3 to 5.5, held against our rows, and the reasons where they differ.

Whether a claim holds is decided by the rows of this very run; the reasons are those that full runs have shown.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import mean

from holdfast.experiments.experiment import PaperClaim
from holdfast.experiments.ginger import APART_MS, FAULTS, FELT_S, KEYS, PACES_MS, THESIS_KEYS, THESIS_MS, GingerRow
from holdfast.experiments.ginger_rows import (
    GUARANTEES,
    Pick,
    all_messages,
    averages_ms,
    by_rounds,
    felt_messages,
    matching,
)
from holdfast.experiments.regions import delivery_ms

SLACK = 0.05
"""Differences below this share of a value count as none."""
PACES = {THESIS_MS: "at 50 ms", APART_MS: "at 1 s"}

WHY_ROUNDS = (
    "a round costs us no more than finding the asked broker dead. Most of the time goes into waiting until everybody "
    "who lost the same broker has noticed: patience is six round trips, 2.9 s for broker 3 in Asia. Who dies decides "
    "whether it is waited for, more than the number of rounds. Nobody is declined, since there is no degree limit yet."
)
WHY_TOGETHER = (
    "all messages of the workload have a key, and what has keys climbs to the top of its topic, whatever its guarantee "
    "(decision 36). Nothing waits for anything there, so a total message takes as long as the others. The thesis locks "
    "the key first, and lets the publisher's later messages overtake (erratum 14)."
)
WHY_CLIMB = (
    "a message with keys goes by way of the top of its topic, and back to those beside its publisher: a longer way "
    "than the shortest, which messages without keys take."
)
WHY_NO_LOCKS = "no key is locked: messages on one key turn at the top one after the other, and none waits for another."
WHY_FLATTER = (
    "orphans move up to the dead broker's parent, whatever its degree, so the repaired tree is flatter: every later "
    "message saves a hop of 37.5 ms. That outweighs the repair as soon as it is a small part of the run."
)


def claims(rows: Sequence[GingerRow]) -> Iterator[PaperClaim]:
    """One after the other, those of which there are rows."""
    yield from _rounds(rows)
    for pace_ms in PACES:
        yield from _total_is_slower(rows, pace_ms)
    for pace_ms in PACES:
        yield from _faults_cost(rows, pace_ms, all_messages, "")
    yield from _faults_cost(rows, APART_MS, felt_messages, f", published up to {FELT_S:g} s after the faults")
    for pace_ms in PACES:
        yield from _keys_help(rows, pace_ms)
    yield from _follows_the_network(rows)


def _rounds(rows: Sequence[GingerRow]) -> Iterator[PaperClaim]:
    found = {rounds: mean(one.reconfiguration_ms for one in repairs) for rounds, repairs in by_rounds(rows).items()}
    if len(found) > 1:
        figures = ", ".join(f"{rounds}: {value:,.0f} ms" for rounds, value in found.items())
        grows = _grows(list(found.values()))
        yield PaperClaim("figure 5.3", "more rounds take longer.", f"by rounds {figures}.", grows, WHY_ROUNDS)


def _total_is_slower(rows: Sequence[GingerRow], pace_ms: float) -> Iterator[PaperClaim]:
    found = averages_ms(matching(rows, pace_ms, THESIS_KEYS, ()))
    if len(found) == len(GUARANTEES):
        agrees = _grows([max(found["eventual"], found["causal"]), found["total"]])
        ours = f"{PACES[pace_ms]}, without faults, {_named(found)}."
        yield PaperClaim(
            "figure 5.4", "eventual and causal messages are faster than total ones.", ours, agrees, WHY_TOGETHER
        )


def _faults_cost(rows: Sequence[GingerRow], pace_ms: float, pick: Pick, which: str) -> Iterator[PaperClaim]:
    found = [averages_ms(matching(rows, pace_ms, THESIS_KEYS, victims), pick) for victims in FAULTS]
    if all(len(one) == len(GUARANTEES) for one in found):
        agrees = all(_grows([one[name] for one in found]) for name in GUARANTEES)
        lists = [f"{name} {', '.join(f'{one[name]:,.0f}' for one in found)}" for name in GUARANTEES]
        ours = f"{PACES[pace_ms]}{which}, for 0 to 3 faults, in ms: {'; '.join(lists)}."
        yield PaperClaim("figure 5.4", "the more faults, the longer messages take.", ours, agrees, WHY_FLATTER)


def _keys_help(rows: Sequence[GingerRow], pace_ms: float) -> Iterator[PaperClaim]:
    found = [averages_ms(matching(rows, pace_ms, keys, ())) for keys in KEYS]
    if all(len(one) == len(GUARANTEES) for one in found):
        agrees = all(_grows([one[name] for one in reversed(found)]) for name in GUARANTEES)
        lists = [f"{name} {', '.join(f'{one[name]:,.0f}' for one in found)}" for name in GUARANTEES]
        ours = f"{PACES[pace_ms]}, without faults, for {', '.join(map(str, KEYS))} keys, in ms: {'; '.join(lists)}."
        yield PaperClaim("figure 5.5", "the more keys, the faster.", ours, agrees, WHY_NO_LOCKS)


def _follows_the_network(rows: Sequence[GingerRow]) -> Iterator[PaperClaim]:
    calmest_ms = PACES_MS[-1]
    found = averages_ms(matching(rows, calmest_ms, THESIS_KEYS, ()))
    if "eventual" in found:
        path = delivery_ms()
        ours = (
            f"at {calmest_ms / 1000:g} s {_named(found)}; the paths of the tree alone take {path:,.0f} ms on average."
        )
        agrees = abs(found["eventual"] - path) < 0.1 * path
        yield PaperClaim("section 6", "latency follows that between the brokers.", ours, agrees, WHY_CLIMB)


def _named(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:,.0f} ms" for name, value in found.items())


def _grows(values: Sequence[float]) -> bool:
    """Whether no value is clearly below the one before it, and the last clearly above the first."""
    steady = all(later >= earlier * (1 - SLACK) for earlier, later in pairwise(values))
    return steady and values[-1] > values[0] * (1 + SLACK)
