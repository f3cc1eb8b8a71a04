"""Participants of reliable topics above the clients of a simulated cluster: the layer on a real broker protocol.

A participant's host speaks through a client's: what it listens to is subscribed, what it says is published, what is
delivered is heard. While the session is not up, what it says is lost, as on any bad network.
"""

from collections.abc import Callable

from holdfast.model.batches import Batch, Message, make_batch
from holdfast.protocols.narada.participant import Emit, Say
from holdfast.simulation.applications import ClientHost
from holdfast.simulation.faults import Subscribe, Unsubscribe
from holdfast.simulation.reliable.hosts import ParticipantHost
from holdfast.simulation.reliable.world import ReliableWorld
from holdfast.simulation.world import Simulation


class ClientMedium:
    """One client for each participant, at the broker that it was given."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self.places: dict[str, str] = {}

    def _host(self, name: str) -> ClientHost:
        return self._sim.client(f"{name}@{self.places[name]}")

    def attach(self, name: str, hear: Callable[[Batch], None]) -> None:
        host, kernel = self._host(name), self._sim.kernel

        def on_message(message: Message) -> None:
            # A delivery is handed on when the client's own turn is over.
            kernel.after(0.0, hear, _batch(message))

        host.hooks[:] = [on_message]
        host.start()

    def detach(self, name: str) -> None:
        self._host(name).crash()

    def listen(self, name: str, pattern: str) -> None:
        self._host(name).give(Subscribe(name, pattern))

    def unlisten(self, name: str, pattern: str) -> None:
        self._host(name).give(Unsubscribe(name, pattern))

    def publish(self, name: str, effect: Emit | Say, seq: int) -> int:
        host = self._host(name)
        if not host.up or not host.ready or host.paused:
            return seq
        node = host.node
        if isinstance(effect, Say):
            first = node.publish(effect.topic, effect.payload, 0)
        else:
            numbers = [
                node.publish(one.topic, one.payload, effect.batch.guarantee, one.keys, one.attributes)
                for one in effect.batch.messages()
            ]
            first = numbers[0]
        host.enter([])
        return first


def _batch(message: Message) -> Batch:
    keys, attributes = [message.keys], [message.attributes]
    rank = message.guarantee.rank
    return make_batch(message.publisher, message.seq, message.topic, rank, [message.payload], keys, attributes)


class BrokeredWorld(ReliableWorld):
    """Participants above the clients of `sim`, whose timetable has the faults of brokers and links."""

    def __init__(self, sim: Simulation, stream_name: str = "orders", check_invariants: bool = True) -> None:
        self.sim = sim
        self._clients = ClientMedium(sim)
        super().__init__(sim.seed, stream_name, None, check_invariants, sim.kernel, self._clients)

    def put(self, **places: str) -> "BrokeredWorld":
        """Say at which broker each participant is, before it is made."""
        self._clients.places.update(places)
        return self

    def run(self, until_s: float) -> None:
        self.sim.run_for(until_s - self.kernel.now)

    def host_of_client(self, participant: ParticipantHost) -> ClientHost:
        """The client's host under a participant."""
        return self.sim.client(participant.name)
