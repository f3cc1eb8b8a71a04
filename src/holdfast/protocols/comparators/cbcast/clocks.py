"""Vector clocks, one a group, and what of them has to be said.

A broker has a clock for every group that it knows of: how many casts of each member to that group it has delivered, or
knows of through what it has delivered. A cast carries the clocks of its sender. Since links are FIFO and lossless, only
the entries that changed since the last cast to the same receiver are said (section 6.3 of Birman, Schiper, Stephenson
1991); they are found by walking back from the latest change. A group's topic is written out at its first mention on a
link; from then on its number is enough.
"""

from collections.abc import Iterable

from holdfast.model.errors import PeerViolation

Entry = tuple[str, int, int]
"""A group's topic, a member's place in the view, and a count."""
Rows = tuple[tuple[int | str, tuple[int, ...]], ...]


class GroupClocks:
    """The clocks of one broker in one view."""

    __slots__ = ("_rows", "_versions", "counts", "version")

    def __init__(self) -> None:
        self.version = 0
        self.counts: dict[tuple[str, int], int] = {}
        """By group and place. It is read for every entry of every cast, and changed by `advance` alone."""
        self._versions: dict[tuple[str, int], int] = {}
        """When each entry changed, the latest change last."""
        self._rows: dict[int, dict[str, tuple[int, ...]]] = {}
        """What `rows_since` has found since the last change."""

    def count(self, topic: str, member: int) -> int:
        return self.counts.get((topic, member), 0)

    def advance(self, topic: str, member: int, count: int) -> bool:
        """Know of so many casts of the member to the group; whether that is news."""
        place = (topic, member)
        if count <= self.counts.get(place, 0):
            return False
        self.counts[place] = count
        self.version += 1
        if self._rows:
            self._rows = {}
        self._versions.pop(place, None)
        self._versions[place] = self.version
        return True

    def since(self, version: int) -> list[Entry]:
        """The entries that changed after that version, in order of their last change."""
        changed: list[Entry] = []
        for place in reversed(self._versions):
            if self._versions[place] <= version:
                break
            changed.append((*place, self.counts[place]))
        changed.reverse()
        return changed

    def rows_since(self, version: int) -> dict[str, tuple[int, ...]]:
        """The same by group. A cast goes to many receivers, and most of them were told of the last one, too."""
        rows = self._rows.get(version)
        if rows is None:
            rows = self._rows[version] = _by_group(self.since(version))
        return rows

    def __len__(self) -> int:
        return len(self.counts)


class ClockWriter:
    """What one receiver has been told in this view."""

    __slots__ = ("_numbers", "version")

    def __init__(self) -> None:
        self.version = 0
        self._numbers: dict[str, int] = {}

    def changes(self, clocks: GroupClocks) -> Rows:
        """What changed since the last time, by group."""
        changed = clocks.rows_since(self.version)
        self.version = clocks.version
        rows: list[tuple[int | str, tuple[int, ...]]] = []
        for topic, row in changed.items():
            number = self._numbers.get(topic)
            if number is None:
                self._numbers[topic] = len(self._numbers)
            rows.append((topic if number is None else number, row))
        return tuple(rows)


class ClockReader:
    """What one sender has told us in this view."""

    __slots__ = ("_topics",)

    def __init__(self) -> None:
        self._topics: list[str] = []

    def read(self, rows: Rows) -> list[Entry]:
        """The entries that the rows say."""
        entries: list[Entry] = []
        for group, row in rows:
            if isinstance(group, str):
                self._topics.append(group)
                topic = group
            elif group < len(self._topics):
                topic = self._topics[group]
            else:
                raise PeerViolation(f"a clock names group {group}, but only {len(self._topics)} were ever mentioned")
            if len(row) % 2:
                raise PeerViolation(f"a clock of group {topic} has a member without a count")
            entries += [(topic, row[at], row[at + 1]) for at in range(0, len(row), 2)]
        return entries


def whole(entries: Iterable[Entry]) -> Rows:
    """These entries for somebody who was told nothing before."""
    return tuple(_by_group(entries).items())


def _by_group(entries: Iterable[Entry]) -> dict[str, tuple[int, ...]]:
    rows: dict[str, list[int]] = {}
    for topic, member, count in entries:
        rows.setdefault(topic, []).extend((member, count))
    return {topic: tuple(row) for topic, row in rows.items()}
