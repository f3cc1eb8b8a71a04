"""What a node knows of the tree around it: enough to repair it, and never more than its neighbourhood.

Downwards: its children and what is below them, `hops` deep. Upwards: its chain of ancestors, and for the day when the
root dies, alone or with some of its children, the root's children by seniority and what the root knows of what is below
them. And the brokers that are dead, each with the epoch in which it died: the same name in a later epoch is alive
again (`deaths`).

A change is told to the neighbours and, through them, `hops - 1` links far; it is acknowledged when all of them know.
Nobody forwards for a child that those who would repair its loss have not heard of (docs/repair.md, trap 9). That a
client has left is told, too, and waited for by nobody: each who hears it tells its own parent, as far as that one's
view reaches.

Clients need less: whom to turn to. They are told when that changes, not of each other.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

from holdfast.model.messages import Dead, SessionMessage, Twig, Upward, View
from holdfast.model.terms import Contact
from holdfast.protocols.by_kind import ByKind
from holdfast.protocols.deaths import Deaths

ALIVE_MAX = 256


class TreeView:
    """One node's view. `send` is called for its neighbours only."""

    def __init__(self, name: str, epoch: int, address: str, hops: int, send: Callable[[str, SessionMessage], None]):
        self.name, self.epoch, self.address, self.hops = name, epoch, address, hops
        self._send = send
        self.children: ByKind[Twig] = ByKind()
        self.chain: tuple[Contact, ...] = ()
        self.senior: tuple[Contact, ...] = ()
        self.siblings: tuple[Twig, ...] = ()
        self.deaths = Deaths()
        self.lost: tuple[Contact, ...] = ()
        """Those whom the root of our part looks for."""
        self.alive: dict[str, int] = {}
        """Those who were taken for dead while the network was parted: what is still said of them below is old."""
        self.avoided: set[str] = set()
        """Those who are alive and cannot take us in."""
        self.detour: tuple[Contact, ...] = ()
        """Who may be our next parent: if we are lost meanwhile, those below us ask it after our parent."""
        self.version = 0
        self._children_know: Upward | None = None
        self._clients_know: Upward | None = None
        """What our children and our clients were told last of those above them."""
        self._pending: dict[int, tuple[set[str], Callable[[], None]]] = {}

    # ------------------------------------------------------------------------------------------------- the dead

    def is_gone(self, name: str, epoch: int) -> bool:
        return self.deaths.covers(name, epoch)

    def dead(self) -> Dead:
        return self.deaths.all()

    def bury(self, name: str, epoch: int) -> None:
        self.deaths.add(name, epoch)

    def revive(self, names: Iterable[tuple[str, int]]) -> None:
        """They were not dead, only out of reach."""
        for name, epoch in names:
            dead_in = self.deaths.epoch_of(name)
            if dead_in is not None and dead_in <= epoch:
                self.deaths.discard(name)
            self.alive.pop(name, None)
            self.alive[name] = epoch
        while len(self.alive) > ALIVE_MAX:
            del self.alive[next(iter(self.alive))]

    def last_epoch(self, contact: Contact) -> int:
        """The last epoch of that broker that was heard of here, dead or alive."""
        return max(contact.epoch, self.deaths.epoch_of(contact.name) or 0)

    def is_rumour(self, name: str, epoch: int) -> bool:
        """Whether a death that somebody below speaks of is known to be none."""
        return epoch <= self.alive.get(name, -1)

    # ------------------------------------------------------------------------------------------------- contacts

    def next_contact(self) -> Contact | None:
        """Whom to turn to when the parent is dead: the first alive of those that everybody around would turn to."""
        line = contacts_in(Upward(self.chain, self.senior, self.siblings))
        left = [one for one in line if not self.is_gone(one.name, one.epoch)]
        return next((one for one in left if one.name not in self.avoided), None)

    def has_others(self, contact: str) -> bool:
        """Whether there is somebody else to turn to than that contact."""
        line = contacts_in(Upward(self.chain, self.senior, self.siblings))
        left = [one for one in line if one.name not in (contact, self.name) and one.name not in self.avoided]
        return any(not self.is_gone(one.name, one.epoch) for one in left)

    def line_before_us(self) -> tuple[Contact, ...]:
        """Those who would be the root before us."""
        line = contacts_in(Upward(self.chain, self.senior, self.siblings))
        names = [one.name for one in line]
        return line[: names.index(self.name)] if self.name in names else line

    def near(self) -> tuple[Contact, ...]:
        """Every other broker whom we know, those first to whom we would turn, those last whom we believe dead."""
        line = contacts_in(Upward(self.chain, self.senior, (*self.siblings, *self.children.brokers.values())))
        others = [one for one in line if one.name != self.name]
        return tuple(sorted(others, key=lambda one: self.is_gone(one.name, one.epoch)))

    def knows_broker(self, name: str) -> bool:
        """Whether a broker of that name is, or was, somewhere around us."""
        return any(one.name == name for one in (self.contact(), *self.near(), *self.detour))

    def root(self) -> str:
        """The root of the tree that we are in, as far as we know."""
        return self.chain[-1].name if self.chain else self.name

    def contact(self) -> Contact:
        return Contact(self.name, self.epoch, self.address)

    def contact_of(self, name: str) -> tuple[Contact, ...]:
        """Where somebody above us is, if it is known."""
        line = contacts_in(Upward(self.chain, self.senior, self.siblings))
        return tuple(one for one in line if one.name == name)[:1]

    def knows_alive(self, name: str, epoch: int) -> bool:
        """Whether that broker is around us, in that epoch or a later one, and is not known to be dead."""
        alive = [one.epoch for one in self.near() if one.name == name and not self.is_gone(name, one.epoch)]
        return max(alive, default=-1) >= epoch

    def child_contact(self, name: str) -> tuple[Contact, ...]:
        """Where that child of ours is, if it is one."""
        return (_contact_of(self.children[name]),) if name in self.children else ()

    def become_root(self) -> None:
        """Whoever will be our child stands in the line in which everybody has known it so far (trap 12)."""
        line = contacts_in(Upward(self.chain, self.senior, self.siblings))
        mine = self.children.brokers.values()
        heirs = {one.name for one in self.senior} | {twig.name for twig in (*self._alive(self.siblings), *mine)}
        heirs.discard(self.name)
        self.senior = tuple(one for one in line if one.name in heirs and not self.is_gone(one.name, one.epoch))
        self.chain = ()
        self._complete_line()

    def forget_heirs(self) -> None:
        """We are out of the others' reach: nobody but our own children will come to us, or can take our place."""
        self.senior, self.siblings = (), ()

    def _alive(self, twigs: Iterable[Twig]) -> Iterator[Twig]:
        """These, and in the place of the dead among them those below."""
        for twig in twigs:
            if self.is_gone(twig.name, twig.epoch):
                yield from self._alive(twig.twigs)
            else:
                yield twig

    def _complete_line(self) -> None:
        """A root's children may have to take its place, and those who are expected to be its children as well.

        In the order in which they are known, not in that in which they join: if the root dies before all of them have
        heard of it, they must agree on who comes next.
        """
        known = {one.name for one in self.senior}
        brokers = [twig for twig in self.children.brokers.values() if twig.name not in known]
        self.senior = (*self.senior, *map(_contact_of, brokers))

    def adopt(self, twig: Twig, as_root: bool) -> None:
        self.children[twig.name] = twig
        if as_root:
            self._complete_line()

    def come_below(self, names: Collection[str], as_root: bool) -> None:
        """These were expected to be children of ours, and have come with somebody above them."""
        for name in names:
            self.children.pop(name, None)
        if as_root:
            self.senior = tuple(one for one in self.senior if one.name not in names)

    def lose(self, name: str, epoch: int) -> None:
        twig = self.children.get(name)
        if twig is not None and twig.epoch <= epoch:
            del self.children[name]
        self.senior = tuple(one for one in self.senior if one.name != name or one.epoch > epoch)

    # --------------------------------------------------------------------------------------------------- telling

    def twig(self, kind: str = "broker") -> Twig:
        """Ourselves, as our parent should know us."""
        return Twig(self.name, "client" if kind == "client" else "broker", self.epoch, self.address, self.below())

    def below(self) -> tuple[Twig, ...]:
        """Those below us, as far as our parent should know them."""
        return tuple(_cut(twig, self.hops - 1) for twig in self.children.values())

    def upward(self, is_root: bool) -> Upward:
        """What our children should know of what is above them."""
        siblings = tuple(_needed(twig, self.hops - 2) for twig in self.children.values()) if is_root else self.siblings
        return Upward(self._chain_below(), self.senior, siblings, tuple(sorted(self.alive.items())), self.lost)

    def _chain_below(self) -> tuple[Contact, ...]:
        """The ancestors of our children."""
        return (self.contact(), *self.chain[:1], *self.detour, *self.chain[1:])

    def learn(self, upward: Upward) -> bool:
        """What is above us; whether that is news."""
        known = Upward(self.chain, self.senior, self.siblings, tuple(sorted(self.alive.items())), self.lost)
        self.chain, self.senior, self.siblings = upward.chain, upward.senior, upward.siblings
        self.lost = upward.lost
        self.revive(one for one in upward.alive if one[1] > self.alive.get(one[0], -1))
        return upward != known

    def tell(self, parent: str | None, neighbours: Iterable[str], hops: int, then: Callable[[], None]) -> int:
        """Tell the neighbours; `then` is called when all of them have acknowledged."""
        if parent is None:
            self._complete_line()
        self.version += 1
        version = self.version
        waiting = set(neighbours)
        self._pending[version] = (waiting, then)
        for peer in sorted(waiting):
            self._send(peer, self.message(peer, peer == parent, version, hops, parent is None))
        self._settle()
        return version

    def message(self, peer: str, to_parent: bool, version: int, hops: int, is_root: bool) -> View:
        """What that neighbour should know now; its next one says nothing of the dead that this one names."""
        twigs = self.below() if to_parent else None
        return View(version, hops, twigs, None if to_parent else self.upward(is_root), self.deaths.news_for(peer))

    def news_below(self, is_root: bool, has_brokers: bool = True) -> tuple[Upward | None, bool, View | None]:
        """What is to be told to all below us now: to children what is above them, and whether that is news.

        And to clients, if it is news to them. Unless it `has_brokers` below it, nobody has to know our clients, of
        which there may be thousands.
        """
        known, upward, fresh = self._clients_know, None, False
        if has_brokers:
            upward = self.upward(is_root)
            fresh = upward != self._children_know
        self._children_know = upward
        message = self.message_for_clients(is_root)
        return upward, fresh, None if message.upward == known else message

    def message_for_clients(self, is_root: bool) -> View:
        """Whom to turn to, whether they know it or not. All of them have to be told now."""
        self._clients_know = self._upward_for_clients(is_root)
        return View(0, 0, None, self._clients_know, ())

    def _upward_for_clients(self, is_root: bool) -> Upward:
        """What our clients should know of what is above them: nobody turns to a client."""
        around = self.children.brokers.values() if is_root else self.siblings
        siblings = tuple(_needed(twig, 0) for twig in around if twig.kind == "broker")
        return Upward(self._chain_below(), self.senior, siblings, lost=self.lost)

    def upward_for(self, kind: str, is_root: bool) -> Upward:
        """What one node is told that comes now. If that is news, it is also for the others, next time.

        A client that comes to a root is news to the brokers below that root, and not to its other clients.
        """
        for_clients = self._upward_for_clients(is_root)
        if for_clients != self._clients_know:
            self._clients_know = None
        if kind == "client" and not self.children.brokers:
            self._children_know = None
            return for_clients
        upward = self.upward(is_root)
        if upward != self._children_know:
            self._children_know = None
        return for_clients if kind == "client" else upward

    def told_nobody(self) -> None:
        """Those below us may not have heard what we have told them last."""
        self._children_know = self._clients_know = None

    def acknowledged(self, version: int) -> bool:
        """Whether everybody concerned knows this version."""
        return version not in self._pending

    def on_ack(self, peer: str, version: int) -> None:
        for pending, (waiting, _) in self._pending.items():
            if pending <= version:
                waiting.discard(peer)
        self._settle()

    def give_up_on(self, peer: str) -> None:
        """A neighbour that died acknowledges nothing."""
        for waiting, _ in self._pending.values():
            waiting.discard(peer)

    def also_wait_for(self, peer: str) -> None:
        """What is not acknowledged yet must be known to the new parent, too: its `Open` says so."""
        for waiting, _ in self._pending.values():
            waiting.add(peer)

    def _settle(self) -> None:
        for version in [version for version, (waiting, _) in self._pending.items() if not waiting]:
            entry = self._pending.pop(version, None)
            if entry is not None:
                entry[1]()

    def settle(self) -> None:
        self._settle()


