"""Commands that need no broker: what they print, and what their exit code says."""

import json
from pathlib import Path

import pytest

from holdfast import __version__
from holdfast.model.trace import Event
from holdfast.storage.traces import write_trace
from tests.unit.cli.command_line import CommandLine

COMMANDS = (
    "demo",
    "up",
    "status",
    "down",
    "broker",
    "crash",
    "freeze",
    "thaw",
    "restart",
    "cut",
    "heal",
    "why",
    "pub",
    "sub",
    "simulate",
    "campaign",
    "explore",
    "night",
    "audit",
    "bench",
    "experiment",
    "protocols",
)

SCENARIO = """
tree = "0-1"
[[at]]
time_s = 0
do = "subscribe"
client = "bob@1"
pattern = "orders"
[[at]]
time_s = 1
do = "publish"
client = "alice@0"
topic = "orders"
payload = "order {n}"
guarantee = "causal"
count = 3
[expect]
delivered = { bob = 3 }
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "three-orders.toml"
    path.write_text(SCENARIO)
    return path


def test_the_version_is_the_packages(holdfast: CommandLine):
    assert holdfast("--version") == (0, f"holdfast {__version__}\n", "")


def test_without_a_command_the_help_lists_them_all(holdfast: CommandLine):
    ran = holdfast()
    assert ran.code == 0
    for command in COMMANDS:
        assert f" {command} " in ran.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_with_an_example(holdfast: CommandLine, command: str):
    ran = holdfast(command, "--help")
    assert ran.code == 0
    assert "Example" in ran.out
    assert f"holdfast {command}" in ran.out.split("Example")[1]


def test_the_protocols_are_listed_with_their_guarantees(holdfast: CommandLine):
    ran = holdfast("protocols", "--json")
    listed = {one["name"]: one for one in json.loads(ran.out)}
    assert listed["ginger"]["guarantees"] == ["eventual", "fifo", "causal", "total"]
    assert listed["ginger"]["tolerance"]
    text = holdfast("protocols").out
    assert "ginger" in text
    assert "tolerates" in text


def test_a_scenario_that_goes_well_ends_with_zero_and_its_verdict(holdfast: CommandLine, scenario: Path):
    ran = holdfast("simulate", scenario, "--json")
    assert ran.code == 0
    result = json.loads(ran.out)
    assert (result["ok"], result["deliveries"], result["scenario"]) == (True, 3, "three-orders")
    assert "3" in holdfast("simulate", scenario).out


def test_one_seed_gives_one_trace(holdfast: CommandLine, scenario: Path, tmp_path: Path):
    for directory in ("one", "two"):
        assert holdfast("simulate", scenario, "--seed", 7, "--trace", tmp_path / directory).code == 0
    assert (tmp_path / "one" / "trace.jsonl").read_bytes() == (tmp_path / "two" / "trace.jsonl").read_bytes()


def test_a_scenario_that_is_not_as_expected_ends_with_one(holdfast: CommandLine, scenario: Path):
    scenario.write_text(SCENARIO.replace("bob = 3", "bob = 4"))
    ran = holdfast("simulate", scenario)
    assert ran.code == 1
    assert "not as expected: expected 4 deliveries to bob, but there were 3" in ran.out


def test_a_trace_is_judged_by_audit(holdfast: CommandLine, scenario: Path, tmp_path: Path):
    holdfast("simulate", scenario, "--trace", tmp_path / "trace")
    ran = holdfast("audit", tmp_path / "trace", "--json")
    assert (ran.code, json.loads(ran.out)) == (
        0,
        {
            "ok": True,
            "deliveries": 3,
            "lost": 0,
            "duplicated": 0,
            "created": 0,
            "fifo": 0,
            "causal": 0,
            "total": 0,
            "examples": [],
        },
    )


def test_a_trace_with_a_repeat_fails_its_audit(holdfast: CommandLine, tmp_path: Path):
    def row(node: str, index: int, event: str) -> Event:
        return Event("r", node, index, index, event, "a", 1, "t", guarantee="fifo")

    events = [row("a", 1, "publish"), row("b", 2, "deliver"), row("b", 3, "deliver")]
    write_trace(tmp_path, [Event("r", "b", 0, 0, "subscribe", topic="t"), *events])
    ran = holdfast("audit", tmp_path, "--json")
    verdict = json.loads(ran.out)
    assert (ran.code, verdict["ok"], verdict["duplicated"]) == (1, False, 1)
    assert "duplicated" in holdfast("audit", tmp_path).out


def test_a_campaign_without_violations_ends_with_zero(holdfast: CommandLine):
    ran = holdfast("campaign", "--seeds", "1..3", "--json")
    result = json.loads(ran.out)
    assert (ran.code, result["ok"], result["runs"], result["violations"]) == (0, True, 3, [])


def test_an_explored_world_says_how_far_it_was_searched(holdfast: CommandLine):
    ran = holdfast("explore", "--brokers", "1", "--clients", "2", "--messages", "1")
    assert ran.code == 0
    assert ran.out.endswith("all states, no violation\n")


def test_the_story_of_a_violation_is_played_again(holdfast: CommandLine, tmp_path: Path):
    story = tmp_path / "story.toml"
    found = ("--protocol", "ginger-locks", "--brokers", "3", "--clients", "2", "--messages", "2")
    ran = holdfast("explore", *found, "--out", str(story), "--json")
    assert ran.code == 1
    assert len(json.loads(ran.out)["story"]) == 31
    again = holdfast("simulate", str(story), "--trace", str(tmp_path / "trace"), "--json")
    assert again.code == 1
    assert json.loads(again.out)["total"] == 1
    assert holdfast("audit", str(tmp_path / "trace"), "--json").code == 1
    assert holdfast("simulate", str(story), "--protocol", "ginger").code == 0


def test_a_campaign_varies_the_share_of_total_messages_where_it_can(holdfast: CommandLine):
    assert holdfast("campaign", "--seeds", "1..2", "--totals", "60..70").code == 0
    for options in (("--totals", "70..5"), ("--totals", "5..101"), ("--totals", "some")):
        assert "--totals takes two percentages" in holdfast("campaign", "--seeds", "1", *options).err
    assert "has no --totals" in holdfast("campaign", "--protocol", "narada", "--totals", "5..70").err


def test_a_campaign_prints_the_command_that_repeats_a_violation(holdfast: CommandLine):
    ran = holdfast("campaign", "--protocol", "ginger-locks", "--seeds", "1..8", "--json")
    violations = json.loads(ran.out)["violations"]
    assert ran.code == 1
    first = violations[0]
    assert first["replay"] == f"holdfast campaign --protocol ginger-locks --seeds {first['seed']}..{first['seed']}"
    again = holdfast(*first["replay"].split()[1:])
    assert again.code == 1
    assert first["replay"] in again.out
    assert "1 broken" in again.out
