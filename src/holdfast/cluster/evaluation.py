"""The tree on which Ginger was evaluated: eight brokers, five clients (thesis, section 5.2, figure 5.2).

```
            0                   broker 0 in Europe, the root
     115 / 37.5 \\ 240           links in milliseconds
        1    2    3             North America, Europe, Asia
       / \\   |    |
      4   5  6    7
      |   |  /\\   |
     c0  c1 c2 c3 c4            c0, c3, c4 on bank/topic1; c1, c2 on bank/topic2
```

What is read: 0 is the root and 1, 2, 3 are its children (5.2); 4 and 5 hang below 1 (first scenario of 5.2, annexes II
and VIII); 7 is the only child of 3 (annex IV); a subscription travels 6, 2, 0, 1, 4 (annex III), so 6 is below 2.
Client 4 is at broker 7 (annex IV), client 1 at broker 5 with topic2 (annex VIII); topic1 has the clients 0, 3 and 4
(annex VIII, listing 2), and client 0's messages come to the root from 1 while 5 has topic2 alone, so client 0 is at 4
(annexes VII and VIII).

What is inferred: every broker has degree 3 (listing 5.1), and the residual degrees in annexes IV and VI leave no client
for 0, 1, 2 and 3. Annex III shows topic2 subscribed below 2, and annex V shows topic1 there too, so clients 2 and 3 are
both at broker 6, which fills its degree exactly.

What is chosen: the figure's latencies are not in the text. The root's links get the middle of the ranges in table 5.3
and the links within a region the middle of table 5.2's range, as the text says that averages were taken. (The fourth
scenario's "client connected to broker 1" and the second's "broker 2 fails" contradict the logs; we follow the logs.)
"""

from holdfast.cluster.config import (
    BASE_PORT,
    CLUSTER_NAME,
    HEALTH_PORT_OFFSET,
    LOOPBACK,
    Broker,
    Client,
    Cluster,
    checked,
)

TO_NORTH_AMERICA_MS = (70 + 160) / 2
TO_ASIA_MS = (180 + 300) / 2
WITHIN_REGION_MS = (5 + 70) / 2

_PARENTS: dict[str, tuple[str | None, float | None]] = {
    "0": (None, None),
    "1": ("0", TO_NORTH_AMERICA_MS),
    "2": ("0", WITHIN_REGION_MS),
    "3": ("0", TO_ASIA_MS),
    "4": ("1", WITHIN_REGION_MS),
    "5": ("1", WITHIN_REGION_MS),
    "6": ("2", WITHIN_REGION_MS),
    "7": ("3", WITHIN_REGION_MS),
}
_CLIENTS = (
    ("c0", "4", "bank/topic1"),
    ("c1", "5", "bank/topic2"),
    ("c2", "6", "bank/topic2"),
    ("c3", "6", "bank/topic1"),
    ("c4", "7", "bank/topic1"),
)

KILLS = ("1", "0")
"""Whom the demonstration kills on the way: a broker in the middle of the tree, then the root."""


def default_cluster() -> Cluster:
    """The eight brokers and five clients of the Ginger evaluation, on the default ports."""
    brokers = tuple(
        Broker(name, parent, LOOPBACK, BASE_PORT + index, BASE_PORT + HEALTH_PORT_OFFSET + index, latency_ms)
        for index, (name, (parent, latency_ms)) in enumerate(_PARENTS.items())
    )
    clients = tuple(Client(name, broker, (topic,)) for name, broker, topic in _CLIENTS)
    return checked(Cluster(CLUSTER_NAME, "ginger", brokers, clients, tolerance=1), "the default cluster")
