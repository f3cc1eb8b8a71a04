"""What tests of the checkers ask."""

from holdfast.model.trace import Event
from holdfast.simulation.checkers import check
from tests.unit.simulation.reference import judge_slowly


def faults(events: list[Event]) -> dict[str, int]:
    """The kinds of faults found and their numbers. In passing, the slow reference has to agree."""
    verdict = check(events)
    expected = judge_slowly(events)
    assert {"deliveries": verdict.deliveries, **verdict.faults} == expected
    return {kind: count for kind, count in verdict.faults.items() if count}
