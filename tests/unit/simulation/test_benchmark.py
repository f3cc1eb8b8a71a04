"""The benchmark against SimPy: that its models agree and that it says what it measured."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "simulator.py"


def test_the_same_relay_model_makes_the_same_hops_in_each_simulator():
    # The benchmark itself refuses to report anything if the numbers of hops differ.
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--messages", "30", "--depth", "4", "--rounds", "1", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    figures = json.loads(done.stdout)
    assert set(figures["hops_per_s"]) == {"holdfast", "simpy", "simpy-callbacks"}
    assert set(figures["ratio_to"]) == {"simpy", "simpy-callbacks"}
    assert figures["relays"] == 15
    assert min(figures["hops_per_s"].values()) > 0
