"""Repairs read from reports: rounds, and where the time went."""

from holdfast.experiments.repairs import RepairTrial, repairs
from holdfast.protocols.node import Report


def asking(old: str, new: str) -> Report:
    return Report("repair_start", peer=old, detail=f"asking {new} to take us in")


def test_the_time_is_parted_at_the_suspicion_and_at_the_last_question():
    reports = [
        (10.0, "4", Report("detach", peer="1")),
        (10.5, "4", Report("suspect", peer="1")),
        (10.5, "4", asking("1", "0")),
        (11.0, "4", asking("0", "2")),
        (13.0, "4", Report("repair_end", peer="2")),
    ]
    [one] = repairs(reports, ["2", "4"], fault_s=9.0)
    assert one == RepairTrial("4", "2", 2, doubt_ms=500, asking_ms=500, settling_ms=2000, since_fault_ms=4000)
    assert one.reconfiguration_ms == 2500


def test_a_broker_that_was_told_of_the_death_had_no_doubt_before():
    reports = [(10.0, "4", asking("1", "0")), (11.0, "4", Report("repair_end", peer="0"))]
    [one] = repairs(reports, ["4"], fault_s=9.0)
    assert (one.doubt_ms, one.rounds) == (0.0, 1)


def test_who_coordinates_asks_nobody_and_has_no_repair_of_its_own():
    reports = [
        (10.0, "0", Report("repair_start", peer="1")),
        (11.0, "0", Report("repair_end", peer="1")),
    ]
    assert repairs(reports, ["0"], fault_s=9.0) == []


def test_who_becomes_the_root_on_the_way_has_none_either():
    reports = [
        (10.0, "3", asking("0", "2")),
        (10.0, "3", Report("root", detail="in the place of 2")),
        (10.0, "3", Report("repair_start", peer="2")),
        (11.0, "3", Report("repair_end", peer="2")),
    ]
    assert repairs(reports, ["3"], fault_s=9.0) == []


def test_what_clients_do_and_what_was_before_the_fault_does_not_count():
    reports = [
        (1.0, "4", asking("1", "0")),
        (2.0, "4", Report("repair_end", peer="0")),
        (10.0, "c0", asking("1", "0")),
        (11.0, "c0", Report("repair_end", peer="0")),
    ]
    assert repairs(reports, ["4"], fault_s=9.0) == []
