"""Peers by name, with the brokers among them at hand."""

from random import Random

from holdfast.model.messages import Twig
from holdfast.protocols.by_kind import ByKind


def twig(name: str, kind: str) -> Twig:
    return Twig(name, "client" if kind == "client" else "broker", 1, "")


def test_the_brokers_are_those_of_the_peers_that_are_brokers_whatever_happens_to_them():
    chance, peers = Random(11), ByKind[Twig]()
    for _ in range(2000):
        name = f"n{chance.randrange(20)}"
        one = twig(name, chance.choice(("client", "broker")))
        step = chance.randrange(7)
        if step == 0:
            peers[name] = one
        elif step == 1:
            peers.setdefault(name, one)
        elif step == 2:
            peers.update({name: one})
        elif step == 3:
            peers.pop(name, None)
        elif step == 4 and name in peers:
            del peers[name]
        elif step == 5 and peers:
            peers.popitem()
        elif step == 6 and chance.random() < 0.02:
            peers.clear()
        assert peers.brokers == {known: value for known, value in peers.items() if value.kind == "broker"}


def test_a_peer_that_is_not_there_is_nobody_when_it_is_taken_out():
    assert ByKind[Twig]().pop("nobody") is None
