"""Messages in transit, and how their copies are recognised.

A copy carries the last 2f+1 places of its way: the brokers that passed it on, each with the number that it gave the
message, and a blank for each broker that was skipped. Of 2f+1 places at most f may be blank, so any two copies of one
message have a place in common where neither is blank, and there both have the same broker and number: a copy is a
repeat if one of its places was seen before.

Since a publisher has one message in transit, its next message says that the one before is over everywhere. So what is
remembered is the latest message of each publisher: all that somebody behind us may lack, for copies of them are still
under way, and of the others the last `PUBLISHERS_MAX`.
"""

from holdfast.model.batches import Batch

BLANK = ("", 0)
Place = tuple[str, int]
Path = tuple[Place, ...]
PUBLISHERS_MAX = 100_000


class Transit:
    """One message at one broker, from its first copy until everybody behind us has it."""

    __slots__ = ("awaiting", "batch", "client", "given", "path", "route", "senders", "serial")

    def __init__(self, batch: Batch, path: Path, serial: int, route: list[str], client: str) -> None:
        self.batch, self.path, self.serial = batch, path, serial
        self.route = route
        """The neighbours on the tree behind whom somebody wants it."""
        self.client = client
        """Who published it here; empty if it came from a broker."""
        self.awaiting = set(route)
        """Who has to acknowledge it: these neighbours, and whoever was given it over their heads."""
        self.given: set[str] = set()
        self.senders: dict[str, int] = {}
        """Who has given it to us, under which number, and has no acknowledgement yet."""

    @property
    def complete(self) -> bool:
        return not self.awaiting


def safe(path: Path, tolerance: int) -> bool:
    """Whether a copy that comes by this way shares a place with every other copy that may come."""
    return path.count(BLANK) <= tolerance


def extended(path: Path, places: Path, tolerance: int) -> Path:
    """The way with these places behind it, as far back as it is told."""
    return (*path, *places)[-(2 * tolerance + 1) :]


class Transits:
    """The latest message of each publisher, found by any place of its way."""

    def __init__(self, publishers_max: int = PUBLISHERS_MAX) -> None:
        self._publishers_max = publishers_max
        self._latest: dict[str, Transit] = {}
        self._places: dict[str, list[Place]] = {}
        self._seen: dict[Place, Transit] = {}
        self.open: dict[int, Transit] = {}
        """By our own number, those that somebody behind us may lack."""
        self._over: dict[str, None] = {}
        """The publishers of the others, in the order in which these came to their end."""

    def find(self, path: Path) -> Transit | None:
        """The message that came by some place of this way before."""
        return next((self._seen[place] for place in path if place in self._seen), None)

    def begin(self, transit: Transit) -> None:
        """A message came for the first time: what its publisher sent before is over."""
        publisher = transit.batch.publisher
        self._forget(publisher)
        self._latest[publisher] = transit
        self._places[publisher] = []
        self.learn(transit, transit.path)
        if not transit.complete:
            self.open[transit.serial] = transit

    def end(self, transit: Transit) -> None:
        """Everybody behind us has the message. Another copy of it may still come."""
        self.open.pop(transit.serial, None)
        self._over[transit.batch.publisher] = None
        if len(self._over) > self._publishers_max:
            self._forget(next(iter(self._over)))

    def learn(self, transit: Transit, path: Path) -> None:
        """The message came this way, too."""
        places = self._places[transit.batch.publisher]
        for place in path:
            if place != BLANK and place not in self._seen:
                self._seen[place] = transit
                places.append(place)

    def _forget(self, publisher: str) -> None:
        self._over.pop(publisher, None)
        if self._latest.pop(publisher, None) is not None:
            for place in self._places.pop(publisher):
                del self._seen[place]

    def check_invariants(self) -> None:
        for transit in self.open.values():
            latest = self._latest.get(transit.batch.publisher)
            assert latest is transit, f"{transit.batch.publisher} has two messages in transit"
            assert not transit.complete, f"{transit.batch.publisher}#{transit.batch.first} is complete and open"
