"""The event log: who did what when, one line each, in an order in which it may have happened.

Rows of one node are in that node's order, and a delivery is behind its publication; the rest is by the time of the
nodes' clocks, which on several machines are as good as they are kept. Messages are numbered from 1 for each publisher,
as scripts number them: the numbers of a session may begin elsewhere.
"""

from collections.abc import Iterable, Iterator

from holdfast.cluster.play.statements import LoggingLevelName
from holdfast.model.identities import name_of
from holdfast.model.trace import Event

CLIENT_EVENTS = {
    "publish": "publishes {message} on {topic} ({guarantee}{keys})",
    "deliver": "delivers {message} on {topic} ({guarantee}{keys})",
    "subscribe": "subscribes to {interest}",
    "unsubscribe": "unsubscribes from {interest}",
    "crash": "crashes",
    "freeze": "is frozen",
    "thaw": "goes on",
}


SCRIPT = "~script"
"""Whose rows the lines of the script are, in the log alone."""


class EventLog:
    """Rows come as they are collected, and leave as lines when nothing can come any more that belongs before them."""

    def __init__(self, level: LoggingLevelName = "light") -> None:
        self.level = level
        self.begun_ns = 0
        self._clients: set[str] = set()
        self._waiting: list[tuple[int, int, int, Event]] = []
        self._latest: dict[str, int] = {}
        self._published: dict[tuple[str, int], int] = {}
        self._first: dict[str, int] = {}
        """The number of the first message that each publisher has published."""
        self._count = 0

    def know(self, client: str) -> None:
        """From now on this is the name of a client; what others do is what brokers report."""
        self._clients.add(client)

    def command(self, line: int, text: str, time_ns: int) -> None:
        """A line of the script is carried out."""
        self.add([Event("", SCRIPT, self._count, time_ns, "command", detail=f"[{line}] {text}" if line else text)])

    def add(self, rows: Iterable[Event]) -> None:
        """More rows, those of each node in its order."""
        new = list(rows)
        self._published |= {(row.publisher, row.seq): row.time for row in new if row.event == "publish"}
        for row in new:
            if row.event == "publish":
                self._first.setdefault(row.publisher, row.seq)
            origin = self._published.get((row.publisher, row.seq), 0) if row.event == "deliver" else 0
            at_ns = max(self._latest.get(row.node, 0), row.time, origin)
            self._latest[row.node] = at_ns
            self._count += 1
            self._waiting.append((at_ns, row.event == "deliver", self._count, row))

    def lines(self, horizon_ns: int | None = None) -> list[str]:
        """The lines that are certain: of everything before that time, or of everything."""
        self._waiting.sort(key=lambda one: one[:3])
        ready = [one for one in self._waiting if horizon_ns is None or one[0] <= horizon_ns]
        self._waiting = self._waiting[len(ready) :]
        return [line for at_ns, _, _, row in ready for line in self._line(at_ns, row)]

    def _line(self, at_ns: int, row: Event) -> Iterator[str]:
        node, clock = name_of(row.node), f"{(at_ns - self.begun_ns) / 1e9:10.3f} s  "
        if row.node == SCRIPT:
            yield f"{clock}{row.detail}"
        elif node in self._clients and row.event in CLIENT_EVENTS:
            yield f"{clock}{node} {self._sentence(row)}"
        elif self.level == "full":
            kind = "" if node in self._clients else "broker "
            message = self._message(row) if row.seq else ""
            yield clock + " ".join(filter(None, [f"{kind}{node}", row.event, row.peer, message, row.topic, row.detail]))

    def _sentence(self, row: Event) -> str:
        return CLIENT_EVENTS[row.event].format(
            message=self._message(row),
            topic=row.topic,
            guarantee=row.guarantee,
            keys=f", keys {' '.join(row.keys)}" if row.keys else "",
            interest=f"{row.topic} where {row.where}" if row.where else row.topic,
        )

    def _message(self, row: Event) -> str:
        return f"{name_of(row.publisher)}#{row.seq - self._first.get(row.publisher, 1) + 1}"
