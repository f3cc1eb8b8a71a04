"""America is cut off from Europe and Asia until both sides have given each other up; then the wires are mended.

Both sides go on by themselves. Total order goes on where the majority is, and waits on the other side. When the network
is whole again, the sides merge: nobody misses what was published anywhere, once and in its order.
"""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import pytest

from holdfast.cluster.demo import DemoPlan, run_demo
from holdfast.cluster.repairs import Assassin
from holdfast.cluster.status import ClusterStatus, cluster_status
from holdfast.simulation.checkers import check
from holdfast.storage.traces import read_trace
from tests.integration.network.support_network import Network, far_flung, launchers, network_of, why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"no network namespaces here: {why_not()}")

OPERATIONS, INTERVAL_MS = 40, 220.0
AMERICA = {"1", "4", "5"}
POLL_S, PATIENCE_S = 0.2, 40.0
APART_S = 2.0


IMPATIENT = """
import asyncio, sys, holdfast

async def main():
    async with holdfast.connect(sys.argv[1], patient=False) as client:
        try:
            await (await client.publish("elsewhere", b"x", "total")).accepted()
        except holdfast.Refused as refused:
            print(refused.outcome)
        await (await client.publish("elsewhere", b"x", "causal")).accepted()

try:
    asyncio.run(main())
except holdfast.Refused:
    # Closing says it once more: something was refused.
    pass
"""


class Parter(Assassin):
    """Parts the network, waits until there are two trees, and mends it."""

    def __init__(self, network: Network, *rest: Any) -> None:
        super().__init__(*rest)
        self._network = network
        self.healed = False
        self.refusal = ""

    async def work(self, progress: Callable[[str, int, int], None]) -> None:
        await self.reached(0.15)
        await asyncio.to_thread(self._network.part, AMERICA)
        await self._until(lambda seen: len(seen.tops()) == 2 and with_majority(seen).isdisjoint(AMERICA))
        # Both sides live on for a while, each with its own traffic.
        await asyncio.sleep(APART_S)
        self.refusal = await asyncio.to_thread(self._publish_impatiently, "4")
        await asyncio.to_thread(self._network.heal)
        await self._until(lambda seen: len(seen.tops()) == 1 and with_majority(seen) >= AMERICA)
        self.healed = True
        progress("the network is whole again", 1, 1)

    def _publish_impatiently(self, place: str) -> str:
        """What becomes of a total publication whose publisher will not wait for a majority."""
        address = self._processes.cluster.broker(place).address
        command = [*self._network.launcher(place), sys.executable, "-c", IMPATIENT, address]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout

    async def _until(self, condition: Callable[[ClusterStatus], bool]) -> None:
        limit = monotonic() + PATIENCE_S
        while True:
            seen = await cluster_status(self._processes.cluster)
            if seen.ready and condition(seen):
                return
            told = {one.name: (one.parent, one.ready, one.status.get("waiting_for")) for one in seen.brokers}
            assert monotonic() < limit, f"not within {PATIENCE_S:g} s: {told}"
            await asyncio.sleep(POLL_S)


def with_majority(seen: ClusterStatus) -> set[str]:
    """Who says that its side may go on with total order."""
    return {one.name for one in seen.brokers if one.status.get("majority")}


def test_two_sides_that_were_cut_off_from_each_other_live_on_and_merge(tmp_path: Path):
    parters: list[Parter] = []

    def trouble(*rest: Any) -> Parter:
        parters.append(Parter(network, *rest))
        return parters[0]

    with network_of(msgspec.structs.replace(far_flung(), join_s=3.0)) as (network, cluster):
        plan = DemoPlan(cluster, tmp_path, OPERATIONS, INTERVAL_MS, 20, 1, (), launchers(network, cluster))
        summary = network.observe(run_demo(plan, trouble=trouble))
    [parter] = parters
    assert parter.healed
    assert parter.refusal == "did not happen\n"
    verdict = check(read_trace(Path(summary.trace)))
    assert verdict.ok, verdict.examples
    assert summary.deliveries == summary.deliveries_expected
