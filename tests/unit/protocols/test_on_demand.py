"""Machines and layers are imported when they are asked for, and what the registry says of them is what they say."""

import subprocess
import sys
from functools import partial
from importlib import import_module

import pytest

from holdfast.protocols import narada
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.registry import PROTOCOLS, ProtocolInfo

PROGRAM = """
import sys
import holdfast.cli.app, holdfast.cluster.config
rooms = ("ginger", "comparators", "delta", "locamu", "sesdad.", "narada.")
print([name for name in sys.modules if name.startswith(tuple(f"holdfast.protocols.{room}" for room in rooms))])
"""


def test_commands_and_cluster_files_import_no_machine():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    loaded = set(eval(ran.stdout))
    # How many brokers a site may have is asked of any cluster file.
    assert loaded <= {"holdfast.protocols.sesdad.sites", "holdfast.protocols.narada.events"}


@pytest.mark.parametrize("info", PROTOCOLS.values(), ids=list(PROTOCOLS))
def test_the_registry_says_of_a_machine_what_the_machine_says(info: ProtocolInfo):
    assert isinstance(info.make, partial)
    package = import_module(f"holdfast.protocols.{info.make.args[0]}")
    machine = type(info.make(BrokerConfig("b0"), 1))
    assert machine.__module__.startswith(package.__name__)
    assert machine.guarantees == info.guarantees
    hops = getattr(machine, "hops", None)
    assert [hops(1), hops(2)] == [info.hops(1), info.hops(2)] if info.hops and hops else info.hops is hops


def test_names_of_a_layer_are_found_and_others_are_not():
    assert all(getattr(narada, name) for name in narada.__all__)
    with pytest.raises(AttributeError, match=r"module 'holdfast.protocols.narada' has no attribute 'Nothing'"):
        _ = narada.Nothing  # type: ignore[attr-defined]
