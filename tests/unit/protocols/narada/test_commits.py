"""How much a repository puts into one commit, and what waits for the next."""

from holdfast.model.batches import make_batch
from holdfast.protocols.narada import Repository, RepositoryConfig
from holdfast.protocols.narada.events import Order, Run, encode
from holdfast.protocols.narada.fingerprints import fingerprint
from holdfast.protocols.narada.participant import Append, Commit, Effects, Say
from holdfast.protocols.narada.repository import TICK_TIMER
from holdfast.protocols.narada.topics import bundle_topic

STREAM = "orders"


def serving(config: RepositoryConfig) -> Repository:
    repository = Repository(config, [STREAM], incarnation=1)
    repository.start(0.0)
    repository.timer(TICK_TIMER, 1.0)
    assert repository.streams[STREAM].stream_state.serving
    return repository


def publish(repository: Repository, publisher: str, number: int, payload: bytes, order_first: bool = False) -> Effects:
    """What a publisher says with one message: the message, and its order."""
    batch = make_batch(publisher, number, STREAM, 1, [payload])
    run = Run(number, number, 1, fingerprint(batch))
    order = Order(STREAM, publisher, 1, repository.name, (), 1, number, (run,))
    event = make_batch(publisher, 1000 + number, bundle_topic(STREAM), 0, [encode(order)])
    said = [event, batch] if order_first else [batch, event]
    return [effect for one in said for effect in repository.heard(one, 2.0)]


def appended(effects: Effects) -> list[bytes]:
    entries = [entry for effect in effects if isinstance(effect, Append) for entry in effect.entries]
    return [payload for entry in entries for payload in entry.batch.payload_list()]


def commit(repository: Repository) -> list[bytes]:
    """Let the commit under way end, if there is one, and the next begin: what that one stores."""
    effects = repository.settle(2.0)
    token = next((effect.token for effect in effects if isinstance(effect, Commit)), 0)
    if token:
        repository.stored(token, 2.0)
    return appended(effects)


def test_what_does_not_fit_into_a_commit_is_in_the_next_ones_in_the_order_in_which_it_came():
    repository = serving(RepositoryConfig("r1", commit_bytes_max=200))
    commit(repository)
    for number in range(1, 6):
        publish(repository, "alice", number, b"a%d" % number)
        publish(repository, "bob", number, b"b%d" % number, order_first=True)
    assert commit(repository) == [b"a1", b"b1", b"a2", b"b2"]
    assert commit(repository) == [b"a3", b"b3", b"a4", b"b4"]
    assert commit(repository) == [b"a5", b"b5"]


def test_what_has_no_room_to_wait_is_in_the_commit_all_the_same():
    repository = serving(RepositoryConfig("r1", commit_bytes_max=100, orders_max=3))
    commit(repository)
    for number in range(1, 6):
        publish(repository, "alice", number, b"a%d" % number)
    # Two fit. Of the third its order waits, of the fourth message and order: there is no room for the fifth to wait.
    assert commit(repository) == [b"a1", b"a2", b"a3", b"a4"]
    assert commit(repository) == [b"a5"]


def test_a_repeat_of_what_is_waiting_is_stored_once():
    repository = serving(RepositoryConfig("r1", commit_bytes_max=100))
    commit(repository)
    for number in (1, 2, 3, 4, 3, 4):
        publish(repository, "alice", number, b"a%d" % number)
    assert [commit(repository) for _ in range(3)] == [[b"a1", b"a2"], [b"a3", b"a4"], []]


def test_the_publisher_is_acknowledged_after_each_commit():
    repository = serving(RepositoryConfig("r1", commit_bytes_max=100))
    commit(repository)
    for number in range(1, 5):
        publish(repository, "alice", number, b"a%d" % number)
    said = []
    for _ in range(3):
        effects = repository.settle(2.0)
        said.append(sum(isinstance(effect, Say) and effect.topic.endswith("/to/alice") for effect in effects))
        for effect in effects:
            if isinstance(effect, Commit):
                repository.stored(effect.token, 2.0)
    assert said == [0, 1, 1]
