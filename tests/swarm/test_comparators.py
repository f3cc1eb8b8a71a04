"""Random workloads for the protocols that others are measured against, each within its own fault model.

SWARM_RUNS and SWARM_FIRST choose other seeds.
"""

from typing import Protocol

import pytest
from msgspec.structs import replace

from holdfast.model.direct_messages import Barred, Roster
from holdfast.model.errors import ConfigError
from holdfast.model.messages import Publish
from holdfast.protocols.comparators.barriers import BarriersBroker
from holdfast.protocols.comparators.barriers.broker import packed, unpacked
from holdfast.protocols.comparators.barriers.dependencies import Barriers, Identity
from holdfast.protocols.comparators.cbcast import CbcastBroker
from holdfast.protocols.comparators.cbcast.queues import Arrivals, CastArrival
from holdfast.protocols.comparators.cbcast.stability import CastOutbox
from holdfast.protocols.comparators.delta_neighbourhood import NeighbourhoodBroker
from holdfast.protocols.comparators.delta_neighbourhood.transits import Path, Transit, Transits
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.node import BrokerNode
from holdfast.protocols.registry import find_protocol
from holdfast.simulation.failures import TOLERANCE_MIN, FailureClass
from holdfast.simulation.workloads import CALM, FAULT_KINDS, Trouble, judge, random_scenario
from tests.swarm.seeds import FIRST, RUNS, complaints

SHARE = 40
"""Of so many runs that others make, one is made of each comparator."""
BAD_LINKS = Trouble(FAULT_KINDS)


def failures(protocol: str) -> list[Trouble]:
    """Every class of failures of the protocol's own fault model."""
    classes = find_protocol(protocol).survives or ()
    return [Trouble((), name, TOLERANCE_MIN.get(name, 1)) for name in classes]  # type: ignore[arg-type]  # all are


COMPARATORS = ("cbcast", "barriers", "delta-neighbourhood")
CASES = [(name, trouble) for name in COMPARATORS for trouble in (CALM, BAD_LINKS, *failures(name))]


def label(case: object) -> str:
    if isinstance(case, Trouble):
        return case.failure or ("bad links" if case.faults else "calm")
    return str(case)


@pytest.mark.parametrize(("protocol", "trouble"), CASES, ids=label)
def test_a_comparator_keeps_its_promises_within_its_fault_model(protocol: str, trouble: Trouble):
    runs = RUNS // SHARE // (2 + len(failures(protocol)))
    if trouble.failure == "away":
        # They take long: silence has to be noticed, again and again.
        runs //= 3
    assert "\n\n".join(complaints(range(FIRST, FIRST + max(1, runs)), trouble, protocol)) == ""


@pytest.mark.parametrize(
    ("protocol", "failure"),
    [("cbcast", "partition"), ("barriers", "crash"), ("delta-neighbourhood", "crash")],
)
def test_what_is_outside_of_its_fault_model_is_refused_with_what_is_inside(protocol: str, failure: FailureClass):
    with pytest.raises(
        ConfigError, match=f"failures of class '{failure}' are not for {protocol}; there are .*(join|away)"
    ):
        random_scenario(1, protocol, Trouble((), failure, 1))


ONCE_BROKEN: list[tuple[str, FailureClass, int, str]] = [
    ("cbcast", "recover", 3015, "the dead were dialled again, and those who came in their place were taken for dead"),
    ("cbcast", "recover", 11018, "who was said to be lost, by its name, was taken for the next one under that name"),
    ("cbcast", "recover", 6000028, "who came in the place of the dead answered a call for these, and lost its own one"),
    ("cbcast", "two", 20003, "a subscription was confirmed by a view that was ending, and not in the next one"),
    ("cbcast", "root", 1012, "what came for a subscription that was not confirmed before its client died was judged"),
    ("cbcast", "root", 8000117, "who alone had the next view could not tell the coordinator, behind its casts"),
    ("cbcast", "root", 8000175, "a coordinator that alone had the next view could not tell it, behind its casts"),
]


@pytest.mark.parametrize(("protocol", "failure", "seed"), [run[:3] for run in ONCE_BROKEN], ids=str)
def test_what_was_broken_once_holds(protocol: str, failure: FailureClass, seed: int):
    # They were found while a broker was given up as soon as its connection was gone for 50 ms.
    scenario = replace(random_scenario(seed, protocol, Trouble((), failure, 1)), suspect_s=None)
    outcome = judge(scenario, "", check_invariants=True)
    assert outcome.ok, outcome.complaint()


# ------------------------------------------------------------------------------------------------------------ mutants


