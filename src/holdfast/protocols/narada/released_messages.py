"""The identities of messages that a subscriber has released: it recognises a repeat from any repository by them.

For each life of each publisher a prefix and a few ranges, so that a publisher costs one number however much it
publishes. What comes before the first message that was seen of a life counts as released: it lay before the start of
the subscription, or was acknowledged in an earlier life of the subscriber.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from holdfast.model.ranges import Range, joined, without
from holdfast.model.reliable import Entry
from holdfast.protocols.narada.events import RANGES_MAX, Cut, Lacks, Out, catenation, life_of, number_of
from holdfast.protocols.trackers import RangeTracker

WINDOW = 4096

Life = tuple[str, int]


class SavedReleases(Struct, array_like=True):
    """A life as it is remembered; a negative one stands for what was told as a gap of it."""

    publisher: str
    life: int
    prefix: int
    ranges: list[Range]
    unseen: bool = False


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[SavedReleases])


class ReleasedMessages:
    """The identities of what was released, or is not wanted."""

    __slots__ = ("_gaps", "_lives", "_unseen")

    def __init__(self) -> None:
        self._lives: dict[tuple[str, int], RangeTracker] = {}
        self._gaps: dict[tuple[str, int], RangeTracker] = {}
        self._unseen: set[tuple[str, int]] = set()
        """Lives of which nothing was seen since the subscription began anew."""

    def begin_anew(self) -> None:
        """The subscription begins anew, anywhere: of each life, what lies before what is seen first is not wanted.

        What was released stays so. Without this, what lies between that and the new beginning would count as missing,
        and the next repository would send it, behind what has come by then.
        """
        self._unseen = set(self._lives)

    def new_part(self, publisher: str, cat: int, count: int) -> list[Range]:
        """Which of these messages were not released yet, as ranges of catenation numbers."""
        life, number = life_of(cat), number_of(cat)
        tracker = self._tracker(publisher, life, number)
        return [
            (catenation(life, first), catenation(life, last))
            for first, last in tracker.new_part(number, number + count - 1)
        ]

    def add(self, publisher: str, cat: int, count: int) -> None:
        number = number_of(cat)
        self._tracker(publisher, life_of(cat), number).add(number, number + count - 1)

    def pass_over(self, publisher: str, cat: int, count: int) -> list[Range]:
        """These were given up: which of them are a gap that was not there before. If they turn up, they are new."""
        life, number = life_of(cat), number_of(cat)
        self._tracker(publisher, life, number)
        gaps = self._gaps.setdefault((publisher, life), RangeTracker(ranges_max=WINDOW))
        missing = self.new_part(publisher, cat, count)
        return [
            (catenation(life, first), catenation(life, last))
            for cat_first, cat_last in missing
            for first, last in gaps.add(number_of(cat_first), number_of(cat_last))
        ]

    def forget(self, publisher: str, cat: int, count_max: int) -> list[Range]:
        """What came up to this was forgotten: which of it is a gap. It will not come.

        Of a life of which nothing was seen it is at most so many: what lay before was not for us.
        """
        life, number = life_of(cat), number_of(cat)
        seen = (publisher, life) in self._lives and (publisher, life) not in self._unseen
        low = 1 if seen else max(1, number - count_max + 1)
        new = self._tracker(publisher, life, low).add(low, number)
        return [(catenation(life, first), catenation(life, last)) for first, last in new]

    def _tracker(self, publisher: str, life: int, number: int) -> RangeTracker:
        tracker = self._lives.get((publisher, life))
        if tracker is None:
            tracker = self._lives[publisher, life] = RangeTracker(ranges_max=WINDOW, start=number - 1)
        if self._unseen and (publisher, life) in self._unseen:
            self._unseen.remove((publisher, life))
            if number > 1:
                tracker.add(1, number - 1)
        return tracker

    # ---- as a cut

    def cut(self) -> tuple[tuple[str, int], ...]:
        """For each life the number up to which everything was released; nothing if there are too many lives.

        A gap that was told is not passed: another repository may have what was given up here.
        """
        lives = self._lives
        if len(lives) > RANGES_MAX:
            return ()
        return tuple((name, catenation(life, tracker.prefix)) for (name, life), tracker in lives.items())

    def cut_before(self, entries: Iterable[Entry]) -> tuple[tuple[str, int], ...]:
        """The same without these entries, and without what comes behind them."""
        cut = {(publisher, life_of(cat)): cat for publisher, cat in self.cut()}
        for entry in entries:
            who = (entry.publisher, life_of(entry.cat))
            if who in cut:
                cut[who] = min(cut[who], entry.cat - 1)
        return tuple((publisher, cat) for (publisher, _), cat in cut.items())

    def lives(self) -> Iterable[Life]:
        """Those of which something was released, or is not wanted."""
        return self._lives.keys()

    def account(self, lives: Iterable[Life], fresh: Iterable[Entry], out: Iterable[Entry]) -> tuple[Cut, Lacks]:
        """Of these lives what was acknowledged: up to where something was, and what below that was not.

        What is `fresh` was not handed out, what is `out` not acknowledged; what is missing was told as a gap.
        """
        reached = {who: self._lives[who].highest for who in lives if who in self._lives}
        for entry in fresh:
            who = (entry.publisher, life_of(entry.cat))
            if who in reached:
                reached[who] = min(reached[who], number_of(entry.cat) - 1)
        missing = {who: list(self._lives[who].gaps()) for who in reached}
        for entry in out:
            who = (entry.publisher, life_of(entry.cat))
            if who in missing:
                missing[who].append((number_of(entry.cat), number_of(entry.cat_last)))
        lacks = [
            (who[0], catenation(who[1], first), catenation(who[1], min(last, upto)))
            for who, upto in sorted(reached.items())
            for first, last in joined(missing[who])
            if first <= upto
        ]
        return tuple((name, catenation(life, upto)) for (name, life), upto in sorted(reached.items())), tuple(lacks)

    def skip(self, cut: tuple[tuple[str, int], ...], lacks: Lacks = (), out: Out = ()) -> None:
        """Nothing up to these numbers is wanted, but for what is lacking: that was passed over as a gap.

        What is `out` was not: it was handed out and not acknowledged, and if it does not come any more, that is a gap.
        """
        for publisher, cat in cut:
            life, number = life_of(cat), number_of(cat)
            gaps = [
                (number_of(first), number_of(last))
                for name, first, last in lacks
                if (name, life_of(first)) == (publisher, life)
            ]
            tracker = self._tracker(publisher, life, 1 if gaps else number + 1)
            for low, high in without((1, number), gaps) if number > tracker.prefix else ():
                tracker.add(low, high)
            mine = [(first, last) for name, first, last, _ in out if (name, life_of(first)) == (publisher, life)]
            given = [(number_of(first), number_of(last)) for first, last in mine]
            for low, high in (part for gap in gaps for part in without(gap, given)):
                self.pass_over(publisher, catenation(life, low), high - low + 1)

    # ---- across restarts

    def save(self) -> bytes:
        lives = [
            SavedReleases(name, life, tracker.prefix, tracker.ranges(), (name, life) in self._unseen)
            for (name, life), tracker in self._lives.items()
        ]
        gaps = [SavedReleases(name, -1 - life, gaps.prefix, gaps.ranges()) for (name, life), gaps in self._gaps.items()]
        return _encoder.encode(lives + gaps)

    def restore(self, value: bytes) -> None:
        for saved in _decoder.decode(value):
            trackers, life = (self._lives, saved.life) if saved.life >= 0 else (self._gaps, -1 - saved.life)
            tracker = trackers[saved.publisher, life] = RangeTracker(ranges_max=WINDOW, start=saved.prefix)
            for first, last in saved.ranges:
                tracker.add(first, last)
            if saved.unseen:
                self._unseen.add((saved.publisher, life))

    def __len__(self) -> int:
        return len(self._lives)
