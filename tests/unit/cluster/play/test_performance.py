"""A script on a stage that passes time itself."""

import asyncio
from pathlib import Path

from holdfast.cluster.play.cast import Cast
from holdfast.cluster.play.grammar import parse_script
from holdfast.cluster.play.performance import Performance
from holdfast.cluster.play.processes import ProcessStage
from holdfast.cluster.status import BrokerStatus, ClusterStatus
from holdfast.model.trace import Event


class Clockwork(ProcessStage):
    """Real processes of which there are none: a subscriber gets a message every 100 ms."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.passed_ns = 0

    def now_ns(self) -> int:
        return self.passed_ns

    def horizon_ns(self) -> int:
        return self.passed_ns

    async def begin(self, cast: Cast) -> None:
        pass

    async def wait(self, ms: float) -> None:
        self.passed_ns += round(ms * 1e6)

    async def rows(self) -> list[Event]:
        count = self.passed_ns // 100_000_000
        return [Event("r", "bob", one, one * 100_000_000, "deliver", "alice", one + 1, "t") for one in range(count)]


def test_what_happens_while_a_script_waits_is_told_meanwhile():
    stage, told_at_ns = Clockwork(), list[int]()
    performance = Performance(stage, Cast(), lambda _: told_at_ns.append(stage.passed_ns))

    async def play() -> None:
        for statement in parse_script("Broker a\nSubscriber bob At a\nWait 1000\n"):
            await performance.perform(statement)

    asyncio.run(play())
    assert stage.passed_ns == 1_000_000_000
    assert len(told_at_ns) == 11
    assert told_at_ns[1] < 500_000_000


class Slow(Clockwork):
    """A broker that answers every third question."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def status(self) -> ClusterStatus:
        self.asked += 1
        status = {"ready": True} if self.asked % 3 == 0 else {}
        return ClusterStatus("c", "ginger", (BrokerStatus("a", None, "", bool(status), status=status),))


def test_a_broker_that_is_slow_to_answer_is_not_taken_for_one_that_is_down():
    stage = Slow()
    performance = Performance(stage, Cast())

    async def play() -> None:
        for statement in parse_script("Broker a\nExpect a Ready\nExpect a Down\n"):
            await performance.perform(statement)

    asyncio.run(play())
    assert (stage.asked, performance.failures) == (4, [])
