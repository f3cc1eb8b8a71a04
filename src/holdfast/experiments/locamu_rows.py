"""Looking up what came of a load, whichever point carried it."""

from collections.abc import Iterable, Sequence

from holdfast.experiments.locamu import Load, Point, Result, Row

Key = tuple[str, int, int, int, bool, bool, Load]


class Found:
    """The results of all rows that kept their promises, by world and load."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._results: dict[Key, Result] = {}
        self.brokers = max((row.point.brokers for row in rows), default=0)
        for row in rows:
            if row.kept:
                for result in row.results:
                    self._results[_key(row.point, result.load)] = result

    def get(self, protocol: str, load: Load, brokers: int = 0, **world: int | bool) -> Result | None:
        """What came of that load; in the largest tree, unless `brokers` says otherwise."""
        point = Point(protocol, brokers or self.brokers, **world)  # type: ignore[arg-type]  # fields of a point
        return self._results.get(_key(point, load))

    def per_s(self, protocol: str, loads: Iterable[Load], **world: int | bool) -> list[float | None]:
        """Deliveries a second under each of these loads."""
        found = (self.get(protocol, load, **world) for load in loads)
        return [one.per_s if one else None for one in found]

    def sustained(self, protocol: str, loads: Iterable[Load], mbps: float, **world: int | bool) -> list[float | None]:
        """Deliveries a second that brokers with that bandwidth can go on with, under each of these loads."""
        found = (self.get(protocol, load, **world) for load in loads)
        return [round(one.sustained_per_s(mbps), 1) if one else None for one in found]

    def header_bytes(self, protocol: str, loads: Iterable[Load], **world: int | bool) -> list[float | None]:
        """Metadata of a message under each of these loads."""
        found = (self.get(protocol, load, **world) for load in loads)
        return [one.header_bytes if one else None for one in found]


def _key(point: Point, load: Load) -> Key:
    return point.protocol, point.brokers, point.fan_out, point.tolerance, point.subtrees, point.absent, load
