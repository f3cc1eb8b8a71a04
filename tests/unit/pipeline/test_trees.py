"""The tree of brokers at every moment, from what brokers reported."""

from typing import Any

from holdfast.pipeline.trees import Trees

FIRST_PUBLICATION = 100


class Reports:
    """Rows about a run whose first message is published at 100."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.add(FIRST_PUBLICATION, "", "first")

    def add(self, time: int, node: str, event: str, peer: str = "") -> None:
        row = {"run": "r", "node": node, "peer": peer, "event": event, "time": time, "index": len(self.rows)}
        self.rows.append(row)

    def linked(self, time: int, one: str, other: str) -> None:
        self.add(time, one, "attach", other)
        self.add(time, other, "attach", one)


def chain() -> Reports:
    """0 - 1 - 2, before anything is published."""
    reports = Reports()
    reports.linked(10, "0", "1")
    reports.linked(20, "1", "2")
    return reports


def test_what_was_linked_before_the_first_message_is_the_first_tree():
    trees = Trees(chain().rows)
    assert trees.starts == []
    assert trees.way(0, "0", "2") == ["0", "1", "2"]
    assert trees.way(0, "1", "1") == ["1"]
    assert trees.way(0, "0", "9") is None


def test_a_link_is_gone_when_one_end_says_so_and_back_when_both_do():
    reports = chain()
    reports.add(200, "2", "suspect", "1")
    reports.add(201, "0", "detach", "1")
    reports.add(300, "2", "attach", "0")
    trees = Trees(reports.rows)
    assert (trees.starts, trees.way(0, "0", "2"), trees.way(2, "0", "2")) == ([200, 201], ["0", "1", "2"], None)
    reports.add(310, "0", "attach", "2")
    trees = Trees(reports.rows)
    assert (trees.starts, trees.way(3, "0", "2")) == ([200, 201, 310], ["0", "2"])


def test_a_session_that_is_resumed_is_the_link_of_before():
    reports = chain()
    for time, event in ((200, "detach"), (250, "resume")):
        reports.add(time, "1", event, "2")
    trees = Trees(reports.rows)
    assert (trees.starts, trees.way(1, "0", "2"), trees.way(2, "0", "2")) == ([200, 250], None, ["0", "1", "2"])


def test_who_crashes_has_no_links_and_what_others_say_later_of_it_changes_nothing():
    reports = chain()
    reports.add(200, "1", "crash")
    reports.add(210, "0", "detach", "1")
    trees = Trees(reports.rows)
    assert (trees.starts, trees.way(1, "0", "1")) == ([200], None)


def test_clients_that_come_and_go_leave_the_tree_as_it_is():
    reports = chain()
    reports.add(0, "ann", "client")
    reports.linked(200, "0", "ann")
    reports.add(300, "0", "detach", "ann")
    assert Trees(reports.rows).starts == []
