"""Random absences and false alarms at the edge of LoCaMu's model: every promise is kept, and everything drains.

A run counts as broken if the checkers find anything, if it does not come to rest with every store and buffer empty, or
if a client's session ends. Longer campaigns: `holdfast campaign --protocol locamu --faults absent --tolerance F
--seeds A..B`; what they have shown is in docs/protocols/locamu.md.
"""

import pytest

from holdfast.protocols.locamu import LocamuBroker, exchange
from holdfast.protocols.locamu.copies import Copy, KeptCopy, Marks
from holdfast.protocols.locamu.core import Core
from holdfast.simulation.failures import FailureClass
from holdfast.simulation.faults import Command, Crash, Publish, Recover, Subscribe
from holdfast.simulation.scenarios import Scenario, Timed
from holdfast.simulation.workloads import CALM, Trouble, random_scenario
from holdfast.simulation.world import BrokerFactory, NotQuiet
from tests.swarm.seeds import FIRST, complaints

ABSENT = {f: Trouble((), "absent", f) for f in (1, 2)}


@pytest.mark.parametrize("start", range(0, 80, 20))
def test_one_of_three_may_be_absent(start: int):
    assert "\n\n".join(complaints(range(FIRST + start, FIRST + start + 20), ABSENT[1], "locamu", checked=False)) == ""


@pytest.mark.parametrize("start", range(0, 24, 8))
def test_two_of_five_may_be_absent(start: int):
    assert "\n\n".join(complaints(range(FIRST + start, FIRST + start + 8), ABSENT[2], "locamu", checked=False)) == ""


@pytest.mark.parametrize(
    ("failure", "tolerance", "runs"), [("join", 1, 20), ("leave", 1, 20), ("join", 2, 6), ("leave", 2, 6)]
)
def test_leaves_may_come_and_leave_in_the_midst_of_it(failure: FailureClass, tolerance: int, runs: int):
    trouble = Trouble((), failure, tolerance)
    assert "\n\n".join(complaints(range(FIRST, FIRST + runs), trouble, "locamu", checked=False)) == ""


def test_without_absences_everything_arrives_in_order_and_every_invariant_holds():
    assert "\n\n".join(complaints(range(FIRST, FIRST + 20), CALM, "locamu")) == ""


ONCE_BROKEN: list[tuple[FailureClass, int, int, str]] = [
    ("join", 2, 8000065, "a notice that came past a neighbour made what that had before it count as processed"),
    ("join", 2, 8000286, "a newcomer that died before it was taken in came back to another sponsor"),
    ("join", 1, 8001422, "what slow links still carried was sent again and again, and newcomers waited for 30 s"),
    ("leave", 1, 8203551, "a late copy of what somebody had said who has left was taken for a new message"),
]


@pytest.mark.parametrize(("failure", "tolerance", "seed"), [run[:3] for run in ONCE_BROKEN], ids=str)
def test_what_was_broken_once_holds(failure: FailureClass, tolerance: int, seed: int):
    assert list(complaints(range(seed, seed + 1), Trouble((), failure, tolerance), "locamu")) == []


def test_copies_that_find_no_room_to_wait_in_come_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exchange, "BUFFER_MAX", 0)
    scenario = random_scenario(8100002, "locamu", ABSENT[1])
    sim = scenario.build()
    sim.run_until_quiet(scenario.limit_s)
    assert sim.check().ok
    assert any(report.event == "overflow" for _, _, report in sim.reports)


# --------------------------------------------------------------------------------------------------------- mutants


class Hasty(Core):
    def lacking(self, copy: Copy) -> list[str]:
        super().lacking(copy)
        return []


class Forgetful(Core):
    def is_known(self, copy: Copy) -> bool:
        return self.prefix(copy.last) >= copy.marks[copy.last][self.name]


class Reckless(Core):
    def may_send(self, entry: KeptCopy, target: str) -> bool:
        super().may_send(entry, target)
        return True


class Unmerging(Core):
    def merge(self, marks: Marks) -> KeptCopy | None:
        self._note(marks)
        return None


class NoOrder(LocamuBroker):
    """What comes is processed at once."""

    rules = Hasty


class NoMemory(LocamuBroker):
    """Another copy of a message is another message, unless the same forwarder sent it."""

    rules = Forgetful


class NoSafePaths(LocamuBroker):
    """Anybody may be passed over."""

    rules = Reckless


class NoMerging(LocamuBroker):
    """What other copies carry is not remembered with the message."""

    rules = Unmerging


def broken(scenario: Scenario, make: BrokerFactory | None) -> set[str]:
    """What the checkers find, whether or not the run comes to rest, and `restless` if it does not."""
    sim = scenario.build(make)
    try:
        sim.run_until_quiet(scenario.limit_s)
        found = set()
    except NotQuiet:
        found = {"restless"}
    return found | {kind for kind, count in sim.check().faults.items() if count}


@pytest.mark.parametrize(
    ("make", "seed", "faults"),
    [(NoOrder, 2, {"lost"}), (NoMemory, 1, {"restless"}), (NoMerging, 1, {"restless"})],
)
def test_a_broker_without_a_rule_is_caught(make: BrokerFactory, seed: int, faults: set[str]):
    scenario = random_scenario(seed, "locamu", ABSENT[1])
    assert broken(scenario, None) == set()
    assert broken(scenario, make) >= faults


@pytest.mark.parametrize(("make", "faults"), [(None, set()), (NoSafePaths, {"duplicated"})])
def test_a_broker_that_passes_over_too_many_is_caught(make: BrokerFactory | None, faults: set[str]):
    """Figure 3.7: m gets a copy that passed j and l over and, later, one that did not; they have nothing in common."""
    rows: list[tuple[float, Command]] = [
        (0.0, Subscribe("s@m", "g")),
        (5.0, Crash("j")),
        (5.0, Crash("l")),
        (8.0, Publish("p@i", "g", b"m1", "causal")),
        (12.0, Crash("k")),
        (12.0, Recover("j")),
        (12.5, Recover("l")),
        (20.0, Recover("k")),
    ]
    timetable = tuple(Timed(time_s, command) for time_s, command in rows)
    scenario = Scenario(tree="i-j j-k k-l l-m", protocol="locamu", tolerance=1, timetable=timetable)
    assert broken(scenario, make) >= faults
    assert make is not None or not broken(scenario, make)
