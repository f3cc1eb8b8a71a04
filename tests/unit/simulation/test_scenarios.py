"""Scenario files: what they can say, and what is said about those that cannot be."""

import re
from pathlib import Path

import pytest

from holdfast.model.errors import ConfigError
from holdfast.simulation.faults import Crash, Publish, Subscribe, When
from holdfast.simulation.latencies import Constant, Uniform
from holdfast.simulation.network import LinkSettings
from holdfast.simulation.scenarios import Scenario, Timed, load_scenario, parse_scenario
from holdfast.simulation.workloads import FAULT_KINDS, Trouble, random_scenario

SMALL = """
tree = "0-1"
[[at]]
time_s = 0
do = "subscribe"
client = "bob@1"
pattern = "a"
[[at]]
time_s = 1
do = "publish"
client = "alice@0"
topic = "a"
payload = "x{n}"
guarantee = "causal"
count = 3
every_s = 0.5
"""


def test_a_timetable_is_read_with_its_repetitions():
    scenario = parse_scenario(SMALL)
    assert scenario.timetable == (
        Timed(0.0, Subscribe("bob@1", "a")),
        Timed(1.0, Publish("alice@0", "a", b"x1", "causal")),
        Timed(1.5, Publish("alice@0", "a", b"x2", "causal")),
        Timed(2.0, Publish("alice@0", "a", b"x3", "causal")),
    )


def test_a_scenario_runs_with_its_own_protocol_and_seed_or_with_others():
    scenario = parse_scenario(SMALL + "[expect]\ndelivered = { bob = 3 }")
    sim = scenario.build("ginger-locks", seed=5)
    assert (sim.protocol, sim.seed) == ("ginger-locks", 5)
    assert (scenario.build().protocol, scenario.build().seed) == ("ginger", 0)
    sim.run_until_quiet(scenario.limit_s)
    assert scenario.complaints(sim, sim.check()) == []


def test_networks_links_and_nested_faults_are_read():
    scenario = parse_scenario(
        SMALL
        + """
[[at]]
time_s = 2
do = "when"
node = "1"
sends = "TotalMarker"
count = 2
fault = { do = "crash", node = "1" }
[network]
latency = { kind = "constant", ms = 3 }
[[link]]
between = ["0", "1"]
factor = 2.0
latency = { kind = "uniform", low_ms = 1, high_ms = 2 }
[session]
window_bytes = 5000
"""
    )
    assert scenario.timetable[-1] == Timed(2.0, When("1", "TotalMarker", Crash("1"), 2))
    assert scenario.network.latency == Constant(3.0)
    assert scenario.network.links == (LinkSettings(("0", "1"), Uniform(1.0, 2.0), 2.0),)
    assert scenario.session.window_bytes == 5000


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tree = ", "test is not TOML: Invalid value (at end of document)."),
        ("", "test: the key 'tree' is missing."),
        ("tree = 5", "test.tree: expected str, got int."),
        ("tree = '0-1 1-0'", "test: tree: broker 0 is its own ancestor"),
        ("tree = '0'\nlimits = 5", "test: unknown key 'limits' (did you mean 'limit_s'?); legal are tree, name"),
        ("tree = '0'\nlimit_s = 0", "test.limit_s: expected float > 0.0."),
        ("tree = '0'\nprotocol = 'gin'", "test: unknown protocol 'gin': choose one of ginger"),
        ("tree = '0'\nnetwork = 5", "test.network: expected object, got int."),
        ("tree = '0'\n[network]\nlatencies = 5", "network: unknown key 'latencies' (did you mean 'latency'?)"),
        ("tree = '0'\n[network]\nlatency = 5", "network.latency: expected object, got int."),
        (
            "tree = '0'\n[network]\nlatency = { kind = 'unform' }",
            "latency.kind: 'unform' is none of constant, uniform, exponential, lognormal (did you mean 'uniform'?).",
        ),
        (
            "tree = '0'\n[network]\nlatency = { kind = 'uniform', low = 3 }",
            "network.latency: unknown key 'low' (did you mean 'low_ms'?); legal are kind, low_ms, high_ms.",
        ),
        ("tree = '0'\n[network]\nlinks = []", "network: unknown key 'links'"),
        ("tree = '0'\n[[link]]\nbetween = ['0']", "link[0].between: expected array of length 2, got 1."),
        ("tree = '0'\n[session]\nwindow = 5", "session: unknown key 'window' (did you mean 'window_bytes'?)"),
        ("tree = '0'\n[disk]\nwrite_ms = -1", "disk.write_ms: expected float >= 0.0."),
        ("tree = '0'\n[[client]]\nconsume_ms = 1", "client[0]: the key 'client' is missing."),
        ("tree = '0'\n[[at]]\ndo = 'crash'", "at[0]: the key 'time_s' is missing."),
        ("tree = '0'\n[[at]]\ntime_s = 1", "at[0].do: the key is missing; choose one of crash"),
        ("tree = '0'\n[[at]]\ntime_s = 1\ndo = 'crush'", "at[0].do: 'crush' is none of"),
        ("tree = '0'\n[[at]]\ntime_s = 1\ndo = 'crush'", "(did you mean 'crash'?)"),
        ("tree = '0'\n[[at]]\ntime_s = 1\ndo = 'crash'", "at[0]: the key 'node' is missing."),
        ("tree = '0'\n[[at]]\ntime_s = 1\ndo = 'crash'\nnode = 0", "at[0].node: expected str, got int."),
        ("tree = '0'\n[[at]]\ntime_s = 'x'\ndo = 'heal'", "at[0].time_s: expected float, got str."),
        ("tree = '0'\n[[at]]\ntime_s = 1\ndo = 'heal'\ncount = 2", "at[0]: unknown key 'count'"),
        ("tree = '0'\n[[at]]\ntime_s = 1\ndo = 'crash'\nnod = '0'", "unknown key 'nod' (did you mean 'node'?)"),
        ("tree = '0'\n[[at]]\ntime_s = 1\ndo = 'crash'\nnode = '5'", "at 1 s, crash: there is no broker or client '5'"),
        (
            "tree = '0'\n[[at]]\ntime_s = 1\ndo = 'publish'\nclient = 'a@0'\ntopic = 'x/#'",
            "at 1 s, publish: Topic 'x/#' has a wildcard",
        ),
        ("tree = '0'\n[[load]]\nclients = []", "load[0]"),
        (
            "tree = '0'\n[[load]]\nclients = ['a@0']\ntopic = 't'\ncount = 5\nevery_s = 1\nmix = { best = 1 }",
            "test: unknown guarantee 'best'",
        ),
        (
            "tree = '0'\n[[load]]\nclients = ['a@0']\ntopic = 't'\ncount = 1\nevery_s = 1\nmix = { fifo = 0 }",
            "test: load[0].mix: some share must be above 0.",
        ),
        ("tree = '0'\n[expect]\nok = 'yes'", "expect.ok: expected bool, got str."),
        ("tree = '0'\n[expect]\ndelivered = { bob = 3 }", "expect: there is no client 'bob'"),
        ("tree = '0'\n[[at]]\ntime_s = 1\ndo = 'when'\nnode='0'\nsends='Ping'\nfault={do='publish'}", "at[0].fault.do"),
    ],
)
def test_what_is_wrong_is_said_with_the_name_of_its_key(text: str, complaint: str):
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        parse_scenario(text, "test")


