"""What a repository knows of a sibling (another repository of its bundle): its position, the rows under its numbers."""

from contextlib import suppress

from holdfast.model.ranges import Range
from holdfast.protocols.narada.config import RepositoryConfig
from holdfast.protocols.narada.consumed_position import ConsumedPosition
from holdfast.protocols.narada.events import SET_ASIDE, Gossip, Out, Row
from holdfast.protocols.narada.rows import RowTable
from holdfast.protocols.trackers import RangeTracker, WindowFull

KNOWN_RANGES_MAX = 4096
NEVER = -1e9
"""A time before all others, of what has not happened yet."""


class Sibling:
    """Another repository of the bundle, as we know it."""

    def __init__(self, name: str, era: int, config: RepositoryConfig, cover: int = 0) -> None:
        self.name, self.era = name, era
        self.end = 0
        self.serving = False
        self.heard_at = NEVER
        self.cover = cover
        """We have everything that lies at or below that number of its."""
        self.covers_us = 0
        """It has everything that lies at or below that number of ours."""
        self.table = RowTable(config.table_rows_max)
        self.known = RangeTracker(ranges_max=KNOWN_RANGES_MAX, start=cover)
        """Of which of its numbers we know what lies there."""
        self.hole_at = -1
        """Behind that number it has set a place aside itself: it was asked, and could not say what lies there."""
        self.explained = 0
        """Up to there it has told what lies under its numbers: what we do not know it had set aside itself by then."""
        self.lagging_since: float | None = None
        self.asked_at = NEVER
        self.asked_s = config.fetch_s
        self.forgotten: dict[tuple[str, int], RangeTracker] = {}
        """By publisher and life: what will not come from it, since it or another one has forgotten that."""
        self.told_first = False
        """Whether it has told what lies at its beginning, and so what it has forgotten."""
        self.known_digest = 0
        """Of the subscriptions that it knows."""
        self.told_at = self.told_all_at = NEVER
        """When it was last told of those that we know, and of all of them."""
        self.told: dict[str, tuple[ConsumedPosition, Out]] = {}
        """By subscription: what it had had when it was told of."""
        self.turn = 0
        """Which of our questions comes first the next time."""

    def _known_anew(self) -> RangeTracker:
        return RangeTracker(ranges_max=KNOWN_RANGES_MAX, start=self.cover)

    def is_explained(self) -> bool:
        """Whether it has told what lies under all of its numbers, but for places that it has set aside itself."""
        return self.heard_at > NEVER and max(self.known.prefix, self.explained) >= self.end

    def note_forgotten(self, who: tuple[str, int], first: int, last: int) -> None:
        """It has said that these are forgotten."""
        gone = self.forgotten.setdefault(who, RangeTracker(ranges_max=KNOWN_RANGES_MAX))
        with suppress(WindowFull):
            gone.add(first, last)

    def said_gone(self, who: tuple[str, int]) -> list[Range]:
        """Which numbers of a life it has said are forgotten."""
        gone = self.forgotten.get(who)
        return [] if gone is None else [(1, gone.prefix)] * bool(gone.prefix) + gone.ranges()

    def has_forgotten(self, who: tuple[str, int], first: int, last: int) -> bool:
        gone = self.forgotten.get(who)
        return gone is not None and not gone.new_part(first, last)

    def note_told(self, event: Gossip, known: int) -> None:
        """It has told all that lies between two of its numbers; before that everything up to `known` was known."""
        told = [row for row in event.rows if row.last > self.cover and row.kind != SET_ASIDE]
        if event.first <= max(known, self.explained) + 1 and all(self.known.contains(row.last) for row in told):
            self.explained = max(self.explained, event.upto)
        if event.first <= known + 1 <= event.upto and not any(row.first <= known + 1 <= row.last for row in event.rows):
            self.hole_at = known

    def begin_anew(self) -> None:
        """Forget what lies where, above what we cover: let it be told again."""
        self.known, self.table, self.explained = self._known_anew(), RowTable(self.table.rows_max), 0

    def learn(self, row: Row) -> None:
        if row.kind == SET_ASIDE or row.last <= self.cover:
            return
        try:
            self.known.add(row.first, row.last)
        except WindowFull:
            return  # It will be explained again when what lies below is known.
        self.table.needed_from = self.cover + 1
        self.table.add(row)
        if self.table.lost_high:
            # What did not fit is not known: it will be explained when what lies below was dealt with.
            self.table.lost_high = False
            self.known, self.explained = self._known_anew(), 0
            for first, last in self.table.ranges():
                if last > self.cover:
                    self.known.add(max(first, self.cover + 1), last)
