"""The comparator: sites that agree on the place of every message. What that costs, and what it survives."""

import pytest

from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.sesdad import SesdadBroker
from holdfast.protocols.sesdad.designation import Designation
from holdfast.protocols.sesdad.streams import Stream, Unit
from holdfast.simulation.faults import Crash, Cut, Freeze, Heal, Publish, Recover, Subscribe, Thaw, When
from holdfast.simulation.latencies import Exponential
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import Simulation

BEGIN_S = 2.0
WORK = ("Offer", "Replicate", "Replicated", "Assignment", "Agreed", "Forward", "Propose")


class Noting(SesdadBroker):
    """A broker that notes the order in which it processes publications."""

    def __init__(self, config: BrokerConfig, incarnation: int, agrees: bool = True) -> None:
        super().__init__(config, incarnation, agrees)
        self.order_noted = _noted(self)


class NotingAlone(Noting):
    """The same without agreement."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation, agrees=False)


def _noted(broker: SesdadBroker) -> list[tuple[str, int]]:
    noted: list[tuple[str, int]] = []
    process = broker.traffic.process

    def noting(stream: Stream, unit: Unit) -> None:
        noted.append((stream.publisher, unit.number))
        process(stream, unit)

    broker.traffic.process = noting  # type: ignore[method-assign]
    return noted


def world(make: object = "sesdad-agreement", seed: int = 1, **options: object) -> Simulation:
    sim = Simulation("a-b b-c", make, seed, check_invariants=True, **options)  # type: ignore[arg-type]
    sim.at(0.0, Subscribe("bob@c", "orders"))
    sim.at(0.0, Subscribe("ann@a", "#"))
    return sim


def publish(sim: Simulation, count: int, every_s: float = 0.005) -> list[bytes]:
    payloads = [b"%d" % number for number in range(count)]
    for number, payload in enumerate(payloads):
        sim.at(BEGIN_S + number * every_s, Publish("pub@a", "orders", payload))
    return payloads


@pytest.mark.parametrize("replicas", [1, 3, 5])
def test_every_site_gets_what_it_wants_in_order(replicas: int):
    sim = world(replicas=replicas)
    payloads = publish(sim, 30)
    sim.run_until_quiet()
    assert sim.delivered("bob") == sim.delivered("ann") == payloads
    assert sim.check().ok


def work_of(protocol: str, replicas: int, seed: int) -> dict[str, int]:
    """The messages that one publication costs a single site."""
    sim = Simulation("a", protocol, seed, replicas=replicas)
    sim.at(0.0, Subscribe("ann@a", "#"))
    sim.run_for(1.9)
    before = {kind.__name__: count for kind, count in sim.network.sent.items()}
    sim.at(BEGIN_S, Publish("pub@a", "orders", b"one"))
    sim.run_until_quiet()
    assert sim.delivered("ann") == [b"one"]
    after = {kind.__name__: count for kind, count in sim.network.sent.items()}
    return {name: after.get(name, 0) - before.get(name, 0) for name in WORK}


@pytest.mark.parametrize(("replicas", "answers"), [(3, 2), (5, 16)])
def test_agreement_costs_a_place_and_its_answers_where_a_site_without_it_needs_copies_alone(
    replicas: int, answers: int
):
    """Section 8: the designed solution awaits one answer. Agreement asks the designated broker, and a majority."""
    copies = replicas - 1
    for seed in range(3):
        alone = work_of("sesdad", replicas, seed)
        assert alone == {**dict.fromkeys(WORK, 0), "Offer": 1, "Replicate": copies, "Replicated": copies, "Forward": 1}
        agreed = work_of("sesdad-agreement", replicas, seed)
        asked = agreed.pop("Replicate")
        assert asked in (0, 1)  # None if the publisher has drawn the designated broker itself.
        assert agreed == {
            **{name: 0 for name in WORK if name != "Replicate"},
            "Offer": 1,
            "Assignment": copies,
            "Agreed": answers,
            "Forward": 1,
        }


def orders(make: type, seed: int) -> list[list[tuple[str, int]]]:
    """In which order each broker of a site has processed what three publishers published at once."""
    sim = Simulation("a", make, seed, network=NetworkConfig(latency=Exponential(10.0, 1.0)))
    sim.at(0.0, Subscribe("ann@a", "#"))
    for number in range(10):
        for name in ("p", "q", "r"):
            sim.at(BEGIN_S + number * 0.002, Publish(f"{name}@a", "orders", b"%d" % number))
    sim.run_until_quiet()
    assert len(sim.delivered("ann")) == 30
    return [sim.node(f"a.{number}").order_noted for number in (1, 2, 3)]  # type: ignore[union-attr]


def test_all_brokers_of_a_site_process_everything_in_one_order_and_without_agreement_they_need_not():
    for seed in range(3):
        one, *others = orders(Noting, seed)
        assert len(one) == 30
        assert others == [one, one]
    assert any(len({tuple(order) for order in orders(NotingAlone, seed)}) > 1 for seed in range(3))


@pytest.mark.parametrize("word", ["Assignment", "Agreed", "Replicate", "Forward", "Marks"])
@pytest.mark.parametrize("rank", [1, 2])
def test_a_broker_that_dies_in_the_midst_of_an_agreement_takes_nothing_with_it(word: str, rank: int):
    sim = world(seed=rank)
    payloads = publish(sim, 20)
    for site in "abc":
        sim.at(BEGIN_S, When(f"{site}.{rank}", word, Crash(f"{site}.{rank}"), count=3))
    sim.run_until_quiet()
    assert sim.delivered("bob") == sim.delivered("ann") == payloads
    assert sim.check().ok


def test_a_broker_that_returns_goes_on_in_the_same_order():
    sim = world()
    payloads = publish(sim, 60, every_s=0.1)
    for number, name in enumerate(["a.1", "b.2", "c.3", "a.2", "b.1", "c.1"]):
        sim.at(BEGIN_S + number, Crash(name))
        sim.at(BEGIN_S + number + 0.4, Recover(name))
    sim.run_until_quiet()
    assert sim.delivered("bob") == sim.delivered("ann") == payloads
    assert sim.check().ok


def test_a_site_without_a_majority_waits_and_loses_nothing():
    sim = world()
    payloads = publish(sim, 40, every_s=0.05)
    for name in ("b.1", "b.3"):
        sim.at(BEGIN_S + 0.5, Freeze(name))
        sim.at(BEGIN_S + 8.0, Thaw(name))
    sim.run_for(BEGIN_S + 7.5)
    assert len(sim.delivered("bob")) < 40
    sim.run_until_quiet()
    assert sim.delivered("bob") == payloads


# ------------------------------------------------------------------------------------------------------------- mutants


def processed_in_a_minority(seed: int) -> int:
    """What a designated broker processes of what is published when it is cut off from the others of its site."""
    sim = Simulation("a", "sesdad-agreement", seed)
    sim.at(0.0, Subscribe("ann@a", "#"))
    for other in ("a.2", "a.3"):
        sim.at(BEGIN_S, Cut("a.1", other))
    for number in range(12):
        sim.at(BEGIN_S + 0.01, Publish(f"p{number}@a", "orders", b"%d" % number))
    sim.at(BEGIN_S + 9.0, Heal())
    sim.run_for(BEGIN_S + 0.2)
    processed = sim.node("a.1").traffic.processed  # type: ignore[union-attr]
    sim.run_until_quiet()
    assert len(sim.delivered("ann")) == 12
    return processed  # type: ignore[no-any-return]


def test_a_designated_broker_without_a_majority_processes_nothing():
    assert [processed_in_a_minority(seed) for seed in range(2)] == [0, 0]


def test_a_broker_that_processes_what_no_majority_has_is_caught(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Designation, "confirmed", property(lambda _: True))
    assert processed_in_a_minority(0) > 0


@pytest.mark.parametrize("seed", range(4))
def test_a_site_survives_the_loss_of_its_designated_broker_at_any_place(seed: int):
    sim = Simulation("a", "sesdad-agreement", seed, replicas=5, network=NetworkConfig(latency=Exponential(10.0, 1.0)))
    sim.at(0.0, Subscribe("ann@a", "#"))
    sim.at(BEGIN_S, When("a.1", "Assignment", Crash("a.1"), count=5 + seed))
    payloads = publish(sim, 20, every_s=0.003)
    sim.run_until_quiet(30)
    assert sim.delivered("ann") == payloads
