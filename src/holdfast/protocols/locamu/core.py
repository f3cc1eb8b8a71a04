"""The part of a LoCaMu broker that must survive a crash: what it has processed, in which order, and who may lack it.

A deterministic machine. Its inputs are *records* (`protocols.locamu.journal`): what a client said, a copy that is
processed, another copy of the same. Whoever decides what is processed when is `protocols.locamu.broker`; it writes each
record down before anything that follows from it leaves, and after a crash the records are applied again.

The delivery rule (thesis, Algorithm 1, with docs/papers/locamu.md 1 to 3): a copy is processed when everything that its
last forwarder had processed before and that was numbered *for us* has been processed here. The past that we pass on is
what we had processed *before* the message; its own identifiers, those of earlier forwarders included, are not in it.

Where this differs from the thesis, and why, is in docs/protocols/locamu.md.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct, field

from holdfast.model.batches import Batch
from holdfast.model.messages import Confirm, Publish, SessionMessage
from holdfast.model.relay_messages import Notice
from holdfast.protocols.locamu.copies import Copy, KeptCopy, Marks, Numbers, Reaches, is_safe, learn, triples
from holdfast.protocols.locamu.groups import Groups, GroupsImage, Waiter
from holdfast.protocols.locamu.local_tree import LocalTree, LocalTreeImage
from holdfast.protocols.neighbourhoods import Neighbourhood
from holdfast.protocols.trackers import RangeTracker

GAPS_MAX = 1 << 20
"""How many separate runs of a forwarder's numbers for us are remembered: as many as copies can overtake each other."""

Tell = Callable[[str, SessionMessage], None]


class PendingCopy(Struct):
    """A notice about which somebody waits to hear that everybody behind us has processed it."""

    up: str
    """Our neighbour on the way back; empty if it began here."""
    up_number: int
    """Its number of the notice for us; 0 while we do not know it."""
    down: dict[str, int]
    """Our number for each neighbour further on."""
    notice: Notice
    clients: list[str] = []
    """Our own clients that have not said yet that they have it."""
    waiters: list[Waiter] = []


class Unmarked(Struct):
    """A message that was processed here before everybody on the way had marked it: more copies may come."""

    missing: list[str]
    """Those on the way, near enough to number it for us, whose marks we do not know."""
    marks: Marks


class CoreImage(Struct):
    """All of it, for the disk."""

    serial: int = 0
    past: Numbers = {}
    seen: list[tuple[str, int, list[tuple[int, int]]]] = []
    unmarked: dict[int, Unmarked] = {}
    store: list[KeptCopy] = []
    pending: dict[int, PendingCopy] = {}
    groups: GroupsImage = field(default_factory=GroupsImage)
    local_tree: LocalTreeImage = field(default_factory=LocalTreeImage, name="land")
    inherited: Numbers = {}


