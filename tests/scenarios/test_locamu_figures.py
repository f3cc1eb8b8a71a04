"""The figures of the LoCaMu thesis (003, chapter 3), message by message."""

from holdfast.simulation.faults import Crash, Cut, Heal, Publish, React, Recover, Subscribe
from tests.support.locamu import IDENTIFIERS, Tree

M1, M2 = b"m1", b"m2"


def publish(client: str, payload: bytes, topic: str = "g") -> Publish:
    return Publish(client, topic, payload, "causal")


def test_3_3_what_was_caused_by_a_message_waits_for_it():
    """B forwards m1 to C and dies before D has it; C publishes m2 because of m1, and D gets m2 first."""
    tree = Tree("A-B B-C B-D", 1, "BCD")
    tree.at(
        (0.0, Cut("B", "D")),
        (0.0, Cut("A", "D")),
        (0.001, publish("a@A", M1)),
        (0.0, React("c@C", "g", "g", M2, times=1, after_s=0.3)),
        (0.1, Crash("B")),
    )
    tree.run_for(0.45)
    assert tree.hops(M1) == [("A", "B"), ("B", "C"), ("B", "D"), ("A", "D")]
    assert ("C", "D") in tree.hops(M2)
    # What A and B sent to D did not arrive. D has m2, and knows that something is missing: C, who sent it, is asked.
    assert tree.sim.delivered("d@D") == []
    tree.run_for(1.5)
    assert tree.sim.delivered("d@D") == [M1, M2]
    assert ("C", "D") in tree.hops(M1)
    # C has passed on what B had meant for D, with B's marks and none of its own.
    assert tree.marks(M1, "C", "D")[0] == {"A": {"B": 1, "C": 1, "D": 1}, "B": {"C": 1, "D": 1}}
    tree.at((2.0, Recover("B")), (2.0, Heal()))
    tree.run()
    assert all(tree.sim.delivered(name) == [M1, M2] for name in ("b@B", "c@C", "d@D"))


def test_3_4_a_message_that_comes_again_from_a_broker_that_has_recovered_is_delivered_once():
    tree = Tree("A-B B-D", 1, "BD")
    tree.at((0.0, Cut("B", "D")), (0.001, publish("a@A", M1)), (0.01, Crash("B")), (1.0, Heal()), (1.5, Recover("B")))
    tree.run_for(1.4)
    assert tree.hops(M1) == [("A", "B"), ("B", "D"), ("A", "D")]
    assert tree.sim.delivered("d@D") == [M1]
    tree.run()
    # B had written m1 down, and does not know whether D has it.
    assert tree.hops(M1)[3:] == [("B", "D")]
    assert tree.sim.delivered("d@D") == tree.sim.delivered("b@B") == [M1]


def test_3_5_each_forwarder_numbers_a_message_for_the_next_two_and_far_ones_are_left_out():
    tree = Tree("i-j j-k k-l l-m m-n", 1, "n")
    tree.at((0.0, publish("I@i", M1)))
    tree.run()
    assert tree.copies == [
        ("i", "j", M1, {"i": {"j": 1, "k": 1}}),
        ("j", "k", M1, {"i": {"j": 1, "k": 1}, "j": {"k": 1, "l": 1}}),
        ("k", "l", M1, {"i": {"j": 1, "k": 1}, "j": {"k": 1, "l": 1}, "k": {"l": 1, "m": 1}}),
        ("l", "m", M1, {"j": {"k": 1, "l": 1}, "k": {"l": 1, "m": 1}, "l": {"m": 1, "n": 1}}),
        ("m", "n", M1, {"k": {"l": 1, "m": 1}, "l": {"m": 1, "n": 1}, "m": {"n": 1}}),
    ]


def test_3_6_two_copies_along_different_paths_are_one_message_and_their_identifiers_are_merged():
    tree = Tree("i-j j-k k-l l-m", 1, "lm")
    tree.at((0.0, Cut("j", "k")), (1.0, publish("I@i", M1)), (1.1, Cut("i", "j")))
    tree.run_for(2.5)
    # j suspects k and passes it over; later i suspects j and passes it over.
    assert tree.hops(M1)[:3] == [("i", "j"), ("j", "l"), ("l", "m")]
    assert tree.marks(M1, "j", "l") == [{"i": {"j": 1, "k": 1}, "j": {"k": 1, "l": 1}}]
    assert tree.marks(M1, "k", "l") == [{"i": {"j": 1, "k": 1}, "k": {"l": 1, "m": 1}}]
    # (m's first for l is its subscription.)
    assert tree.broker("l").durable.core.column() == {"j": 1, "k": 1, "m": 1}
    # m hears from l that the message which it has is also k's first for it.
    assert tree.hops(IDENTIFIERS) == [("l", "m")]
    assert tree.broker("m").durable.core.prefix("k") == 1
    tree.at((3.0, Heal()))
    tree.run()
    assert tree.sim.delivered("L@l") == tree.sim.delivered("M@m") == [M1]


