"""The experiments of the LoCaMu thesis: which points there are, and a very small one of each kind."""

import pickle
from functools import cache

import msgspec
import pytest

from holdfast.experiments.locamu import PROTOCOLS, LocamuLoad, LocamuPoint, LocamuResult, LocamuRow, run
from holdfast.experiments.locamu_bounds import SIZES, group_sizes, header_bytes, locamu_bound, memory_bytes
from holdfast.experiments.locamu_points import CAUSAL, FULL, LOCALIZED, QUICK, Shape, pace, points, pressed, shape
from holdfast.experiments.locamu_report import report
from holdfast.experiments.locamu_worlds import LocamuWorld, groups_of
from holdfast.experiments.scales import GINGER_BYTES

SMALL = 15
PACED = (LocamuLoad(SMALL, 2, 10.0), LocamuLoad(SMALL, 2, 10.0, as_thesis=True))


@cache
def paced(protocol: str, subtrees: bool) -> LocamuRow:
    return run(LocamuPoint(protocol, SMALL, subtrees=subtrees, loads=PACED))


@cache
def alone(protocol: str, brokers: int = SMALL, fan_out: int = 2, tolerance: int = 1) -> LocamuResult:
    row = run(LocamuPoint(protocol, brokers, fan_out, tolerance, loads=(LocamuLoad(messages=8, as_thesis=True),)))
    assert (row.kept, row.complaint) == (True, "")
    return row.results[0]


# ------------------------------------------------------------------------------------------------------------ points


@pytest.mark.parametrize("quick", [True, False])
def test_no_point_is_run_twice_and_each_survives_the_way_to_another_process(quick):
    found = points(quick)
    assert len(set(found)) == len(found)
    for point in found:
        assert msgspec.json.decode(msgspec.json.encode(point), type=LocamuPoint) == point
    assert pickle.loads(pickle.dumps(run)) is run


def test_a_full_run_has_the_settings_of_the_thesis():
    found = [point for point in points(quick=False) if point.loads[0] not in pressed(as_thesis=False)]
    assert {point.brokers for point in found if point.subtrees} == {511}
    assert {load.interval_ms for point in found if point.subtrees for load in point.loads} == {10.0}
    default = LocamuLoad()
    assert (default.payload_bytes, default.mbps, LocamuPoint().tolerance, LocamuPoint().fan_out) == (32, 100.0, 1, 2)


@pytest.mark.parametrize("of", [FULL, QUICK])
def test_every_place_of_figures_5_2_and_5_3_has_a_load_for_ginger_and_locamu(of: Shape):
    asked = {*pace(of, as_thesis=False), *pace(of, as_thesis=True)}
    for protocol in ("ginger", "locamu"):
        for subtrees in (False, True):
            made = points(quick=of is QUICK)
            worlds = [one for one in made if (one.protocol, one.subtrees) == (protocol, subtrees)]
            assert asked <= {load for one in worlds for load in one.loads}
    assert shape(quick=True) is QUICK


def test_a_broker_is_in_the_group_of_every_subtree_above_it():
    assert groups_of(4, 2, 15, subtrees=True) == ["below/4", "below/1", "below/0"]
    assert groups_of(9, 2, 15, subtrees=True) == ["below/4", "below/1", "below/0"]
    assert groups_of(9, 2, 15, subtrees=False) == ["all"]
    names = {group for broker in range(511) for group in groups_of(broker, 2, 511, subtrees=True)}
    assert len(names) == 255


# -------------------------------------------------------------------------------------------------------------- runs


@pytest.mark.parametrize("subtrees", [False, True])
@pytest.mark.parametrize("protocol", CAUSAL)
def test_everybody_is_given_what_its_groups_are_sent_in_order(protocol, subtrees):
    row = paced(protocol, subtrees)
    assert (row.kept, row.complaint) == (True, "")
    members = [SMALL * 2 * SMALL] if not subtrees else [one.deliveries for one in row.results]
    assert [one.deliveries for one in row.results] == members * (2 if not subtrees else 1)
    assert all(one.per_s > 0 and one.header_bytes > 0 for one in row.results)


@pytest.mark.parametrize("protocol", LOCALIZED)
def test_a_publisher_alone_is_as_fast_as_the_root_can_send(protocol):
    result = alone(protocol)
    per_s = result.per_s / SMALL
    if protocol == "delta-neighbourhood":
        # Three edges there and back for each message.
        assert per_s == pytest.approx(1 / 0.006, rel=0.02)
    else:
        # Two copies of payload and metadata for each message; the root's own copies have less of it than later ones.
        assert 12_500_000 / 2 / (32 + result.header_bytes_max) < 1.01 * per_s < 12_500_000 / 2 / 32


