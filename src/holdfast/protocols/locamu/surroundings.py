"""What a peer says of the tree around it, and what of that cannot be.

Whoever describes its surroundings names brokers that we may not know of, so we cannot tell whether they exist. But
they are a tree, nobody in it is farther from the sender than brokers keep state, and headers can tell of it: the first
header of a session has a byte or more for every pair that has a number, so there are no more pairs than bytes in the
largest header. That also bounds how long we look at it.
"""

from holdfast.model.errors import ConfigError, PeerViolation
from holdfast.model.local_tree_messages import Surroundings
from holdfast.model.relay_messages import HEADER_BYTES_MAX
from holdfast.protocols.locamu.copies import Reaches
from holdfast.protocols.locamu.headers import LinkTerms
from holdfast.protocols.neighbourhoods import Neighbourhood

PAIRS_MAX = HEADER_BYTES_MAX


def terms_of(said: Surroundings, sender: str, receiver: str, reach: Reaches) -> LinkTerms:
    """What the sender's headers refer to from now on; raises `PeerViolation`."""
    try:
        near = Neighbourhood(sender, said.edges)
    except ConfigError:
        raise PeerViolation(f"{sender} described surroundings that do not hang together with it") from None
    if receiver not in near:
        raise PeerViolation(f"{sender} described surroundings in which {receiver} is not")
    if near.size != len(near.edges) + 1:
        raise PeerViolation(f"{sender} described surroundings that are no tree")
    around = near.reached(sender, reach.safe)
    if len(around) < near.size:
        raise PeerViolation(
            f"{sender} described {near.size - len(around)} brokers that are more than {reach.safe} edges away from it"
        )
    pairs = 0
    for node in around & near.reached(receiver, reach.safe):
        pairs += len(near.reached(node, reach.marks))
        if pairs > PAIRS_MAX:
            raise PeerViolation(f"{sender} described surroundings with more than {PAIRS_MAX} pairs of brokers")
    return LinkTerms(near, receiver, sender, reach)
