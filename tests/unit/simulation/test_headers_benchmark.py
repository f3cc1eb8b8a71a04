"""The benchmark that weighs headers: what it weighs on a link is what the wire says of a batch."""

import json
import subprocess
import sys
from pathlib import Path

from holdfast.model.batches import make_batch
from holdfast.model.guarantees import CAUSAL
from holdfast.model.wire import header_bytes

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "headers.py"


def test_the_frames_on_a_link_weigh_what_the_wire_says_and_batches_share_it():
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--messages", "32", "--rate", "10", "--name", "ann", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    said = json.loads(done.stdout)
    costs = {(one["guarantee"], one["batch"]): one for one in said["costs"]}
    # Numbers below 128 take a byte each, so every frame of this run has a header of the same size.
    for size in (1, 16):
        batch = make_batch("ann", 1, "bank/topic1", CAUSAL, [b"x"] * size)
        assert costs["causal", size]["header"] == round(header_bytes(batch) / size, 2)
    assert costs["causal", 1]["order"] < costs["causal", 1]["header"]
    # A total message goes up, and down again.
    assert costs["total", 1]["frames"]["Climb"] == costs["total", 1]["frames"]["Publish"] == 1
    assert costs["total", 1]["header"] > 2 * costs["causal", 1]["header"]
    assert said["header_of_one"]["alice"] == {"1": 20, "1000": 22, "100000": 24, "8589934592": 28}