def test_locamu_is_slower_with_a_higher_tolerance_or_degree():
    assert alone("locamu").per_s > 1.2 * alone("locamu", tolerance=2).per_s
    assert alone("locamu").per_s / SMALL > alone("locamu", 21, 4).per_s / 21


def test_more_bandwidth_helps_locamu_and_not_delta():
    loads = (LocamuLoad(messages=8, mbps=1.0), LocamuLoad(messages=8, mbps=100.0))
    slow, fast = run(LocamuPoint("locamu", SMALL, loads=loads)).results
    assert fast.per_s > 50 * slow.per_s
    slow, fast = run(LocamuPoint("delta-neighbourhood", SMALL, loads=loads)).results
    assert fast.per_s < 2 * slow.per_s


def test_what_can_be_gone_on_with_is_what_the_busiest_broker_can_send():
    load = LocamuLoad(SMALL, 4, 10.0, 1000.0, as_thesis=True)
    result = run(LocamuPoint("ginger", SMALL, loads=(load,))).results[0]
    # Whoever has three neighbours passes each message on to two of them, and its own to all: 44 bytes a copy.
    assert result.busiest_bytes == 44 * (2 * 4 * SMALL + 4)
    offered = result.deliveries / 0.04
    assert result.sustained_per_s(1000.0) == offered
    assert result.sustained_per_s(0.1) == pytest.approx(result.deliveries * 12_500 / result.busiest_bytes)


def test_a_warm_load_counts_what_comes_after_the_first_round():
    cold, warm = (
        run(LocamuPoint("cbcast", 7, loads=(LocamuLoad(7, 2, 10.0, warm=warm),))).results[0] for warm in (False, True)
    )
    assert cold.deliveries == warm.deliveries == 7 * 2 * 7
    assert warm.header_bytes > cold.header_bytes


def test_the_same_point_gives_the_same_row():
    assert run(LocamuPoint("locamu", 7)) == run(LocamuPoint("locamu", 7))


@pytest.mark.parametrize("protocol", ["locamu", "ginger"])
def test_a_broker_that_is_away_for_a_second_makes_subscribers_wait_and_loses_nothing(protocol):
    row = run(LocamuPoint(protocol, SMALL, loads=(LocamuLoad(2, 20, 20.0),), absent=True))
    assert (row.kept, row.complaint) == (True, "")
    assert row.results[0].deliveries == 2 * 20 * SMALL
    assert row.results[0].gap_ms_max > 60


def test_locamu_that_is_told_of_groups_knows_what_it_would_have_heard():
    told = LocamuWorld("locamu", 7, 2, 1, subtrees=True, seed=1)
    heard = LocamuWorld("locamu", 7, 2, 1, subtrees=True, seed=1, standing=False)
    for name in told.tree:
        one, other = (world.sim.node(name).durable.core.groups.image() for world in (told, heard))  # type: ignore[union-attr]
        assert dict(one.counts) == dict(other.counts)
        assert {interest for interest, _ in one.wants} == {interest for interest, _ in other.wants}


def test_a_point_that_cannot_be_run_is_a_row_that_says_why(monkeypatch):
    def world(*_: object) -> LocamuWorld:
        raise LookupError("no room")

    monkeypatch.setattr("holdfast.experiments.locamu.LocamuWorld", world)
    row = run(LocamuPoint("ginger", SMALL))
    assert (row.kept, row.results, row.complaint) == (False, [], "LookupError: no room")


def test_a_run_in_which_somebody_failed_counts_for_nothing(monkeypatch):
    monkeypatch.setattr("holdfast.simulation.world.Simulation.failures", lambda _: ["broker 3 was not quiet"])
    row = run(LocamuPoint("ginger", 3, loads=(LocamuLoad(messages=2),)))
    assert (row.kept, row.complaint) == (False, "broker 3 was not quiet")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ('{"protocol":"nonsense"}', "there is no protocol 'nonsense'"),
        ('{"loads":[]}', "a point without loads measures nothing"),
        ('{"brokers":7,"loads":[{"publishers":8}]}', "8 publishers need as many brokers, and there are 7"),
        ('{"protocol":"cbcast","absent":true}', "nobody can be absent with cbcast"),
    ],
)
def test_a_point_that_makes_no_sense_is_none(wrong, why):
    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.json.decode(wrong, type=LocamuPoint)


# ------------------------------------------------------------------------------------------------------------ bounds


