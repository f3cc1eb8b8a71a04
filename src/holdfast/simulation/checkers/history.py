"""A trace put in order: the runs, their publications, and each client's history and subscriptions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter

from holdfast.model.errors import FilterError
from holdfast.model.filters import Filter, Value, parse_filter
from holdfast.model.guarantees import CAUSAL, RANKS
from holdfast.model.trace import CROSSED, Event, TraceError, check_event

Identity = tuple[str, int]
Step = tuple[bool, "Publication"]
"""One row of a history that carries causality: whether it is the publish or a delivery, and of which causal-or-stronger
message. Weaker messages make no dependency."""


@dataclass(slots=True, eq=False)
class Publication:
    """A message that was published. Equal only to itself, so that looking it up is cheap."""

    event: Event
    rank: int
    keys: frozenset[str]
    number: int = 0
    """Place among all publications of the run in order of `(publisher, seq)`."""
    lane: int = 0
    """The publisher's number."""
    past: tuple[int, ...] = ()
    """The causal past of a causal-or-stronger message: for every lane the highest seq, 0 for none."""

    @property
    def publisher(self) -> str:
        return self.event.publisher

    @property
    def seq(self) -> int:
        return self.event.seq

    @property
    def topic(self) -> str:
        return self.event.topic

    @property
    def attributes(self) -> dict[str, Value]:
        return self.event.attributes

    def __str__(self) -> str:
        return f"{self.event.publisher}#{self.event.seq}"


@dataclass(slots=True, eq=False)
class SubscriptionHistory:
    """What a client wanted, from its confirmation (`None` if it never came) to its end (`None` likewise)."""

    pattern: str
    filter: Filter | None
    confirmed: Event | None
    ended_at: int | None = None
    """Position of the unsubscribe among the client's rows."""

    def lets_through(self, attributes: dict[str, Value]) -> bool:
        return self.filter is None or self.filter.matches(attributes)


@dataclass(slots=True, eq=False)
class ClientHistory:
    """One client's history."""

    name: str
    rows: list[Event] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    subscriptions: list[SubscriptionHistory] = field(default_factory=list)
    arrived: list[Publication] = field(default_factory=list)
    """First deliveries that were not created, in their order: what order is judged by."""


@dataclass(slots=True, eq=False)
class RunHistory:
    """One run: clients by name and publications by identity, both in sorted order."""

    name: str
    clients: dict[str, ClientHistory] = field(default_factory=dict)
    publications: dict[Identity, Publication] = field(default_factory=dict)
    lanes: dict[str, int] = field(default_factory=dict)
    crossed: frozenset[Identity] = frozenset()
    """Weaker messages that are reported to have crossed a total one when parts of the network came together."""


def read_runs(events: Iterable[Event]) -> list[RunHistory]:
    """The runs that the rows belong to, by name. Rows that carry no promise (`crash`, ...) are passed over."""
    rows: dict[str, dict[str, list[Event]]] = {}
    crossed: dict[str, set[Identity]] = {}
    for event in events:
        if event.event == CROSSED or (event.event == "deliver" and event.detail == CROSSED):
            crossed.setdefault(event.run, set()).add((event.publisher, event.seq))
        if event.event in ("publish", "deliver", "subscribe", "unsubscribe"):
            rows.setdefault(event.run, {}).setdefault(event.node, []).append(event)
    return [_read_run(name, rows[name], frozenset(crossed.get(name, ()))) for name in sorted(rows)]


def _read_run(name: str, rows: dict[str, list[Event]], crossed: frozenset[Identity]) -> RunHistory:
    run = RunHistory(name, crossed=crossed)
    for node in sorted(rows):
        run.clients[node] = ClientHistory(node, sorted(rows[node], key=attrgetter("index")))
    _read_publications(run)
    for client in run.clients.values():
        _read_steps(client, run)
        _read_subscriptions(client)
    return run


def _read_publications(run: RunHistory) -> None:
    found: dict[Identity, Publication] = {}
    for client in run.clients.values():
        for event in client.rows:
            identity = (event.publisher, event.seq)
            # A publisher that sends again what it published before has published it once.
            if event.event == "publish" and identity not in found:
                check_event(event, place_of(event))
                found[identity] = Publication(event, RANKS[event.guarantee], frozenset(event.keys))
    for number, identity in enumerate(sorted(found)):
        publication = run.publications[identity] = found[identity]
        publication.number = number
        publication.lane = run.lanes.setdefault(publication.publisher, len(run.lanes))


def _read_steps(client: ClientHistory, run: RunHistory) -> None:
    for event in client.rows:
        publication = run.publications.get((event.publisher, event.seq))
        if publication is None or publication.rank < CAUSAL:
            continue
        if event.event == "deliver":
            client.steps.append((False, publication))
        elif event is publication.event:
            client.steps.append((True, publication))


def _read_subscriptions(client: ClientHistory) -> None:
    lasting: dict[tuple[str, str], SubscriptionHistory] = {}
    for position, event in enumerate(client.rows):
        pair = (event.topic, event.where)
        if event.event == "subscribe" and pair not in lasting:
            lasting[pair] = _subscription(event, confirmed=event)
            client.subscriptions.append(lasting[pair])
        elif event.event == "unsubscribe":
            ended = lasting.pop(pair, None)
            if ended is None:
                ended = _subscription(event, confirmed=None)
                client.subscriptions.append(ended)
            ended.ended_at = position


def _subscription(event: Event, confirmed: Event | None) -> SubscriptionHistory:
    check_event(event, place_of(event))
    try:
        content = parse_filter(event.where) if event.where else None
    except FilterError as error:
        raise TraceError(f"{place_of(event)}: column 'where' holds no legal filter. {error}") from None
    return SubscriptionHistory(event.topic, content, confirmed)


def place_of(event: Event) -> str:
    return f"run {event.run!r}, node {event.node!r}, index {event.index}"
