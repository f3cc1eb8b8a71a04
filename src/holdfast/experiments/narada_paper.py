"""What the paper printed, and what we set ourselves: Table 1, the goals, and which of our figures belongs where.

Pallickara, Bulut and Fox, *Fault-Tolerant Reliable Delivery of Messages in Distributed Publish/Subscribe Systems*,
Table 1: messages of 8 KB, each process on a machine of its own (four Xeons of 2.4 GHz, 100 Mbit/s), MySQL 5.0.
"""

from msgspec import Struct

from holdfast.experiments.narada import Kind
from holdfast.model.reliable import Level


class Printed(Struct, frozen=True):
    """A row of Table 1, in microseconds, and the figure of ours that stands beside it."""

    operation: str
    mean_us: float
    deviation_us: float
    kind: Kind
    figure: str
    topology: str = ""


TABLE: tuple[Printed, ...] = (
    Printed("delivery, 1 broker, 1 repository", 8_880, 810, "delivery", "reliable 8192", "A"),
    Printed("delivery, 3 brokers, 1 repository", 10_600, 830, "delivery", "reliable 8192", "B"),
    Printed("delivery, 3 brokers, 3 repositories", 10_480, 930, "delivery", "reliable 8192", "C"),
    Printed("storing a message", 1_408, 141.71, "storage", "storing"),
    Printed("retrieving a message", 669, 77.93, "storage", "finding"),
    Printed("recovery of a single repository", 85_700, 4_300, "restart", "restart"),
    Printed("response to a publisher", 825, 215, "responses", "publisher response"),
    Printed("response to a subscriber", 1_613, 588, "responses", "subscriber response"),
    Printed("response to a repository", 59_280, 5_540, "responses", "repository response"),
    Printed("recovery of one of three", 11_172_000, 1_733_000, "recovery", "recovery"),
    Printed("making a gossip", 243, 50, "responses", "gossip made"),
    Printed("processing a gossip", 241, 16, "responses", "gossip heard"),
)


class PaperGoal(Struct, frozen=True):
    """What the median of a figure is to be at most."""

    title: str
    most_us: float
    kind: Kind
    figure: str
    topology: str = ""
    level: Level | None = None
    """Which acknowledgements it is meant for; `None` if every one counts."""


GOALS: tuple[PaperGoal, ...] = (
    PaperGoal(
        "reliable delivery in topology C, 8 KiB, without fsync", 2_000, "delivery", "reliable 8192", "C", Level.WRITTEN
    ),
    PaperGoal("storing a message, amortised, without fsync", 100, "storage", "storing amortised", level=Level.WRITTEN),
    PaperGoal("retrieving a message, amortised", 100, "storage", "finding amortised"),
    PaperGoal("recovery response to a subscriber", 1_000, "responses", "subscriber response"),
    PaperGoal("the same over the broker and back", 1_000, "restart", "subscriber answer"),
    PaperGoal("recovery of a repository, 1,000 missed, 20 clients", 250_000, "recovery", "recovery"),
)