class Core:
    """What one broker has processed."""

    def __init__(self, near: Neighbourhood, reach: Reaches, tell: Tell) -> None:
        self.name, self.reach, self._tell = near.name, reach, tell
        self.local_tree = LocalTree(near, reach)
        self.serial = 0
        self.past: Numbers = {}
        self.inherited: Numbers = {}
        """The past with which we came to the tree, if that was there before us."""
        self.seen: dict[str, RangeTracker] = {}
        """By forwarder, its numbers for us of what was processed here."""
        self.unmarked: dict[int, Unmarked] = {}
        self.store: dict[int, KeptCopy] = {}
        self.pending: dict[int, PendingCopy] = {}
        self.groups = Groups()
        self._survey()
        self._index: dict[tuple[str, str, int], int] = {}
        """The serial of everything that is kept, or not marked by all, under each of its identifiers."""

    def _survey(self) -> None:
        """What follows from the tree around us."""
        near, reach = self.local_tree.near, self.reach
        self.near = near
        self._column: dict[str, int] | None = None
        self.numberers = near.within(reach.marks)
        """Whose numbers for us there may be."""
        self._near = {name for name, path in near.paths(near.name).items() if len(path) <= reach.safe}
        self._linked = set(near.within(reach.links))
        self._onwards: dict[str, set[str]] = {}

    # ----------------------------------------------------------------------------------------------------- the rules

    def prefix(self, node: str) -> int:
        """Up to which number we have processed everything that the node numbered for us."""
        tracker = self.seen.get(node)
        return 0 if tracker is None else tracker.prefix

    def column(self) -> dict[str, int]:
        """What we have processed of what others numbered for us. It is not to be changed."""
        if self._column is None:
            self._column = {node: prefix for node in self.numberers if (prefix := self.prefix(node))}
        return self._column

    def lacking(self, copy: Copy) -> list[str]:
        """Whose messages for us must come before this copy may be processed."""
        past, name = copy.past, self.name
        return [node for node in self.numberers if past.get((node, name), 0) > self.prefix(node)]

    def is_known(self, copy: Copy) -> bool:
        """Whether another copy of the same message was processed here.

        Whoever sends us a copy has numbered it for us, or passes on the copy of somebody who has. If we know that
        number we know the message; else that forwarder's mark was missing, and all identifiers that we had are in the
        index.
        """
        name, seen, index = self.name, self.seen, self._index
        # Asked for every copy that comes: loops, since generators take twice as long.
        for marks in (copy.marks, copy.extra):
            for node, numbers in marks.items():
                for target, number in numbers.items():
                    if target != name:
                        if (node, target, number) in index:
                            return True
                    elif node in seen and seen[node].contains(number):
                        return True
        return bool(self.inherited) and self._is_inherited(copy)

    def _is_inherited(self, copy: Copy) -> bool:
        """Whether our sponsor had processed it before we began. A forwarder of both copies shows that (3.6)."""
        known = self.inherited
        return any(number <= known.get((node, target), 0) for node, target, number in triples(copy.marks, copy.extra))

    def _has(self, node: str, target: str, number: int) -> bool:
        if target == self.name:
            tracker = self.seen.get(node)
            return tracker is not None and tracker.contains(number)
        return (node, target, number) in self._index

    def is_overtaken(self, copy: Copy) -> bool:
        """Whether something was processed here that its forwarders sent after it.

        That cannot be for a message of a group that stood when it was published. It can while a subscription spreads:
        some brokers know of it and route the message to us, others did not and routed what comes after it around.
        """
        past = self.past
        return any(number <= past.get((node, target), 0) for node, target, number in triples(copy.marks))

    def may_send(self, entry: KeptCopy, target: str) -> bool:
        """Whether a copy from us would come along a safe path (3.6)."""
        path = (*entry.path, self.name, *self.near.between(self.name, target))
        return is_safe(path, (*entry.marks, *entry.extra, self.name), self.reach)

    def may_pass_on(self, entry: KeptCopy, target: str) -> bool:
        """Whether we may send the copy that came to us, as it came, to somebody its forwarder meant it for (3.8.6).

        Of the forwarder's numbers we know those for brokers on our side of it. On another side they would pass the copy
        on without the rest, and nobody out there would ever learn to which message these belong: so it goes there only
        from somebody who has it from the forwarder itself, and is near enough to know of all whom that numbers for.
        """
        last = entry.last
        if not last or target not in entry.marks[last] or target not in self.near:
            return False
        if last in self.near.between(self.name, target):
            away = self.near.distance(self.name, last)
            if entry.borrowed or away + self.reach.marks > self.reach.safe:
                return False
        path = (*entry.path[: entry.path.index(last) + 1], *self.near.between(last, target))
        return is_safe(path, (*entry.marks, *entry.extra), self.reach)

    def copy_from_us(self, entry: KeptCopy) -> Copy:
        path = (*entry.path, self.name)[-self.reach.safe :]
        marks = {**entry.marks, self.name: entry.own}
        return Copy(path, marks, entry.past, entry.extra, entry.batch, entry.notice, entry.void)

    def copy_as_it_came(self, entry: KeptCopy) -> Copy:
        path = entry.path[: entry.path.index(entry.last) + 1]
        return Copy(path, entry.marks, entry.came, entry.extra, entry.batch, entry.notice, entry.void)

    def lacks(self, entry: KeptCopy, target: str, column: dict[str, int]) -> bool:
        """Whether the target, which has so much of everybody's, may lack the message or some identifier of it."""
        # Numbers of somebody who has left the tree are nobody's any more: all have what it said.
        if target in entry.own:
            numbers = entry.numbers_for(target, self.name)
            return any(column.get(node, 0) < number for node, number in numbers if node in self.near)
        last = entry.last
        return last in self.near and column.get(last, 0) < entry.marks[last].get(target, 0)

    def is_marked(self, entry: KeptCopy) -> bool:
        """Whether nobody was passed over whose numbers those behind us would have to hear of.

        Whoever was passed over processes the message later, and gives it numbers for those behind us, too. Only we can
        tell them which message these belong to: a copy from there, past us, would not be safe.
        """
        return entry.serial not in self.unmarked or not self._onward(entry.path)

    def concerned(self, entry: KeptCopy) -> list[str]:
        """Those connected with us who may need the message from us: our targets, and its last forwarder's."""
        last = entry.last
        names = {*entry.own, *(entry.marks[last] if last else ())} - {self.name}
        return sorted(names & self._linked)

    # ---------------------------------------------------------------------------------------------------- processing

    def publish(self, batch: Batch | None, notice: Notice | None) -> KeptCopy:
        """Something begins here."""
        return self._process(Copy((), {}, {}, {}, batch, notice))

    def process(self, copy: Copy) -> KeptCopy:
        """The first copy of a message, in its turn."""
        way = (*copy.path, *self.near.between(copy.last, self.name))
        return self._process(copy, way[-self.reach.safe :])

    def _process(self, copy: Copy, way: tuple[str, ...] = ()) -> KeptCopy:
        void = copy.void or self.is_overtaken(copy)
        learn(self.past, copy.past)
        self.serial += 1
        targets = self._targets(copy, way)
        own = {target: self.past.get((self.name, target), 0) + 1 for target in sorted(targets)}
        entry = KeptCopy(
            self.serial,
            way,
            copy.marks,
            dict(copy.extra),
            copy.past,
            dict(self.past),
            own,
            copy.batch,
            copy.notice,
            void,
            copy.borrowed,
        )
        self._note({**copy.extra, **copy.marks})
        self._expect_marks(entry)
        for node, target, number in triples(copy.marks, {self.name: own}):
            if self.past.get((node, target), 0) < number and self._keeps(node, target):
                self.past[node, target] = number
        self._hand_out(entry)
        if self.concerned(entry) or entry.serial in self.pending or not self.is_marked(entry):
            self._keep(entry)
        return entry

    def _keeps(self, node: str, target: str) -> bool:
        return node in self._near and target in self._near

    def _keep(self, entry: KeptCopy) -> None:
        self.store[entry.serial] = entry
        for triple in triples(entry.marks, entry.extra):
            self._index[triple] = entry.serial

    def _expect_marks(self, entry: KeptCopy) -> None:
        """Note who on the way has not marked the message: only those can send us a copy that we would not know."""
        marks = {**entry.extra, **entry.marks}
        missing = [node for node in entry.path[-self.reach.marks :] if node not in marks]
        if missing:
            self.unmarked[entry.serial] = Unmarked(missing, marks)
            for triple in triples(marks):
                self._index[triple] = entry.serial

    def _targets(self, copy: Copy, way: tuple[str, ...]) -> set[str]:
        """Everybody nearby who takes part in routing the message on."""
        paths, onward = self.near.paths(self.name), self._onward(way)
        if copy.notice is not None and copy.notice.what != "c":
            return onward - {copy.notice.pattern} if copy.notice.what == "g" else onward
        targets = self.groups.members(copy.batch, copy.notice) & onward
        # Whoever was given a number on the way waits for it, whatever we know of its interests by now.
        targets.update(target for _, target, _ in triples(copy.marks, copy.extra) if target in onward)
        return {name for target in targets for name in paths[target]}

    def _onward(self, way: tuple[str, ...]) -> set[str]:
        """Everybody that we number for, away from where a message came from."""
        back = way[-1] if way else ""
        found = self._onwards.get(back)
        if found is None:
            found = {
                name
                for name, path in self.near.paths(self.name).items()
                if 0 < len(path) <= self.reach.marks and (not back or path[0] != back)
            }
            self._onwards[back] = found
        return found

    def merge(self, marks: Marks) -> KeptCopy | None:
        """Another copy of a message that was processed: its identifiers are the message's, too (3.5)."""
        serial = self._find(marks)
        self._note(marks)
        unmarked = self.unmarked.get(serial)
        if unmarked is not None:
            unmarked.marks = {**unmarked.marks, **marks}
            unmarked.missing = [node for node in unmarked.missing if node not in marks]
        entry = self.store.get(serial)
        if entry is not None:
            self._merge_into(entry, marks)
        if entry is not None or unmarked is not None:
            for triple in triples(marks):
                self._index[triple] = serial
        if unmarked is not None and not unmarked.missing:
            del self.unmarked[serial]
            self._unindex(serial, unmarked.marks)
        return entry

    def close(self, node: str, number: int) -> list[int]:
        """Up to that number of its for us, the node knows the marks of all before it, and we have heard what is ours.

        Somebody before it who did not know that we want the message has no number for us, and sends us nothing. Returns
        the serials of what nobody has yet to mark.
        """
        done = []
        for serial, unmarked in list(self.unmarked.items()):
            if 0 < unmarked.marks.get(node, {}).get(self.name, 0) <= number:
                unmarked.missing = [one for one in unmarked.missing if node not in self.near.between(self.name, one)]
                if not unmarked.missing:
                    del self.unmarked[serial]
                    self._unindex(serial, unmarked.marks)
                    done.append(serial)
        return done

    def closed_for(self, target: str, lacking: Iterable[int]) -> int:
        """Up to which number of ours for the target all before us have marked what we sent and it lacks nothing."""
        serials = {*self.unmarked, *lacking} & self.store.keys()
        numbers = [self.store[serial].own[target] for serial in serials if target in self.store[serial].own]
        return min(numbers, default=self.past.get((self.name, target), 0) + 1) - 1

    def _find(self, marks: Marks) -> int:
        return next((self._index[triple] for triple in triples(marks) if triple in self._index), 0)

    def _merge_into(self, entry: KeptCopy, marks: Marks) -> None:
        for node, numbers in marks.items():
            if node not in entry.marks:
                entry.extra[node] = {**entry.extra.get(node, {}), **numbers}
        pending = self.pending.get(entry.serial)
        if pending is not None and not pending.up_number:
            pending.up_number = marks.get(pending.up, {}).get(self.name, 0)
        self._add_targets(entry, marks)

    def _unindex(self, serial: int, marks: Marks) -> None:
        """What is neither kept nor missing a mark is recognised by the numbers for us alone."""
        if serial not in self.store and serial not in self.unmarked:
            for triple in triples(marks):
                self._index.pop(triple, None)

    def _add_targets(self, entry: KeptCopy, marks: Marks) -> None:
        """Somebody on the way has numbered the message for brokers behind us that, as we knew it, did not want it.

        They wait for that number, so they get the message: after all that they have got from us. Our neighbour on the
        way passes it on. A number for anybody further, given now, would be one that those in between never hear of.
        """
        onward, paths = self._onward(entry.path), self.near.paths(self.name)
        late = {paths[target][0] for _, target, _ in triples(marks) if target in onward}
        for target in sorted(late - entry.own.keys()):
            number = self.past.get((self.name, target), 0)
            entry.past = {**entry.past, (self.name, target): number}
            entry.own = {**entry.own, target: number + 1}
            self.past[self.name, target] = number + 1

    def news_in(self, copy: Copy) -> Marks:
        """All identifiers of a copy of a known message, if some matter and are new to us."""
        found = {**copy.extra, **copy.marks}
        if any(
            self.name in numbers and not self._has(node, self.name, numbers[self.name])
            for node, numbers in found.items()
        ):
            return found
        serial = self._find(found)
        entry, unmarked = self.store.get(serial), self.unmarked.get(serial)
        known = {*(unmarked.marks if unmarked else ()), *((*entry.marks, *entry.extra) if entry else ())}
        return found if known and any(node not in known for node in found) else {}

    def _note(self, marks: Marks) -> None:
        self._column = None
        for node, numbers in marks.items():
            if self.name in numbers:
                tracker = self.seen.setdefault(node, RangeTracker(GAPS_MAX))
                tracker.add(numbers[self.name], numbers[self.name])

    # ------------------------------------------------------------------------------------------------------ delivery

    def _hand_out(self, entry: KeptCopy) -> None:
        """What a message means here: our clients get it, or we learn who wants what."""
        notice = entry.notice
        if entry.batch is not None:
            if not entry.void:
                self._deliver(entry.batch)
        elif notice is not None and notice.what == "c":
            self._await(entry, notice, self.groups.local.destinations(notice.pattern))
            for client in self.pending[entry.serial].clients:
                self._tell(client, Confirm(entry.serial, notice.pattern, notice.publisher, notice.seq))
        elif notice is not None and notice.what in ("j", "l", "g"):
            self._reshape(entry, notice)
        elif notice is not None:
            behind = [name for name in entry.path if self.near.distance(self.name, name) <= self.reach.marks]
            if behind:
                self.groups.heard(notice, behind)
            if notice.what == "s":
                self._await(entry, notice, [])

    def _reshape(self, entry: KeptCopy, notice: Notice) -> None:
        """A broker comes, is about to leave, or has left."""
        node, local_tree = notice.pattern, self.local_tree
        if notice.what == "g":
            if local_tree.shrink(node):
                self._survey()
                self._forget_broker(node)
            return
        if notice.what == "l":
            local_tree.retire(node)
        elif local_tree.grow(notice.publisher, node, notice.where):
            self._survey()
        self._await(entry, notice, [])

    def _forget_broker(self, node: str) -> None:
        """All that it ever said was processed by all, and it waits for nothing any more."""
        self.past = {pair: number for pair, number in self.past.items() if node not in pair}
        self.seen.pop(node, None)
        for pending in self.pending.values():
            pending.down.pop(node, None)

    def _deliver(self, batch: Batch) -> None:
        for client, choice in self.groups.local.takers(batch).items():
            for part in batch.chosen(choice):
                self._tell(client, Publish(part))

    def _await(self, entry: KeptCopy, notice: Notice, clients: list[str]) -> None:
        up = entry.path[-1] if entry.path else ""
        number = entry.marks.get(up, {}).get(self.name, 0)
        # Two newcomers who wait for each other to hear of them would wait for ever: they begin with what we have.
        behind = [name for name in self.near.neighbours(self.name) if name not in self.local_tree.expected]
        down = {name: entry.own[name] for name in behind if name in entry.own}
        self.pending[entry.serial] = PendingCopy(up, number, down, notice, clients)

    def complete_towards(self, neighbour: str) -> int:
        """Up to which of its numbers for us everybody behind us has what it had for us."""
        waiting = [one.up_number - 1 for one in self.pending.values() if one.up == neighbour and one.up_number]
        # A notice that came past the neighbour may be here before what the neighbour had for us earlier.
        return min([self.prefix(neighbour), *waiting])

    def finish(self, serial: int) -> PendingCopy:
        """Everybody behind us has that notice."""
        pending = self.pending.pop(serial)
        notice = pending.notice
        if notice.what == "s" and not pending.up:
            self.groups.completed((notice.pattern, notice.where), serial)
        return pending

    def forget(self, serial: int) -> None:
        """Nobody needs that message from us any more."""
        entry = self.store.pop(serial)
        self._unindex(serial, {**entry.extra, **entry.marks})

    # ------------------------------------------------------------------------------------------------------- the disk

    def image(self) -> CoreImage:
        seen = [(node, one.prefix, one.ranges()) for node, one in self.seen.items()]
        return CoreImage(
            self.serial,
            self.past,
            seen,
            self.unmarked,
            list(self.store.values()),
            self.pending,
            self.groups.image(),
            self.local_tree.image(),
            self.inherited,
        )

    def restore(self, image: CoreImage) -> None:
        self.serial, self.past, self.pending, self.unmarked = image.serial, image.past, image.pending, image.unmarked
        for node, prefix, ranges in image.seen:
            tracker = self.seen[node] = RangeTracker(GAPS_MAX, prefix)
            for first, last in ranges:
                tracker.add(first, last)
        for entry in image.store:
            self._keep(entry)
        for serial, unmarked in self.unmarked.items():
            self._index.update((triple, serial) for triple in triples(unmarked.marks))
        self.groups.restore(image.groups)
        self.local_tree.restore(image.local_tree)
        self.inherited = image.inherited
        self._survey()

    def check_invariants(self) -> None:
        self.groups.check_invariants()
        for serial in self.pending:
            assert serial in self.store, f"somebody waits for notice {serial}, which is not kept"
        for node in self.numberers:
            number, tracker = self.past.get((node, self.name), 0), self.seen.get(node)
            assert number <= (tracker.highest if tracker else 0), f"{number} of {node} is past, but was never seen"
        kept = self.store.keys() | self.unmarked.keys()
        assert kept.issuperset(self._index.values()), "an identifier leads to a message that is not kept"
