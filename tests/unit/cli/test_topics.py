"""`holdfast topics`: each durable subscriber has one position."""

from typing import Any

from rich.console import Console

from holdfast.cli.repositories import _table


def repository(name: str, subscribers: dict[str, tuple[int, int, str]]) -> dict[str, Any]:
    """What a repository says of one stream; of each subscriber its position, its lag, and which repository it reads."""
    about = {
        who: {"sync": sync, "lag": lag, "steering": steering} for who, (sync, lag, steering) in subscribers.items()
    }
    stream = {"state": "serving", "kept": 1, "end": 9, "places": 0, "damaged": 0, "subscribers": about}
    return {"name": name, "streams": {"bank/#": stream}}


def shown(*found: dict[str, Any]) -> list[str]:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(_table(list(found)))
    return [line.rstrip() for line in captured.get().splitlines()[1:]]


def test_a_subscriber_is_where_the_repository_says_that_it_reads_from():
    r1 = repository("r1", {"billing": (3, 6, "r2"), "audit": (9, 0, "r1")})
    r2 = repository("r2", {"billing": (7, 2, "r2"), "audit": (4, 5, "r1")})
    first, second = shown(r1, r2)
    assert first.endswith("audit at 9")
    assert second.endswith("billing at 7 (2 behind)")


def test_a_subscriber_of_a_repository_that_is_away_is_where_it_is_farthest():
    first, second = shown(repository("r1", {"billing": (3, 6, "r3")}), repository("r2", {"billing": (5, 4, "r3")}))
    assert first.endswith("none")
    assert second.endswith("billing at 5 (4 behind)")
