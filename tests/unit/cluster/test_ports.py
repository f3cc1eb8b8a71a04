"""Free ports: different ones, not those that somebody listens on, and not those that others are given."""

import socket
import subprocess
import sys

from holdfast.cluster.ports import BLOCK_PORTS, HIGHEST, LOWEST, free_port_pairs, free_ports


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


def test_no_port_is_given_twice():
    given = [port for _ in range(3) for port in free_ports(BLOCK_PORTS)]
    assert len(set(given)) == 3 * BLOCK_PORTS


def test_a_port_that_somebody_listens_on_is_passed_over():
    # They are given in order, so the next one is known.
    first, second = free_ports(2)
    while second != first + 1:
        first, second = free_ports(2)
    with socket.create_server(("127.0.0.1", second + 1)):
        assert second + 1 not in free_ports(2)


def test_another_process_gets_ports_of_other_blocks():
    here = {port // BLOCK_PORTS for port in free_ports(2)}
    program = f"from holdfast.cluster.ports import free_ports; print(*free_ports({3 * (HIGHEST - LOWEST) // 4}))"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert not here & {int(port) // BLOCK_PORTS for port in found.stdout.split()}
