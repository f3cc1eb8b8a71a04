"""What a broker answers to the root of a part that looks for the brokers that it has lost.

The answer depends on values alone: what the root says (`Seek`), and how the broker that it asks stands in the tree. It
is `Found`, if the root may join, or a refusal that says whether another broker could help:

- `moved`: this broker has begun anew since it was lost, and keeps nothing from before.
- `elsewhere`: the keeper, the broker that was lost first, may be alive, and would keep what the part lacks.
- `late`: nobody keeps it any more.
- `same-tree`: this broker is in the tree of the root that asks: nobody has to look for it, nor to keep anything for it.
- `apart`: this broker is in another tree, whose root does not look for the one that asks.
- `not-ready`: of two roots that look for each other, the one whose name is larger comes to the other.
"""

from msgspec import Struct

from holdfast.model.messages import Found, Refusal, Seek
from holdfast.protocols.treeview import TreeView

ANSWERS = ("moved", "elsewhere", "late", "same-tree", "apart")
"""The refusals that say what became of the broker that is asked. `not-ready` does not: it is asked again."""


class Standing(Struct, frozen=True):
    """How the broker that is asked stands."""

    life: int
    """The epoch in which it was started: of what was before it knows nothing."""
    is_expected: bool
    """Whether it keeps what the asking root lacks."""
    settles: bool
    """Whether it serves, and is not on its way to another parent itself."""


def answer_to(seek: Seek, root: str, view: TreeView, standing: Standing) -> Found | Refusal:
    """The answer to the root of that name."""
    epoch = dict(seek.lost).get(view.name, -1)
    if any(one.name == root for one in view.lost):
        if not seek.keeper:
            # It only asks what became of us, and will hear from the root of our part.
            return Found()
        if root < view.root():
            # Each would join the other.
            return Refusal("not-ready", f"{view.root()}, the root above {view.name}, looks for {root} and will come")
    if seek.keeper and epoch >= standing.life and standing.is_expected:
        return Found()
    if seek.root == view.root():
        # Nobody has to look for it, nor keep anything for it.
        return Refusal("same-tree", f"{view.name} is in the same tree as {root}")
    if not seek.keeper and seek.root:
        return Refusal("apart", f"{view.name} is in the tree of {view.root()}, which does not look for {root}")
    if seek.insists and not _is_keeper_around(seek, view) and standing.settles and _may_adopt(root, view):
        return Found(kept=False)
    if epoch < standing.life:
        return Refusal("moved", f"{view.name} was not there when {root} was lost: ask others")
    if not _is_keeper_dead(seek, view):
        # Where the keeper can be reached from here, it will be from there.
        return Refusal("elsewhere", f"{seek.keeper} may keep what {root} lacks: ask it")
    return Refusal("late", f"{view.name} does not keep what {root} lacks any more")


def has_to_be_joined(seek: Seek, root: str, view: TreeView) -> bool:
    """Whether the part that insists stays a tree of its own until our part, which looks for others, joins it."""
    is_other = seek.root != view.root() and all(one.name != root for one in view.chain)
    return seek.insists and bool(view.lost) and is_other and root < view.root()


def _may_adopt(root: str, view: TreeView) -> bool:
    """Whether a part that insists may come below this broker: not if the broker belongs to it.

    Of two parts that look for each other the one whose root has the larger name joins the other.
    """
    if any(one.name == root for one in view.chain):
        return False
    return not view.lost or view.root() < root


def _is_keeper_around(seek: Seek, view: TreeView) -> bool:
    """Whether the keeper is another broker, which is alive around here."""
    epoch = dict(seek.lost).get(seek.keeper)
    return epoch is not None and seek.keeper != view.name and view.knows_alive(seek.keeper, epoch)


def _is_keeper_dead(seek: Seek, view: TreeView) -> bool:
    """Whether nobody can keep what the part lacks: this broker would, or the one that would is dead."""
    epoch = dict(seek.lost).get(seek.keeper)
    if epoch is None or seek.keeper == view.name:
        return True
    return view.is_gone(seek.keeper, epoch) and not _is_keeper_around(seek, view)
