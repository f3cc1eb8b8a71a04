"""What is promised to applications that acknowledge each message, checked by what they were handed and answered.

| fault | promise that was broken |
| --- | --- |
| again | what was acknowledged is not handed out again by the same reader, nor, once it was confirmed, to a later one |
| unanswered | everything that is stored and wanted was acknowledged in the end, or told as a gap: nothing is lost |
| disorder | what was given back comes before what follows it of its publisher, and no sooner than was asked |
| miscounted | a reader hands a message out with a count that is one more than the last time |

A confirmation is what one repository stored. A later reader that begins at another one may get the message again, if
that one had not heard of it yet; the judge counts readers that begin where the acknowledgement was confirmed.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.simulation.reliable.history import ApplicationAnswer, Identity, ReliableHistory

if TYPE_CHECKING:
    from holdfast.simulation.reliable.manual_hosts import ManualHost

Add = Callable[..., None]


def check_answers(
    add: Add, history: ReliableHistory, subscriber: "ManualHost", wanted: set[Identity], keeps: bool
) -> None:
    """Judge one subscriber. `wanted` is what it was owed; `keeps` whether repositories keep what they confirmed."""
    name = subscriber.name
    _Judge(add, history, name, subscriber.config.by_key, keeps).look(history.answers[name])
    acked = {one.identity for one in history.answers[name] if one.what == "acked"}
    left = wanted - acked - history.gapped(name)
    if subscriber.up and subscriber.machine.state != "refused" and left:
        add("unanswered", f"{name} was never asked for an answer to {sorted(left)[:5]} any more.")


class _Judge:
    """Goes through what happened to the messages of one subscriber."""

    def __init__(self, add: Add, history: ReliableHistory, name: str, by_key: bool, keeps: bool) -> None:
        self._add, self._name, self._by_key, self._keeps = add, name, by_key, keeps
        self._began_at = {life: repository for life, repository, _ in reversed(history.beginnings[name])}
        self._gaps = history.gapped(name)
        self._life = 0
        self._acked: set[Identity] = set()
        self._confirmed: dict[Identity, str] = {}
        self._counts: dict[Identity, int] = {}
        self._owed: dict[Identity, float] = {}
        """What was given back, or came after that, and has to come first again; and when, at the soonest."""

    def look(self, answers: list[ApplicationAnswer]) -> None:
        for one in answers:
            if one.life != self._life:
                self._life = one.life
                self._acked, self._counts, self._owed = set(), {}, {}
            match one.what:
                case "handed":
                    self._handed(one)
                case "nacked":
                    self._nacked(one)
                case "acked":
                    self._acked.add(one.identity)
                    self._owed.pop(one.identity, None)
                case "confirmed":
                    self._confirmed[one.identity] = one.repository

    def _handed(self, one: ApplicationAnswer) -> None:
        who = one.identity
        if who in self._acked:
            self._add("again", f"{self._name} was handed {who} again, which it had acknowledged.")
        at = self._confirmed.get(who)
        if at is not None and self._keeps and self._began_at.get(one.life) == at:
            self._add("again", f"{self._name} was handed {who} again, which {at} had confirmed.")
        if who in self._counts and one.count != self._counts[who] + 1:
            self._add(
                "miscounted", f"{self._name} was handed {who} for the {one.count}. time after {self._counts[who]}."
            )
        self._counts[who] = one.count
        if self._owed.get(who, 0.0) > one.time_s + 1e-9:
            self._add(
                "disorder", f"{self._name} was handed {who} at {one.time_s:.3f} s, before {self._owed[who]:.3f} s."
            )
        # What was told as a gap and comes late is behind what follows it.
        before = [
            other for other in self._owed if other[:2] == who[:2] and other[2] < who[2] and other not in self._gaps
        ]
        if before and not self._by_key:
            self._add("disorder", f"{self._name} was handed {who} before {min(before)}, which it had given back.")
        self._owed.pop(who, None)

    def _nacked(self, one: ApplicationAnswer) -> None:
        who = one.identity
        self._owed[who] = max(one.time_s, self._owed.get(who, 0.0))
        if self._by_key:
            return
        for other in self._counts:
            if other[:2] == who[:2] and other[2] > who[2] and other not in self._acked:
                self._owed.setdefault(other, 0.0)
