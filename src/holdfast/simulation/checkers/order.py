"""Fifo and causal: did something overtake what it must follow?

At each client the first deliveries are walked from the last to the first, with the lowest number of every publisher
seen so far, that is, delivered later. A message is too early if one of these is before it.
"""

from operator import le

from holdfast.model.guarantees import CAUSAL, FIFO
from holdfast.model.verdicts import before_own, before_past
from holdfast.simulation.checkers.history import ClientHistory, Publication, RunHistory
from holdfast.simulation.checkers.pasts import find_pasts
from holdfast.simulation.checkers.verdict import VerdictTally

NEVER = 1 << 62


def judge_order(run: RunHistory, tally: VerdictTally) -> None:
    """Count the deliveries that came too early. `judge_deliveries` has been here before."""
    find_pasts(run)
    by_place = {(publication.lane, publication.seq): publication for publication in run.publications.values()}
    for client in run.clients.values():
        for early, lane, seq in reversed(_overtaking_own(client, len(run.lanes))):
            tally.add("fifo", _before_own, client, early, by_place[lane, seq])
        for early, lane, seq in reversed(_overtaking_past(client, len(run.lanes))):
            tally.add("causal", _before_past, client, early, by_place[lane, seq], run)


def _overtaking_own(client: ClientHistory, lanes: int) -> list[tuple[Publication, int, int]]:
    """What overtook an earlier message of its publisher, and where that stands."""
    found = []
    later = [NEVER] * lanes
    for publication in reversed(client.arrived):
        if publication.rank < FIFO:
            continue
        lane, seq = publication.lane, publication.seq
        if later[lane] < seq:
            found.append((publication, lane, later[lane]))
        else:
            later[lane] = seq
    return found


def _overtaking_past(client: ClientHistory, lanes: int) -> list[tuple[Publication, int, int]]:
    """What overtook another publisher's message in its causal past, and where that stands."""
    found = []
    later = [NEVER] * lanes
    for publication in reversed(client.arrived):
        if publication.rank < CAUSAL:
            continue
        own = publication.lane
        if any(map(le, later, publication.past)):
            pairs = enumerate(zip(later, publication.past, strict=True))
            overtaken = [lane for lane, (seq, known) in pairs if seq <= known and lane != own]
            if overtaken:
                found.append((publication, overtaken[0], later[overtaken[0]]))
        later[own] = min(later[own], publication.seq)
    return found


# ------------------------------------------------------------------------------------------------------- sentences


def _before_own(client: ClientHistory, early: Publication, late: Publication) -> str:
    return before_own(client.name, str(early), str(late), early.publisher)


def _before_past(client: ClientHistory, early: Publication, late: Publication, run: RunHistory) -> str:
    heard = _heard_before(run.clients[early.event.node], early, late)
    return before_past(client.name, early.event, str(late), heard)


def _heard_before(publisher: ClientHistory, early: Publication, late: Publication) -> bool:
    for is_publish, publication in publisher.steps:
        if publication is early and is_publish:
            return False
        if publication is late:
            return True
    return False
