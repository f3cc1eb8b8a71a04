"""How repositories of a bundle learn from each other what they lack, and what their siblings have (paper, 4.5 to 4.10).

Each repository tells the others what it has stored, as rows of its own order, and up to where it *covers* each of them:
it has everything that lies at or below that sequence number there. From a row follow three things: which message lies
under which number elsewhere (the repository table), whether it is missing here, and how many repositories have it.
What is missing is fetched from whoever has it, when the publisher's own retransmission has had its time.

Recovery and addition are the same, with everything missing at once: the repository holds back what comes until an
assisting repository has told what was missed, sets places aside for it in that one's order, fetches it, and serves
when it covers what the assistant had. The work is that of reading the rows above what it covered before, so it grows
with what was missed and not with what is stored. A repository that finds no other one serves alone.
"""

from collections.abc import Callable

import msgspec

from holdfast.model.ranges import Range
from holdfast.model.reliable import Entry
from holdfast.protocols.narada.answers import expired, lost_for_siblings, never_rows, read_upto, resent, void_rows
from holdfast.protocols.narada.dissemination import Dissemination
from holdfast.protocols.narada.events import (
    DAMAGED,
    FORGOTTEN,
    GIVEN_UP,
    MESSAGES,
    Explain,
    Fetch,
    Gossip,
    Leave,
    Resent,
    Row,
    encode,
    life_of,
    number_of,
)
from holdfast.protocols.narada.participant import Effects, Read, Say
from holdfast.protocols.narada.rows import RowTable, merged
from holdfast.protocols.narada.siblings import NEVER, Sibling
from holdfast.protocols.narada.stream_state import RepositoryStream, notice
from holdfast.protocols.narada.topics import gossip_topic

ROWS_PAGE = 1024
FETCH_RANGES_MAX = 64
MEMBERS_MAX = 64
MESSAGES_OR_LOST = (MESSAGES, DAMAGED)
GONE_BEATS = 5
"""After so many missed signs of life a repository does not count as there."""

_decoder = msgspec.msgpack.Decoder(tuple[int, int])
_encoder = msgspec.msgpack.Encoder()


