"""Each rule of a parted network, left out: the checkers see it, so the scenarios with the rule do show something."""

import pytest

from holdfast.protocols.ginger import RepairingBroker
from holdfast.protocols.ginger.data_path import DataPath
from holdfast.protocols.ginger.diaries import Diaries
from holdfast.protocols.ginger.reunion import Reunion
from holdfast.protocols.records import Record
from holdfast.simulation.checkers import Verdict
from holdfast.simulation.faults import Heal, Part, Subscribe
from holdfast.simulation.world import Simulation
from tests.scenarios.repairs import at, listen, say
from tests.scenarios.test_partitions import parted
from tests.support.parts import MakeBroker, with_parts


class Ruling(RepairingBroker):
    """Orders total messages in every part, however small."""

    @property
    def serves_total(self) -> bool:
        return True


class Oblivious(DataPath):
    """Writes nothing down for those who are out of reach."""

    def note(self, record: Record) -> None:
        """Nothing."""


class Incurious(Diaries):
    """Asks its own side for nothing that the others may come to want."""

    def ask_for_all(self) -> None:
        """Nothing."""


class Settled(Reunion):
    """Never looks for those whom it has lost."""

    def _seek(self, now: float) -> None:
        """Nothing."""


def judged(make: MakeBroker) -> tuple[Simulation, Verdict]:
    """Both sides publish while the network is parted, weak and total; what is wrong when it is whole again?

    Nobody around A wanted v before: its top may be on either side.
    """
    sim = parted(make=make)
    listen(sim, a_A="t", e_E="t u v")
    at(sim, 2.0, Part(("A", "B")))
    at(sim, 8.0, Subscribe("a", "v"))
    for second in (10, 11):
        say(sim, second, "a", f"t:a{second}", f"u:a{second}")
        say(sim, second, "e", f"t:e{second}")
        for client in ("a", "e"):
            say(sim, second, client, f"t:total {client}{second}", guarantee="total", key="k")
        for client in ("a", "d@D"):
            say(sim, second, client, f"v:total {client}{second}", guarantee="total", key="k")
    at(sim, 14.0, Heal())
    sim.run_for(60.0)
    return sim, sim.check()


def test_with_all_rules_nothing_is_wrong():
    sim, verdict = judged(RepairingBroker)
    assert verdict.ok
    assert sim.unrepaired() == []


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (Ruling, "total"),
        (with_parts(data_path=Oblivious), "lost"),
        (with_parts(diaries=Incurious), "lost"),
        (with_parts(reunion=Settled), "lost"),
    ],
)
def test_without_one_of_them_the_checkers_see_it(make: MakeBroker, fault: str):
    _, verdict = judged(make)
    assert verdict.faults[fault] > 0


def test_who_never_looks_for_the_others_leaves_two_trees():
    sim, _ = judged(with_parts(reunion=Settled))
    assert any("several roots" in one for one in sim.unrepaired())
