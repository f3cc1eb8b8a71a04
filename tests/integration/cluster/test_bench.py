"""The bench with tiny measurements: that each system is measured, and that nothing is left behind."""

import json

import pytest

from holdfast.cluster.bench.nats_core import find_server
from tests.integration.cluster.terminal import Terminal


def measured(terminal: Terminal, only: str) -> dict[str, dict[str, float]]:
    ran = terminal.run("bench", "--quick", "--seconds", 0.05, "--only", only, "--json")
    assert ran.returncode == 0, ran.stderr
    return {one["title"]: one["median"] for one in json.loads(ran.stdout)["cells"]}


def test_the_floor_is_measured_and_leaves_nothing_behind(terminal: Terminal):
    found = measured(terminal, "floor, 3 relays, 1 KiB")
    assert found["floor, 3 relays, 1 KiB"]["delivered_per_s"] > 0
    assert list(terminal.directory.iterdir()) == []


def test_holdfast_is_measured_at_full_speed(terminal: Terminal):
    found = measured(terminal, "holdfast, 3 brokers, 32 B, total")
    assert found["holdfast, 3 brokers, 32 B, total"]["delivered_per_s"] > 0


def test_latency_is_measured_with_a_subscriber_that_gets_stamped_messages(terminal: Terminal):
    ran = terminal.run("bench", "--quick", "--seconds", 0.2, "--only", "holdfast, 1 broker, 1 KiB, causal", "--json")
    cells = json.loads(ran.stdout)["cells"]
    [paced] = [one["median"] for one in cells if one["cell"]["paced"]]
    assert 0 < paced["p50_us"] <= paced["p99_us"]
    four = next(one for one in cells if one["cell"]["subscribers"] == 4)
    assert four["median"]["delivered_per_s"] > 0


@pytest.mark.skipif(find_server() is None, reason="nats-server and nats-py are in the extra `bench`")
def test_nats_is_measured_beside_us(terminal: Terminal):
    assert measured(terminal, "nats, 1 server, 32 B")["nats, 1 server, 32 B"]["delivered_per_s"] > 0


def test_the_table_is_for_people(terminal: Terminal):
    ran = terminal.run("bench", "--quick", "--seconds", 0.05, "--only", "floor, 1 relay, 32 B")
    assert ran.returncode == 0, ran.stderr
    assert "floor, 1 relay, 32 B" in ran.stdout
    assert "one repetition" in ran.stderr


def test_what_repositories_keep_is_measured_beside_a_bare_loop(terminal: Terminal):
    ran = terminal.run("bench", "--durable", "--quick", "--seconds", 0.1, "--only", "written in segments, 8", "--json")
    assert ran.returncode == 0, ran.stderr
    [found] = json.loads(ran.stdout)["cells"]
    assert found["title"] == "holdfast, written in segments, 8 KiB"
    assert found["per_s"] > 0
    assert found["bare_per_s"] > 0
    assert list(terminal.directory.iterdir()) == []
