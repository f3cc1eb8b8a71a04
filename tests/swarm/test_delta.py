"""Random failures of up to delta nodes: no promise is broken, every operation completes, and everything drains.

Longer campaigns: `holdfast campaign --protocol delta --faults chain,scatter,... --tolerance D --seeds A..B`; what they
have shown is in docs/protocols/delta.md.
"""

import pytest

from holdfast.protocols.delta import DeltaBroker
from holdfast.protocols.links import Link
from holdfast.simulation.failures import FailureClass
from holdfast.simulation.workloads import CALM, Trouble, judge, random_scenario
from tests.swarm.seeds import FIRST, complaints

IN_THE_MODEL: tuple[FailureClass, ...] = (
    *("chain", "scatter", "oscillate", "joining", "subscribing", "recovering", "returning", "clients", "stay"),
)


@pytest.mark.parametrize("failure", IN_THE_MODEL)
def test_one_failed_node_stops_nothing(failure: FailureClass):
    assert "\n\n".join(complaints(range(FIRST, FIRST + 6), Trouble((), failure, 1), "delta")) == ""


@pytest.mark.parametrize("failure", IN_THE_MODEL)
def test_two_failed_nodes_stop_nothing(failure: FailureClass):
    assert "\n\n".join(complaints(range(FIRST, FIRST + 3), Trouble((), failure, 2), "delta")) == ""


def test_without_failures_everything_arrives_in_order_and_every_invariant_holds():
    assert "\n\n".join(complaints(range(FIRST, FIRST + 10), CALM, "delta")) == ""


def test_links_that_break_stand_still_or_slow_down_lose_nothing():
    trouble = Trouble(("reset", "cut", "freeze", "slow"))
    assert "\n\n".join(complaints(range(FIRST, FIRST + 10), trouble, "delta")) == ""


@pytest.mark.parametrize(
    ("failure", "seed"),
    [
        *(("chain", 119), ("chain", 213), ("scatter", 147), ("scatter", 192), ("oscillate", 116), ("subscribing", 182)),
        *(("recovering", 116), ("recovering", 147), ("recovering", 192), ("returning", 192)),
    ],
)
def test_a_message_is_not_numbered_anew_because_a_later_one_went_to_another_receiver(failure: FailureClass, seed: int):
    """Once broken: the earlier of two messages arrived behind the later one, or was taken for its repeat.

    1. Two messages of one publisher go past a failed broker, the first to c1, the second to c1 and c2. 2. c2 is
    connected with, and gets the second. 3. c1 is connected with: in its direction a higher number had gone, so the
    first was given a new number behind the second.
    """
    assert "\n\n".join(complaints(range(seed, seed + 1), Trouble((), failure, 1), "delta")) == ""


class Patient(DeltaBroker):
    """Waits for failed brokers as long as it takes."""

    def _suspect(self, name: str) -> None:
        if self.map.is_client(name):
            super()._suspect(name)


def test_operations_that_wait_for_failed_brokers_are_found_although_nothing_is_lost_in_the_end():
    scenario = random_scenario(2, "delta", Trouble((), "stay", 1))
    assert judge(scenario, "").ok
    waits = judge(scenario, "", make=Patient)
    assert "still waited after" in waits.complaint()


class Certain(DeltaBroker):
    """Confirms with the tables that it has, whether its neighbours are there or not."""

    def refresh(self) -> None:
        super().refresh()
        self.state.doubtful = False

    def link_closed(self, link: Link) -> None:
        super().link_closed(link)
        self.state.doubtful = False


def test_a_frozen_broker_that_confirms_before_it_has_met_its_neighbours_again_loses_messages():
    """Once broken: 1. A broker is frozen. 2. Others subscribe, confirmed past it. 3. It runs again, and confirms."""
    scenario = random_scenario(145, "delta", Trouble((), "joining", 1))
    assert judge(scenario, "").ok
    assert not judge(scenario, "", make=Certain).ok


