"""A terminal, and a cluster file on ports that nobody uses."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cluster.ports import free_port_pairs
from tests.integration.cluster.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    yield made
    # Whatever the test did, no cluster of it goes on.
    if (tmp_path / ".holdfast" / "cluster.json").exists():
        made.run("down")
    made.close()


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """Three brokers in a row, and a client at each end."""
    lines = []
    for index, (port, health_port) in enumerate(free_port_pairs(3)):
        lines += [f"[brokers.b{index}]", f"port = {port}", f"health_port = {health_port}"]
        lines += [f'parent = "b{index - 1}"'] if index else []
    for name, broker in (("alice", "b0"), ("bob", "b2")):
        lines += [f"[clients.{name}]", f'broker = "{broker}"', 'topics = ["bank/lisbon"]']
    path = tmp_path / "chain.toml"
    path.write_text("\n".join(lines))
    return path
