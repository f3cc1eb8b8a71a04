"""A campaign over everything, for as many hours as there are: every protocol, class of failures and tolerance in turn.

A *round* makes a few runs of every kind. Seeds go on where the table ends, so no run is made twice, and a night that
was interrupted goes on. The table has a row for every block of runs: on which commit, of which kind, from which seed
to which, and how many were broken. A run that is broken is made small, and kept as a scenario.
"""

import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import monotonic

import msgspec
from msgspec import Struct

from holdfast.cluster.campaign import Kind, RunResult, run_campaign
from holdfast.model.errors import ConfigError
from holdfast.protocols.registry import PROTOCOLS
from holdfast.simulation.failures import MOVING, TOLERANCE_MIN, classes_for
from holdfast.simulation.reliable.author import RELIABLE_CLASSES
from holdfast.simulation.reliable.swarm import PROTOCOL as NARADA
from holdfast.simulation.shrinking import shrink
from holdfast.simulation.workloads import FAULT_KINDS, Trouble, random_scenario

BLOCK = 40
"""Runs of one kind in a round."""
FIRST_SEED = 50_000_001
"""Nights have seeds of their own, far from those of campaigns that somebody makes by hand."""
TOLERANCES = (1, 2)
BROKEN_BY_DESIGN = ("ginger-locks",)
SHRINK_ATTEMPTS_MAX = 400


class NightRow(Struct, frozen=True):
    """One block of runs."""

    commit: str
    kind: str
    first: int
    last: int
    runs: int
    deliveries: int
    broken: tuple[int, ...]
    """The seeds of runs that were broken."""
    seconds: float


MakeRuns = Callable[[Kind, range, Callable[[RunResult], None]], None]


def kinds(protocols: Iterable[str] = ()) -> list[tuple[str, Kind]]:
    """Every kind of random run with its name: those of the protocols, or of all that are meant to hold."""
    wanted = list(protocols) or [*(name for name in PROTOCOLS if name not in BROKEN_BY_DESIGN), NARADA]
    unknown = [name for name in wanted if name not in PROTOCOLS and name != NARADA]
    if unknown:
        raise ConfigError(f"unknown protocol {unknown[0]!r}: choose among {', '.join((*PROTOCOLS, NARADA))}.")
    return [(_name(kind), kind) for protocol in wanted for kind in _kinds_of(protocol)]


def _kinds_of(protocol: str) -> Iterator[Kind]:
    if protocol == NARADA:
        yield from (Kind(protocol, reliable=failure) for failure in RELIABLE_CLASSES)
        return
    yield Kind(protocol)
    yield Kind(protocol, Trouble(FAULT_KINDS))
    for failure in classes_for(protocol):
        for tolerance in TOLERANCES:
            # What a tolerance of 1 does not survive is tried with 2, and moves need a bound on neighbours.
            if failure not in MOVING and TOLERANCE_MIN.get(failure, 1) <= tolerance:
                yield Kind(protocol, Trouble((), failure, tolerance))


def _name(kind: Kind) -> str:
    if kind.reliable is not None:
        return f"{kind.protocol} {kind.reliable}"
    trouble = kind.trouble
    what = trouble.failure or ("links" if trouble.faults else "calm")
    return f"{kind.protocol} {what}" + (f" f={trouble.tolerance}" if trouble.tolerance else "")


def commit_of(directory: Path) -> str:
    """The commit that is checked out there, with a `+` if files were changed since; `unknown` outside of a checkout."""
    try:
        head = _git(directory, "rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git(directory, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(directory: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=directory, check=True, capture_output=True, text=True).stdout.strip()


# -------------------------------------------------------------------------------------------------------------- table


class NightTable:
    """The rows of all nights, in a file of JSON lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = list(self._read())

    def _read(self) -> Iterator[NightRow]:
        if not self.path.exists():
            return
        for number, line in enumerate(self.path.read_bytes().splitlines(), 1):
            try:
                yield msgspec.json.decode(line, type=NightRow)
            except msgspec.DecodeError as error:
                raise ConfigError(f"{self.path}:{number} is no row of a table of nights: {error}.") from None

    def next_seed(self, kind: str) -> int:
        """The first seed that no run of that kind has had."""
        return max((row.last + 1 for row in self.rows if row.kind == kind), default=FIRST_SEED)

    def add(self, row: NightRow) -> None:
        self.rows.append(row)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as lines:
            lines.write(msgspec.json.encode(row) + b"\n")

    def summary(self) -> list[tuple[str, str, int, int, int]]:
        """By commit and kind, in the order of their first rows: runs, deliveries, broken."""
        found: dict[tuple[str, str], list[int]] = {}
        for row in self.rows:
            figures = found.setdefault((row.commit, row.kind), [0, 0, 0])
            for at, figure in enumerate((row.runs, row.deliveries, len(row.broken))):
                figures[at] += figure
        return [(commit, kind, *figures) for (commit, kind), figures in found.items()]  # type: ignore[misc]


# ------------------------------------------------------------------------------------------------------------- nights


class Night:
    """Rounds over all kinds, until the time is up."""

    def __init__(
        self,
        table: NightTable,
        commit: str,
        found: Path,
        make_runs: MakeRuns,
        on_row: Callable[[NightRow, list[Path]], None],
        block: int = BLOCK,
    ) -> None:
        self._table, self._commit, self._found, self._block = table, commit, found, block
        self._make_runs, self._on_row = make_runs, on_row

    def run(self, every: list[tuple[str, Kind]], seconds: float) -> int:
        """Make rounds for so long; the block that is under way is finished. Returns how many runs were broken."""
        deadline, broken = monotonic() + seconds, 0
        while every:
            # Kinds with the fewest runs first: many short nights reach the last ones, too.
            for name, kind in sorted(every, key=lambda one: self._table.next_seed(one[0])):
                if monotonic() >= deadline:
                    return broken
                broken += len(self.block(name, kind).broken)
        return broken

    def block(self, name: str, kind: Kind) -> NightRow:
        """Make the next runs of one kind, and note what came of them."""
        first = self._table.next_seed(name)
        results: list[RunResult] = []
        began = monotonic()
        self._make_runs(kind, range(first, first + self._block), results.append)
        bad = sorted((one for one in results if not one.ok), key=lambda one: one.seed)
        row = NightRow(
            self._commit,
            name,
            first,
            first + self._block - 1,
            len(results),
            sum(one.deliveries for one in results),
            tuple(one.seed for one in bad),
            round(monotonic() - began, 3),
        )
        self._table.add(row)
        self._on_row(row, [self._keep(kind, name, one) for one in bad])
        return row

    def _keep(self, kind: Kind, name: str, result: RunResult) -> Path:
        """Write down how to see a broken run again; one of a broker protocol is made small first."""
        self._found.mkdir(parents=True, exist_ok=True)
        path = self._found / f"{name.replace(' ', '-').replace('=', '')}-{result.seed}.toml"
        lines = [f"# {line}" for line in (*result.complaint.splitlines(), result.replay)]
        text = ""
        if kind.reliable is None:
            text = shrink(random_scenario(result.seed, kind.protocol, kind.trouble), SHRINK_ATTEMPTS_MAX).toml()
        path.write_text("\n".join([*dict.fromkeys(lines), "", text]))
        return path


def over_processes(workers: int) -> MakeRuns:
    """Runs over so many processes of this machine."""
    return lambda kind, seeds, on_result: run_campaign(kind, seeds, workers, on_result)
