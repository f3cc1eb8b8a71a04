"""What a repository knows of another one of its bundle: how far that one is, and what lies under its numbers."""

from holdfast.protocols.narada.config import RepositoryConfig
from holdfast.protocols.narada.events import SET_ASIDE, Row
from holdfast.protocols.narada.rows import RowTable
from holdfast.protocols.trackers import RangeTracker, WindowFull

KNOWN_RANGES_MAX = 4096


class Member:
    """Another repository of the bundle, as we know it."""

    def __init__(self, name: str, era: int, config: RepositoryConfig, cover: int = 0) -> None:
        self.name, self.era = name, era
        self.end = 0
        self.serving = False
        self.heard_at = -1e9
        self.cover = cover
        """We have everything that lies at or below that number of its."""
        self.covers_us = 0
        """It has everything that lies at or below that number of ours."""
        self.table = RowTable(config.table_rows_max)
        self.known = RangeTracker(ranges_max=KNOWN_RANGES_MAX, start=cover)
        """Of which of its numbers we know what lies there."""
        self.hole_at = -1
        """Behind that number it has set a place aside itself: it was asked, and could not say what lies there."""
        self.lagging_since: float | None = None
        self.asked_at = -1e9
        self.asked_s = config.fetch_s
        self.forgotten: dict[tuple[str, int], int] = {}
        """By publisher and life: up to where it has forgotten everything, as far as it said so."""
        self.known_digest = 0
        """Of the subscriptions that it knows."""
        self.told_at = -1e9
        """When it was last told of those that we know."""
        self.told = 0
        """How many of them it was told of in this round."""
        self.turn = 0
        """Which of our questions comes first the next time."""

    def known_anew(self) -> RangeTracker:
        return RangeTracker(ranges_max=KNOWN_RANGES_MAX, start=self.cover)

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
            self.known = self.known_anew()
            for first, last in self.table.ranges():
                if last > self.cover:
                    self.known.add(max(first, self.cover + 1), last)
