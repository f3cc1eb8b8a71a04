"""Free ports: different ones, and not those that somebody listens on."""

import socket

from holdfast.cluster.ports import HIGHEST, LOWEST, free_port_pairs, free_ports


def test_ports_are_different_and_can_be_listened_on():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        assert LOWEST <= port < HIGHEST
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_pairs_share_no_port():
    pairs = free_port_pairs(8)
    assert len({port for pair in pairs for port in pair}) == 16
