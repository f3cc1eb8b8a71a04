"""How much a client may subscribe to: a count, and characters; what is refused surely did not happen."""

import pytest

from holdfast.model.costs import cost_bytes
from holdfast.model.messages import Interests, Rejected, Subscribe, SubscribeAck, Unsubscribe
from holdfast.protocols.allowances import Allowances
from holdfast.protocols.config import BrokerConfig, LinkConfig
from holdfast.protocols.interests import INTEREST_CHARACTERS_PER_MESSAGE, INTERESTS_PER_MESSAGE
from holdfast.protocols.registry import PROTOCOLS
from holdfast.simulation.faults import Subscribe as SubscribeTo
from holdfast.simulation.faults import Unsubscribe as UnsubscribeFrom
from holdfast.simulation.world import Simulation

LONG = " and ".join(f"a{place} = 1" for place in range(250))


def test_what_a_client_has_counts_once_and_what_it_gave_back_not_at_all():
    allowances = Allowances(2, 1000)
    assert [allowances.take("m", (pattern, "")) for pattern in ("a", "a", "b")] == ["", "", ""]
    assert allowances.take("m", ("c", "")).startswith("client m may have 2 subscriptions at a time, and has them")
    assert allowances.take("n", ("c", "")) == ""
    allowances.give_back("m", ("a", ""))
    allowances.give_back("m", ("never had", ""))
    assert allowances.take("m", ("c", "")) == ""
    allowances.forget("m")
    assert [allowances.take("m", (pattern, "")) for pattern in ("x", "y")] == ["", ""]


def test_long_filters_count_by_their_characters():
    allowances = Allowances(100, 10)
    assert allowances.take("m", ("a", "x = 1")) == ""
    assert "of 10 characters together" in allowances.take("m", ("b", "x = 1"))
    assert allowances.take("m", ("b", "")) == ""


def test_a_client_that_comes_from_elsewhere_brings_what_it_has():
    allowances = Allowances(2, 1000)
    allowances.reset("m", [("a", ""), ("b", "")])
    assert allowances.take("m", ("c", "")) != ""
    assert allowances.take("m", ("b", "")) == ""
    assert allowances.problem_of("n", [("a", ""), ("b", ""), ("c", "")]) != ""
    assert allowances.problem_of("n", [("a", ""), ("b", ""), ("b", "")]) == ""


@pytest.mark.parametrize("tolerance", [0, 1])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_subscription_beyond_the_bound_is_refused_and_the_others_stay(protocol: str, tolerance: int):
    sim = Simulation("0-1", protocol, 1, tolerance=tolerance, broker=BrokerConfig("*", subscriptions_max=3))
    for place, pattern in enumerate("abcd"):
        sim.at(1.0 + place, SubscribeTo("m@1", pattern))
    sim.at(6.0, UnsubscribeFrom("m@1", "a"))
    sim.at(7.0, SubscribeTo("m@1", "e"))
    sim.run_until_quiet()
    subscribed = [report.pattern for _, _, report in sim.reports if report.event == "subscribe"]
    assert subscribed == ["a", "b", "c", "e"]
    assert ["client m may have 3 subscriptions" in one for one in sim.failures("m")] == [True]


@pytest.mark.parametrize(
    "message", [Subscribe(1, "a", LONG), Unsubscribe(1, "a", LONG), Interests((("a", LONG),), True)]
)
def test_a_window_holds_a_few_long_filters_and_many_short_ones(message: Subscribe | Unsubscribe | Interests):
    window = LinkConfig().window_bytes
    assert 5 <= window // cost_bytes(message) <= 20
    assert window // cost_bytes(Subscribe(1, "orders/#", "amount > 100")) > 1_000
    assert cost_bytes(SubscribeAck(1)) == cost_bytes(Rejected(1, 0, 0, "no"))


def test_a_newcomer_is_told_what_is_wanted_in_small_pieces():
    sim = Simulation("0", "ginger", 1)
    for place in range(2 * INTERESTS_PER_MESSAGE + 1):
        sim.at(0.5, SubscribeTo("m@0", f"t{place}"))
    for place in range(8):
        sim.at(0.6, SubscribeTo("m@0", "t", LONG.replace("1", str(place))))
    sim.run_until_quiet()
    pieces: list[Interests] = []
    sim.node("0").interests._send = lambda _, message: pieces.append(message)  # type: ignore[union-attr]
    sim.node("0").interests.join("1", tell=True)  # type: ignore[union-attr]
    assert len(pieces) > 3
    assert all(len(one.entries) <= INTERESTS_PER_MESSAGE for one in pieces)
    characters = [sum(len(pattern) + len(where) for pattern, where in one.entries) for one in pieces]
    assert max(characters) <= INTEREST_CHARACTERS_PER_MESSAGE + 4096
    assert [one.complete for one in pieces] == [False] * (len(pieces) - 1) + [True]


def test_a_filter_that_is_refused_does_not_count_and_one_too_many_is_not_read():
    allowances = Allowances(1, 1000)
    assert "condition" in allowances.problem_with("m", Subscribe(1, "a", "and"))
    assert allowances.problem_with("m", Subscribe(2, "a", "x = 1")) == ""
    assert allowances.problem_with("m", Subscribe(3, "b", "and")).startswith("client m may have 1 subscriptions")
    assert allowances.problem_with("m", Unsubscribe(4, "a", "x = 1")) == ""
    assert allowances.problem_with("m", Subscribe(5, "b", "")) == ""
