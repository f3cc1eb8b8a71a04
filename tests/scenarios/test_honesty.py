"""Planted dishonesty: brokers that drop messages in silence, or confirm what nobody has, are found by the judges."""

import pytest

from holdfast.model.batches import Batch
from holdfast.model.messages import Confirm, ConfirmAck
from holdfast.protocols.ginger import RepairingBroker
from holdfast.protocols.ginger.data_path import DataPath
from holdfast.protocols.records import Record
from holdfast.simulation import faults
from holdfast.simulation.checkers.honesty import complaints
from holdfast.simulation.world import BrokerFactory
from tests.scenarios.repairs import BOOT_S, listen, say, tree
from tests.support.parts import with_parts


class Forgetful(DataPath):
    """Broker C loses, once, what it should hand to its client c: a planted silent loss."""

    tells = False

    def deliver_record(self, client: str, record: Record, parts: list[Batch]) -> None:
        if client != "c" or record.batch.payloads != b"2":
            super().deliver_record(client, record, parts)
        elif self.tells:
            self._broker.holes.announce("a test let it go", towards=["c"])


class Telling(Forgetful):
    """The same, and it says so."""

    tells = True


class Flattering(RepairingBroker):
    """Broker A says that everybody has it, without asking anybody: a planted false confirmation."""

    def _on_confirm(self, peer: str, confirm: Confirm) -> None:
        if self.name == "A":
            self._send(peer, ConfirmAck(confirm.token))
        else:
            super()._on_confirm(peer, confirm)


def told(make: BrokerFactory) -> list[str]:
    sim = tree("A-B B-C", make=make)
    listen(sim, b_B="t", c_C="t")
    say(sim, 1.0, "p@A", "t:1")
    say(sim, 1.5, "p", "t:2")
    sim.at(BOOT_S + 1.5, faults.Confirm("p", "t"))
    say(sim, 2.0, "p", "t:3")
    sim.run_until_quiet(limit_s=60, quiet_s=3.0)
    return [line.split(",")[0] for line in complaints(sim.events)]


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (RepairingBroker, []),
        (with_parts(data_path=Forgetful), ["1 silent losses"]),
        (with_parts(data_path=Telling), []),
        (Flattering, ["2 false confirmations", "p#2 on 't' was confirmed"]),
    ],
)
def test_what_was_planted_is_found_and_nothing_else(make: BrokerFactory, found: list[str]):
    assert told(make) == found
