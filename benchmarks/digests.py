"""Digests of random runs: whether a change of the sources left every message of every run as it was.

    python benchmarks/digests.py --write FILE [--seeds 24] [--only narada,locamu] [--tolerances 2]
    python benchmarks/digests.py --against FILE

A digest is that of everything that happened in one run in virtual time: every row of its trace, or, for reliable
topics (`narada`), everything that was said on the bus and released to applications, each with its time. The file holds
one line per run. With `--against`, the same runs are made again, and those whose digest differs are listed.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import perf_counter

import msgspec

from holdfast.model.errors import HoldfastError
from holdfast.model.trace import encode_line
from holdfast.protocols.registry import PROTOCOLS
from holdfast.simulation.failures import MOVING, classes_for, tolerance_min
from holdfast.simulation.reliable.author import RELIABLE_CLASSES, ReliableClass
from holdfast.simulation.reliable.swarm import PROTOCOL as NARADA
from holdfast.simulation.reliable.swarm import run_reliable
from holdfast.simulation.reliable.world import ReliableWorld
from holdfast.simulation.workloads import CALM, Trouble, random_scenario

SEEDS = 24
REPAIRING, DEGREE_MAX = "ginger", 3
"""The protocol whose brokers take a tolerance, and how many neighbours they keep where brokers are moved."""
DIGEST_CHARACTERS = 16
BROKEN = (HoldfastError, AssertionError, LookupError, TypeError, ValueError, AttributeError)
"""What ends a run early; a run that ends like that has a digest, too."""


class _HeardWorld(ReliableWorld):
    """A world in which everything that is said on the bus goes into a digest."""

    def __init__(self, *args: object, **settings: object) -> None:
        super().__init__(*args, **settings)  # type: ignore[arg-type]
        self.heard = sha256()
        say = self.medium.publish

        def publish(name: str, effect: object, seq: int) -> int:
            said = say(name, effect, seq)  # type: ignore[arg-type]
            self._hear((self.kernel.now, name, seq, said, msgspec.structs.astuple(effect)))  # type: ignore[arg-type]
            return said

        self.medium.publish = publish  # type: ignore[method-assign]

    def _hear(self, *what: object) -> None:
        self.heard.update(repr(what).encode())

    def digest(self) -> str:
        for name, released in sorted(self.history.releases.items()):
            self._hear(name, [msgspec.structs.astuple(one) for one in released])
        self._hear(self.kernel.now, self.kernel.events)
        return self.heard.hexdigest()[:DIGEST_CHARACTERS]


def reliable_digest(seed: int, failure: ReliableClass) -> str:
    worlds: list[_HeardWorld] = []

    def make(*args: object, **settings: object) -> ReliableWorld:
        worlds.append(_HeardWorld(*args, **settings))
        return worlds[-1]

    run_reliable(seed, failure, make=make)
    return worlds[0].digest()


def broker_digest(seed: int, protocol: str, trouble: Trouble) -> str:
    scenario = random_scenario(seed, protocol, trouble)
    sim, found = scenario.build(), sha256()
    try:
        sim.run_until_quiet(scenario.limit_s)
    except BROKEN as broken:
        found.update(type(broken).__name__.encode())
    for row in sim.events:
        found.update(encode_line(row))
    return found.hexdigest()[:DIGEST_CHARACTERS]


def troubles(protocol: str, tolerances: list[int]) -> Iterator[tuple[str, Trouble]]:
    """What befalls the brokers of a protocol: every class at the least tolerance that it takes, and at these."""
    yield "calm", CALM
    for kind in classes_for(protocol):
        if kind in MOVING and protocol != REPAIRING:
            continue
        least, degree_max = tolerance_min(protocol, kind), DEGREE_MAX if kind in MOVING else 0
        yield kind, Trouble(failure=kind, tolerance=least, degree_max=degree_max)
        for tolerance in tolerances if protocol == REPAIRING else ():
            if tolerance > least:
                yield f"{kind}:{tolerance}", Trouble(failure=kind, tolerance=tolerance, degree_max=degree_max)


def runs(protocols: list[str], seeds: int, tolerances: list[int]) -> Iterator[tuple[str, Callable[[], str]]]:
    """The name of each run, and how its digest is found."""
    for protocol in protocols:
        if protocol == NARADA:
            for failure in RELIABLE_CLASSES:
                for seed in range(seeds):
                    yield f"{protocol} {failure} {seed}", partial(reliable_digest, seed, failure)
            continue
        for kind, trouble in troubles(protocol, tolerances):
            for seed in range(seeds):
                yield f"{protocol} {kind} {seed}", partial(broker_digest, seed, protocol, trouble)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--only", default="", help="Protocols, separated by commas.")
    parser.add_argument("--tolerances", default="", help="Of ginger, besides the least of each class.")
    arguments = parser.parse_args()
    known = _read(arguments.against) if arguments.against else None
    protocols = [one for one in arguments.only.split(",") if one] or [NARADA, *PROTOCOLS]
    tolerances = [int(one) for one in arguments.tolerances.split(",") if one]
    began = perf_counter()
    made = runs(protocols, arguments.seeds, tolerances)
    found = {name: digest() for name, digest in made if known is None or name in known}
    differing = [name for name, digest in found.items() if known is not None and known[name] != digest]
    if arguments.write:
        arguments.write.write_text("".join(f"{name} {digest}\n" for name, digest in found.items()))
    print(f"{len(found)} runs in {perf_counter() - began:.0f} s, {len(differing)} differ", *differing, sep="\n")
    if differing:
        sys.exit(1)


def _read(path: Path) -> dict[str, str]:
    return {name: digest for line in path.read_text().splitlines() for name, _, digest in [line.rpartition(" ")]}


if __name__ == "__main__":
    main()
