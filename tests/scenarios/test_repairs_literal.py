"""What the thesis' repair, taken literally, comes to: each of its rules in the place of ours is caught by a story.

The stories are those of `test_repairs_errata`; here a broker or a client does what docs/papers/ginger.md, 4 to 11,
complains of. A scenario that these survived would prove nothing.
"""

from holdfast.model.errors import HoldfastError
from holdfast.model.messages import Join, Twig
from holdfast.protocols.client_log import HERE, ClientLog
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.ginger.rejoin import Rejoin
from holdfast.protocols.ginger.repairs import Repairs
from holdfast.protocols.links import Link
from holdfast.protocols.moving import MovingClient
from holdfast.simulation.faults import Crash, Freeze, Publish, When
from holdfast.simulation.world import Simulation
from tests.scenarios.repairs import SEEDS, at, finish, got, listen, run_until, say, slow, tree
from tests.support.parts import with_parts

FAMILY = "P-B B-C1 B-C2"


def goes_wrong(sim: Simulation) -> bool:
    try:
        finish(sim)
    except (AssertionError, HoldfastError, LookupError):
        return True
    return False


class Claimant(Rejoin):
    """4: whoever loses its root and has got no answer yet is the root, whatever the others think."""

    def orphaned(self, old: str) -> None:
        self._view.next_contact = lambda: None  # type: ignore[method-assign]
        super().orphaned(old)


def test_4_without_seniority_every_sibling_is_a_root():
    sim = tree("0-1 0-2 0-3", make=with_parts(rejoin=Claimant))
    listen(sim, a_1="t", b_2="t", c_3="t")
    at(sim, 2.0, Crash("0"))
    say(sim, 2.01, "a", "t:x")
    assert goes_wrong(sim)


class Forgetful(Repairs):
    """5, 6: the catch-up finds nothing, because the map is empty, the id was evicted, or the client is not known."""

    def on_join(self, link: Link, join: Join) -> None:
        self.ahead_of[link.peer] = []
        super().on_join(link, join)


def test_5_and_6_a_catch_up_that_finds_nothing_loses_what_was_under_way():
    def story(seed: int) -> Simulation:
        sim = tree(FAMILY, slow("B", "P"), make=with_parts(repairs=Forgetful), seed=seed)
        listen(sim, p_P="t", c_C2="u")
        say(sim, 2.0, "w@C1", "t:1", "u:2", "t:3")
        at(sim, 2.02, Crash("B"))
        return sim

    assert any(goes_wrong(story(seed)) for seed in SEEDS)


class Hasty(Repairs):
    """7: each child is caught up with when it comes, on its own."""

    def expect(self, flush: Flush, twigs: tuple[Twig, ...]) -> None:
        super().expect(flush, twigs)
        flush.waiting.clear()


def test_7_catching_up_with_one_child_at_a_time_shows_the_effect_before_its_cause():
    def story(seed: int) -> Simulation:
        sim = tree(FAMILY, slow("B", "P"), slow("C1", "P", 200), make=with_parts(repairs=Hasty), seed=seed)
        listen(sim, p_P="T1 T2", c_C2="T2")
        say(sim, 2.0, "w@C1", "T1:k", "T2:m")
        at(sim, 2.03, Crash("B"))
        return sim

    assert any(goes_wrong(story(seed)) for seed in SEEDS)


def test_9_if_connection_loss_were_all_there_is_a_frozen_broker_would_cut_off_everybody_below():
    sim = tree("P-B B-C1", silence_s=1e6)
    listen(sim, p_P="t", c_C1="t")
    at(sim, 2.0, Freeze("B"))
    say(sim, 2.1, "c", "t:x")
    run_until(sim, 60.0)
    assert got(sim, "p") == []


class Trusting(MovingClient):
    """10: what the edge broker has accepted is its business alone."""

    def _join(self, link: Link, tolerance: int) -> None:
        if self._log is not None:
            self._log = ClientLog(tolerance, self.name)
            self._log.link(HERE)
        super()._join(link, tolerance)


def test_10_a_client_that_keeps_nothing_loses_what_its_broker_died_with():
    def story(seed: int) -> Simulation:
        sim = tree(FAMILY, client=Trusting, seed=seed)
        listen(sim, p_P="t")
        at(sim, 2.0, When("C1", "Ack", Crash("C1")), Publish("w@C1", "t", b"once", "fifo"))
        return sim

    assert any(goes_wrong(story(seed)) for seed in SEEDS)


def test_11_a_tolerance_of_one_does_not_survive_two_neighbours_that_fail_together():
    # b0 dies in the middle of passing x on, with its publisher, and so does b1, which had passed it to b3. With one
    # level of stability b3 has forgotten x when b2 asks for it.
    def story(seed: int) -> Simulation:
        sim = tree("b0-b1 b0-b2 b1-b3", seed=seed)
        listen(sim, s2_b2="t", s3_b3="t")
        say(sim, 2.0, "w@b0", "t:x")
        at(sim, 2.0, When("b0", "Publish", Crash("b0")))
        at(sim, 2.001, Crash("w"))
        at(sim, 2.05, Crash("b1"))
        return sim

    assert any(goes_wrong(story(seed)) for seed in SEEDS)
