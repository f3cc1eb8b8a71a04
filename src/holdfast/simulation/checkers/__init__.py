"""Checkers: did a run keep what was promised? They stand outside every protocol and read nothing but its trace.

Words. A client's history is its rows in order of `index`; rows with the same index keep the order in which they were
given. A publisher numbers its messages in the order in which it publishes them. A subscription is a client's pair of
pattern and filter; subscribing again while it lasts changes nothing. The *first delivery* of a message at a client is
the first with its identity `(publisher, seq)`. Runs are judged apart from each other and their faults added up.

Each fault has one name, and each count is one of deliveries (for `lost`, of missing ones):

`duplicated`
    A delivery that is not the first of its message at that client.

`created`
    A first delivery of a message that nobody published, or whose topic, guarantee or keys are not the published ones,
    or at a client that has no matching subscription then. A subscription counts from the beginning, since it may bring
    messages before it is confirmed and recorded, and until its `unsubscribe` in the client's history. An `unsubscribe`
    without its `subscribe` ends a subscription that was never confirmed.

`lost`
    A message that is owed to a client and has no delivery there. It is owed if a matching subscription was confirmed
    before the publish and is never unsubscribed afterwards. Times say what is before what; of equal times, the
    indexes do if both happened at one client, else nothing is owed.

Order is judged between first deliveries that were not created. What is lost, repeated or created makes no fault of
order.

`fifo`
    A delivery of a fifo-or-stronger message ahead of an earlier fifo-or-stronger message of the same publisher, on
    whatever topics. The one that came too early is counted, whatever the number of those that it overtook.

`causal`
    A delivery of a causal-or-stronger message ahead of a causal-or-stronger message of *another* publisher that is in
    its causal past (of the same publisher, it is a `fifo` fault). The causal past of a message is its `past` column,
    or else the causal-or-stronger messages that its publisher had published or delivered before, with their causal
    pasts. It runs through causal and total messages alone, and includes with a message all earlier causal-or-stronger
    ones of the same publisher; eventual and fifo messages, and pasts written at them, make no dependency.

`total`
    For a total message and any message of its topic that shares a key with it, the same one must come first wherever
    both are delivered. Where it is not so, the order at the majority of these clients (if equal, at the first of them
    by name) is the right one, and at the others the delivery of the total message is counted, once whatever the
    number of messages that are on the wrong side of it. If both are total, it is that of the larger
    `(publisher, seq)`. A weaker message with a row `crossed` takes no part: it was published where no majority of the
    brokers could be reached, and the merge that brought it to the others says so.
"""

from collections.abc import Iterable

from holdfast.model.trace import Event
from holdfast.simulation.checkers.deliveries import judge_deliveries
from holdfast.simulation.checkers.history import read_runs
from holdfast.simulation.checkers.order import judge_order
from holdfast.simulation.checkers.total import judge_total
from holdfast.simulation.checkers.verdict import EXAMPLES_MAX, Verdict, VerdictTally

__all__ = ["EXAMPLES_MAX", "Verdict", "check"]


def check(events: Iterable[Event], examples_max: int = EXAMPLES_MAX) -> Verdict:
    """Judge a trace of one or several runs; the verdict explains at most `examples_max` faults of each kind."""
    runs = read_runs(events)
    tally = VerdictTally(examples_max)
    for run in runs:
        tally.place = f"run {run.name}: " if len(runs) > 1 else ""
        judge_deliveries(run, tally)
        judge_order(run, tally)
        judge_total(run, tally)
    return tally.verdict()