def test_only_locamus_and_gingers_headers_are_the_same_at_every_size():
    bound = locamu_bound(1, 2)
    most = {protocol: {header_bytes(protocol, size, bound) for size in SIZES} for protocol in CAUSAL}
    assert {protocol for protocol, sizes in most.items() if len(sizes) == 1} == {"locamu", "ginger"}
    assert most["ginger"] == {GINGER_BYTES}
    assert 300 < bound.header_bytes < 540, "the thesis, which counts pairs without a number too, has 540"
    assert memory_bytes("locamu", 64, 3, bound) == memory_bytes("locamu", 65_536, 3, bound)


def test_locamus_header_grows_with_the_tolerance_and_the_degree():
    assert locamu_bound(1, 2).header_bytes < locamu_bound(1, 3).header_bytes < locamu_bound(2, 2).header_bytes


@pytest.mark.parametrize(
    ("tolerance", "pairs", "by_number"),
    [
        (1, 62, {1: 76, 100: 152, 10**6: 221, 2**31: 359}),
        (2, 2758, {1: 3137, 100: 6181, 10**6: 9082, 2**31: 14_884}),
    ],
)
def test_a_header_on_our_wire_is_as_large_as_its_numbers_are_far_from_those_before(tolerance, pairs, by_number):
    """docs/protocols/locamu.md, Headers, has these figures beside the 540 bytes of the thesis."""
    bound = locamu_bound(tolerance, 2)
    assert len(bound.terms.pairs) == pairs
    assert {number: bound.wire_bytes(number)[0] for number in by_number} == by_number
    # Later headers do not depend on how high numbers are.
    assert {bound.wire_bytes(number)[1] for number in by_number} == {by_number[1]}


def test_the_groups_have_as_many_members_as_the_formula_says():
    # The first would have 65,537 of 65,536.
    assert sum(group_sizes(65_536)) == 260_519 - 1


# ------------------------------------------------------------------------------------------------------------ report


def test_a_report_shows_ginger_beside_the_others_and_says_what_agrees():
    rows = [msgspec.structs.replace(paced(protocol, False)) for protocol in PROTOCOLS if protocol in CAUSAL]
    made = report(rows)
    assert not made.broken
    bounds = next(table for table in made.tables if table.name == "figure-5.4a")
    assert bounds.columns[-1].startswith("ginger")
    assert [figure.name for figure in made.figures] == ["locamu-5.4"]
    assert [(claim.figure, claim.agrees) for claim in made.claims] == [("5.4a", True)]


def made_up(protocol: str, subtrees: bool, speeds: list[float]) -> LocamuRow:
    """A row of somebody who published more than fits, with these deliveries a second."""
    loads = [load for pair in zip(pressed(False), pressed(True), strict=True) for load in pair]
    some = paced(protocol, subtrees).results[0]
    results = [msgspec.structs.replace(some, load=load, per_s=speed) for load, speed in zip(loads, speeds, strict=True)]
    return LocamuRow(LocamuPoint(protocol, 63, subtrees=subtrees, loads=tuple(loads)), True, "", results, 1, 1.0)


def test_what_was_run_with_more_than_fits_is_shown_and_judged_beside_what_can_be_gone_on_with():
    speeds = {"locamu": [10.0, 20.0, 30.0, 40.0], "cbcast": [10.0, 20.0, 29.0, 50.0], "barriers": [1.0, 1.0, 16.0, 1.0]}
    made = report([made_up(protocol, False, some) for protocol, some in speeds.items()])
    table = next(table for table in made.tables if table.name == "figure-5.2c-full")
    assert [row[0] for row in table.rows] == ["8", "63"]
    assert table.rows[1][1:4] == (30.0, 29.0, 16.0)
    assert "figure-5.2d" in {table.name for table in made.tables}
    judged = [(claim.says, claim.agrees) for claim in made.claims if claim.figure == "5.2c"]
    behind, below = "with all publishing, CBCAST falls behind LoCaMu.", "causal barriers are far below."
    assert judged == [(behind, True), (below, False), (behind, False), (below, True)]


def test_every_load_is_in_the_results_with_what_became_of_its_run():
    row = msgspec.structs.replace(paced("locamu", False), kept=False, complaint="1 lost")
    table = next(table for table in report([row]).tables if table.name == "results")
    line = dict(zip(table.columns, table.rows[0], strict=True))
    assert (line["kept"], line["complaint"], line["seed"], line["warm"]) == (False, "1 lost", 1, False)
    assert line["point_events"] == row.events


def test_a_run_that_broke_a_promise_is_in_no_figure():
    row = msgspec.structs.replace(paced("locamu", False), kept=False, complaint="1 lost")
    made = report([row])
    assert len(made.broken) == 1
    assert "1 lost" in made.broken[0]
    assert "holdfast experiment locamu --point" in made.broken[0]
