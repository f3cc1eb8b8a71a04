"""What a broker writes down, so that it is somebody when it comes back after a crash: three facts, at changes only.

- its *epoch*: a later life must have a later one, or its neighbours would take it for the one that they have given up,
  whatever the clock of the machine says by then;
- the *tree* around it, with addresses: those of its configuration may all be gone when it returns;
- how far each publisher has *numbered* its messages here. One that returned to a broker without memory would begin at 1
  again, and whoever has processed those numbers would take the new messages for repeats and drop them in silence.
  Numbers are reserved many at a time, so the disk is written once for very many messages, and a new session after a
  crash begins behind what was reserved.

What it had passed on is not written down: its neighbours hold it until everybody has it.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from holdfast.model.errors import LocalMisuse
from holdfast.model.terms import Contact, Counter
from holdfast.protocols.node import Effects, Persist

EPOCH, TREE, NUMBERED = "epoch", "tree", "numbered:"
CONTACTS_MAX = 64

_epoch = msgspec.msgpack.Decoder(Counter)
_tree = msgspec.msgpack.Decoder(tuple[Contact, ...])
_number = msgspec.msgpack.Decoder(tuple[Counter, bool])


class Kept(Struct, frozen=True):
    """What an earlier life has written down. Numbers are exact if it left in order, and else merely large enough."""

    epoch: int = 0
    tree: tuple[Contact, ...] = ()
    numbered: dict[str, tuple[int, bool]] = {}


def kept_in(pairs: Mapping[str, bytes]) -> Kept:
    """What the pairs of `Persist` say; `LocalMisuse` if they are not a broker's."""
    try:
        return Kept(
            _epoch.decode(pairs[EPOCH]) if EPOCH in pairs else 0,
            _tree.decode(pairs[TREE]) if TREE in pairs else (),
            {
                key.removeprefix(NUMBERED): _number.decode(value)
                for key, value in pairs.items()
                if key.startswith(NUMBERED)
            },
        )
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LocalMisuse(f"what a broker has written down cannot be understood: {error}") from None


class Notebook:
    """Says what there is to write, and nothing twice. One that is not `durable` never has anything to say."""

    def __init__(self, durable: bool) -> None:
        self.durable = durable
        self._epoch = 0
        self._tree: tuple[Contact, ...] = ()

    def restore(self, pairs: Mapping[str, bytes], epoch: int) -> Kept:
        """These are an earlier life's; ours has that epoch."""
        kept = kept_in(pairs)
        if epoch <= kept.epoch:
            raise LocalMisuse(
                f"a broker that was in epoch {kept.epoch} cannot begin again in epoch {epoch}: give it a later one"
            )
        self._epoch, self._tree = kept.epoch, kept.tree
        return kept

    def epoch(self, epoch: int) -> Effects:
        if not self.durable or epoch <= self._epoch:
            return []
        self._epoch = epoch
        return [Persist(EPOCH, msgspec.msgpack.encode(epoch))]

    def tree(self, near: Iterable[Contact]) -> Effects:
        """Whoever is left all alone remembers those whom it knew last."""
        contacts = tuple(near)[:CONTACTS_MAX] if self.durable else ()
        if not contacts or contacts == self._tree:
            return []
        self._tree = contacts
        return [Persist(TREE, msgspec.msgpack.encode(contacts))]

    def numbered(self, name: str, last: int, exact: bool) -> Effects:
        """Up to where a publisher has numbered, or may have; 0 forgets it."""
        value = msgspec.msgpack.encode((last, exact)) if last else b""
        return [Persist(NUMBERED + name, value)] if self.durable else []

    def left(self) -> Effects:
        """It leaves in order: nobody has to be found again."""
        if not self._tree:
            return []
        self._tree = ()
        return [Persist(TREE, b"")]
