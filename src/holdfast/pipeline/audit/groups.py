"""What shares a key: the groups of publications by (topic, key) in which a total message is.

A client's deliveries of one group get a *print*, equal at two clients exactly if they delivered the same messages with
the same ones on either side of each total message: the sum, over its messages, of a hash of the message and of the
number of total messages up to it. Where all prints of a group are equal nobody disagrees, and that settles most of
them. The others have to be looked at.
"""

import numpy as np
import numpy.typing as npt

from holdfast.model.guarantees import TOTAL
from holdfast.pipeline.audit.inbox import Bools, Longs
from holdfast.pipeline.audit.publications import AuditedPublications

Hashes = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xD1B54A32D192ED03)
PLACE_BITS = 32


class KeyGroups:
    """The groups of a task's publications, and which publications are in which."""

    def __init__(self, publications: AuditedPublications, chosen: Longs | None = None) -> None:
        """Of all groups that have a total message and another, or of these only the chosen ones."""
        parents, hashes = publications.keys()
        self.hashes, groups = np.unique(hashes, return_inverse=True)
        total = publications.rank == TOTAL
        contested = np.bincount(groups[total[parents]], minlength=len(self.hashes)) > 0
        contested &= np.bincount(groups, minlength=len(self.hashes)) > 1
        if chosen is not None:
            contested &= np.isin(self.hashes, chosen)
        kept = np.flatnonzero(contested[groups])
        self._groups = groups[kept]
        self._starts = np.searchsorted(parents[kept], np.arange(len(publications) + 1))
        self._total = total
        names = publications.hash.astype(np.uint64)
        self._message = _mixed(names ^ _mixed(publications.seq.astype(np.uint64)))

    def pairs(self, arrived: Longs) -> tuple[Longs, Longs]:
        """For a sequence of deliveries, the places in it and the groups of what is there; by group, then by place."""
        starts, counts = self._starts[arrived], self._starts[arrived + 1] - self._starts[arrived]
        places = np.repeat(np.arange(len(arrived)), counts)
        within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        groups = self._groups[np.repeat(starts, counts) + within]
        # Both in one number: sorting plain numbers is several times faster than sorting by them.
        keys = np.sort((groups << PLACE_BITS) | places)
        return keys & ((1 << PLACE_BITS) - 1), keys >> PLACE_BITS

    def prints(self, arrived: Longs) -> tuple[Longs, Hashes, Hashes]:
        """The groups that a sequence of deliveries touches and its two prints of each."""
        places, groups = self.pairs(arrived)
        if not len(groups):
            return groups, np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        numbers = arrived[places]
        starts = np.flatnonzero(np.concatenate([np.ones(1, np.bool_), groups[1:] != groups[:-1]]))
        totals = np.cumsum(self._total[numbers])
        before = totals[starts] - self._total[numbers[starts]]
        ranks = totals - np.repeat(before, np.diff(np.append(starts, len(groups))))
        codes = self._message[numbers] + ranks.astype(np.uint64) * _GOLDEN
        first = np.add.reduceat(_mixed(codes), starts)
        second = np.add.reduceat(_mixed(codes ^ _SECOND), starts)
        return groups[starts], first, second

    def members(self) -> Bools:
        """Which publications are in some of these groups."""
        found: Bools = np.diff(self._starts) > 0
        return found

    def is_total(self, numbers: Longs) -> Bools:
        found: Bools = self._total[numbers]
        return found


class Prints:
    """The different prints of every group, gathered from many clients."""

    def __init__(self, groups: KeyGroups) -> None:
        self._groups = groups
        self._parts: list[tuple[Longs, Hashes, Hashes]] = []

    def add(self, arrived: Longs) -> None:
        self._parts.append(self._groups.prints(arrived))

    def different(self) -> tuple[Longs, Longs, Longs]:
        """Hash of the group and the two prints, each combination once."""
        if not self._parts:
            empty = np.zeros(0, np.int64)
            return empty, empty, empty
        groups, first, second = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        order = np.lexsort((second, first, groups))
        groups, first, second = groups[order], first[order], second[order]
        new = np.ones(len(groups), np.bool_)
        new[1:] = (groups[1:] != groups[:-1]) | (first[1:] != first[:-1]) | (second[1:] != second[:-1])
        return self._groups.hashes[groups[new]], first[new].view(np.int64), second[new].view(np.int64)


def _mixed(values: Hashes) -> Hashes:
    """A hash of each number (the finaliser of SplitMix64: Steele, Lea and Flood, OOPSLA 2014)."""
    mixed = values + _GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
