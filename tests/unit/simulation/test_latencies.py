"""How long frames take: what each distribution promises."""

from random import Random
from statistics import mean, median

import pytest

from holdfast.simulation.latencies import (
    LATENCY_S_MIN,
    Constant,
    Exponential,
    Latency,
    Lognormal,
    Uniform,
    sampler,
)


def draws(latency: Latency, count: int = 20_000) -> list[float]:
    sample = sampler(latency, lambda: Random(5))
    return [sample() for _ in range(count)]


def test_a_constant_latency_is_always_the_same():
    assert set(draws(Constant(3.0), 10)) == {0.003}


def test_a_uniform_latency_stays_between_its_bounds_and_uses_all_of_them():
    found = draws(Uniform(2.0, 6.0))
    assert 0.002 <= min(found) < 0.0021
    assert 0.0059 < max(found) <= 0.006
    assert mean(found) == pytest.approx(0.004, rel=0.02)


def test_an_exponential_latency_has_its_mean_above_its_least():
    found = draws(Exponential(5.0, low_ms=1.0))
    assert min(found) >= 0.001
    assert mean(found) == pytest.approx(0.006, rel=0.03)
    assert max(found) > 0.03


def test_a_lognormal_latency_has_its_median_and_a_tail():
    found = draws(Lognormal(10.0, 0.8))
    assert median(found) == pytest.approx(0.010, rel=0.03)
    assert mean(found) > 0.012


@pytest.mark.parametrize("latency", [Constant(0.0), Uniform(0.0, 0.0), Exponential(0.0), Lognormal(0.0)])
def test_no_latency_is_nothing_since_time_has_to_move(latency: Latency):
    assert min(draws(latency, 10)) == LATENCY_S_MIN
