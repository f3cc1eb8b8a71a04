"""Schedules of delta that campaigns found, each with the rule that it needs left out.

The schedules, with their stories, are in `found`; `test_repairs_found` shows that they are survived with the rule.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.model.delta_messages import RoutingPart, Visit
from holdfast.protocols.delta.client import ClientPassage
from holdfast.protocols.delta.forwarding import Forwarding
from holdfast.protocols.delta.passage import Entry, Passage
from holdfast.protocols.delta.repeats import CopyNumbers
from holdfast.simulation.scenarios import load_scenario, parse_scenario
from holdfast.simulation.workloads import judge

FOUND = Path(__file__).with_name("found")
COMPLETE_S = 45.0
"""Virtual time by which nobody waits any more."""
Mutation = Callable[[pytest.MonkeyPatch], None]


def goes_on_as_it_was_guided(patch: pytest.MonkeyPatch) -> None:
    def is_unsure(self: Forwarding, node: str) -> bool:
        recovers = node in self.peers and self.peers[node].recovering
        return recovers or (node in self.map and not self.reach.hop(node))

    patch.setattr(Forwarding, "_is_unsure", is_unsure)


def compares_with_the_latest_alone(patch: pytest.MonkeyPatch) -> None:
    def is_duplicate(self: CopyNumbers, visited: tuple[Visit, ...]) -> bool:
        return any(number and number <= self.latest(name, life) for name, life, number in visited)

    patch.setattr(CopyNumbers, "is_duplicate", is_duplicate)


def tells_no_hops_before_a_node_that_recovers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CopyNumbers, "is_outrun", lambda *_: True)


def stands_in_for_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClientPassage, "_passed", lambda self: sorted(self.reach.failed))


def takes_what_comes_too_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClientPassage, "_is_late", lambda *_: False)


def tells_clients_no_hop_more(patch: pytest.MonkeyPatch) -> None:
    trail = Passage.trail

    def shorter(self: Passage, entry: Entry, number: int, between: tuple[str, ...], client: bool = False) -> Any:
        return trail(self, entry, number, between)

    patch.setattr(Passage, "trail", shorter)


def believes_any_map(patch: pytest.MonkeyPatch) -> None:
    def learn(self: ClientPassage, name: str, part: RoutingPart) -> None:
        self.map.replace(part.links)

    patch.setattr(ClientPassage, "_learn", learn)


@pytest.mark.parametrize(
    ("name", "mutation", "complaint"),
    [
        ("delta-overtaken-in-recovery", goes_on_as_it_was_guided, "4 silent losses"),
        ("delta-overtaken-in-recovery", compares_with_the_latest_alone, "silent losses"),
        ("delta-numbered-anew", tells_no_hops_before_a_node_that_recovers, "duplicated=1"),
        ("delta-too-far-for-the-stand-in", stands_in_for_all, "5 silent losses"),
        ("delta-wanted-too-late", takes_what_comes_too_late, "fifo=1"),
        ("delta-wanted-too-late-afar", takes_what_comes_too_late, "fifo=1"),
        ("delta-wanted-too-late-past-a-frozen-broker", takes_what_comes_too_late, "fifo=1"),
        ("delta-all-three-pass-it-on", tells_clients_no_hop_more, "duplicated=1"),
        ("delta-a-smaller-map", believes_any_map, "6 silent losses"),
    ],
)
def test_a_schedule_that_was_found_breaks_without_the_rule_that_it_needs(
    monkeypatch: pytest.MonkeyPatch, name: str, mutation: Mutation, complaint: str
):
    mutation(monkeypatch)
    outcome = judge(load_scenario(FOUND / f"{name}.toml"), "")
    assert complaint in outcome.complaint()


def test_a_stand_in_that_is_needed_no_more_waits_for_ever_unless_its_session_is_ended(monkeypatch: pytest.MonkeyPatch):
    """A run heals in the end: what counts is that nobody waits while the brokers are still away."""
    scenario = replace(load_scenario(FOUND / "delta-a-stand-in-needed-no-more.toml"), complete_s=COMPLETE_S)
    assert judge(scenario, "").ok
    monkeypatch.setattr(ClientPassage, "_call_back_needless", lambda _: None)
    assert "3 waits for c2 to confirm" in judge(scenario, "").complaint()


def test_what_is_late_and_has_no_place_in_any_order_is_delivered():
    path = FOUND / "delta-wanted-too-late-past-a-frozen-broker.toml"
    in_order = path.read_text()
    in_any_order = in_order.replace('do = "publish"', 'do = "publish"\nguarantee = "eventual"')
    verdicts = [judge(parse_scenario(text, path.name), "").verdict for text in (in_order, in_any_order)]
    assert [verdict.deliveries for verdict in verdicts if verdict is not None] == [3, 4]
