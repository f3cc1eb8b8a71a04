"""Delta-fault-tolerant content-based publish/subscribe (Kazemzadeh, Jacobsen: technical report CSRG-570, 2007).

Problem: brokers of a tree crash, several at once and next to each other, and come back. Nobody shall wait for them, and
nothing be lost, repeated or reordered meanwhile. Ginger gives a lost broker up and mends the tree; here everybody keeps
its place, messages go past up to delta failed nodes in a row at once, and whoever returns is as it was.

Idea: each node knows the tree within delta+1 hops, and for each filter the node delta+1 hops on the way to whoever
wants it. So it can always name somebody behind delta failed neighbours. Every operation is confirmed back along its
way, and every node keeps what is not confirmed: it can be sent again another way. A copy is known by the numbers that
its last delta+1 hops gave it.

States of a node, as its neighbours see it (Figure 2; `reach`, `node_state`)

    OPERATIONAL --no connection for suspect_s--> FAILED (soft: nothing was done without it)
    FAILED soft --its connection is back------> OPERATIONAL
    FAILED soft --a link past it, or something confirmed without it--> FAILED hard: it has been skipped
    FAILED hard --it greets as recovering-----> RECOVERING --Status--> OPERATIONAL

A node that hears that it was skipped, though it was there, recovers in place and forgets nothing of what passed.

Parts, each with one owner
    topology         the map: links within delta+1, clients, marked links of joins that are not confirmed
    patience         how long others are waited for
    reach            who is held failed, whom to connect with, who is next on the way (Algorithm 3)
    subscriptions    filters and `from` (SUBS_SET, RCPT), and how they look from another node
    passage          entries, numbers, `visited`, duplicates (ProcessingList, timestamps)
    forwarding       where an entry goes: routing, floods, guidance, stand-ins, kept messages (Algorithm 1)
    confirmation     confirmations on their way back
    recovery         parts and logged changes of one recovery
    synchronisation  telling and taking parts, REJOIN (Algorithms 5 to 7)
    guests           clients as nodes: join, subscribe, leave
    journal          what is on disk
    client           the node that a client is; `protocols.moving` hands everything to it
    broker           composes them on the edge, connections, greetings

Invariants: two nodes are connected past others only if both hold all of these failed; what goes in one direction goes
in the order of its numbers; an entry that is confirmed has nobody behind it that lacks it but failed clients, for whom
it is kept.
"""

from typing import TYPE_CHECKING

from holdfast.protocols.on_demand import on_demand

if TYPE_CHECKING:
    from holdfast.protocols.delta.broker import DeltaBroker
else:
    __getattr__ = on_demand(__name__, {"DeltaBroker": "broker"})

__all__ = ["DeltaBroker"]
