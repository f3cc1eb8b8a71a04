"""What a repository answers to a sibling that asks for messages by its sequence numbers."""

import msgspec

from holdfast.model.batches import make_batch
from holdfast.model.reliable import Level
from holdfast.protocols.narada import Repository, RepositoryConfig
from holdfast.protocols.narada.events import SKIPPED, Fetch, Gossip, encode
from holdfast.protocols.narada.participant import Effects, Read, Say, control_events
from holdfast.protocols.narada.stream_state import StreamHead
from holdfast.protocols.narada.topics import inbox_topic
from tests.unit.protocols.narada.test_commits import STREAM, commit, publish, serving

CONFIG = RepositoryConfig("r1", level=Level.MEMORY, reserve=100)


def asked(repository: Repository, *ranges: tuple[int, int]) -> Effects:
    fetch = make_batch("r2", 1, inbox_topic(STREAM, "r1"), 0, [encode(Fetch(STREAM, "r1", "r2", ranges))])
    return repository.heard(fetch, 3.0)


def told(effects: Effects) -> list[tuple[int, int, int]]:
    """The rows that the sibling is told: first, last and kind."""
    said = [make_batch("r1", 1, one.topic, 0, [one.payload]) for one in effects if isinstance(one, Say)]
    gossips = [event for batch in said for event in control_events(batch, []) if isinstance(event, Gossip)]
    return [(row.first, row.last, row.kind) for gossip in gossips for row in gossip.rows]


def begun_again(next_number: int, reserved: int) -> Repository:
    """A repository that finds less in its store than it may have told."""
    key = Repository(CONFIG, [STREAM], incarnation=1).streams[STREAM].stream_state.key("head")
    head = StreamHead(1, next_number, reserved, [])
    repository = Repository(CONFIG, [STREAM], incarnation=2, restored={key: msgspec.msgpack.encode(head)})
    repository.start(2.0)
    return repository


def test_who_asks_for_what_was_told_and_lost_is_told_all_that_will_never_lie_there():
    repository = begun_again(next_number=44, reserved=100)
    assert told(asked(repository, (56, 57), (60, 60))) == [(44, 100, SKIPPED)]


def test_who_asks_for_what_is_there_is_told_of_nothing_else():
    repository = serving(CONFIG)
    publish(repository, "alice", 1, b"one")
    commit(repository)
    effects = asked(repository, (1, 1))
    assert told(effects) == []
    assert [(one.first, one.last) for one in effects if isinstance(one, Read)] == [(1, 1)]
