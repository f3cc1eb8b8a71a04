"""The causal past of every causal-or-stronger publication, from its `past` column or from the histories.

Each client has a clock, the highest number of every publisher that it knows of. A delivery adds the message and its
past to the clock; a publish takes the clock as its past. Weaker messages leave all clocks alone. That asks for an order
in which every publish stands before its deliveries; the times cannot be trusted for it, but the histories can: each is
followed until it delivers something that has not been published yet, and waits for that.
"""

from holdfast.simulation.checkers.history import ClientHistory, Publication, RunHistory, Step


def find_pasts(run: RunHistory) -> None:
    """Set `past` of every publication of the run."""
    nowhere = (0,) * len(run.lanes)
    for publication in run.publications.values():
        publication.past = _given_past(publication, run) or nowhere
    steps, cyclic = _causal_order(list(run.clients.values()))
    changed = _replay(steps, run)
    # Histories in which messages arrive before they are published come from no real run, but a trace may say so. Their
    # pasts are the smallest that agree with each other, and grow to that by repetition.
    while cyclic and changed:
        changed = _replay(steps, run)


def _given_past(publication: Publication, run: RunHistory) -> tuple[int, ...] | None:
    given = publication.event.past
    if given is None:
        return None
    return tuple(given.get(publisher, 0) for publisher in run.lanes)


def _causal_order(clients: list[ClientHistory]) -> tuple[list[tuple[ClientHistory, Step]], bool]:
    """All steps, each history in its own order and publishes before deliveries; and whether that could not be."""
    order: list[tuple[ClientHistory, Step]] = []
    positions = dict.fromkeys(clients, 0)
    published: set[Publication] = set()
    waiting: dict[Publication, list[ClientHistory]] = {}
    ready = clients[::-1]
    while ready:
        client = ready.pop()
        for position in range(positions[client], len(client.steps)):
            is_publish, publication = step = client.steps[position]
            if is_publish:
                published.add(publication)
                ready.extend(waiting.pop(publication, ()))
            elif publication not in published:
                waiting.setdefault(publication, []).append(client)
                positions[client] = position
                break
            order.append((client, step))
    for stuck in waiting.values():
        order.extend((client, step) for client in stuck for step in client.steps[positions[client] :])
    return order, bool(waiting)


def _replay(steps: list[tuple[ClientHistory, Step]], run: RunHistory) -> bool:
    """Go through the histories once with the pasts known so far; says whether some past has grown."""
    changed = False
    clocks = {client: [0] * len(run.lanes) for client in run.clients.values()}
    for client, (is_publish, publication) in steps:
        clock = clocks[client]
        if is_publish and publication.event.past is None:
            past = tuple(clock)
            changed = changed or past != publication.past
            publication.past = past
        else:
            clock[:] = map(max, clock, publication.past)
        lane, seq = publication.lane, publication.seq
        if clock[lane] < seq:
            clock[lane] = seq
    return changed
