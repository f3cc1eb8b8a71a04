"""Simulations as Spark tasks beside the same simulations one after the other.

    .venv/bin/python benchmarks/sweeps.py [--runs 200] [--run-s 0.5] [--master 'local[2]'] [--json]

A task is a number of random runs of the swarm, chosen so that it takes about half a second here. Both sides do the same
runs in the same order of seeds and must find the same; the start of Spark is named beside the ratio, not in it.
"""

import argparse
import json
import os
from functools import partial
from time import monotonic, process_time

from holdfast.cluster.campaign import Kind, run_seed
from holdfast.pipeline.session import spark_session
from holdfast.pipeline.sweeps import run_sweep

KIND = Kind("ginger")
GOAL = 1.7


def task(runs_each: int, number: int) -> list[int]:
    """The deliveries of `runs_each` runs of the swarm."""
    seeds = range(number * runs_each + 1, (number + 1) * runs_each + 1)
    return [run_seed(KIND, seed).deliveries for seed in seeds]


def runs_for(task_s: float) -> int:
    """How many runs take that long, by the processor's time: the machine may be busy with other things."""
    began, runs = process_time(), 0
    while process_time() - began < 2.0:
        runs += 1
        run_seed(KIND, runs)
    return max(round(task_s / ((process_time() - began) / runs)), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="tasks")
    parser.add_argument("--run-s", type=float, default=0.5, help="seconds that a task takes, about")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    once = partial(task, runs_for(given.run_s))
    numbers = range(given.runs)
    began = monotonic()
    in_sequence = [once(number) for number in numbers]
    sequence_s = monotonic() - began
    began = monotonic()
    with spark_session(given.master, quick=True) as spark:
        # The first job of a session also starts the Python workers.
        run_sweep(spark, once, range(2), list[int], lambda *_: None)
        start_s = monotonic() - began
        began = monotonic()
        on_spark: list[list[int]] = []
        run_sweep(spark, once, numbers, list[int], lambda _, found: on_spark.append(found))
        spark_s = monotonic() - began
    assert on_spark == in_sequence, "the runs on Spark came to something else"
    found = {
        "tasks": given.runs,
        "task_s": round(sequence_s / given.runs, 3),
        "sequence_s": round(sequence_s, 2),
        "spark_s": round(spark_s, 2),
        "start_s": round(start_s, 2),
        "ratio": round(sequence_s / spark_s, 2),
        "goal": GOAL,
        # With more than a few others waiting for the same cores the ratio says nothing.
        "load": round(os.getloadavg()[0], 1),
    }
    if given.json:
        print(json.dumps(found))
    else:
        print("\n".join(f"{name:12} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