def find_twigs(twigs: Iterable[Twig], name: str) -> tuple[Twig, ...]:
    """What is below the node of that name."""
    for twig in twigs:
        if twig.name == name:
            return twig.twigs
    return ()


def contacts_of_client(upward: Upward) -> tuple[Contact, ...]:
    """All brokers that a client may turn to: those that its part of the tree has lost may keep something for it."""
    return tuple(dict.fromkeys((*contacts_in(upward), *upward.lost)))


def contacts_in(upward: Upward) -> tuple[Contact, ...]:
    """In order: the ancestors, the root's children by seniority, then whoever the root knew below them."""
    line = [*upward.chain, *upward.senior]
    level = list(upward.siblings)
    while level:
        line += [_contact_of(twig) for twig in level if twig.kind == "broker"]
        level = [below for twig in level for below in twig.twigs]
    return tuple(dict.fromkeys(line))


def _cut(twig: Twig, depth: int) -> Twig:
    if not twig.twigs:
        # Nearly all are clients, and there may be thousands of them.
        return twig
    below = tuple(_cut(child, depth - 1) for child in twig.twigs) if depth > 0 else ()
    return Twig(twig.name, twig.kind, twig.epoch, twig.address, below)


def _needed(twig: Twig, levels: int) -> Twig:
    """What a new root has to know of it: clients only as deep as those brokers whom the tree may lose with the root.

    Clients further down are expected by whoever has lost their broker alone. So they may be many, and come and go.
    """
    if levels > 0:
        below = tuple(_needed(child, levels - 1) for child in twig.twigs)
    else:
        below = tuple(_needed(child, 0) for child in twig.twigs if child.kind == "broker")
    return Twig(twig.name, twig.kind, twig.epoch, twig.address, below) if twig.twigs else twig


def _contact_of(twig: Twig) -> Contact:
    return Contact(twig.name, twig.epoch, twig.address)
