"""The looks at a store go on whatever one of them meets, and if they end, somebody is told."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.runtime.logs import ProcessLog
from holdfast.services.inspection import Inspection
from holdfast.storage.stores import Damage, StoreAway, open_store

LIMIT_S = 20.0


def raising(error: Exception) -> Callable[[], list[Damage]]:
    def fail() -> list[Damage]:
        raise error

    return fail


def inspection(tmp_path: Path) -> Inspection:
    url = f"sqlite:{tmp_path / 'store.db'}"
    open_store(url).close()
    return Inspection(url, 0, ("orders",), lambda *_: None, ProcessLog("holdfast.test"))


def test_what_cannot_be_read_is_reported_and_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def story() -> None:
        looks = inspection(tmp_path)
        monkeypatch.setattr(looks, "_verified", raising(PermissionError("not yours")))
        await looks._look()
        assert [damage.what for damage in looks.damages] == ["not yours"]
        monkeypatch.undo()
        await looks._look()
        assert looks.damages == []
        looks.close()

    asyncio.run(story())


def test_a_store_that_is_away_is_not_a_damaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def story() -> None:
        looks = inspection(tmp_path)
        monkeypatch.setattr(looks, "_verified", raising(StoreAway("nobody answers")))
        await looks._look()
        assert (looks.damages, looks.inspected_at, looks.waiting_for()) == ([], None, [])
        looks.close()

    asyncio.run(story())


def test_looks_that_ended_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def story() -> None:
        looks = inspection(tmp_path)
        monkeypatch.setattr(looks, "_verified", raising(ZeroDivisionError("a mistake of ours")))
        looks.start()
        looks.ask()
        assert looks._task is not None
        await asyncio.wait([looks._task], timeout=LIMIT_S)
        assert looks.waiting_for() == [
            "an operator: the store is not looked at any more (a mistake of ours); restart the repository"
        ]
        looks.close()

    asyncio.run(story())
