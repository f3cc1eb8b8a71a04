"""The thesis' tree in network namespaces: every broker in a place of its own, its clients beside it."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from holdfast.cluster.config import Cluster, checked
from holdfast.cluster.evaluation import default_cluster
from tests.integration.network import wires

SCRIPT = str(Path(wires.__file__).resolve())
OBSERVER = "observer"
"""The place from which the test looks at the brokers: next door to each of them."""
SILENCE_S, JOIN_S = 2.0, 8.0
"""The slowest pair is more than half a second there and back; several of that must fit into a silence."""
ANSWER_S = 10.0
STOPPED_S = 30.0

T = TypeVar("T")


@cache
def why_not() -> str:
    """Why there are no namespaces on this machine; empty if there are."""
    tried = subprocess.run([sys.executable, SCRIPT, "--try"], capture_output=True, text=True, check=False)
    return tried.stdout or tried.stderr.strip()[-200:]


class Network:
    """Places with wires between them, while the process that makes them lives."""

    def __init__(self, places: list[str], latency_ms: Mapping[str, Mapping[str, float]]) -> None:
        self._addresses = {place: wires.address_of(index) for index, place in enumerate(places)}
        settings = json.dumps({"places": places, "latency_ms": latency_ms})
        # In a session of its own, so that Ctrl-C does not tear the network down under those who still say goodbye.
        self._process = subprocess.Popen(
            [sys.executable, SCRIPT, "--wire", settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._namespaces: dict[str, int] = self._answer()["namespaces"]

    def address(self, place: str) -> str:
        return self._addresses[place]

    def launcher(self, place: str) -> tuple[str, ...]:
        """What to put before a command that is to run there."""
        return (sys.executable, SCRIPT, "--enter", self._path(place))

    def _path(self, place: str) -> str:
        return f"/proc/{self._process.pid}/fd/{self._namespaces[place]}"

    def cut(self, one: str, other: str) -> None:
        """Nothing passes between the two any more."""
        self._order({"cut": [one, other]})

    def part(self, side: set[str]) -> None:
        """Nothing passes between these places and the others; the test goes on seeing all of them."""
        for one in side:
            for other in self._addresses.keys() - side - {OBSERVER}:
                self.cut(one, other)

    def unplug(self, place: str) -> None:
        """The interface of that place goes down."""
        self._order({"unplug": place})

    def heal(self) -> None:
        self._order({"heal": True})

    def _order(self, order: dict[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        assert self._answer() == {"event": "done"}

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the wires have ended"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def observe(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine where all brokers can be reached: in a thread, for namespaces are a matter of threads."""
        ended: Future[T] = Future()
        stop: list[Callable[[], object]] = []

        async def watched() -> T:
            task, loop = asyncio.current_task(), asyncio.get_running_loop()
            assert task is not None
            stop.append(lambda: loop.call_soon_threadsafe(task.cancel))
            return await work

        def look() -> None:
            try:
                with Path(self._path(OBSERVER)).open("rb") as namespace:
                    wires.enter(namespace.fileno())
                ended.set_result(asyncio.run(watched()))
            except BaseException as error:  # noqa: BLE001 - the test raises it
                ended.set_exception(error)

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            return ended.result()
        except KeyboardInterrupt:
            # Everybody stops while there is still a network to say goodbye in.
            for one in stop:
                one()
            thread.join(STOPPED_S)
            raise

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(ANSWER_S)
        self._process.stdout.close()


@contextmanager
def network_of(cluster: Cluster) -> Iterator[tuple[Network, Cluster]]:
    """A network for the brokers of a cluster, and the cluster at its addresses in it."""
    names = [broker.name for broker in cluster.brokers]
    network = Network([*names, OBSERVER], latencies_ms(cluster))
    try:
        brokers = tuple(
            msgspec.structs.replace(broker, host=network.address(broker.name)) for broker in cluster.brokers
        )
        yield network, checked(msgspec.structs.replace(cluster, brokers=brokers), "the network")
    finally:
        network.close()


def launchers(network: Network, cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Each broker in its place; a client lives at the place of its first broker, wherever it may connect to later."""
    found = {f"broker {broker.name}": network.launcher(broker.name) for broker in cluster.brokers}
    return found | {f"client {client.name}": network.launcher(client.broker) for client in cluster.clients}


def latencies_ms(cluster: Cluster) -> dict[str, dict[str, float]]:
    """One way, between any two brokers: along the links of the file's tree."""
    names = [broker.name for broker in cluster.brokers]
    return {one: {other: _between_ms(cluster, one, other) for other in names} for one in names}


def _between_ms(cluster: Cluster, one: str, other: str) -> float:
    up, down = _ancestors(cluster, one), _ancestors(cluster, other)
    apart = set(up) ^ set(down)
    return sum(cluster.broker(name).latency_ms or 0.0 for name in apart)


def _ancestors(cluster: Cluster, name: str) -> list[str]:
    broker = cluster.broker(name)
    return [name, *(_ancestors(cluster, broker.parent) if broker.parent else [])]


def far_flung(tolerance: int = 1) -> Cluster:
    """The tree of the evaluation with patience for Europe, North America and Asia (thesis, tables 5.2 and 5.3)."""
    return msgspec.structs.replace(default_cluster(), tolerance=tolerance, silence_s=SILENCE_S, join_s=JOIN_S)
