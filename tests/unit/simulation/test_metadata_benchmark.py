"""The benchmark that weighs what each copy costs, by protocol."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "metadata.py"


def costs(*options: str) -> dict[str, dict[str, Any]]:
    done = subprocess.run([sys.executable, BENCHMARK, "--json", *options], check=True, capture_output=True, text=True)
    return {one["protocol"]: one for one in json.loads(done.stdout)}


def test_every_protocol_is_weighed_on_the_same_messages():
    small = ("--brokers", "15", "--publishers", "15", "--rounds", "3")
    one, many = costs(*small), costs(*small, "--groups", "subtrees")
    assert list(one) == ["cbcast", "barriers", "delta-neighbourhood", "locamu"]
    assert {cost["deliveries"] for cost in one.values()} == {15 * 15 * 3}
    assert {cost["copies"] for cost in one.values()} == {15 * 14 * 3}
    assert one["barriers"]["thesis"] == max(cost["thesis"] for cost in one.values())
    assert one["delta-neighbourhood"]["wire"] == min(cost["wire"] for cost in one.values())
    # Clocks are kept by group, ways and barriers are not.
    assert many["cbcast"]["wire"] > 1.2 * one["cbcast"]["wire"]
