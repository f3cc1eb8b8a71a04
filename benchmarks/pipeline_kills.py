"""Exactly once under kill -9: a job that archives and publishes a stream is killed at random moments and started again.

    .venv/bin/python -m benchmarks.pipeline_kills [--kills 100] [--seed 1] [--minutes 60] [--json]

A kill comes at the moment when a random number of messages more has reached a subscriber. Of ten kills eight hit
Spark's Python workers, one the program and its Java (workers go on until they notice, and publish into the next life),
one everything at once. At the end the files of the archive are read as they lie, and what the subscriber heard is
counted: duplicates, losses, and publishers whose numbers came in another order. Exit code 1 if there is any.
"""

import argparse
import json
import math
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from time import perf_counter

from tests.integration.pipeline.killing import kill_and_restart


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="kill for so long at most")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    began = perf_counter()
    with tempfile.TemporaryDirectory() as place:
        outcome = kill_and_restart(
            Path(place), given.kills, given.seed, lambda line: print(line, file=sys.stderr), 60 * given.minutes
        )
    if given.json:
        print(json.dumps({"seed": given.seed, "seconds": round(perf_counter() - began), **asdict(outcome)}))
    else:
        kinds = ", ".join(f"{count} of {kind}" for kind, count in outcome.kills.items())
        print(f"{sum(outcome.kills.values())} kills (seed {given.seed}): {kinds}; {perf_counter() - began:.0f} s")
        for name, count in (("archived", outcome.archived), ("published", outcome.published)):
            print(
                f"  {name:9} {count.messages} messages: {count.duplicates} duplicates, {count.losses} losses, "
                f"{count.out_of_order} publishers out of order"
            )
    sys.exit(0 if outcome.archived.is_exact and outcome.published.is_exact else 1)


if __name__ == "__main__":
    main()