def test_3_7_nobody_passes_over_a_second_broker_on_a_path():
    tree = Tree("i-j j-k k-l l-m", 1, "klm")
    tree.at((0.0, Crash("j")), (0.0, Cut("k", "l")), (1.0, publish("I@i", M1)))
    tree.run_for(3.0)
    # j and l of the three before m would have been passed over.
    assert tree.hops(M1) == [("i", "k")]
    assert tree.sim.delivered("K@k") == [M1]
    assert tree.sim.delivered("M@m") == []
    tree.at((3.1, Heal("k", "l")))
    tree.run_for(4.5)
    assert tree.hops(M1)[:3] == [("i", "k"), ("k", "l"), ("l", "m")]
    tree.at((5.0, Recover("j")))
    tree.run()
    assert [tree.sim.delivered(name) for name in ("K@k", "L@l", "M@m")] == [[M1]] * 3


def test_3_7_the_marks_of_whoever_was_passed_over_make_the_path_safe():
    tree = Tree("i-j j-k k-l l-m", 1, "klm")
    tree.at((0.0, Crash("j")), (0.0, Crash("l")), (1.0, publish("I@i", M1)), (2.0, Recover("j")))
    tree.run_for(1.9)
    assert tree.hops(M1) == [("i", "k")]
    tree.run_for(3.5)
    # j has come back and marked it: now only l is passed over.
    assert ("k", "m") in tree.hops(M1)
    assert tree.sim.delivered("M@m") == [M1]
    tree.at((4.0, Recover("l")))
    tree.run()
    assert tree.sim.delivered("L@l") == [M1]


def test_3_9_a_copy_is_not_passed_on_to_whom_its_last_forwarder_did_not_mean_it_for():
    """D got m1 from C, which meant it for D alone: B, on the other side of A, must get it from A."""
    tree = Tree("A-B A-C C-D", 2, "BD")
    tree.at((0.0, Cut("A", "B")), (1.0, publish("a@A", M1)))
    tree.run_for(1.02)
    entry = next(iter(tree.broker("C").durable.core.store.values()))
    assert entry.own == {"D": entry.own["D"]}
    # A meant it for B, too, so C may pass A's copy on; D has C's copy, and may not.
    core = tree.broker("D").durable.core
    assert tree.broker("C").durable.core.may_pass_on(entry, "B")
    assert core.store == {}
    tree.at((1.1, publish("d@D", M2)))
    tree.run_for(1.3)
    assert ("D", "B") not in tree.hops(M1)
    tree.at((2.0, Heal()))
    tree.run()
    assert tree.sim.delivered("b@B") == [M1, M2]


def test_3_10_a_a_message_goes_straight_to_whoever_can_be_reached():
    tree = Tree("A-B B-C C-D", 2, "BCD")
    tree.at((0.0, publish("a@A", M1)), (0.0, Cut("A", "B")), (0.0, Cut("A", "C")))
    tree.run_for(1.5)
    # B has not got it. A gives B and C up and sends the same copy to D.
    assert tree.hops(M1)[:2] == [("A", "B"), ("A", "D")]
    assert tree.marks(M1, "A", "B")[0] == tree.marks(M1, "A", "D")[0] == {"A": {"B": 1, "C": 1, "D": 1}}
    assert tree.sim.delivered("d@D") == [M1]
    tree.at((2.0, Heal()))
    tree.run()


def test_3_10_b_whoever_has_a_copy_that_was_meant_for_another_passes_it_on():
    tree = Tree("A-B B-C C-D", 2, "BCD")
    tree.at(
        (0.0, Cut("A", "B")),
        (0.0, Cut("A", "C")),
        (0.0, Cut("C", "D")),
        (1.0, publish("a@A", M1)),
        (1.5, publish("d@D", M2)),
    )
    tree.run_for(3.0)
    # D's m2 comes after m1, which A had numbered for B as well: B asks, and D passes A's copy on.
    assert ("D", "B") in tree.hops(M1)
    assert tree.marks(M1, "D", "B")[0] == {"A": {"B": 1, "C": 1, "D": 1}}
    assert tree.sim.delivered("b@B") == [M1, M2]
    tree.at((3.5, Heal()))
    tree.run()


def test_3_10_c_a_copy_is_passed_on_to_another_branch():
    tree = Tree("A-B B-D A-C C-E", 2, "BCDE")
    tree.at((0.0, Cut("A", "B")), (0.0, Cut("A", "D")), (1.0, publish("a@A", M1)), (1.5, publish("c@C", M2)))
    tree.run_for(3.0)
    # C has A's copy, which A had meant for B and D, too.
    asked = [("C", receiver) for receiver in "BD"]
    assert any(hop in tree.hops(M1) for hop in asked)
    for sender, receiver in asked:
        for marks in tree.marks(M1, sender, receiver):
            assert marks == {"A": {"B": 1, "C": 1, "D": 1, "E": 1}}
    assert tree.sim.delivered("b@B") == tree.sim.delivered("d@D") == [M1, M2]
    tree.at((3.5, Heal()))
    tree.run()


def test_3_11_numbers_of_another_group_leave_nothing_behind():
    """A numbers messages for B that never come to D. D keeps no numbers but those for itself, so there are no gaps."""
    tree = Tree("A-B B-D", 1, "B", [Subscribe("d@D", "h")])
    tree.at(*[(0.1 * n, publish("a@A", f"{n}".encode(), "g" if n % 2 else "h")) for n in range(1, 11)])
    tree.run()
    assert [len(tree.hops(f"{n}".encode())) for n in range(1, 11)] == [1, 2] * 5
    core = tree.broker("D").durable.core
    assert (len(core.unmarked), len(core.store), len(core._index)) == (0, 0, 0)
    assert {node: tracker.ranges() for node, tracker in core.seen.items()} == {"A": [], "B": []}
