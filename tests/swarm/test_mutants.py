"""Brokers without one of their rules are caught: a swarm that finds nothing in these would prove nothing."""

from collections.abc import Iterator

import pytest

from holdfast.model.batches import Batch
from holdfast.model.messages import SessionMessage
from holdfast.protocols.ginger import GingerBroker, LockingBroker
from holdfast.simulation.shrinking import faults_of
from holdfast.simulation.workloads import judge, random_scenario
from holdfast.simulation.world import BrokerFactory

SEEDS = range(1, 101)


class NoCut(GingerBroker):
    """Nothing waits for a total message of its key."""

    def _cut_off(self, peer: str, batch: Batch) -> bool:
        super()._cut_off(peer, batch)
        return False


class NoPatience(GingerBroker):
    """A publisher's later messages do not wait for its total one."""

    def _must_wait(self, peer: str, message: SessionMessage) -> bool:
        under_way, self._under_way = self._under_way, {}
        try:
            return super()._must_wait(peer, message)
        finally:
            self._under_way = under_way


def found(make: BrokerFactory) -> Iterator[frozenset[str]]:
    for seed in SEEDS:
        if faults := faults_of(judge(random_scenario(seed), "", make=make)):
            yield faults


@pytest.mark.parametrize(
    ("make", "fault", "runs_min"),
    [(NoCut, "total", 10), (NoPatience, "fifo", 20), (LockingBroker, "total", 5)],
)
def test_a_broker_without_a_rule_is_caught(make: BrokerFactory, fault: str, runs_min: int):
    assert sum(fault in faults for faults in found(make)) >= runs_min
