"""A store some of whose messages do not fit their checksums: nobody gets them until they are mended."""

from collections.abc import Iterable, Sequence

from holdfast.model.reliable import Entry
from holdfast.storage.stores import Damage, MemoryStore

EVERYTHING = 1 << 60


class HarmedStore(MemoryStore):
    """Goes on with what `sound` has, but for the entries that begin with these sequence numbers.

    If they are not `named`, whose messages these were is damaged, too.
    """

    def __init__(self, sound: MemoryStore, stream: str, harmed: Iterable[int], named: bool = True) -> None:
        super().__init__()
        self.__dict__.update(sound.__dict__)
        before: set[int] = set(sound.harmed) if isinstance(sound, HarmedStore) else set()
        self.harmed: set[int] = before | set(harmed)
        self.stream, self.named = stream, named

    def read(self, stream: str, first: int, last: int, bytes_max: int) -> list[Entry]:
        return self._sound(super().read(stream, first, last, bytes_max))

    def by_identity(self, stream: str, publisher: str, cat_first: int, cat_last: int, bytes_max: int) -> list[Entry]:
        return self._sound(super().by_identity(stream, publisher, cat_first, cat_last, bytes_max))

    def _sound(self, entries: list[Entry]) -> list[Entry]:
        """Those that are not damaged, nor parts of what is."""
        numbers = {number for harm in self.verify() for number in range(harm.first, harm.last + 1)}
        return [one for one in entries if one.first not in numbers]

    def verify(self) -> list[Damage]:
        if not self.harmed:
            return []
        return [
            Damage(
                stream=self.stream,
                first=one.first,
                last=one.last,
                what="harmed",
                publisher=one.publisher if self.named else "",
                cat=one.cat if self.named else 0,
            )
            for one in super().read(self.stream, 1, EVERYTHING, EVERYTHING)
            if one.first in self.harmed
        ]

    def mend(self, stream: str, entries: Sequence[Entry]) -> None:
        assert stream == self.stream, f"{stream} is whole"
        self.harmed -= {entry.first for entry in entries}
