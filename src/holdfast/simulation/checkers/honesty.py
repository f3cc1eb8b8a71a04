"""Was everybody told the truth? Losses that nobody was told of, and confirmations that were not true.

These judges stand outside of every protocol, as the others do, and read nothing but the trace. A message may be lost
where more fails than the network is made to survive; but then somebody must have been told.

`silent loss`
    A message that was owed to a client (as `lost` has it) has no delivery there, and the client has no row `gap` at or
    after the time of the publish. A gap says: of what was published before it something may be missing.

`false confirmation`
    A row `confirmed` of a message, while a client that it was owed to had no delivery of it by then. The time of a
    trace's rows has to be one clock's for that.

A client that has a row `crash` is owed nothing: there is no application that could miss anything. Nor is a client owed
what was published after the brokers had ended its session (a row `end` or `suspect` about it), if it learned that
itself later (a row `over`): from then on it was not subscribed any more.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from holdfast.model.trace import Event
from holdfast.model.verdicts import name_of
from holdfast.simulation.checkers.deliveries import confirmed_before, lasting_subscriptions
from holdfast.simulation.checkers.history import ClientHistory, Identity, Publication, RunHistory, read_runs

Accepted = Mapping[str, int]
COMPLAINTS_MAX = 5
"""So many sentences of each kind; the first of them says how many there are."""


def complaints(events: Iterable[Event], accepted: Accepted = MappingProxyType({})) -> list[str]:
    """Sentences about silent losses and false confirmations; empty if everybody was told the truth."""
    rows = list(events)
    losses = silent_losses(rows, accepted)
    return [*_some(losses, "silent losses"), *_some(false_confirmations(rows), "false confirmations")]


def silent_losses(events: Iterable[Event], accepted: Accepted = MappingProxyType({})) -> list[str]:
    """A sentence for every delivery that is missing without its client having been told.

    `accepted`: of publishers whose session was lost, the number up to which a broker has accepted their publications.
    Whether the later ones happened, nobody has promised them.
    """
    return [sentence for case in _Case.all_of(events) for sentence in case.silent_losses(accepted)]


def false_confirmations(events: Iterable[Event]) -> list[str]:
    """A sentence for every confirmation of something that somebody had not got by then."""
    return [sentence for case in _Case.all_of(events) for sentence in case.false_confirmations()]


def _some(found: list[str], what: str) -> list[str]:
    return [f"{len(found)} {what}, first: {found[0]}", *found[1:COMPLAINTS_MAX]] if found else []


class _Case:
    """One run, with the rows beside those that carry a promise."""

    def __init__(self, run: RunHistory, rows: list[Event]) -> None:
        self.run = run
        self.confirmed = [row for row in rows if row.event == "confirmed"]
        self.told_until: dict[str, int] = {}
        ended: dict[str, int] = {}
        crashed = set[str]()
        over: dict[str, int] = {}
        for row in rows:
            if row.event == "gap":
                self.told_until[row.node] = max(row.time, self.told_until.get(row.node, row.time))
            elif row.event == "crash":
                crashed.add(row.node)
            elif row.event == "over":
                over.setdefault(row.node, row.time)
            elif row.event in ("end", "suspect"):
                ended.setdefault(row.peer, row.time)
        self.crashed = crashed
        self.ended_at = {client: min(time, ended.get(client, time)) for client, time in over.items()}
        self.delivered: dict[str, dict[Identity, int]] = {}
        for client in run.clients.values():
            times = self.delivered[client.name] = dict[Identity, int]()
            for row in client.rows:
                if row.event == "deliver":
                    times.setdefault((row.publisher, row.seq), row.time)

    @classmethod
    def all_of(cls, events: Iterable[Event]) -> "Iterator[_Case]":
        rows = list(events)
        for run in read_runs(rows):
            yield cls(run, [row for row in rows if row.run == run.name])

    def silent_losses(self, accepted: Accepted) -> Iterator[str]:
        for publication in self.run.publications.values():
            if publication.seq > accepted.get(publication.publisher, publication.seq):
                continue
            for client in self._owed(publication):
                missing = (publication.publisher, publication.seq) not in self.delivered[client.name]
                if missing and self.told_until.get(client.name, -1) < publication.event.time:
                    yield f"{client.name} never got {publication} on {publication.topic!r}, and was not told"

    def false_confirmations(self) -> Iterator[str]:
        for row in self.confirmed:
            publication = self.run.publications.get((row.publisher, row.seq))
            if publication is None:
                yield f"{row.node} was told that {name_of(row)} is confirmed, which nobody published"
                continue
            for client in self._owed(publication):
                got = self.delivered[client.name].get((row.publisher, row.seq))
                if got is None or got > row.time:
                    when = "never got it" if got is None else "got it later"
                    yield f"{name_of(row)} on {publication.topic!r} was confirmed, and {client.name} {when}"

    def _owed(self, publication: Publication) -> Iterator[ClientHistory]:
        """The clients that live and to which this message was owed, by the subscriptions that they had then."""
        for client, subscriptions in lasting_subscriptions(self.run, publication.topic):
            ended_at = self.ended_at.get(client.name)
            if client.name in self.crashed or (ended_at is not None and ended_at <= publication.event.time):
                continue
            if any(
                confirmed_before(one, publication) and one.lets_through(publication.attributes) for one in subscriptions
            ):
                yield client
