"""The identity of a journal: a broker whose journal is lost returns under the same name with another birth number.

A broker's *birth* is a number that no other start of any broker has, written down before it says anything. Both ends of
a link tell each other, as the first thing in every session, their own birth and the one by which they know the other.
Each writes down the first that it hears of, until that broker leaves the tree.

Numbers alone do not show it. Without births:

1. 3 has sent five messages to 2. Its journal is lost, and it is started with an empty one, cut off from everybody.
2. Its clients publish six messages: it numbers them from 1 on.
3. It reaches 2, which says that it has five of 3's messages. 3 knows of six: nothing seems to be wrong.
4. 2 takes the first five for repeats of what it has. They are lost.
"""

from holdfast.model.errors import LocalMisuse, PeerViolation
from holdfast.model.relay_messages import Standing
from holdfast.protocols.locamu.core import Core


def check_identity(core: Core, peer: str, standing: Standing) -> None:
    """Raise `LocalMisuse` if we have lost what we had written down, `PeerViolation` if the peer has."""
    own, births = core.name, core.local_tree.births
    has, given = standing.column.get(own, 0), core.past.get((own, peer), 0)
    lost = ""
    if has > given:
        lost = f"{peer} has {has} of its messages, and it knows of {given}"
    elif standing.known and standing.known != births[own]:
        lost = f"{peer} knows it by the birth {standing.known}, and it has {births[own]}"
    if lost:
        raise LocalMisuse(
            f"broker {own} has lost what it wrote down: {lost}. What it says would be taken for repeats, so it ends; "
            "give it its journal back"
        )
    if standing.birth and standing.birth != births.get(peer, standing.birth):
        raise PeerViolation(
            f"{peer} has lost what it wrote down: {own} knows it by the birth {births[peer]}, and it has "
            f"{standing.birth}. It is to end, and to be given its journal back"
        )
