"""What a broker knows of the publishers that are, or were, attached to it."""

from functools import lru_cache

from holdfast.model.batches import Batch, BatchError
from holdfast.model.errors import LocalMisuse
from holdfast.model.topics import check_topic

PUBLISHERS_MAX = 100_000


class PublisherMemory:
    """The last number of each publisher, so that a new session under an old name goes on after it.

    Bounded: beyond `PUBLISHERS_MAX` names the one that was silent the longest is forgotten.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def last(self, name: str) -> int:
        return self._last.get(name, 0)

    def note(self, name: str, seq: int) -> None:
        self._last.pop(name, None)
        self._last[name] = seq
        if len(self._last) > PUBLISHERS_MAX:
            del self._last[next(iter(self._last))]


def check_publication(client: str, batch: Batch, memory: PublisherMemory) -> str:
    """What is wrong with a batch that this client published; empty if nothing is. Its numbers count as used."""
    last = memory.last(client)
    if batch.publisher != client:
        return f"client {client} may publish under its own name only, not as {batch.publisher}"
    if batch.first != last + 1:
        return f"client {client} published #{batch.first}, but #{last + 1} is next"
    memory.note(client, batch.last)
    problem = _topic_problem(batch.topic)
    if problem:
        return problem
    try:
        batch.check()
    except BatchError as error:
        return str(error)
    return ""


@lru_cache(maxsize=4096)
def _topic_problem(topic: str) -> str:
    try:
        check_topic(topic)
    except LocalMisuse as error:
        return str(error)
    return ""
