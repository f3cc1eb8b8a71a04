"""What is owed to the clients of an explored world, and for how long."""

import pytest

from holdfast.model.batches import Batch
from holdfast.model.guarantees import CAUSAL
from holdfast.protocols.node import Report
from holdfast.simulation.exploring.ledger import MARKED, PUBLISHED, DebtLedger
from holdfast.simulation.exploring.plans import Plan, staged
from holdfast.simulation.faults import Publish, Subscribe

PLAN = Plan(
    "0",
    scripts={
        "a@0": (Publish("a", "t", b"x"), Publish("a", "t", b"y")),
        "b@0": (Subscribe("b", "t"),),
        "c@0": (Subscribe("c", "u"),),
    },
)
BATCH = Batch("a", 1, "t", CAUSAL, b"xy", count=2)
PUBLISH = Report("publish", BATCH)
DELIVER = Report("deliver", BATCH)


@pytest.fixture
def ledger() -> DebtLedger:
    return staged(PLAN)[0].ledger


def test_a_message_is_owed_to_those_whose_subscription_came_first(ledger: DebtLedger):
    order = [
        ("b", ledger.number_of(Report("subscribe", pattern="t"))),
        ("c", ledger.number_of(Report("subscribe", pattern="u"))),
    ]
    assert ledger.owed_after((), order, "a", PUBLISH) == (("b", "a", 1), ("b", "a", 2))
    assert ledger.owed_after((), [], "a", PUBLISH) == ()


def test_what_has_come_is_owed_no_longer(ledger: DebtLedger):
    owed = (("b", "a", 1), ("b", "a", 2), ("b", "a", 3), ("c", "a", 1))
    assert ledger.owed_after(owed, [], "b", DELIVER) == (("b", "a", 3), ("c", "a", 1))


def test_a_judge_sees_only_rows_that_make_debts(ledger: DebtLedger):
    assert ledger.seen_of("a", PUBLISH) == PUBLISHED
    assert ledger.seen_of("b", Report("subscribe", pattern="t")) == MARKED
    assert ledger.seen_of("c", Report("subscribe", pattern="u")) == 0
    assert ledger.seen_of("b", DELIVER) == 0
