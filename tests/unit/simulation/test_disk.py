"""Virtual disks: what is persisted stands before what is sent because of it, and survives alone."""

from random import Random

import pytest

from holdfast.model.messages import Frame, Ping, Pong
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.node import Effects, Persist, Report, Send, SetTimer
from holdfast.simulation.disk import Disk, DiskConfig
from holdfast.simulation.faults import Crash, Freeze, Recover, Thaw
from holdfast.simulation.kernel import Kernel
from tests.unit.simulation.toys import Toy, toy, toys

SLOW_DISK = DiskConfig(write_ms=10.0, bytes_per_s=1e12)


class Writer(Toy):
    """Stores each ping before it answers it."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.restored: dict[str, bytes] | None = None

    def restore(self, pairs: dict[str, bytes]) -> None:
        self.restored = pairs

    def peer_up(self, peer: str, now: float) -> Effects:
        return [*super().peer_up(peer, now), Send(peer, Ping(1)), Send(peer, Ping(2))]

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:
        super().receive(peer, frame, now)
        if not isinstance(frame, Ping):
            return []
        number = frame.number
        return [
            Send(peer, Pong(100 + number)),
            Persist(f"a{number}", b"x"),
            Persist(f"b{number}", b"y"),
            Send(peer, Pong(number)),
        ]


def test_a_send_behind_a_persist_leaves_when_the_write_is_done_and_one_before_it_at_once():
    sim = toys("0-1", Writer, disk=SLOW_DISK)
    sim.run_for(1.0)
    # The pings arrive at 3 ms. The second is handed over when the first one's effects are carried out, writes included.
    assert [(time, frame.number) for time, what, frame in toy(sim, "1").diary if what == "from 0"] == [
        (0.004, 101),
        (0.014, 1),
        (0.014, 102),
        (0.024, 2),
    ]
    assert toy(sim, "0").when("from 1") == [0.003, 0.003, 0.013]


def test_the_node_is_not_entered_while_its_effects_wait_for_the_disk():
    class Busy(Writer):
        def start(self, now: float) -> Effects:
            return [*super().start(now), SetTimer("tick", 0.005)]

    sim = toys("0-1", Busy, disk=SLOW_DISK)
    sim.run_for(1.0)
    assert toy(sim, "0").when("timer") == [0.023], "after the second write, which the ping before it began"
    assert toy(sim, "1").when("timer") == [0.005]


def test_a_recovered_node_gets_back_what_was_synced():
    sim = toys("0-1", Writer, disk=SLOW_DISK)
    sim.at(0.5, Crash("0"))
    sim.at(0.6, Recover("0"))
    sim.run_for(1.0)
    assert toy(sim, "0").restored == {"a1": b"x", "b1": b"y", "a2": b"x", "b2": b"y"}


def test_what_was_not_synced_is_lost_in_a_crash_or_partly_there_and_never_was_answered():
    found = set()
    for seed in range(30):
        sim = toys("0-1", Writer, seed, disk=SLOW_DISK)
        sim.at(0.020, Crash("0"))
        sim.at(0.6, Recover("0"))
        sim.run_for(1.0)
        assert 2 not in toy(sim, "1").heard()
        found.add("".join(sorted(toy(sim, "0").restored)))
    assert found == {"a1b1", "a1a2b1", "a1a2b1b2"}


def test_a_restarted_node_that_persisted_nothing_is_not_restored():
    sim = toys("0-1", Writer)
    sim.at(0.5, Crash("1"))
    sim.at(0.6, Recover("1"))
    sim.run_for(1.0)
    assert toy(sim, "1").restored is None


def test_a_disk_goes_on_while_the_node_is_frozen_and_the_rest_follows_the_thaw():
    for seed in range(8):
        sim = toys("0-1", Writer, seed, disk=SLOW_DISK)
        sim.at(0.005, Freeze("0"))
        sim.at(0.5, Thaw("0"))
        sim.run_for(1.0)
        assert [frame.number for _, what, frame in toy(sim, "1").diary if what == "from 0"] == [101, 1, 102, 2]
        assert toy(sim, "1").when("from 0")[1] == 0.501


def test_reports_stand_in_order_with_writes():
    class Reporter(Toy):
        def start(self, now: float) -> Effects:
            self.began = now
            return [Report("before"), Persist("k", b"v"), Report("after")]

    sim = toys("0", Reporter, disk=SLOW_DISK)
    sim.run_for(1.0)
    assert [(round(time, 6), report.event) for time, _, report in sim.reports] == [(0.0, "before"), (0.01, "after")]


@pytest.mark.parametrize("size_bytes", [0, 1_000_000])
def test_a_write_takes_its_sync_and_its_bytes(size_bytes: int):
    kernel = Kernel()
    disk = Disk(kernel, DiskConfig(write_ms=1.0, bytes_per_s=1e6), Random)
    done: list[float] = []
    disk.write([Persist("", b"x" * size_bytes)], lambda _: done.append(kernel.now))
    kernel.run(10.0)
    assert done == [pytest.approx(0.001 + size_bytes / 1e6)]


def test_an_empty_value_erases_its_key():
    kernel = Kernel()
    disk = Disk(kernel, DiskConfig(), Random)
    for value in (b"v", b""):
        disk.write([Persist("k", value)], lambda _: None)
        kernel.run(kernel.now + 1.0)
    assert disk.pairs == {}
    assert disk.syncs == 2
