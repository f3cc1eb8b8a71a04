"""Lines that repeat are counted, not repeated."""

import logging

import pytest

from holdfast.runtime.logs import ProcessLog
from holdfast.runtime.repeats import QUIET_S, Repeats


def test_of_a_thousand_lines_that_are_the_same_ten_are_written_with_their_count():
    repeats = Repeats()
    written = [repeats.count("closed", {"peer": "a", "address": f"x:{port}"}, 0.0) for port in range(1000)]
    assert [times for times in written if times] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]


def test_lines_that_differ_are_counted_apart():
    repeats = Repeats()
    assert [repeats.count("closed", {"peer": peer}, 0.0) for peer in "abab"] == [1, 1, 2, 2]
    assert repeats.count("opened", {"peer": "a"}, 0.0) == 1


def test_a_line_that_has_not_come_for_a_while_is_a_first_one_again():
    repeats = Repeats()
    assert [repeats.count("closed", {}, now) for now in (0.0, 1.0, 2.0)] == [1, 2, 0]
    assert repeats.count("closed", {}, 2.0 + QUIET_S) == 1


def test_what_came_least_recently_is_forgotten_first():
    repeats = Repeats(kinds_max=2)
    assert [repeats.count(event, {}, 0.0) for event in ("a", "b", "a", "c", "a", "b")] == [1, 1, 2, 1, 0, 1]


def test_a_log_writes_warnings_that_repeat_with_their_count(caplog: pytest.LogCaptureFixture):
    log = ProcessLog("holdfast.test", node="b0")
    with caplog.at_level(logging.INFO, "holdfast.test"):
        for port in range(5):
            log.warning("connection closed", peer="alice", address=f"127.0.0.1:{port}")
        log.warning("connection closed", peer="bob", address="127.0.0.1:9")
    fields = [getattr(record, "fields", {}) for record in caplog.records]
    assert [(one["peer"], one.get("times")) for one in fields] == [
        ("alice", None),
        ("alice", 2),
        ("alice", 4),
        ("bob", None),
    ]
