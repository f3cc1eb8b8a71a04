"""The damaged messages of a stream in the store of one repository, and their repair with the help of a sibling.

Stores never hand out what does not fit its checksum: they leave it out. A repository learns of damage in two ways. Its
driver looks at everything now and then and says what it found (`Repository.harmed`); and whoever reads finds numbers
missing under which something was stored, and has the driver look (`Inspect`). What is damaged is asked for by its
identity, since every repository has an order of its own, from one sibling after the other (`Refetch`); when all of an
entry is here it goes back into its place (`Mend`), in a commit like any other.

What no sibling sends within `mend_s`, or at once where there has never been a sibling, counts as lost: subscribers that
come to it get a gap and go on, and siblings that ask for it give up their places. It is still asked for: a sibling that
comes back later mends it for those who read it then.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct, field

from holdfast.model.ranges import Range, without
from holdfast.model.reliable import Entry
from holdfast.protocols.narada.answers import read_upto
from holdfast.protocols.narada.events import DAMAGED, Refetch, Resent, Row
from holdfast.protocols.narada.participant import Effects, Find, Inspect, Mend
from holdfast.protocols.narada.stream_state import RepositoryStream

ASK_S, ASK_MAX_S = 0.5, 5.0
ASKED_MAX = 32
"""How many entries are asked for at once."""
HARMS_MAX = 100_000
"""How many damaged entries are remembered; the others are found again when these are mended."""


class Harm(Struct):
    """Sequence numbers whose messages are damaged; `publisher` is empty where nobody can tell whose they were."""

    first: int
    last: int
    publisher: str = ""
    cat: int = 0
    since: float = 0.0
    """When it was found."""
    lost: bool = False
    """Whether nobody is known to have it: readers get a gap."""
    parts: dict[int, Entry] = field(default_factory=dict)
    """What a sibling has sent of it, by catenation number, under our sequence numbers."""

    @property
    def cat_last(self) -> int:
        return self.cat + self.last - self.first

    def take(self, entry: Entry) -> bool:
        """Keep what of an entry belongs here; whether that makes it whole."""
        if entry.publisher != self.publisher or entry.cat_last < self.cat or entry.cat > self.cat_last:
            return False
        part = entry.cat_part(self.cat, self.cat_last)
        self.parts[part.cat] = part.moved(self.first + part.cat - self.cat)
        return self._is_whole()

    def _is_whole(self) -> bool:
        cat = self.cat
        for at in sorted(self.parts):
            if at > cat:
                return False
            cat = max(cat, self.parts[at].cat_last + 1)
        return cat > self.cat_last

    def entries(self) -> list[Entry]:
        """Its messages, each once, in order."""
        cat, found = self.cat, []
        for at in sorted(self.parts):
            part = self.parts[at]
            if part.cat_last >= cat:
                found.append(part.cat_part(cat, part.cat_last))
                cat = part.cat_last + 1
        return found


class DamagedMessages:
    """The damage of one stream at one repository."""

    def __init__(self, stream_state: RepositoryStream, token: Callable[[str, object], int]) -> None:
        self.stream_state, self._token = stream_state, token
        self.harms: dict[int, Harm] = {}
        self.mended = 0
        """How many messages were put right since the beginning."""
        self._staged: list[Harm] = []
        self._committing: list[Harm] = []
        self._asked_at, self._asked_s = -1e9, ASK_S
        self._turn = 0

    @property
    def messages(self) -> int:
        """How many messages are damaged."""
        return sum(harm.last - harm.first + 1 for harm in self.harms.values())

    @property
    def nameless(self) -> int:
        """How many of them nobody can ask for, since whose they are is damaged, too."""
        return sum(harm.last - harm.first + 1 for harm in self.harms.values() if not harm.publisher)

    @property
    def lost(self) -> int:
        """How many of them are lost, as far as is known."""
        return sum(harm.last - harm.first + 1 for harm in self.harms.values() if harm.lost)

    # --------------------------------------------------------------------------------------------------------- finding

    def found(self, harms: Iterable[Harm], now: float) -> Effects:
        """The driver has looked at everything, and this is what is damaged."""
        before, self.harms = self.harms, {}
        for harm in harms:
            if len(self.harms) < HARMS_MAX:
                known = before.get(harm.first)
                harm.since = now
                self.harms[harm.first] = known if known is not None and known.last == harm.last else harm
        if not self.harms:
            return []
        self._asked_at, self._asked_s = -1e9, ASK_S
        return [self.stream_state.report("damaged", f"{self.messages} messages")] if self.harms.keys() - before else []

    def look(self, first: int, last: int, entries: list[Entry]) -> Effects:
        """A read found these: have the driver look if something is missing that was stored, and nobody knew."""
        upto = read_upto(entries, last, self.stream_state.config.read_bytes_max)
        known = [(harm.first, harm.last) for harm in self.harms.values()]
        found = [(entry.first, entry.last) for entry in entries]
        left = without((max(first, self.stream_state.kept), upto), [*found, *known, *self._not_stored()])
        return [Inspect(self.stream_state.stream)] if left else []

    def _not_stored(self) -> Iterable[Range]:
        stream_state = self.stream_state
        for row in stream_state.voids:
            yield row.first, row.last
        for _, place in stream_state.place_rows():
            yield place.first, place.first + place.count - 1
        for entry in (*stream_state.staged, *stream_state.committing):
            yield entry.first, entry.last

    # ---------------------------------------------------------------------------------------------------------- losing

    @property
    def is_waiting(self) -> bool:
        """Whether something is damaged that a sibling may still send in time."""
        return any(not harm.lost for harm in self.harms.values())

    def give_up(self, is_alone: bool, now: float) -> Effects:
        """What nobody has sent for so long counts as lost; at once if there has never been a sibling."""
        due_since = now if is_alone else now - self.stream_state.config.mend_s
        lost = [harm for harm in self.harms.values() if not harm.lost and harm.since <= due_since]
        for harm in lost:
            harm.lost = True
        count = sum(harm.last - harm.first + 1 for harm in lost)
        return [self.stream_state.report("lost", f"{count} damaged messages: readers get a gap")] if lost else []

    def lost_rows(self, first: int, last: int, entries: list[Entry]) -> list[Row]:
        """A read found these: what else lies there and is lost."""
        near = [harm for harm in self.harms.values() if harm.lost and harm.first <= last and harm.last >= first]
        if not near:
            return []
        upto = read_upto(entries, last, self.stream_state.config.read_bytes_max)
        taken = [*((entry.first, entry.last) for entry in entries), *self._not_stored()]
        rows: list[Row] = []
        for harm in near:
            # Where a whole file is missing only some of the numbers that it had may be damaged.
            low, high = max(first, harm.first, self.stream_state.kept), min(upto, harm.last)
            for begin, end in without((low, high), taken) if low <= high else ():
                cat = harm.cat + begin - harm.first if harm.publisher else 0
                rows.append(Row(begin, end - begin + 1, harm.publisher, cat, DAMAGED))
        return rows

    # ---------------------------------------------------------------------------------------------------------- asking

    def ask(self, siblings: list[str], now: float) -> Effects:
        """Ask the next sibling for what is damaged, with growing pauses."""
        wanted = [harm for harm in self.harms.values() if harm.publisher][:ASKED_MAX]
        if not wanted or not siblings or now - self._asked_at < self._asked_s:
            return []
        self._asked_at, self._asked_s = now, min(2 * self._asked_s, ASK_MAX_S)
        sibling = sorted(siblings)[self._turn % len(siblings)]
        self._turn += 1
        stream_state = self.stream_state
        return [
            stream_state.say_to(
                sibling,
                Refetch(
                    stream_state.stream,
                    sibling,
                    stream_state.name,
                    harm.publisher,
                    harm.cat,
                    harm.last - harm.first + 1,
                ),
            )
            for harm in wanted
        ]

    def on_refetch(self, event: Refetch) -> Effects:
        """A sibling asks for messages by their identity."""
        stream_state = self.stream_state
        if event.repository != stream_state.name or not event.count:
            return []
        token = self._token("send", (event.asker, 0, 0))
        if not token:
            return []
        last = event.cat + event.count - 1
        return [Find(token, stream_state.stream, event.publisher, event.cat, last, stream_state.config.read_bytes_max)]

    def on_resent(self, event: Resent) -> None:
        """A sibling sends something: what of it is damaged here is staged when it is whole."""
        if not self.harms:
            return
        for entry in event.entries:
            for harm in [one for one in self.harms.values() if one.take(entry)]:
                self._staged.append(harm)
                del self.harms[harm.first]
                self._asked_s = ASK_S

    # --------------------------------------------------------------------------------------------------------- storing

    def has_changes(self) -> bool:
        return bool(self._staged)

    def changes(self) -> Effects:
        """What the next commit puts right."""
        self._committing, self._staged = self._staged, []
        return [Mend(self.stream_state.stream, tuple(harm.entries())) for harm in self._committing]

    def committed(self) -> Effects:
        """It is put right; the driver looks whether that is all."""
        mended, self._committing = self._committing, []
        if not mended:
            return []
        count = sum(harm.last - harm.first + 1 for harm in mended)
        self.mended += count
        effects: Effects = [self.stream_state.report("mended", f"{count} messages")]
        return effects if self.harms else [*effects, Inspect(self.stream_state.stream)]
