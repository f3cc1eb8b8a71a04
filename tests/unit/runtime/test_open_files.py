"""How many connections a process may have, and what it asks the system for."""

import resource

import pytest

from holdfast.runtime.open_files import SPARE_FILES, allow_connections


class Limits:
    """The system, as far as it counts open files."""

    def __init__(self, soft: int, hard: int) -> None:
        self.soft, self.hard = soft, hard

    def get(self, _which: int) -> tuple[int, int]:
        return self.soft, self.hard

    def set(self, _which: int, limits: tuple[int, int]) -> None:
        self.soft, self.hard = limits


def limited(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> Limits:
    limits = Limits(soft, hard)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    return limits


def test_a_process_asks_for_what_it_needs_and_not_for_more(monkeypatch: pytest.MonkeyPatch):
    limits = limited(monkeypatch, 1024, 1_000_000)
    assert allow_connections(10_000) == 10_000
    assert (limits.soft, limits.hard) == (10_000 + SPARE_FILES, 1_000_000)


def test_a_process_that_may_not_have_enough_gets_what_there_is(monkeypatch: pytest.MonkeyPatch):
    limits = limited(monkeypatch, 1024, 4096)
    assert allow_connections(10_000) == 4096 - SPARE_FILES
    assert limits.soft == 4096


def test_a_limit_that_is_high_enough_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    limits = limited(monkeypatch, 50_000, 50_000)
    assert allow_connections(10_000) == 10_000
    assert limits.soft == 50_000


def test_where_there_is_no_limit_none_is_set(monkeypatch: pytest.MonkeyPatch):
    limits = limited(monkeypatch, resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    assert allow_connections(10_000) == 10_000
    assert limits.soft == resource.RLIM_INFINITY