class BundleGossip:
    """The other repositories of one stream."""

    def __init__(
        self, stream_state: RepositoryStream, dissemination: Dissemination, token: Callable[[str, object], int]
    ) -> None:
        self.stream_state, self.dissemination, self._token = stream_state, dissemination, token
        self.members: dict[str, Sibling] = {}
        self._gone: dict[tuple[str, int], None] = {}
        self._news: list[Row] = []
        self._said_at = NEVER
        self._said_covers: tuple[tuple[str, int, int], ...] = ()
        self._answer_due = False
        self.assistant = ""
        self._target = self._explained_upto = 0
        self._began_at = self._progress_at = 0.0
        self.learned_rows = 0
        """How many rows were looked at to catch up: what recovery costs."""
        self.recovery_s: float | None = None
        """How long it took from the beginning until everything that was missed was stored."""

    # --------------------------------------------------------------------------------------------------------- hearing

    def on_gossip(self, event: Gossip, now: float) -> None:
        member = self._member(event.repository, event.era)
        if member is None:
            return
        stream_state = self.stream_state
        member.heard_at, member.serving = now, event.serving
        member.end = max(member.end, event.end)
        for name, era, cover in event.covers:
            if name == stream_state.name and era == stream_state.era:
                stream_state.hear_cover(cover)
                member.covers_us = max(member.covers_us, min(cover, stream_state.end))
        member.known_digest = event.known
        for publisher, cat in event.forgotten:
            member.note_forgotten((publisher, life_of(cat)), 1, number_of(cat))
        stream_state.pass_over(event.forgotten)
        known = member.known.prefix
        for row in event.rows:
            if len(member.table) >= member.table.rows_max:
                self._advance(member)  # What we have of it need not be remembered.
            member.learn(row)
            self._hear_row(member, row)
        self.dissemination.on_gossip(member.name, event.syncs, member.table)
        if event.asks:
            self._answer_due = True
        if event.upto:
            member.told_first = member.told_first or event.first == 1
            member.note_told(event, known)
            if member.known.prefix > known:
                # There may be more to be explained: ask at once.
                member.asked_at, member.asked_s = NEVER, stream_state.config.fetch_s
        if event.upto and member.name == self.assistant and stream_state.phase == "learning":
            self._set_aside(event, now)

    def _member(self, name: str, era: int) -> Sibling | None:
        if name == self.stream_state.name or (name, era) in self._gone:
            return None
        member = self.members.get(name)
        if member is None or member.era != era:
            if member is None and len(self.members) >= MEMBERS_MAX:
                return None
            # Another era is another order: nothing that was known of its numbers is true of these.
            member = self.members[name] = Sibling(name, era, self.stream_state.config)
            self.dissemination.forget_repository(name)
            self._save(member)
        return member

    def _hear_row(self, member: Sibling, row: Row) -> None:
        stream_state, life, last = self.stream_state, life_of(row.cat), number_of(row.cat) + row.count - 1
        if row.publisher and row.kind in MESSAGES_OR_LOST and stream_state.phase not in ("learning", "leaving"):
            # Whichever of a publisher's lives we hear of first, the earlier one comes first.
            chain = stream_state.chain(row.publisher, life, row.after)
            if row.kind == DAMAGED and chain is not None and last > chain.top and stream_state.has_room():
                stream_state.set_aside(chain, last)  # It was stored. If it comes from nobody, readers are told so.
        self._adopt_gap(row)
        if row.publisher and row.kind in (FORGOTTEN, DAMAGED):
            # A third one has forgotten it, and it never came there; or it is damaged there.
            member.note_forgotten((row.publisher, life), number_of(row.cat), last)

    def _adopt_gap(self, row: Row) -> None:
        """What was given up elsewhere is given up here, if it is not here."""
        if row.kind == GIVEN_UP:
            chain = self.stream_state.chains.get((row.publisher, life_of(row.cat)))
            number = number_of(row.cat)
            if chain is not None and chain.places and self.stream_state.phase != "leaving":
                self.stream_state.give_up(chain, number, number + row.count - 1)

    def on_leave(self, event: Leave) -> None:
        if event.repository in self.members and self.members[event.repository].era == event.era:
            del self.members[event.repository]
            self.dissemination.forget_repository(event.repository)
            self.stream_state.put(b"", "member", event.repository)
        self._gone[event.repository, event.era] = None
        while len(self._gone) > MEMBERS_MAX:
            del self._gone[next(iter(self._gone))]

    def table_of(self, name: str, era: int) -> RowTable | None:
        member = self.members.get(name)
        return member.table if member is not None and member.era == era else None

    # --------------------------------------------------------------------------------------------------------- telling

    def on_stored(self, rows: list[Row]) -> None:
        self._news += [self._plain(row) for row in rows]

    def _plain(self, row: Row) -> Row:
        """What other repositories are told of a row."""
        chain = self.stream_state.chains.get((row.publisher, life_of(row.cat)))
        after = chain.after if chain is not None else ()
        return Row(row.first, row.count, row.publisher, row.cat, row.kind, after=after)

    def gossip(self, now: float, asks: bool = False) -> Effects:
        """Tell what is new, if anything is, or if it is time for a sign of life."""
        covers = tuple((one.name, one.era, one.cover) for one in self.members.values())
        due = now - self._said_at >= self.stream_state.config.beat_s
        syncs = self.dissemination.syncs()
        if not (self._news or due or asks or self._answer_due or syncs or covers != self._said_covers):
            return []
        self._said_at, self._said_covers, self._answer_due = now, covers, False
        news, self._news = merged(self._news), []
        topic = gossip_topic(self.stream_state.stream)
        effects: Effects = []
        for at in range(0, max(1, len(news)), ROWS_PAGE):
            page = tuple(news[at : at + ROWS_PAGE])
            effects.append(Say(topic, encode(self._event(covers, page, syncs=syncs if not at else (), asks=asks))))
        return effects

    def _event(
        self,
        covers: tuple[tuple[str, int, int], ...],
        rows: tuple[Row, ...],
        first: int = 0,
        upto: int = 0,
        syncs: tuple[tuple[str, int, int], ...] = (),
        asks: bool = False,
    ) -> Gossip:
        stream_state = self.stream_state
        version = stream_state.registration.version if stream_state.registration else 0
        return Gossip(
            stream_state.stream,
            stream_state.name,
            stream_state.era,
            stream_state.end,
            stream_state.serving,
            covers,
            version,
            rows,
            first,
            upto,
            syncs,
            asks,
            expired(stream_state) if first and first < stream_state.kept else (),
            self.dissemination.ended.digest,
            self.dissemination.known(),
        )

    # ------------------------------------------------------------------------------------------------------ explaining

    def on_explain(self, event: Explain) -> Effects:
        """What lies under our numbers: out of the table, or out of the store where that has forgotten it."""
        stream_state = self.stream_state
        if event.repository != stream_state.name or event.first > stream_state.end:
            return []
        if event.first >= stream_state.table_from:
            rows = stream_state.table.between(event.first, stream_state.end)[:ROWS_PAGE]
            upto = rows[-1].last if len(rows) == ROWS_PAGE else stream_state.end
            return [self._explained(event.asker, event.first, upto, rows)]
        token = self._token("explain", (event.asker, event.first, stream_state.end))
        if not token:
            return []
        return [Read(token, stream_state.stream, event.first, stream_state.end, stream_state.config.read_bytes_max)]

    def on_explain_fetched(self, asker: str, first: int, last: int, entries: list[Entry], lost: list[Row]) -> Effects:
        stream_state = self.stream_state
        upto = read_upto(entries, last, stream_state.config.read_bytes_max)
        rows = [notice(entry) for entry in entries] + void_rows(stream_state, first, upto) + lost_for_siblings(lost)
        return [self._explained(asker, first, upto, sorted(rows, key=lambda row: row.first))]

    def _explained(self, asker: str, first: int, upto: int, rows: list[Row]) -> Say:
        covers = tuple((one.name, one.era, one.cover) for one in self.members.values())
        plain = [self._plain(row) for row in rows]
        return self.stream_state.say_to(asker, self._event(covers, tuple(merged(plain)), first, upto))

    def on_fetch(self, event: Fetch) -> Effects:
        stream_state = self.stream_state
        if event.repository != stream_state.name:
            return []
        void = never_rows(stream_state, event.ranges)
        effects: Effects = [self._explained(event.asker, 0, 0, void[:ROWS_PAGE])] if void else []
        for first, last in event.ranges:
            if 1 <= first < stream_state.kept:
                gone = void_rows(stream_state, first, min(last, stream_state.kept - 1))
                effects.append(self._explained(event.asker, first, min(last, stream_state.kept - 1), gone))
            token = self._token("send", (event.asker, first, last)) if 1 <= first <= last else 0
            if token:
                effects.append(Read(token, stream_state.stream, first, last, stream_state.config.fetch_bytes_max))
        return effects

    def on_fetch_read(self, asker: str, entries: list[Entry], lost: list[Row]) -> Effects:
        """Send it; of what is damaged, and nobody has it, another repository gives its places up."""
        told: Effects = [self._explained(asker, 0, 0, lost_for_siblings(lost)[:ROWS_PAGE])] if lost else []
        return [*resent(self.stream_state, asker, entries), *told]

    def on_resent(self, event: Resent, now: float) -> None:
        """Another repository sends what we lack."""
        stream_state, strange, full, staged = self.stream_state, False, False, len(self.stream_state.staged)
        if stream_state.phase == "leaving":
            return  # We have told that nothing will lie there.
        for entry in event.entries:
            # Of a life that we have not been told of we do not know what comes before it: an answer to a question
            # that was asked before a crash must not slip in.
            chain, number = stream_state.chains.get((entry.publisher, life_of(entry.cat))), number_of(entry.cat)
            if chain is None or (stream_state.phase == "learning" and number + entry.count - 1 > chain.top):
                strange = strange or chain is None
                continue
            if full and number + entry.count - 1 > chain.top:
                continue
            # Without room for one more place, what fills one may be among the rest: there would never be room again.
            full = not stream_state.take(chain, number, entry.batch, now)
        member = self.members.get(event.repository)
        if member is not None and strange and stream_state.phase != "learning":
            # There was no room when we were told of that life: let it be told again.
            member.begin_anew()
        if member is not None and len(stream_state.staged) > staged and not event.more:
            # There may be more than was read at once: ask for what is still missing. If this was nothing new, it comes
            # in answer to a question that was repeated: to ask again at once would go on for ever.
            member.asked_at, member.asked_s = NEVER, stream_state.config.fetch_s
        self._progress_at = now if stream_state.staged else self._progress_at

    # ------------------------------------------------------------------------------------------------------ catching up

    def catch_up(self, now: float) -> Effects:
        """Look at every other repository: how far we cover it, what is missing, and whom to ask."""
        effects: Effects = []
        for member in self.members.values():
            self._advance(member)
            missing = self._missing(member, FETCH_RANGES_MAX) if self._may_fetch(member) else []
            unknown = bool(self._unexplained(member))
            if not missing and not unknown:
                member.lagging_since = None
                member.asked_s = self.stream_state.config.fetch_s
                continue
            if member.lagging_since is None:
                member.lagging_since = now
            effects += self._ask(member, missing, unknown, now)
        return effects

    def _may_fetch(self, member: Sibling) -> bool:
        """One that begins fetches what it missed from its assistant alone: else everybody would send it the same."""
        return (
            self.stream_state.phase != "filling" or member.name == self.assistant or self.assistant not in self.members
        )

    def _ask(self, member: Sibling, missing: list[Range], unknown: bool, now: float) -> Effects:
        stream_state, config = self.stream_state, self.stream_state.config
        patient = stream_state.phase not in ("learning", "filling")
        if patient and now - (member.lagging_since or now) < config.fetch_s:
            return []
        if now - member.asked_at < member.asked_s or not self.is_there(member, now) or stream_state.phase == "leaving":
            return []
        member.asked_at = now
        member.asked_s = min(2 * member.asked_s, 1.0)
        firsts = self._unexplained(member) if unknown else []
        questions: list[Explain | Fetch] = [
            Explain(stream_state.stream, member.name, stream_state.name, first) for first in firsts
        ]
        if missing:
            questions.append(Fetch(stream_state.stream, member.name, stream_state.name, tuple(missing)))
        # It may read for one of them only: without turns the others would be dropped every time.
        member.turn = (member.turn + 1) % len(questions)
        return [stream_state.say_to(member.name, one) for one in (*questions[member.turn :], *questions[: member.turn])]

    def _unexplained(self, member: Sibling) -> list[int]:
        """From which of its numbers on we want to know what lies there."""
        stream_state, known = self.stream_state, member.known
        if stream_state.phase == "learning":
            if member.name != self.assistant or not stream_state.has_room():
                return []
            return [self._explained_upto + 1] if self._explained_upto < self._target else []
        # What a place of ours is for may be forgotten there: it says so to whoever asks what lies at the beginning.
        gone = [1] if stream_state.places and not member.told_first and not self._missing(member, 1) else []
        if known.prefix >= member.end:
            return gone
        # Above a place that it has set aside there may be more than it has told.
        return [known.prefix + 1, *([known.highest + 1] if known.prefix < known.highest < member.end else []), *gone]

    def _advance(self, member: Sibling) -> None:
        """Cover what we have stored of what lies next there."""
        before = member.cover
        for row in member.table.between(member.cover + 1, member.known.prefix):
            if row.kind == MESSAGES:
                chain = self.stream_state.chains.get((row.publisher, life_of(row.cat)))
                number = number_of(row.cat)
                parts = chain.stored.new_part(number, number + row.count - 1) if chain else [(number, 0)]
                if parts:
                    member.cover = row.first + parts[0][0] - number - 1
                    break
            member.cover = row.last
        if member.cover != before:
            # If it gets lost, what lies above is looked at again.
            self.stream_state.put_later(_saved(member), "member", member.name)

    def _missing(self, member: Sibling, ranges_max: int) -> list[Range]:
        """Which of its numbers hold messages that we have not taken, and could take."""
        found: list[Range] = []
        learning = self.stream_state.phase == "learning"
        for row in member.table.between(member.cover + 1, member.known.highest):
            if row.kind != MESSAGES:
                continue
            chain = self.stream_state.chains.get((row.publisher, life_of(row.cat)))
            number, upto = number_of(row.cat), number_of(row.cat) + row.count - 1
            if learning:
                # Nothing but what fills a place: what lies before the rest is not known yet.
                upto = min(upto, chain.top if chain else 0)
            whole = [(number, upto)] if number <= upto else []
            parts = chain.taken.new_part(number, upto) if chain and whole else whole
            for first, last in parts:
                low, high = row.first + first - number, row.first + last - number
                if found and found[-1][1] + 1 == low:
                    found[-1] = (found[-1][0], high)
                elif len(found) == ranges_max:
                    return found
                else:
                    found.append((low, high))
        return found

    def is_there(self, member: Sibling, now: float) -> bool:
        return now - member.heard_at < GONE_BEATS * self.stream_state.config.beat_s

    # ------------------------------------------------------------------------------------------------------- beginning

    def learn(self, now: float) -> bool:
        """While beginning: go on with learning, filling or looking for an assistant. Whether the state has changed."""
        stream_state, state = self.stream_state, self.stream_state.phase
        if state not in ("learning", "filling"):
            return False
        assistant = self.members.get(self.assistant)
        waited_s = now - self._progress_at
        if assistant is None or waited_s >= stream_state.config.assist_s:
            others = [one for one in self.members.values() if one.serving and self.is_there(one, now)]
            others = [one for one in others if one.name != self.assistant] or others[: int(assistant is None)]
            if others and not (state == "filling" and not any(self._missing(one, 1) for one in self.members.values())):
                self._choose(min(others, key=lambda one: one.name), now)
            elif assistant is not None or waited_s >= self._learn_s():
                stream_state.phase = "serving"
        elif state == "learning" and (self._explained_upto >= self._target or self._is_full(assistant)):
            stream_state.phase = "filling"
        elif state == "filling" and not self._lacks(assistant):
            stream_state.phase = "serving"
        if state == "learning" and stream_state.phase != state:
            # What others told meanwhile was not looked at: let them explain it again.
            for one in self.members.values():
                one.begin_anew()
        return stream_state.phase != state

    def _is_full(self, assistant: Sibling) -> bool:
        """No place can be set aside, and none of those that are can be filled: go on without."""
        return not self.stream_state.has_room() and not self._missing(assistant, 1)

    def _lacks(self, assistant: Sibling) -> bool:
        missing, known = self._missing(assistant, 1), assistant.known
        if missing and missing[0][0] <= self._target:
            return True
        explained = known.prefix == assistant.hole_at and known.highest >= self._target
        return known.prefix < self._target and not explained

    def begin(self, now: float) -> None:
        self._began_at = self._progress_at = now

    def note_recovered(self, now: float) -> None:
        """If we serve, and nothing that was missed is on its way into the store any more, that was it."""
        stream_state = self.stream_state
        if self.recovery_s is None and stream_state.serving and not (stream_state.staged or stream_state.committing):
            self.recovery_s = now - self._began_at

    def _learn_s(self) -> float:
        """How long to wait for somebody to learn from: one that was alone when it ended need hardly expect anybody."""
        config = self.stream_state.config
        return config.alone_s if self.stream_state.restored and not self.members else config.learn_s

    def _choose(self, member: Sibling, now: float) -> None:
        self.assistant, self._target, self._progress_at = member.name, member.end, now
        self._explained_upto = member.cover
        member.asked_at = NEVER

    def _set_aside(self, event: Gossip, now: float) -> None:
        """What was missed gets places, in the order of the repository that has it."""
        stream_state = self.stream_state
        self._progress_at = now
        if event.first <= self._explained_upto + 1:
            self._explained_upto = max(self._explained_upto, event.upto)
        for row in event.rows:
            self.learned_rows += 1
            if row.kind not in MESSAGES_OR_LOST:
                continue
            chain = stream_state.chain(row.publisher, life_of(row.cat), row.after)
            last = number_of(row.cat) + row.count - 1
            if chain is not None and last > chain.top:
                stream_state.set_aside(chain, last)
        member = self.members[event.repository]
        member.asked_at, member.asked_s = NEVER, stream_state.config.fetch_s

    # --------------------------------------------------------------------------------------------------------- leaving

    def others_there(self, now: float) -> list[Sibling]:
        return [one for one in self.members.values() if one.serving and self.is_there(one, now)]

    def may_leave(self, now: float) -> bool:
        """Whether some other repository has everything that we have."""
        return any(one.covers_us >= self.stream_state.end for one in self.others_there(now))

    # -------------------------------------------------------------------------------------------------------- storing

    def covers(self) -> list[int]:
        """Up to where the other repositories have what we have."""
        return [one.covers_us for one in self.members.values()]

    def busy(self, now: float) -> bool:
        """Whether there is something to do before the next sign of life."""
        return bool(
            self._news
            or self._answer_due
            or self.stream_state.phase in ("learning", "filling", "leaving")
            or any(
                one.lagging_since is not None or one.cover < one.end or self.dissemination.has_pending(one.name)
                for one in self.members.values()
                if self.is_there(one, now)
            )
        )

    def _save(self, member: Sibling) -> None:
        self.stream_state.put(_saved(member), "member", member.name)

    def restore(self, pairs: dict[str, bytes]) -> None:
        prefix = self.stream_state.key("member") + "/"
        for key, value in pairs.items():
            if key.startswith(prefix):
                name = key[len(prefix) :].replace("%2F", "/").replace("%25", "%")
                era, cover = _decoder.decode(value)
                self.members[name] = Sibling(name, era, self.stream_state.config, cover)

    def check(self) -> None:
        for one in self.members.values():
            assert one.cover <= one.known.prefix, f"{self.stream_state.name} covers of {one.name} what it does not know"


def _saved(member: Sibling) -> bytes:
    return _encoder.encode((member.era, member.cover))
