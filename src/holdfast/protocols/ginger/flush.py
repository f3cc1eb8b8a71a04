"""One repair, or one newcomer, at the broker that takes the joiners in.

A flush is over when everybody expected has joined or is dead, and everybody who would have to repair it has heard of
the change. Until then nothing travels between the coordinator and the joiners but what the flush itself needs; all
other links flow on. What is passed to whom then, and in which order, is decided in `settlement`.
"""

from collections.abc import Iterable

from holdfast.model.batches import Batch
from holdfast.model.messages import Twig
from holdfast.protocols.ginger.absences import OwnHistory
from holdfast.protocols.ginger.joiners import Joiner
from holdfast.protocols.ginger.late_clients import LateCase
from holdfast.protocols.ginger.merge import Contribution, Flag
from holdfast.protocols.records import Record, RecordId


class Flush:
    """The repair of `key`'s loss; `key` is empty for a newcomer."""

    def __init__(self, key: str, silent: bool = False) -> None:
        self.key, self.silent = key, silent
        """`silent`: nobody has closed the connection with the lost broker, it only brought nothing any more."""
        self.dead = {key} if key else set()
        self.waiting: dict[str, Twig] = {}
        self.joined: dict[str, Joiner] = {}
        self.known: dict[str, tuple[Twig, ...]] = {}
        self.direct: set[str] = set()
        """Those who were below the lost broker itself."""
        self.missing: dict[str, Twig] = {}
        """Those who were expected and have not come."""
        self.late: dict[str, Twig] = {}
        """Clients that are busy, it seems: the repair ends without them, and they are settled with when they come."""
        self.case: LateCase | None = None
        """The case of a late client that has come, if this is its turn."""
        self.overdue = False
        """Whether somebody may be out of reach rather than on the way."""
        self.insisting: set[str] = set()
        """Who of the joined is the root of a part for which nothing was kept."""
        self.elsewhere = ""
        """The broker below which the lost one has come back, if it has."""
        self.reunion = False
        """Whether somebody returns who was missed at an earlier repair."""
        self.unheard = False
        """Whether another broker is lost, too: one that was expected or had come, or that was our parent before. Nobody
        has said what was wanted behind it."""
        self.version = 0
        """The version of the view that the neighbours have to know before the end; 0 while they are being told."""

    def lose(self, name: str, epoch: int) -> bool:
        """Somebody is dead in that epoch: whether it was expected, or had joined, in that one."""
        self.late.pop(name, None)
        waiting, joined = self.waiting.get(name), self.joined.get(name)
        if waiting is not None and waiting.epoch <= epoch:
            lost = self.waiting.pop(name)
        elif joined is not None and joined.join.twig.epoch <= epoch:
            lost = self.joined.pop(name).join.twig
        else:
            return False
        if lost.kind == "broker":
            self.dead.add(name)
            self.unheard = True
        return True

    def expect_those_behind(self) -> None:
        """Those who do not come may be dead, too: then those behind them come here."""
        for twig in list(self.waiting.values()):
            self.known[twig.name] = twig.twigs
            for below in twig.twigs:
                if below.name not in self.joined:
                    self.waiting.setdefault(below.name, below)

    def wait_no_longer(self) -> None:
        """Whoever has not come is missing, with everybody known behind it."""
        for twig in self.waiting.values():
            self._miss(twig)
        self.waiting.clear()

    def _miss(self, twig: Twig) -> None:
        if twig.name not in self.joined:
            self.missing[twig.name] = twig
        for below in twig.twigs:
            self._miss(below)

    def beyond(self, tolerance: int) -> list[str]:
        """Those who have come from behind more dead brokers in a row than that."""
        above = {twig.name: name for name, twigs in self.known.items() for twig in twigs}
        found = []
        for name, joiner in self.joined.items() if self.key else ():
            # A client of another broker than the lost one: that is lost, too.
            dead = 2 if joiner.is_client and joiner.join.old not in ("", self.key) else 0
            steps, upper = 0, above.get(name, "")
            while upper in self.dead:
                steps, upper = steps + 1, above.get(upper, "")
            if max(dead, steps) > tolerance:
                found.append(name)
        return found

    def concerns(self, dead: Iterable[str]) -> bool:
        return not self.dead.isdisjoint(dead)


def own_history(records: list[tuple[Record, int]], key: str) -> OwnHistory:
    """The coordinator's side of a link with a broker that is lost."""
    entries: list[Contribution] = []
    batches: dict[RecordId, Batch] = {}
    for record, after in records:
        if record.pending:
            entries.append((record.record_id, Flag.ASKED, after, 0))
            continue
        asked_only = record.was_only_requested(key)
        if key in record.outs or (record.number and not asked_only):
            batches[record.record_id] = record.batch
        if not record.number or asked_only:
            entries.append((record.record_id, Flag.DONE, after, 0))
            continue
        flag = Flag.RECEIVED if record.was_received(key) else Flag.SENT
        entries.append((record.record_id, flag, after, record.number))
    numbers = {record.record_id: record.number for record, _ in records}
    requests = {record.record_id: record.batch for record, _ in records if record.record_id not in batches}
    return OwnHistory(entries, batches, numbers, requests)
