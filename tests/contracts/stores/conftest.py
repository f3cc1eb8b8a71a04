"""One suite over every store."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.storage.stores import Store
from tests.contracts.stores.places import Place, new_place
from tests.support.postgres import PostgresServer, server_or_skip

KINDS = ("memory", "sqlite", "segments", "short segments", "postgres")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    # One for all of them: none of them ends it.
    yield from server_or_skip()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_place(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[], Place]]:
    places: list[Place] = []

    def make() -> Place:
        server_url = request.getfixturevalue("postgres").url if kind == "postgres" else ""
        places.append(new_place(kind, tmp_path, server_url))
        return places[-1]

    yield make
    for place in places:
        place.close()


@pytest.fixture
def place(make_place: Callable[[], Place]) -> Place:
    return make_place()


@pytest.fixture
def store(place: Place) -> Store:
    return place.open()
