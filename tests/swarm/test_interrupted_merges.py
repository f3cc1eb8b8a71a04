"""Merges that are interrupted while brokers stand still: the world of `benchmarks/merges.py`, in virtual time.

A part of seven brokers is cut off, and comes back; in the midst of that its root or the border broker dies, or its link
is cut again; and beside it up to three brokers stand still, for less or for longer than a silence. The six runs below
were broken: silent losses, false confirmations, a total message out of order.
"""

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from holdfast.protocols.config import LinkConfig
from holdfast.simulation.faults import (
    Command,
    Confirm,
    Crash,
    Cut,
    Freeze,
    Heal,
    Part,
    Publish,
    Recover,
    Subscribe,
    Thaw,
    When,
)
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.scenarios import Scenario, Timed
from holdfast.simulation.workloads import judge

TREE = "0-1 0-2 1-4 1-5 2-3 2-6"
PART = ("1", "4", "5")
CLIENTS = ("alice@4", "bob@5", "carol@0", "dave@3", "eve@6")
GUARANTEES = ("eventual", "fifo", "causal", "total")
WORDS = (("1", "Seek"), ("0", "Found"), ("1", "Join"), ("0", "Open"), ("0", "Publish"), ("1", "Publish"))
PAIRS = (
    (("2", "0"), ("6", "2")),
    (("1", "0"), ("4", "1")),
    (("2", "0"), ("1", "0")),
    (("1", "0"), ("1", "0")),
    (("6", "2"), ("2", "0")),
)
BOOT_S = 4.0
RATE = 30
VICTIMS = {"kill-part": "1", "kill-border": "0"}


def interrupted_merge(fault: str, seed: int) -> Scenario:
    """The schedule of that number; `fault` is what interrupts the merge: `cut`, `kill-part` or `kill-border`.

    With `links` there is no part: two links are cut, one after the other.
    """
    chance, entries = Random(f"{fault} {seed}"), [Timed(0.0, Subscribe(client, "t")) for client in CLIENTS]

    def add(time_s: float, command: Command) -> None:
        entries.append(Timed(round(BOOT_S + time_s, 6), command))

    befall = _two_cuts if fault == "links" else partial(_part_and_merge, fault)
    end_s = _stand_still(chance, add, befall(chance, add))
    time_s = 0.5
    while time_s < end_s + 3.0:
        client = chance.choice(CLIENTS)
        add(time_s, Publish(client, "t", b"", chance.choice(GUARANTEES), (f"k{chance.randrange(4)}",)))
        if chance.random() < 0.05:
            add(time_s + 0.001, Confirm(client, "t"))
        time_s += chance.expovariate(RATE)
    return Scenario(
        tree=TREE,
        seed=seed,
        limit_s=entries[-1].time_s + 90,
        tolerance=1,
        majority=True,
        gaps=True,
        durable=True,
        join_s=0.5,
        network=NetworkConfig(latency=Constant(chance.choice((1.0, 1.0, 5.0, 30.0))), client_latency=Constant(0.1)),
        session=LinkConfig(heartbeat_s=0.3, silence_s=1.5),
        timetable=tuple(sorted(entries, key=lambda timed: timed.time_s)),
    )


Add = Callable[[float, Command], None]


def _part_and_merge(fault: str, chance: Random, add: Add) -> float:
    """A part is cut off, comes back, and is interrupted; returns when nothing more fails."""
    add(1.0, Part(PART))
    heal_s = 1.0 + chance.choice((3.0, 6.0))
    add(heal_s, Heal())
    teller, word = chance.choice(WORDS)
    delay_s, away_s = chance.choice((0.0, 0.005, 0.02, 0.1, 0.5)), chance.choice((1.0, 2.0, 4.0))
    victim, off_s = VICTIMS.get(fault), chance.choice((None, None, chance.uniform(0, 3.0)))
    second, end = (Cut("1", "0"), Heal()) if victim is None else (Crash(victim), Recover(victim))
    if off_s is None:
        add(heal_s, When(teller, word, second, chance.choice((1, 1, 1, 2, 5, 20)), 3.0))
        end_s = heal_s + 3.0 + away_s
    else:
        add(heal_s + off_s + delay_s, second)
        end_s = heal_s + off_s + delay_s + away_s
    add(end_s, end)
    return end_s


def _two_cuts(chance: Random, add: Add) -> float:
    """Two links, one after the other; returns when nothing more fails."""
    time_s = 1.0
    for one, other in chance.choice(PAIRS):
        cut_s = chance.choice((0.5, 1.0, 1.6, 2.0, 3.0))
        add(time_s, Cut(one, other))
        add(time_s + cut_s, Heal())
        time_s += cut_s + chance.choice((0.0, 0.0, 0.3, 1.0, 2.0))
    return time_s


def _stand_still(chance: Random, add: Add, end_s: float) -> float:
    for _ in range(chance.randint(1, 3)):
        broker, begin_s = chance.choice("0123456"), chance.uniform(0.5, end_s + 1)
        still_s = chance.choice((0.4, 1.2, 1.8, 2.5))
        add(begin_s, Freeze(broker))
        add(begin_s + still_s, Thaw(broker))
        end_s = max(end_s, begin_s + still_s)
    return end_s


BROKEN_ONCE = [
    (
        "kill-border",
        106,
        "a lost broker began anew, and what a client of it wanted, which was elsewhere, did not count",
    ),
    ("kill-border", 115, "what was sent up to a lost parent went to a child that had its name, and back, for ever"),
    (
        "kill-border",
        222,
        "a part that had lost its diary was taken in by one that looked for others, and nobody was told",
    ),
    ("kill-part", 211, "a client forgot that its total messages climb, and they were released in a minority"),
    ("links", 213, "a broker came to a repair that had begun anew, and a client of its earlier life did not count"),
    ("kill-part", 219, "two brokers were lost in a row, and what was wanted behind the first counted as accounted for"),
]


@pytest.mark.parametrize(("fault", "seed"), [run[:2] for run in BROKEN_ONCE], ids=str)
def test_a_merge_that_is_interrupted_while_brokers_stand_still_loses_nothing_silently(fault: str, seed: int):
    outcome = judge(interrupted_merge(fault, seed), "")
    assert outcome.ok, f"{outcome.error} {outcome.verdict}"
