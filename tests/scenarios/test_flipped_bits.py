"""Links on which bits flip: connections end and are made anew, and nothing altered passes."""

import pytest

from holdfast.model.guarantees import GUARANTEES
from holdfast.model.messages import Hello
from holdfast.simulation.checkers.contents import alterations
from holdfast.simulation.faults import Flip, Publish, Subscribe
from holdfast.simulation.world import Simulation

LINKS = [("0", "1"), ("1", "2"), ("bob@0", "0"), ("alice@2", "2")]
PAYLOADS = [b"%d" % number * 50 for number in range(20)]


def exchanged(flips: list[tuple[float, Flip]], tolerance: int = 0) -> Simulation:
    """Bob at one end of a chain gets what alice publishes at the other one, with every guarantee."""
    sim = Simulation("0-1 1-2", seed=3, tolerance=tolerance)
    sim.at(0.0, Subscribe("bob@0", "orders"))
    for time_s, flip in flips:
        sim.at(time_s, flip)
    for number, payload in enumerate(PAYLOADS):
        guarantee = GUARANTEES[number % 4].value
        sim.at(2.0 + number / 10, Publish("alice@2", "orders", payload, guarantee, ("k",), {"number": number}))
    sim.run_until_quiet(limit_s=120)
    return sim


def assert_all_is_there(sim: Simulation) -> None:
    assert sorted(sim.delivered("bob")) == sorted(PAYLOADS)
    assert alterations(sim.reports) == []
    assert sim.failures() == []
    assert sim.check().ok, sim.check().examples


@pytest.mark.parametrize("pair", LINKS, ids="-".join)
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_what_passes_a_bad_link_arrives_as_it_was(pair: tuple[str, str], share: float):
    sim = exchanged([(1.5, Flip(*pair, share)), (9.0, Flip(*pair, 0.0))])
    assert_all_is_there(sim)
    assert sim.network.sent[Hello] > len(LINKS), "no connection has ended"


def test_where_every_frame_is_altered_nothing_passes_until_that_is_over():
    sim = exchanged([(1.5, Flip("0", "1", 1.0)), (6.0, Flip("0", "1", 0.0))])
    assert_all_is_there(sim)
    [(first_s, _), *_] = sim.client("bob").delivered
    assert first_s > 6.0


def test_links_that_are_bad_from_the_beginning_come_up_when_they_are_better():
    bad = [(0.0, Flip(one, other, 0.5)) for one, other in LINKS]
    sim = exchanged(bad + [(5.0, Flip(one, other, 0.0)) for one, other in LINKS])
    assert_all_is_there(sim)


def test_a_tree_that_repairs_itself_survives_a_link_that_alters_a_frame_now_and_then():
    sim = exchanged([(1.5, Flip("0", "1", 0.02)), (9.0, Flip("0", "1", 0.0))], tolerance=1)
    assert_all_is_there(sim)