def test_a_scenario_that_is_too_long_is_refused():
    text = "tree = '0'\n[[load]]\nclients = ['a@0', 'b@0']\ntopic = 't'\ncount = 1_000_000\nevery_s = 1\n"
    with pytest.raises(ConfigError, match="2000000 publications and faults are too many"):
        parse_scenario(text)


def test_files_that_cannot_be_read_are_refused_in_a_sentence(tmp_path: Path):
    with pytest.raises(ConfigError, match="There is no scenario file"):
        load_scenario(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_scenario(tmp_path)
    (tmp_path / "bad.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"is not UTF-8 text \(byte 0\)"):
        load_scenario(tmp_path / "bad.toml")


def test_a_scenario_has_its_files_name_and_says_how_to_run_it_again(tmp_path: Path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    scenario = load_scenario(path)
    assert scenario.name == "small"
    assert scenario.build(seed=9).replay == f"holdfast simulate {path} --protocol ginger --seed 9"


@pytest.mark.parametrize(
    ("expect", "complaint"),
    [
        ("ok = false", "expected ok = False"),
        ("deliveries = 2", "expected 2 deliveries, but there were 3"),
        ("delivered = { bob = 4 }", "expected 4 deliveries to bob, but there were 3"),
        ("order = { bob = ['x1', 'x3'] }", "expected bob to get x1, x3"),
        ("failures = 1", "expected 1 failures, but there were []"),
    ],
)
def test_a_run_that_is_not_as_expected_is_complained_about(expect: str, complaint: str):
    scenario = parse_scenario(f"{SMALL}[expect]\n{expect}")
    sim = scenario.build()
    sim.run_until_quiet()
    [found] = scenario.complaints(sim, sim.check())
    assert found.startswith(complaint)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_written_down_is_what_is_read_back(seed: int):
    scenario = random_scenario(seed, trouble=Trouble(FAULT_KINDS))
    assert parse_scenario(scenario.toml()) == scenario


def test_a_load_is_spread_over_time_guarantees_and_keys():
    text = (
        "tree = '0'\n"
        "[[load]]\nclients = ['a@0', 'b@0']\ntopic = 't'\ncount = 200\nevery_s = 0.1\nstart_s = 5\n"
        "mix = { eventual = 1, total = 3 }\nkeys = 3\nkeys_each = 2\npayload_bytes = 10\n"
        "[[at]]\ntime_s = 0\ndo = 'subscribe'\nclient = 'a@0'\npattern = 't'\n"
    )
    scenario = parse_scenario(text)
    sim = scenario.build()
    sim.run_until_quiet(scenario.limit_s)
    messages = sim.deliveries("a")
    assert len(messages) == 400
    assert {len(message.payload) for message in messages} == {10}
    assert {message.guarantee for message in messages} == {"eventual", "total"}
    assert 250 < sum(message.guarantee == "total" for message in messages) < 350
    assert {key for message in messages for key in message.keys} == {"k0", "k1", "k2"}
    assert {len(message.keys) for message in messages} == {1, 2}
    assert 20 < sim.now < 35


def test_scenarios_are_values():
    assert parse_scenario(SMALL) == parse_scenario(SMALL)
    assert Scenario("0") != Scenario("1")
