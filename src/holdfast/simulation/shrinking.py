"""Making a scenario that goes wrong small: whatever can be left out while it still goes wrong is left out."""

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.protocols.config import LinkConfig
from holdfast.simulation.faults import ClientCommand, Part, When
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.outcomes import Outcome
from holdfast.simulation.scenarios import Scenario, Timed
from holdfast.simulation.trees import parse_tree, print_tree
from holdfast.simulation.workloads import judge

ATTEMPTS_MAX = 2000
NAMES = ("node", "a", "b", "parent")
"""The keys by which faults name brokers."""

Test = Callable[[Scenario], bool]


def faults_of(outcome: Outcome) -> frozenset[str]:
    """The names of what went wrong: kinds of violations, or of the error that ended the run."""
    if outcome.error:
        return frozenset({outcome.error.split(":")[0]})
    return (
        frozenset(kind for kind, count in outcome.verdict.faults.items() if count) if outcome.verdict else frozenset()
    )


def shrink(scenario: Scenario, attempts_max: int = ATTEMPTS_MAX) -> Scenario:
    """The smallest scenario found that still shows one of the faults that this one shows."""
    wrong = faults_of(judge(scenario, ""))
    if not wrong:
        return scenario
    return shrink_while(scenario, lambda smaller: bool(wrong & faults_of(judge(smaller, ""))), attempts_max)


def shrink_while(scenario: Scenario, still: Test, attempts_max: int = ATTEMPTS_MAX) -> Scenario:
    """The smallest scenario found for which `still` is true, as it is for this one."""
    left = [attempts_max]

    def tried(candidate: Scenario) -> bool:
        left[0] -= 1
        return left[0] >= 0 and still(candidate)

    before = None
    while before != scenario and left[0] > 0:
        before = scenario
        scenario = _fewer_entries(scenario, tried)
        scenario = _fewer_brokers(scenario, tried)
        for change in PLAINER:
            plainer = change(scenario)
            if plainer != scenario and tried(plainer):
                scenario = plainer
    return scenario


def _fewer_entries(scenario: Scenario, still: Test) -> Scenario:
    """Leave out runs of the timetable, long ones first."""
    size = max(1, len(scenario.timetable) // 2)
    while True:
        at = 0
        while at < len(scenario.timetable):
            kept = scenario.timetable[:at] + scenario.timetable[at + size :]
            smaller = replace(scenario, timetable=kept)
            if still(smaller):
                scenario = smaller
            else:
                at += size
        if size == 1:
            return scenario
        size //= 2


def _fewer_brokers(scenario: Scenario, still: Test) -> Scenario:
    """Let brokers become one with their parents: their children and clients move there."""
    for name, parent in reversed(parse_tree(scenario.tree).items()):
        if parent is not None and name not in _named_by_faults(scenario):
            smaller = _contracted(scenario, name)
            if still(smaller):
                scenario = smaller
    return scenario


def _contracted(scenario: Scenario, gone: str) -> Scenario:
    tree = parse_tree(scenario.tree)
    heir = tree.pop(gone) or ""

    def moved(address: str) -> str:
        name, _, broker = address.partition("@")
        return f"{name}@{heir}" if broker == gone else address

    return replace(
        scenario,
        tree=print_tree({name: heir if parent == gone else parent for name, parent in tree.items()}),
        clients=tuple(replace(one, client=moved(one.client)) for one in scenario.clients),
        timetable=tuple(_readdressed(timed, moved) for timed in scenario.timetable),
    )


def _readdressed(timed: Timed, moved: Callable[[str], str]) -> Timed:
    command = timed.command
    if isinstance(command, ClientCommand):
        return replace(timed, command=replace(command, client=moved(command.client)))
    changes = {key: moved(getattr(command, key)) for key in NAMES if hasattr(command, key)}
    return replace(timed, command=replace(command, **changes))


def _named_by_faults(scenario: Scenario) -> set[str]:
    faults = [timed.command for timed in scenario.timetable if not isinstance(timed.command, ClientCommand)]
    inner = [fault.fault for fault in faults if isinstance(fault, When)]
    named = {getattr(fault, key) for fault in (*faults, *inner) for key in NAMES if hasattr(fault, key)}
    named |= {name for fault in (*faults, *inner) if isinstance(fault, Part) for name in fault.side}
    # A broker of a site is named after it, as in lisbon.1.
    return named | {name.rpartition(".")[0] for name in named}


def _only_mentioned_clients(scenario: Scenario) -> Scenario:
    mentioned = {timed.command.client for timed in scenario.timetable if isinstance(timed.command, ClientCommand)}
    return replace(scenario, clients=tuple(one for one in scenario.clients if one.client in mentioned))


PLAINER: tuple[Callable[[Scenario], Scenario], ...] = (
    lambda scenario: replace(scenario, clients=()),
    _only_mentioned_clients,
    lambda scenario: replace(scenario, session=LinkConfig()),
    lambda scenario: replace(scenario, network=NetworkConfig()),
    lambda scenario: replace(scenario, network=replace(scenario.network, codec_check=False)),
    lambda scenario: replace(scenario, network=replace(scenario.network, bytes_per_s=None)),
    lambda scenario: replace(scenario, network=replace(scenario.network, speeds=())),
)
"""Ways to have fewer peculiarities."""
