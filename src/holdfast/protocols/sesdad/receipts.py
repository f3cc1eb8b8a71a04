"""Questions of publishers whether everybody has a message: they follow it when it has arrived wherever it had to."""

from collections.abc import Iterable

from holdfast.model.messages import Confirm, ConfirmAck
from holdfast.protocols.confirmations import Confirmations
from holdfast.protocols.sesdad.peers import Peers
from holdfast.protocols.sesdad.publications import Publications
from holdfast.protocols.sesdad.sites import is_subscriber
from holdfast.protocols.sesdad.traffic import Traffic


class Receipts:
    """Questions that wait for what they ask about, and those that were passed on."""

    def __init__(
        self,
        peers: Peers,
        traffic: Traffic,
        publications: Publications,
        confirmations: Confirmations,
        flooded: Iterable[str],
    ) -> None:
        self._peers, self._traffic, self._publications = peers, traffic, publications
        self.confirmations, self._flooded = confirmations, tuple(flooded)
        self._asking: list[tuple[str, Confirm]] = []

    def on_confirm(self, peer: str, message: Confirm) -> None:
        self._asking.append((peer, message))
        self.settled()

    def on_confirm_ack(self, peer: str, message: ConfirmAck) -> None:
        self.confirmations.on_ack(peer, message.token, finding=message.finding)

    def settled(self) -> None:
        """Pass on the questions about what has come to everybody behind us."""
        if not self._asking:
            return
        asking, self._asking = self._asking, []
        for peer, asked in asking:
            settled = self._traffic.is_settled(asked.publisher, asked.seq, peer == asked.publisher)
            behind = self._behind(peer, asked) if settled else None
            if behind is None:
                self._asking.append((peer, asked))
            else:
                self.confirmations.begin(peer, asked, behind)

    def _behind(self, peer: str, asked: Confirm) -> list[str] | None:
        """Whom to ask about a publication; nobody yet, if no broker of some site has said that it has it."""
        found, peers, marks = [], self._peers, self._publications.site_marks
        for destination in (*self._traffic.routes.table.destinations(asked.topic), *self._flooded):
            if is_subscriber(destination):
                link = peers.link_of(destination)
                found += [] if link is None else [link.peer]
            elif destination != peers.sites.site_of(peer):
                lane = self._traffic.lanes.get(destination, {}).get(asked.publisher)
                least = 0 if lane is None else lane.acked
                having = [one for one in peers.at(destination) if marks.get(one, {}).get(asked.publisher, 0) >= least]
                if not having:
                    return None
                found.append(peers.pick(having))
        return found

    def left(self, client: str) -> None:
        """Nobody waits for the answer any more."""
        self._asking = [one for one in self._asking if one[0] != client]
        self.confirmations.drop(client)

    def lost(self, broker: str) -> None:
        """What a broker of another site was asked, another one of it is asked."""
        self._asking = [one for one in self._asking if one[0] != broker]
        site = self._peers.sites.site_of(broker)
        if site:
            self.confirmations.replace(broker, self._peers.at(site)[:1], lambda _peer, _topic: True)
        self.confirmations.drop(broker)

    def waiting_for(self) -> list[str]:
        asked = [f"what {asked.publisher}#{asked.seq} asks about to arrive" for _, asked in self._asking]
        return [*asked, *self.confirmations.waiting_for()]
