"""What becomes of measurements of what is kept: medians, and goals."""

from holdfast.cluster.bench.bare import bare_in_kind
from holdfast.cluster.bench.durable_cells import DurableCell, DurableSample, cluster_of
from holdfast.cluster.bench.durable_plan import CELLS, FSYNCED, PEER_GOALS, REDIS, goals_of, result_of
from holdfast.model.reliable import Level


def test_every_goal_is_among_the_measurements_and_none_is_there_twice():
    assert len({cell.title for cell in CELLS}) == len(CELLS)
    for _, ours, peer, _ in PEER_GOALS:
        assert ours in CELLS
        assert peer in CELLS


def test_a_median_keeps_the_ratio_of_its_own_run():
    cell = DurableCell("holdfast", store="segments")
    # The machine was half as fast the second time, for both.
    result = result_of(cell, [DurableSample(90.0, 10, 100.0), DurableSample(45.0, 10, 50.0)])
    assert result.of_bare == 0.9
    assert result.per_s == 67.5


def test_goals_against_bare_loops_and_against_peers():
    ours = result_of(FSYNCED, [DurableSample(300.0, 10, 400.0)])
    redis = result_of(REDIS, [DurableSample(100.0)])
    alone = result_of(DurableCell("holdfast", store="sqlite"), [DurableSample(50.0, 10, 100.0)])
    goals = {goal.title: goal for goal in goals_of([ours, redis, alone])}
    assert goals["fsynced, 1 KiB, against Redis Streams with fsync"].met
    assert goals["fsynced in sqlite, 1 KiB, against the bare loop"].ratio == 0.5
    assert not goals["fsynced in sqlite, 1 KiB, against the bare loop"].met
    assert len(goals) == 2


def test_what_is_held_by_two_brokers_needs_no_repository():
    held = cluster_of(DurableCell("holdfast", "held"))
    assert (len(held.brokers), held.tolerance, held.repositories) == (3, 1, ())
    [kept] = cluster_of(DurableCell("holdfast", "written", store="sqlite")).repositories
    assert kept.level is Level.WRITTEN
    assert kept.store.startswith("sqlite:")


def test_a_bare_loop_writes_everything_and_leaves_nothing(tmp_path):
    for kind in ("sqlite", "segments"):
        with bare_in_kind(kind, tmp_path, Level.FSYNCED) as write:
            write([b"a" * 100, b"b" * 50])
            assert sum(file.stat().st_size for file in tmp_path.iterdir()) >= 150
        assert not [file for file in tmp_path.iterdir() if file.suffix in (".db", ".log")]
