"""Looking up what came of a load, whichever point carried it."""

from collections.abc import Iterable, Sequence

from holdfast.experiments.locamu import LocamuLoad, LocamuPoint, LocamuResult, LocamuRow

Key = tuple[str, int, int, int, bool, bool, LocamuLoad]


class Found:
    """The results of all rows that kept their promises, by world and load."""

    def __init__(self, rows: Sequence[LocamuRow]) -> None:
        self._results: dict[Key, LocamuResult] = {}
        self.brokers = max((row.point.brokers for row in rows), default=0)
        for row in rows:
            if row.kept:
                for result in row.results:
                    self._results[_key(row.point, result.load)] = result

    def get(self, protocol: str, load: LocamuLoad, brokers: int = 0, **world: int | bool) -> LocamuResult | None:
        """What came of that load; in the largest tree, unless `brokers` says otherwise."""
        point = LocamuPoint(protocol, brokers or self.brokers, **world)  # type: ignore[arg-type]  # fields of a point
        return self._results.get(_key(point, load))

    def per_s(self, protocol: str, loads: Iterable[LocamuLoad], **world: int | bool) -> list[float | None]:
        """Deliveries a second under each of these loads."""
        found = (self.get(protocol, load, **world) for load in loads)
        return [one.per_s if one else None for one in found]

    def sustained(
        self, protocol: str, loads: Iterable[LocamuLoad], mbps: float, **world: int | bool
    ) -> list[float | None]:
        """Deliveries a second that brokers with that bandwidth can go on with, under each of these loads."""
        found = (self.get(protocol, load, **world) for load in loads)
        return [round(one.sustained_per_s(mbps), 1) if one else None for one in found]

    def header_bytes(self, protocol: str, loads: Iterable[LocamuLoad], **world: int | bool) -> list[float | None]:
        """Metadata of a message under each of these loads."""
        found = (self.get(protocol, load, **world) for load in loads)
        return [one.header_bytes if one else None for one in found]


def _key(point: LocamuPoint, load: LocamuLoad) -> Key:
    return point.protocol, point.brokers, point.fan_out, point.tolerance, point.subtrees, point.absent, load