class Maker(Protocol):
    """A class of brokers."""

    protocol: str

    def __call__(self, config: BrokerConfig, incarnation: int) -> BrokerNode: ...


class Impatient(Arrivals):
    """Nothing waits for what it depends on."""

    def _obstacle(self, sender: str, arrival: CastArrival) -> tuple[str, int] | None:
        super()._obstacle(sender, arrival)
        return None


class NoOrder(CbcastBroker):
    """Casts are delivered as they come."""

    def _start_over(self) -> None:
        super()._start_over()
        self.arrivals = Impatient(self.clocks, self._is_ours, self._deliver)
        self.arrivals.places = self.places


class NoFlush(CbcastBroker):
    """A member answers before what it has sent is known to have arrived."""

    def _note_arrivals(self) -> None:
        outbox, self.outbox = self.outbox, CastOutbox()
        super()._note_arrivals()
        if not self.outbox:
            self.outbox = outbox


class NoHandOut(CbcastBroker):
    """What some have of the dead, and others lack, stays as it is."""

    def _hand_out(self) -> None:
        """Nothing."""


class NeverPastTheLost(CbcastBroker):
    """What waits for a message that died with its senders is forgotten with the view."""

    def _on_roster(self, roster: Roster) -> None:
        if roster.number > self.roster.number:
            self.arrivals = Arrivals(self.clocks, self._is_ours, self._deliver)
        super()._on_roster(roster)


class SharedCompression(CbcastBroker):
    """Clocks are compressed against what somebody else was told."""

    def _multicast(self, message: Publish) -> None:
        first = next(iter(self.writers.values()), None)
        if first is not None:
            self.writers = dict.fromkeys(self.members, first)
        super()._multicast(message)


class NoBarriers(BarriersBroker):
    """Messages are delivered as they come."""

    def _obstacle(self, barriers: Barriers) -> Identity | None:
        super()._obstacle(barriers)
        return None


class ForgetsThirdParties(BarriersBroker):
    """What a message says of brokers that it does not go to is not passed on."""

    def _deliver(self, sender: str, message: Barred) -> bool:
        targets, barriers, _ = unpacked(message)
        row = barriers.get(self.name)
        return super()._deliver(sender, packed(message.serial, targets, {self.name: row} if row else {}, message.batch))


class Forgetful(Transits):
    """Recognises nothing."""

    def find(self, path: Path) -> Transit | None:
        super().find(path)
        return None


class NothingIsARepeat(NeighbourhoodBroker):
    """Copies are not recognised by their ways."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.transits = Forgetful()


class SeveralInTransit(NeighbourhoodBroker):
    """A publisher does not wait until everybody has its message."""

    def _must_wait(self, client: str) -> bool:
        super()._must_wait(client)
        return False

    def check_invariants(self) -> None:
        self.hub.check_invariants()


CRASH_OF_TWO = Trouble((), "two", 1)
AWAY = Trouble((), "away", 1)
NEIGHBOURS = Trouble((), "adjacent", 2)
MUTANTS = [
    pytest.param(NoOrder, CALM, "causal", (2, 11), id="casts do not wait for what they depend on"),
    pytest.param(NoFlush, CALM, "lost", (6, 7), id="flushes do not wait for what was sent"),
    pytest.param(NoHandOut, CRASH_OF_TWO, "lost", (4, 18), id="what the dead left is not handed out"),
    pytest.param(NeverPastTheLost, NEIGHBOURS, "lost", (6, 22, 23), id="what waits for the lost is lost, too"),
    pytest.param(SharedCompression, CALM, "NotQuiet", (2, 8), id="clocks are compressed against others' casts"),
    pytest.param(NoBarriers, CALM, "causal", (2, 9), id="barriers are not looked at"),
    pytest.param(NothingIsARepeat, AWAY, "duplicated", (6, 8), id="copies are not recognised"),
    pytest.param(SeveralInTransit, AWAY, "duplicated", (6, 8), id="publishers do not wait for their messages"),
    pytest.param(ForgetsThirdParties, CALM, "causal", (24,), id="barriers for others are not passed on"),
]


@pytest.mark.parametrize(("make", "trouble", "fault", "seeds"), MUTANTS)
def test_a_broker_without_a_rule_is_caught(make: Maker, trouble: Trouble, fault: str, seeds: tuple[int, ...]):
    outcomes = [judge(random_scenario(seed, make.protocol, trouble), "", make=make) for seed in seeds]
    assert any(fault in outcome.what() for outcome in outcomes), [outcome.what() for outcome in outcomes]
