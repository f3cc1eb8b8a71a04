"""Every kind of trial of `holdfast experiment narada`, on real processes and as short as can be."""

import pytest

from holdfast.experiments.narada import NaradaTrial
from holdfast.experiments.narada_run import run

SHORT = [
    (NaradaTrial("storage", samples=4), "storing"),
    (NaradaTrial("responses", samples=4), "subscriber response"),
    (NaradaTrial("delivery", sizes=(1024,), samples=4, interval_ms=1.0, clients=3), "reliable 1024"),
    (NaradaTrial("restart", samples=1), "restart"),
    (NaradaTrial("recovery", "C", samples=1, stored=200), "recovery"),
]


@pytest.mark.parametrize(("trial", "figure"), SHORT, ids=[trial.kind for trial, _ in SHORT])
def test_a_trial_measures_what_it_is_for_and_ends_what_it_started(trial: NaradaTrial, figure: str):
    row = run(trial)
    assert row.complaint == ""
    assert row.figures[figure].count >= trial.samples
    assert row.figures[figure].p50_us > 0
