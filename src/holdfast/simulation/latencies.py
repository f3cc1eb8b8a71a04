"""How long a frame is under way: distributions as values, and the samplers made of them."""

from collections.abc import Callable
from math import exp
from random import Random
from typing import Annotated

from msgspec import Meta, Struct

LATENCY_S_MIN = 1e-6
"""No frame is faster: time has to move between a question and its answer."""

Ms = Annotated[float, Meta(ge=0, le=3_600_000)]
Sampler = Callable[[], float]


class Constant(Struct, frozen=True, forbid_unknown_fields=True, tag="constant", tag_field="kind"):
    """Always the same."""

    ms: Ms


class Uniform(Struct, frozen=True, forbid_unknown_fields=True, tag="uniform", tag_field="kind"):
    """Anything from `low_ms` to `high_ms`, all equally likely."""

    low_ms: Ms
    high_ms: Ms


class Exponential(Struct, frozen=True, forbid_unknown_fields=True, tag="exponential", tag_field="kind"):
    """Mostly short, sometimes long: the harshest for whoever counts on an order between links."""

    mean_ms: Ms
    low_ms: Ms = 0.0
    """What is added to every draw."""


class Lognormal(Struct, frozen=True, forbid_unknown_fields=True, tag="lognormal", tag_field="kind"):
    """What wide-area paths look like: half above `median_ms`, with a tail that `sigma` stretches."""

    median_ms: Ms
    sigma: Annotated[float, Meta(ge=0, le=4)] = 0.5


Latency = Constant | Uniform | Exponential | Lognormal


def sampler(latency: Latency, make_chance: Callable[[], Random]) -> Sampler:
    """A function that draws the next delay in seconds. Chance is made only if it is needed: it is not small."""
    if isinstance(latency, Constant):
        fixed_s = max(latency.ms / 1000, LATENCY_S_MIN)
        return lambda: fixed_s
    chance = make_chance()
    draw = chance.random
    if isinstance(latency, Uniform):
        low_s = max(latency.low_ms / 1000, LATENCY_S_MIN)
        span_s = max(latency.high_ms / 1000 - low_s, 0.0)
        return lambda: low_s + span_s * draw()
    if isinstance(latency, Exponential):
        least_s = max(latency.low_ms / 1000, LATENCY_S_MIN)
        mean_s = latency.mean_ms / 1000
        exponential = chance.expovariate
        return lambda: least_s + mean_s * exponential(1.0)
    median_s, sigma, gauss = latency.median_ms / 1000, latency.sigma, chance.gauss
    return lambda: max(median_s * exp(sigma * gauss(0.0, 1.0)), LATENCY_S_MIN)


def at_most(sample: Sampler, longest_s: float) -> Sampler:
    """The same draws, the longest of them cut short."""
    return lambda: min(sample(), longest_s)
