"""Who wanted what, and from when to when: the same rules as everywhere, for the clients of one task."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np

from holdfast.model.errors import FilterError
from holdfast.model.filters import Filter, parse_filter
from holdfast.model.topics import matches
from holdfast.model.trace import TraceError
from holdfast.pipeline.audit.inbox import SUBSCRIBE, UNSUBSCRIBE, Bools, Inbox, Longs
from holdfast.pipeline.audit.publications import AuditedPublications, Names, Topics
from holdfast.pipeline.trace_frames import decode_value

MATCHES_REMEMBERED_MAX = 1 << 16

_matches = lru_cache(MATCHES_REMEMBERED_MAX)(matches)


@dataclass(slots=True)
class AuditedSubscription:
    """A client's pair of pattern and filter, from its confirmation (None if it never came) to its end (likewise)."""

    pattern: str
    where: str
    confirmed_at: int | None
    """Index of the subscribe row."""
    confirmed_time: int
    ended_at: int | None = None
    """Index of the unsubscribe row."""

    def __str__(self) -> str:
        return f"{self.pattern} where {self.where}" if self.where else self.pattern


class AuditedSubscriptions:
    """All subscriptions of the clients of a task, by the client's rank."""

    def __init__(self, inbox: Inbox, names: Names) -> None:
        self.of: dict[int, list[AuditedSubscription]] = {}
        self.rows: list[tuple[int, int]] = []
        """Node and index of every row."""
        rows = sorted(_rows(inbox, names), key=lambda row: row[:2])
        lasting: dict[tuple[int, str, str], AuditedSubscription] = {}
        for node, index, time, begins, pattern, where in rows:
            self.rows.append((node, index))
            _check_filter(names, node, index, where)
            one = lasting.get((node, pattern, where))
            if one is None:
                one = AuditedSubscription(pattern, where, index if begins else None, time)
                self.of.setdefault(node, []).append(one)
                lasting[node, pattern, where] = one
            if not begins:
                one.ended_at = index
                del lasting[node, pattern, where]


def _rows(inbox: Inbox, names: Names) -> Iterator[tuple[int, int, int, bool, str, str]]:
    for kind in (SUBSCRIBE, UNSUBSCRIBE):
        nodes = names.ranks(inbox.numbers(kind, "node")).tolist()
        indexes, times = inbox.numbers(kind, "index").tolist(), inbox.numbers(kind, "time").tolist()
        patterns, wheres = inbox.words(kind, "text").to_pylist(), inbox.words(kind, "more").to_pylist()
        for node, index, time, pattern, where in zip(nodes, indexes, times, patterns, wheres, strict=True):
            yield node, index, time, kind == SUBSCRIBE, pattern, where or ""


def _check_filter(names: Names, node: int, index: int, where: str) -> None:
    try:
        if where:
            parse_filter(where)
    except FilterError as error:
        place = f"run {names.runs[names.run_of[node]]!r}, node {names.texts[node]!r}, index {index}"
        raise TraceError(f"{place}: column 'where' holds no legal filter. {error}") from None


class Interest:
    """Which publications a subscription lets through: by topic, and by content."""

    def __init__(self, publications: AuditedPublications, topics: Topics, names: Names) -> None:
        self._publications, self._topics, self._names = publications, topics, names
        self._let_through: dict[str, tuple[Bools, Bools]] = {}
        self._matching: dict[tuple[int, str], list[int]] = {}
        self.topics_count = len(topics.texts)

    def topics(self, client: int, pattern: str) -> list[int]:
        """The topics of the client's run that a pattern matches."""
        run = int(self._names.run_of[client])
        found = self._matching.get((run, pattern))
        if found is None:
            held = self._topics.of_run.get(self._names.runs[run], {})
            # Most patterns are topics. With thousands of clients all pairs of both would be millions.
            texts = held if "+" in pattern or "#" in pattern else {pattern} & held.keys()
            found = self._matching[run, pattern] = [held[text] for text in texts if _matches(pattern, text)]
        return found

    def passes(self, where: str, numbers: Longs) -> Bools:
        """Which of these publications a filter lets through; each is asked once, and equal attributes once."""
        size = len(self._publications)
        if where not in self._let_through:
            self._let_through[where] = (np.zeros(size, np.bool_), np.zeros(size, np.bool_))
        asked, passed = self._let_through[where]
        new = np.unique(numbers[~asked[numbers]])
        if len(new):
            texts = self._publications.attributes(new).dictionary_encode()
            filter_ = parse_filter(where)
            answers = [_lets_through(filter_, text) for text in texts.dictionary.to_pylist()]
            codes = texts.indices.fill_null(len(answers)).to_numpy(zero_copy_only=False)
            passed[new] = np.array([*answers, filter_.matches({})], np.bool_)[codes]
            asked[new] = True
        return passed[numbers]


def _lets_through(filter_: Filter, text: str) -> bool:
    attributes: dict[str, str] = msgspec.json.decode(text)
    return filter_.matches({name: decode_value(value) for name, value in attributes.items()})
