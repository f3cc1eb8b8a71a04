"""How long brokers that lost their parent needed to have a new one, read from what they reported.

A *round* is one broker that was asked to take them in (the thesis' `ParentRequest`). The time has three parts: from the
lost connection to the suspicion (`doubt`), from there until the broker that took them in was asked (`asking`), and from
that to the last message that they had missed (`settling`). The thesis' reconfiguration time is the last two together.
"""

from collections.abc import Iterable

from msgspec import Struct

from holdfast.simulation.hosts import Reports


class RepairTrial(Struct, frozen=True):
    """One broker's way to a new parent."""

    broker: str
    parent: str
    """The new one."""
    rounds: int
    doubt_ms: float
    asking_ms: float
    settling_ms: float
    since_fault_ms: float
    """From the fault to the end of the repair."""

    @property
    def reconfiguration_ms(self) -> float:
        """From the suspicion to the last missed message (thesis, section 5.4.1)."""
        return self.asking_ms + self.settling_ms


class _Way:
    """A repair under way at one broker."""

    def __init__(self, lost_s: float, now_s: float) -> None:
        self.lost_s, self.suspected_s = lost_s, now_s
        self.asked_s, self.rounds = now_s, 0


def repairs(reports: Reports, brokers: Iterable[str], fault_s: float) -> list[RepairTrial]:
    """The repairs after a fault, in the order in which they ended. A broker that became the root had none."""
    known, found = frozenset(brokers), []
    lost_s: dict[tuple[str, str], float] = {}
    under_way: dict[str, _Way] = {}
    for time_s, name, report in reports:
        if time_s < fault_s or name not in known:
            continue
        if report.event == "detach":
            lost_s[name, report.peer] = time_s
        elif report.event == "repair_start" and report.detail:
            # The coordinator of a repair reports its start too, without a word about whom it asks: it asks nobody.
            way = under_way.setdefault(name, _Way(lost_s.get((name, report.peer), time_s), time_s))
            way.asked_s, way.rounds = time_s, way.rounds + 1
        elif report.event == "root":
            under_way.pop(name, None)
        elif report.event == "repair_end" and name in under_way:
            found.append(_ended(name, report.peer, under_way.pop(name), time_s, fault_s))
    return found


def _ended(name: str, parent: str, way: _Way, now_s: float, fault_s: float) -> RepairTrial:
    return RepairTrial(
        name,
        parent,
        way.rounds,
        doubt_ms=1000 * (way.suspected_s - way.lost_s),
        asking_ms=1000 * (way.asked_s - way.suspected_s),
        settling_ms=1000 * (now_s - way.asked_s),
        since_fault_ms=1000 * (now_s - fault_s),
    )
