"""The experiment on the delta-fault-tolerant tree: points that can be run alone, and a report of their rows."""

from msgspec.structs import replace

from holdfast.experiments.delta import NODES, DeltaPoint, run
from holdfast.experiments.delta_report import PRINTED, SLIPS, report


def test_table_1_is_as_in_the_paper_but_for_its_two_slips():
    found = {
        tolerance: dict(zip(NODES, run(DeltaPoint("sets", tolerance)).sets, strict=True)) for tolerance in range(4)
    }
    differ = [(node, at) for node in NODES for at in range(4) if found[at][node] != PRINTED[node][at]]
    assert sorted(differ) == sorted(SLIPS)
    assert (found[1]["N3"], found[0]["S2"]) == ("N2 S4", "N2")


def test_a_publication_takes_one_path_whatever_the_tolerance():
    rows = [run(DeltaPoint("cost", tolerance)) for tolerance in (0, 2)]
    assert [row.copies for row in rows] == [8.0, 8.0]
    assert all(row.kept for row in rows)


def test_a_confirmation_takes_one_way_forth_and_one_back():
    assert [round(run(DeltaPoint("latency", size=hops)).milliseconds) for hops in (1, 4)] == [2, 8]


def test_what_a_broker_knows_of_the_tree_does_not_grow_with_it():
    """4.2 to 4.8: no node keeps anything of nodes further away than delta+1, beyond filters and directions."""
    for tolerance in (1, 2, 3):
        small, large = (run(DeltaPoint("state", tolerance, size=size)) for size in (511, 4095))
        assert large.links == small.links
        assert large.header_bytes <= small.header_bytes + 4 * (tolerance + 1)


def test_a_broker_that_returns_is_operational_again():
    row = run(DeltaPoint("recovery", size=20))
    assert row.kept
    assert row.milliseconds > 0


def test_covering_leaves_fewer_filters_to_match_and_the_same_recipients():
    off, on = (run(DeltaPoint("filters", size=500, mode=mode)) for mode in ("off", "covering"))
    assert off.matching is not None
    assert on.matching is not None
    assert on.kept
    assert on.matching.known == off.matching.known
    assert on.matching.matched < off.matching.matched / 3
    assert on.matching.evaluated < off.matching.evaluated


def test_a_report_is_made_of_rows_and_names_broken_runs():
    rows = [run(DeltaPoint("sets", tolerance)) for tolerance in range(4)] + [
        run(DeltaPoint("state", size=size)) for size in (15, 63)
    ]
    made = report([*rows, replace(rows[-1], kept=False, complaint="lost")])
    assert [table.name for table in made.tables] == [
        *("table-1", "cost", "latency", "state", "recovery", "filters", "rows"),
    ]
    assert "(paper: N1 S4)" in str(made.tables[0].rows)
    assert len(made.broken) == 1
    assert made.figures[0].svg.startswith("<svg")
