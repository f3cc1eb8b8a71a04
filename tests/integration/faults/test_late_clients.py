"""A client process that is busy while its broker is killed loses nothing."""

import asyncio
import sys
from pathlib import Path

import holdfast
from holdfast.cluster.processes import Processes
from holdfast.cluster.status import broker_status
from tests.integration.faults.support_faults import PATIENCE_S, tree_of_processes

CLIENT = """
import asyncio, sys, holdfast

async def main():
    async with holdfast.connect(sys.argv[1], name="busy", cluster="faults") as client:
        subscription = await client.subscribe("t")
        print("ready", flush=True)
        count = 0
        async for message in subscription:
            count += 1
            if message.payload == b"think":
                print("thinking", flush=True)
                sys.stdin.readline()
            elif message.payload == b"end":
                break
        print(count, flush=True)

asyncio.run(main())
"""


async def until_late(processes: Processes, broker: str, client: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if client in (await broker_status(processes.cluster.broker(broker))).status.get("late", {}):
                return
            await asyncio.sleep(0.02)


def test_a_client_that_thinks_while_its_broker_is_killed_loses_nothing(tmp_path: Path):
    asyncio.run(think_while_the_broker_is_killed(tmp_path))


async def think_while_the_broker_is_killed(tmp_path: Path) -> None:
    async with tree_of_processes(tmp_path, {"0": None, "1": "0", "2": "1"}) as processes:
        ports = {broker.name: broker.port for broker in processes.cluster.brokers}
        pipe = asyncio.subprocess.PIPE
        address = f"holdfast://127.0.0.1:{ports['1']}"
        busy = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, address, stdin=pipe, stdout=pipe)
        assert busy.stdin is not None
        assert busy.stdout is not None
        assert await busy.stdout.readline() == b"ready\n"
        async with holdfast.connect(f"holdfast://127.0.0.1:{ports['2']}", name="alice", cluster="faults") as alice:
            for number in range(20):
                await alice.publish("t", b"before", guarantee=("causal", "total")[number % 2])
            await alice.publish("t", b"think", guarantee="causal")
            assert await busy.stdout.readline() == b"thinking\n"
            processes.crash("1")
            for number in range(20):
                await alice.publish("t", b"meanwhile", guarantee=("causal", "total")[number % 2])
            await until_late(processes, "0", "busy")
            for number in range(20):
                await alice.publish("t", b"later", guarantee=("causal", "total")[number % 2])
            busy.stdin.write(b"go on\n")
            await alice.publish("t", b"end", guarantee="causal")
            assert await asyncio.wait_for(busy.stdout.readline(), PATIENCE_S) == b"62\n"
        await busy.wait()
