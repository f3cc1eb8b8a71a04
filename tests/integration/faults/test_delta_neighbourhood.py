"""The delta-neighbourhood as processes: a broker that stands still is passed over, and gets what it missed."""

from pathlib import Path

import holdfast
from tests.integration.faults.support_faults import settled, tree_of_processes


def test_messages_pass_a_frozen_broker_over(tmp_path: Path):
    async def story() -> None:
        parents = {"0": None, "1": "0", "2": "1"}
        async with tree_of_processes(tmp_path, parents, protocol="delta-neighbourhood") as processes:
            first, last = (processes.cluster.broker(name).address for name in ("0", "2"))
            async with (
                holdfast.connect(first, name="alice", cluster="faults") as alice,
                holdfast.connect(last, name="bob", cluster="faults") as bob,
            ):
                inbox = await bob.subscribe("t")
                await alice.publish("t", b"all are there", guarantee="fifo")
                assert (await inbox.get(10)).payload == b"all are there"
                # A publisher has one message in transit, until all on the way have it.
                await settled(processes)
                processes.freeze("1")
                await alice.publish("t", b"one is away", guarantee="fifo")
                assert (await inbox.get(10)).payload == b"one is away"
                processes.thaw("1")

    holdfast.run(story())
