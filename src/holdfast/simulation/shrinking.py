"""Making a scenario that goes wrong small: whatever can be left out while it still goes wrong is left out."""

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.protocols.config import LinkConfig
from holdfast.simulation.faults import ClientCommand
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.scenarios import Scenario
from holdfast.simulation.trees import parse_tree, print_tree
from holdfast.simulation.workloads import Outcome, judge

ATTEMPTS_MAX = 2000

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
    """Leave out leaves of the tree at which nobody is, and whose links no fault names."""
    while True:
        tree = parse_tree(scenario.tree)
        needed = _names(scenario) | {parent for parent in tree.values() if parent is not None}
        for name in [name for name in tree if name not in needed]:
            smaller = replace(scenario, tree=print_tree({one: parent for one, parent in tree.items() if one != name}))
            if len(tree) > 1 and still(smaller):
                scenario = smaller
                break
        else:
            return scenario


def _names(scenario: Scenario) -> set[str]:
    """Every broker that the scenario needs by name."""
    addresses = [one.client for one in scenario.clients]
    for timed in scenario.timetable:
        command = timed.command
        if isinstance(command, ClientCommand):
            addresses.append(command.client)
        else:
            addresses += [getattr(command, key) for key in ("node", "a", "b") if hasattr(command, key)]
    return {address.rpartition("@")[2] for address in addresses}


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
