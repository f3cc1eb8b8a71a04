"""What a broker tells a publisher about the order of its messages."""

from msgspec import Struct

from holdfast.model.batches import Seq


class Crossed(Struct, frozen=True, array_like=True, tag=90, gc=False):
    """From a broker to its client: its publications `first..last` take no part in the total order of their keys.

    They were published where no majority of the brokers could be reached, or crossed a total one on their way.
    """

    first: Seq
    last: Seq
