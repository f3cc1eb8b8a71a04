"""A broker with many clients: what one more of them costs does not depend on how many there are."""

import pytest

from holdfast.model.messages import Frame
from holdfast.protocols.config import BrokerConfig, ClientConfig, LinkConfig
from holdfast.protocols.ginger import RepairingBroker, make_ginger
from holdfast.protocols.moving import MovingClient
from holdfast.protocols.node import Connect, Effects, Send

LINK = LinkConfig(heartbeat_s=1000.0, silence_s=10_000.0)


class Crowd:
    """One broker and clients without a network: what is sent arrives, and `frames` counts what the broker sends."""

    def __init__(self, tolerance: int) -> None:
        self.broker = make_ginger(BrokerConfig("b0", tolerance=tolerance, address="here:1", link=LINK), 1)
        self.clients: dict[str, MovingClient] = {}
        self.frames = 0
        self._under_way: list[tuple[str, Frame | None, bool]] = []
        self.broker.start(0.0)

    def join(self) -> int:
        """One more client attaches and subscribes; returns how many frames the broker sent for it."""
        name, before = f"c{len(self.clients)}", self.frames
        client = self.clients[name] = MovingClient(ClientConfig(name, link=LINK), 7 + len(self.clients))
        self._from_client(name, client.start(0.0))
        self._run()
        _, effects = client.subscribe("t", "", 0.0)
        self._from_client(name, effects + client.settle(0.0))
        self._run()
        return self.frames - before

    def publish(self, name: str) -> None:
        client = self.clients[name]
        client.publish("t", b"x", 2)
        self._from_client(name, client.settle(0.0))
        self._run()

    def _from_client(self, name: str, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._under_way.append((name, effect.frame, True))
            elif isinstance(effect, Connect):
                self._under_way.append((name, None, False))

    def _run(self) -> None:
        while self._under_way:
            name, frame, to_broker = self._under_way.pop(0)
            client = self.clients[name]
            if frame is None:
                self._from_client(name, client.peer_up("broker", 0.0))
            elif to_broker:
                for effect in self.broker.receive(name, frame, 0.0) + self.broker.settle(0.0):
                    if isinstance(effect, Send):
                        self.frames += 1
                        self._under_way.append((effect.peer, effect.frame, False))
            else:
                self._from_client(name, client.receive("broker", frame, 0.0) + client.settle(0.0))


@pytest.mark.parametrize("tolerance", [0, 1])
def test_one_more_client_costs_as_many_frames_with_a_hundred_others_as_with_ten(tolerance: int):
    crowd = Crowd(tolerance)
    frames = [crowd.join() for _ in range(100)]
    assert frames[10] == frames[99]
    assert all(client.attached for client in crowd.clients.values())


def test_one_more_client_of_a_root_is_found_stable_without_a_look_at_the_others():
    crowd = Crowd(tolerance=1)
    broker = crowd.broker
    assert isinstance(broker, RepairingBroker)
    visits = []
    for _ in range(100):
        before = broker.log.visits
        crowd.join()
        visits.append(broker.log.visits - before)
    assert visits[10] == visits[99]


@pytest.mark.parametrize("tolerance", [0, 1])
def test_everybody_gets_what_one_of_many_publishes(tolerance: int):
    crowd = Crowd(tolerance)
    for _ in range(30):
        crowd.join()
    before = crowd.frames
    crowd.publish("c3")
    assert crowd.frames - before >= 30
    assert all(link.queued for link in crowd.broker.hub.links.values())
    crowd.broker.check_invariants()
