"""What a broker tells another one of its site that has missed something, and what that makes of it.

A broker that begins, without memory, serves nobody before it has heard from f + 1 others that have theirs: whatever
was processed anywhere in the site, one of them knows. If every other broker of the site is there and none has any
memory, the site begins. A broker that was there then and has not served yet has vouched for nothing: it is as one that
serves and has heard nothing so far. So the word of one broker that the site has begun, and with whom, is enough for it,
once every other broker that is there has answered. Without that rule:
1. Of five brokers, 1 tells 2 that it knows nothing, and dies. 2. Broker 2 has heard that of all, and serves. 3. The
three others have one memory to hear of, and wait for two more, or for word from 1, for good.

One that was out of reach for a while keeps what it knows, and is told the rest likewise.

Numbers of lanes are a function of what was processed, so that of two accounts of a stream the one that goes further
is right, and the other one has nothing to add but what it keeps.
"""

from collections.abc import Iterable

from holdfast.model.errors import PeerViolation
from holdfast.model.messages import SessionMessage
from holdfast.model.site_messages import Mark, Owed, Replicate, SiteState, StateEnd, StreamState
from holdfast.protocols.sesdad.designation import Designation
from holdfast.protocols.sesdad.sequence_maps import Entry
from holdfast.protocols.sesdad.sites import is_subscriber
from holdfast.protocols.sesdad.traffic import Traffic


class Account:
    """What one broker has told so far."""

    def __init__(self, state: SiteState) -> None:
        self.state = state
        self.streams: list[StreamState] = []
        self.owed: list[Owed] = []


class Memories:
    """What the other brokers of the site have told of what they remember."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self.answered: dict[str, bool] = {}
        """While we have no memory ourselves: who has answered, and whether it has any."""
        self.witnesses: set[str] = set()
        """Those of them with a memory that say that we were there when the site began, without one."""
        self.newcomers: set[str] = set()
        """The brokers with whose word that they know nothing the site began, as long as their sessions last."""
        self._returned: set[str] = set()
        """Brokers that were lost since we are here: they may have served, and know nothing now."""

    def on_site_state(self, peer: str, message: SiteState) -> None:
        self._accounts[peer] = Account(message)

    def on_stream_state(self, peer: str, message: StreamState) -> None:
        self._account_of(peer).streams.append(message)

    def on_owed(self, peer: str, message: Owed) -> None:
        self._account_of(peer).owed.append(message)

    def _account_of(self, peer: str) -> Account:
        if peer not in self._accounts:
            raise PeerViolation(f"{peer} sent a part of a state whose beginning it has not sent")
        return self._accounts[peer]

    def ended(self, peer: str) -> Account:
        """The account of a broker, which has told all of it."""
        account = self._account_of(peer)
        del self._accounts[peer]
        self.answered[peer] = not account.state.blank
        if account.state.founding:
            self.witnesses.add(peer)
        return account

    def remembering(self) -> list[str]:
        """Those with a memory that have told it."""
        return [peer for peer, remembers in self.answered.items() if remembers]

    def suffice(self, losses_max: int) -> bool:
        """Whether one of those that have told knows whatever was processed anywhere in the site."""
        return len(self.remembering()) > losses_max

    def account_for(self, others: tuple[str, ...], linked: Iterable[str]) -> bool:
        """Whether the site has begun with us, and each of these other brokers of it has answered or is not there."""
        return bool(self.witnesses) and all(name in self.answered or name not in linked for name in others)

    def begin(self, others: Iterable[str]) -> None:
        """The site begins: nobody in it has any memory."""
        self.newcomers.update(name for name in others if name not in self._returned)

    def lost(self, peer: str) -> None:
        """A broker is lost: its memory is with it, for all we know. That it had none when we began stays true."""
        self._returned.add(peer)
        self._accounts.pop(peer, None)
        if self.answered.get(peer):
            del self.answered[peer]
        self.witnesses.discard(peer)
        self.newcomers.discard(peer)


def told(
    traffic: Traffic, designation: Designation, placed: tuple[Mark, ...] = (), founding: bool = False
) -> list[SessionMessage]:
    """All that this broker knows."""
    routes = traffic.routes
    state = SiteState(
        False,
        designation.epoch,
        designation.established,
        designation.promised,
        tuple(routes.entries()),
        tuple(sorted(routes.done.items())),
        placed,
        founding,
    )
    parts: list[SessionMessage] = [state]
    for (source, publisher), stream in traffic.streams.items():
        lanes = tuple(
            (destination, lanes[publisher].next, lanes[publisher].acked)
            for destination, lanes in traffic.lanes.items()
            if publisher in lanes and lanes[publisher].source == source
        )
        parts.append(StreamState(source, publisher, stream.next, stream.last_seq, tuple(stream.pending), lanes))
    for stream in traffic.streams.values():
        parts += [
            Replicate(stream.source, unit.number, designation.promised, unit.chosen, unit.batch)
            for unit in stream.units.values()
        ]
    for destination, outgoing in traffic.lanes.items():
        for lane in outgoing.values():
            parts += [Owed(destination, lane.source, one.number, one.chosen, one.batch) for one in lane.kept]
    return [*parts, StateEnd()]


def merge(account: Account, traffic: Traffic, designation: Designation) -> None:
    """Take over from an account whatever goes further than what is known here."""
    state = account.state
    designation.learn_epoch(state.epoch, state.promised)
    newer = state.established > designation.established
    if newer:
        traffic.routes.replace(state.table, state.done)
        for stream in traffic.streams.values():
            stream.pending = []
        for destination in [name for name in traffic.lanes if not _is_known(name, traffic)]:
            traffic.forget(destination)
    for one in account.streams:
        _merge_stream(one, traffic, newer)
    for owed in account.owed:
        if not _is_known(owed.destination, traffic):
            # Whoever tells us has not heard yet that this subscriber has gone.
            continue
        lane = traffic.lane(owed.destination, owed.source, owed.batch.publisher)
        lane.put_back(Entry(owed.number, owed.batch, owed.chosen, 0))
    if newer:
        designation.in_force(state.established)


def _is_known(destination: str, traffic: Traffic) -> bool:
    """Whether that is a site, or a subscriber that has asked for something and has not gone."""
    routes = traffic.routes
    return not is_subscriber(destination) or destination in routes.done or bool(routes.table.interests(destination))


def _merge_stream(one: StreamState, traffic: Traffic, newer: bool) -> None:
    stream = traffic.stream(one.source, one.publisher)
    ahead = one.next > stream.next
    if ahead:
        stream.begin_behind(one.next - 1)
        stream.last_seq = max(stream.last_seq, one.last_seq)
    if newer:
        stream.pending = list(one.pending)
    stream.pending = [pending for pending in stream.pending if pending.cut > stream.next]
    for destination, following, acked in one.lanes:
        if _is_known(destination, traffic) and (ahead or one.publisher in traffic.lanes.get(destination, {})):
            lane = traffic.lane(destination, one.source, one.publisher)
            if ahead:
                lane.restore(following, acked)
            else:
                lane.acknowledge(acked)