@pytest.mark.parametrize(
    ("failure", "tolerance", "seed"),
    [
        pytest.param(
            "joining", 1, 145, id="a frozen broker confirmed with its old table, before it met its neighbours"
        ),
        pytest.param("scatter", 1, 213, id="two brokers that had gone past each other told each other so for ever"),
        pytest.param("joining", 1, 199, id="a client that had left came back with the map that neighbours told"),
        pytest.param("joining", 2, 128, id="two that joined at neighbours waited for each other"),
        pytest.param("joining", 2, 134, id="a broker that stood still went past others who were there"),
        pytest.param(
            "recovering", 2, 109, id="a stand-in's copy for one client hid the publisher's own for all others"
        ),
        pytest.param("recovering", 1, 1016, id="a guide ended at a node that recovered, and later messages overtook"),
        pytest.param("oscillate", 2, 2008, id="a node that recovered took back a filter that others still wanted"),
        pytest.param("subscribing", 2, 2034, id="a join under way was not told to a node that returned"),
        pytest.param("subscribing", 1, 4024, id="a guide named a failed node, and whoever knew more waited for it"),
        pytest.param("joining", 1, 3162, id="what a skipped broker sent again had new numbers, so that repeats passed"),
        pytest.param("joining", 1, 7117, id="messages overtook what a skipped broker had yet to send again"),
        pytest.param("joining", 2, 4028, id="a skipped broker was told so by nobody; what it had given was discarded"),
        pytest.param("joining", 3, 4128, id="a broker took another one in, crashed, and half of the tree never knew"),
        pytest.param("joining", 3, 7011, id="a client that joined during a recovery was taken for one that had left"),
        pytest.param("oscillate", 3, 5038, id="all brokers forgot what a client wants, and none asked it"),
        pytest.param("scatter", 2, 7402, id="a stand-in did not wait for the first copy, and confirmed too early"),
        pytest.param("stay", 3, 15, id="a broker waited for one that was said to be back, and had failed again"),
        pytest.param("stay", 1, 14, id="a change that was taken back before the bypass waited for the failed broker"),
        pytest.param("beyond", 1, 11, id="what waited in a broker that recovers was overtaken, and taken for repeats"),
        pytest.param("chain", 1, 7110, id="copies of a client that had left came back with its home"),
        pytest.param("scatter", 2, 5018, id="a client left while its home was failed, and said goodbye to nobody"),
        pytest.param("subscribing", 1, 4034, id="a broker took a client in, crashed, and told nobody when it was back"),
        pytest.param(
            "oscillate", 2, 31002, id="a message was overtaken in a chain that recovers by others guided further"
        ),
        pytest.param("beyond", 1, 25, id="a second copy came with no number but that of the broker that had recovered"),
        pytest.param("beyond", 2, 13, id="a stand-in's copy came further than the number of its publisher"),
        pytest.param("beyond", 2, 57, id="a stand-in confirmed for a broker whose clients it does not know"),
        pytest.param("beyond", 2, 52, id="a copy for clients of a failed broker went to everybody after a recovery"),
        pytest.param(
            "beyond", 3, 26, id="a publisher gave a broker what its home had not passed on there, behind later ones"
        ),
        pytest.param("beyond", 2, 68, id="a client had what it had not wanted behind what it wanted"),
        pytest.param("beyond", 2, 245, id="a client had what it had not wanted, by other hops, behind what it wanted"),
        pytest.param("beyond", 2, 295, id="the numbers of a publisher that had left were forgotten"),
        pytest.param("beyond", 2, 304, id="a client forgot brokers that another one's map did not have"),
    ],
)
def test_schedules_that_once_broke_a_promise(failure: FailureClass, tolerance: int, seed: int):
    assert "\n\n".join(complaints(range(seed, seed + 1), Trouble((), failure, tolerance), "delta")) == ""
