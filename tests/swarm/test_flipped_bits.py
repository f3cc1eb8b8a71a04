"""Readers that do not look at checksums deliver what was altered; the swarm sees it, and with them sees nothing."""

import pytest

from holdfast.model import wire
from holdfast.simulation.workloads import Trouble, run_one

SEEDS = range(1, 101)
FLIPS = Trouble(("flip",))


def errors() -> list[str]:
    return [run_one(seed, "ginger", FLIPS).error for seed in SEEDS]


def test_with_checksums_nothing_altered_is_delivered():
    assert [error for error in errors() if error] == []


def test_without_checksums_the_swarm_finds_altered_messages(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wire, "_refuse_altered", lambda size: None)  # noqa: ARG005
    assert sum("altered: " in error for error in errors()) >= 20
