"""The search through small worlds: how far it goes, what it leaves out, and how it is divided, stopped and resumed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.cluster.exploration import explore_tasks, read_journal
from holdfast.model.errors import ConfigError
from holdfast.simulation.exploring import machines
from holdfast.simulation.exploring.canonical import AS_IT_IS, Renaming, digest_of
from holdfast.simulation.exploring.foresight import NOBODY, Foresight, Prospect
from holdfast.simulation.exploring.judging import Judge
from holdfast.simulation.exploring.plans import Plan, plan_of, small_plan, staged
from holdfast.simulation.exploring.search import Bounds, Search, key_of, moves_of, walk
from holdfast.simulation.exploring.stories import play, read_step, step_text
from holdfast.simulation.exploring.tasks import Report, Task, divided, joined, run_task, search
from holdfast.simulation.exploring.worlds import Budget, Move, Stage, World
from holdfast.simulation.faults import Publish, Subscribe
from holdfast.simulation.scenarios import parse_scenario


def unwatched(_done: int, _all: int) -> None: ...


SMALL = small_plan("ginger", 2, 2, 1)
TWO_MESSAGES = small_plan("ginger", 2, 2, 2)
A_CRASH_ANYWHERE = Plan(
    "0-1",
    "ginger",
    1,
    {"a@1": (Publish("a", "t", b"x", "causal"),), "b@0": (Subscribe("b", "t"),)},
    Budget(crashes=1),
)
CRASH = Plan(
    "0-1",
    "ginger",
    1,
    {"a@1": (Publish("a", "t", b"x", "causal"),), "b@0": (Subscribe("b", "t"),)},
    Budget(crashes=1),
    ("1",),
)

A_TOTAL_ACROSS_A_CRASH = Plan(
    "0-1 0-2",
    "ginger",
    1,
    {"a@1": (Publish("a", "t", b"x", "total", ("k",)),), "b@2": (Subscribe("b", "t"),)},
    Budget(crashes=1),
    ("1",),
)


def final_states(stage: Stage, root: World, bounds: Bounds) -> tuple[set[bytes], int]:
    """The keys of all worlds that are at rest, and how many states were visited."""
    found = set[bytes]()

    class Noting(Judge):
        def complaint(self, stage: Stage, world: World) -> str:
            found.add(key_of(replace(world, budget=replace(world.budget, victims=()))))
            return super().complaint(stage, world)

    result = Search(stage, Noting(), bounds).run(root)
    assert result.complete
    return found, result.states


def final_histories(stage: Stage, root: World, bounds: Bounds) -> tuple[set[bytes], int]:
    """What clients got in all worlds that are at rest, whatever their names, and how many states were visited."""
    found = set[bytes]()
    renamings = [AS_IT_IS, *map(Renaming, stage.symmetries)]

    class Noting(Judge):
        def complaint(self, stage: Stage, world: World) -> str:
            rows = {name: state.rows for name in stage.clients if (state := stage.state(world, name)) is not None}
            found.add(min(digest_of((rows, stage.waits(world)), renaming) for renaming in renamings))
            return super().complaint(stage, world)

    result = Search(stage, Noting(), bounds).run(root)
    assert result.complete
    return found, result.states


@pytest.mark.parametrize(
    "plan",
    [
        SMALL,
        small_plan("ginger", 1, 2, 2),
        small_plan("barriers", 2, 2, 2),
        small_plan("cbcast", 2, 2, 1),
        CRASH,
        A_CRASH_ANYWHERE,
        A_TOTAL_ACROSS_A_CRASH,
        replace(CRASH, scripts={"b@0": (Subscribe("b", "t"),)}, budget=Budget(crashes=1, returns=1)),
        replace(SMALL, budget=Budget(resets=1)),
        replace(CRASH, scripts={"b@0": (Subscribe("b", "t"),)}, budget=Budget(freezes=1), freezable=("1",)),
        replace(CRASH, scripts={"b@0": (Subscribe("b", "t"),)}, budget=Budget(cuts=1)),
    ],
    ids=[
        "ginger",
        "one broker",
        "barriers",
        "cbcast",
        "a crash",
        "a crash anywhere",
        "a total message across a crash",
        "a return",
        "a reset",
        "a freeze",
        "a cut",
    ],
)
def test_a_reduced_search_comes_to_the_same_ends_as_a_full_one(plan: Plan):
    # On one stage: the numbers of states and frames are those of their discovery.
    stage, root = staged(plan)
    reduced, few = final_states(stage, root, Bounds())
    full, many = final_states(stage, root, Bounds(reduced=False))
    assert reduced == full
    assert few <= many


TWINS = Plan(
    "0-1 0-2",
    "ginger",
    0,
    {
        "a@1": (Subscribe("a", "t"), Publish("a", "t", b"x", "total", ("k",))),
        "b@2": (Subscribe("b", "t"), Publish("b", "t", b"y", "total", ("k",))),
    },
)
TRIPLETS = Plan(
    "0",
    "ginger",
    0,
    {
        "p@0": (Publish("p", "t", b"x", "causal"),),
        **{f"{name}@0": (Subscribe(name, "t"),) for name in "abc"},
    },
)


@pytest.mark.parametrize(("plan", "share"), [(TWINS, 0.55), (TRIPLETS, 0.5)], ids=["twins", "triplets"])
def test_of_worlds_that_differ_in_names_one_is_visited_and_all_ends_are_found(plan: Plan, share: float):
    stage, root = staged(plan)
    each, many = final_histories(stage, root, Bounds(reduced=False))
    one_of_each, few = final_histories(stage, root, Bounds(reduced=False, symmetric=True))
    assert one_of_each == each
    assert few < share * many
    assert final_histories(stage, root, Bounds(symmetric=True))[0] == each


def test_names_are_exchanged_only_where_the_plan_stays_what_it_is():
    assert staged(TWINS)[0].symmetries == ({"1": "2", "2": "1", "a": "b", "b": "a", b"x": b"y", b"y": b"x"},)
    assert len(staged(TRIPLETS)[0].symmetries) == 5
    assert staged(SMALL)[0].symmetries == ()


def test_a_reduced_search_visits_fewer_states_where_nothing_fails():
    plan = small_plan("ginger", 2, 2, 2)
    assert search(plan).states < search(plan, Bounds(reduced=False)).states


def test_a_search_that_takes_hosts_for_silent_that_are_not_misses_ends(monkeypatch: pytest.MonkeyPatch):
    stage, root = staged(A_TOTAL_ACROSS_A_CRASH)
    full, _ = final_states(stage, root, Bounds(reduced=False))
    monkeypatch.setattr(Foresight, "of", lambda *_: NOBODY)
    assert final_states(stage, root, Bounds())[0] < full


def test_a_search_is_made_again_until_it_takes_nothing_for_granted_that_is_not_so():
    stage, root = staged(A_TOTAL_ACROSS_A_CRASH)
    again = Search(stage, Judge()).run(root)
    assert again.runs > 1
    once = Search(stage, Judge()).run(root)
    assert once.runs == 1  # What hosts may do was learned on this stage before.
    assert once.states == again.states


def test_what_a_host_may_reach_is_all_that_lies_behind_its_state():
    foresight = Foresight()
    foresight.note(0, 1, Prospect(0b01, 0))
    foresight.note(1, 2, NOBODY)
    foresight.note(2, 1, Prospect(0, 0b10))
    assert foresight.of(1) == NOBODY
    assert foresight.is_wrong()
    foresight.learn()
    assert (foresight.of(0), foresight.of(1), foresight.of(3)) == (Prospect(0b01, 0b10), Prospect(0, 0b10), NOBODY)
    assert not foresight.is_wrong()


def test_every_step_of_a_machine_is_computed_once():
    report = search(small_plan("ginger", 2, 2, 2), Bounds(reduced=False))
    assert report.machine_steps < report.steps / 4


def test_a_machine_that_is_made_again_from_its_inputs_is_in_the_same_state(monkeypatch: pytest.MonkeyPatch):
    expected = search(CRASH)
    monkeypatch.setattr(machines, "LIVE_MAX", 1)
    assert replace(search(CRASH), seconds=0, memory_mb=0) == replace(expected, seconds=0, memory_mb=0)


@pytest.mark.parametrize(
    ("bounds", "stopped_by"),
    [
        (Bounds(depth_max=5), "a depth of 5 steps"),
        (Bounds(states_max=1), "1 states"),
        (Bounds(memory_mb_max=1), "1 MB of memory"),
        (Bounds(seconds_max=1e-9), "1e-09 s"),
    ],
)
def test_a_search_that_a_bound_stopped_says_so(bounds: Bounds, stopped_by: str):
    report = search(SMALL, bounds)
    assert report.stopped_by == stopped_by
    assert not report.complete
    assert report.ok


# -------------------------------------------------------------------------------------------------------------- stories


def test_the_steps_of_a_story_are_read_as_they_are_written():
    stage, world = staged(replace(CRASH, budget=Budget(crashes=1, returns=1, resets=1, early=1)))
    kinds = set[type[Move]]()
    for _ in range(400):
        moves = moves_of(stage, world)
        if not moves:
            break
        for move in moves:
            kinds.add(type(move))
            assert read_step(stage, world, step_text(move)) == move
        # The least common step that there is leads to the most different worlds.
        world = walk(stage, world, [max(moves, key=lambda move: (type(move).__name__, step_text(move)))])
    assert len(kinds) >= 5


def test_a_step_that_cannot_be_taken_is_refused_with_those_that_can():
    stage, world = staged(SMALL)
    with pytest.raises(ConfigError, match=r"cannot happen there; possible are command c0, command c1"):
        read_step(stage, world, "crash 1")


@pytest.mark.parametrize("text", ["fly 1", "timer", "0>1", "reset 1", "crash"])
def test_a_line_that_is_no_step_is_refused(text: str):
    stage, world = staged(SMALL)
    with pytest.raises(ConfigError, match="steps:"):
        read_step(stage, world, text)


def test_a_story_is_a_scenario_that_can_be_played_with_another_protocol():
    plan = small_plan("ginger-locks", 3, 2, 2)
    report = search(plan)
    text = plan.scenario(report.story).toml()
    assert "total" in play(parse_scenario(text)).complaint
    assert play(parse_scenario(text), "ginger").complaint == ""


# ---------------------------------------------------------------------------------------------------------------- plans


def test_a_scenario_with_open_choices_is_explored_whatever_its_times():
    plan = plan_of(
        parse_scenario(
            """
            tree = "0-1"
            tolerance = 1
            at = [
              { time_s = 0, do = "subscribe", client = "b@0", pattern = "t" },
              { time_s = 1, do = "publish", client = "a@1", topic = "t", guarantee = "causal" },
              { time_s = 2, do = "publish", client = "a", topic = "t" },
              { time_s = 3, do = "crash", node = "1" },
              { time_s = 4, do = "recover", node = "1" },
            ]
            """
        )
    )
    assert plan.budget == Budget(crashes=1, returns=1)
    assert plan.mortal == ("1",)
    assert [len(script) for script in plan.scripts.values()] == [1, 2]


def test_a_fault_that_is_not_explored_is_named():
    scenario = parse_scenario('tree = "0-1"\nat = [{ time_s = 0, do = "stop", node = "0" }]')
    with pytest.raises(ConfigError, match="the scenario has 'stop'"):
        plan_of(scenario)


def test_a_scenario_says_who_may_freeze_and_who_may_be_cut_off():
    text = """
    tree = "0-1 1-2"
    at = [
      { time_s = 0, do = "freeze", node = "1" },
      { time_s = 1, do = "thaw", node = "1" },
      { time_s = 2, do = "cut", a = "1", b = "0" },
      { time_s = 3, do = "heal" },
    ]
    """
    plan = plan_of(parse_scenario(text))
    assert plan.budget == Budget(freezes=1, cuts=1)
    assert (plan.freezable, plan.cuttable) == (("1",), (("0", "1"),))


def test_the_faults_of_a_story_are_possible_when_it_is_played():
    plan = replace(SMALL, budget=Budget(0, 0, 1, 1, 1, 1))
    stage, world = staged(plan)
    steps: list[str] = []
    for word in ("command c0", "freeze 1", "thaw 1", "cut 0 1", "heal 0 1", "reset 0 1", "early timer"):
        move = next(one for one in moves_of(stage, world) if step_text(one).startswith(word))
        steps.append(step_text(move))
        world = walk(stage, world, [move])
    assert play(plan.scenario(tuple(steps))).steps == len(steps)


@pytest.mark.parametrize("size", [(0, 1, 1), (1, 0, 1), (1, 1, -1), (17, 1, 1)])
def test_a_world_of_an_impossible_size_is_refused(size: tuple[int, int, int]):
    with pytest.raises(ConfigError, match="cannot be"):
        small_plan("ginger", *size)


def test_sites_are_explored_with_all_their_brokers():
    report = run_task(Task(small_plan("sesdad", 2, 1, 1, replicas=1), Bounds()))
    assert (report.ok, report.complete) == (True, True)
    stage, _ = staged(small_plan("sesdad", 1, 1, 1))
    assert list(stage.machines) == ["0.1", "0.2", "0.3", "c0"]


def test_a_client_of_sites_is_at_one_of_them():
    plan = small_plan("sesdad", 2, 1, 1)
    with pytest.raises(ConfigError, match="name@site, with one of the sites 0, 1"):
        staged(replace(plan, scripts={"c0@0.1": ()}))


# ---------------------------------------------------------------------------------------------------------------- tasks


def test_tasks_together_come_to_all_ends():
    whole = search(TWO_MESSAGES)
    reports = [run_task(task) for task in divided(TWO_MESSAGES, Bounds(), 8)]
    assert len(reports) >= 8
    together = joined(reports)
    assert together.complete
    assert together.depth == whole.depth
    assert together.finals >= whole.finals


def test_a_search_resumes_with_the_tasks_that_its_journal_does_not_have(tmp_path: Path):
    journal = tmp_path / "journal"
    made: list[Task] = []

    def run_all(tasks: list[Task], on_done: Callable[[Task, Report], None]) -> None:
        for task in tasks:
            made.append(task)
            on_done(task, run_task(task))

    def explored() -> tuple[int, bool]:
        made.clear()
        report = joined(explore_tasks(TWO_MESSAGES, Bounds(), 1, journal, unwatched, run_all))
        return len(made), report.complete

    assert explored() == (len(divided(TWO_MESSAGES, Bounds(), 16)), True)
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-3]) + lines[-1][:20])
    assert explored() == (3, True)
    assert explored() == (0, True)


def test_a_journal_of_another_world_is_refused(tmp_path: Path):
    journal = tmp_path / "journal"
    explore_tasks(SMALL, Bounds(), 1, journal, unwatched)
    with pytest.raises(ConfigError, match="is of another world"):
        read_journal(journal, CRASH)
