"""What processes on other machines have written, brought to this one: their logs, and their traces."""

from collections.abc import Iterable
from pathlib import Path

from holdfast.cluster.machines import Machine, MachineError, Machines, Running
from holdfast.cluster.processes import TRACE
from holdfast.model.errors import ConfigError
from holdfast.runtime.tracing import own_file


def fetch(machines: Machines, running: Iterable[Running], trace: str, directory: Path) -> None:
    """Bring the logs of processes elsewhere to `logs` of that directory, and their traces, if there are any."""
    for one in running:
        if not one.machine or one.machine in machines.lost:
            continue
        machine = machines[one.machine]
        try:
            _copy(machine, one.log, directory / "logs" / Path(one.log).name)
            if trace:
                there = own_file(machine.directory() / TRACE, one.name)
                _copy(machine, str(there), Path(trace) / there.name)
        except (MachineError, ConfigError) as error:
            machines.lost[one.machine] = str(error)


def _copy(machine: Machine, path: str, file: Path) -> None:
    piece = machine.read(path, 0)
    if not piece:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as written:
        offset = 0
        while piece:
            written.write(piece)
            offset += len(piece)
            piece = machine.read(path, offset)
