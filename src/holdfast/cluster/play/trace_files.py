"""The traces of processes, read as they grow: each process writes its own file, here or on another machine."""

import asyncio
from pathlib import Path
from time import time_ns

from holdfast.cluster.machines import Machine, MachineError
from holdfast.model.trace import Event, decode_line
from holdfast.runtime.tracing import own_file


class _File:
    """One file, how far it was read, and the piece of a line at its end."""

    def __init__(self, machine: Machine, path: str) -> None:
        self.machine, self.path = machine, path
        self.offset = self.lines = 0
        self.rest = b""

    def more(self) -> list[Event]:
        found: list[Event] = []
        while piece := self.machine.read(self.path, self.offset):
            self.offset += len(piece)
            *lines, self.rest = (self.rest + piece).split(b"\n")
            for line in lines:
                self.lines += 1
                if line:
                    found.append(decode_line(line, self.lines, self.path))
        return found


class TraceFiles:
    """The rows of all files so far, those of each file in its order."""

    def __init__(self) -> None:
        self._files: list[_File] = []
        self._rows: list[Event] = []
        self.read_ns = 0
        """What was written before this time has been read."""

    def follow(self, machine: Machine, directory: Path, node: str) -> None:
        """Read what that node writes from now on."""
        self._files.append(_File(machine, str(own_file(directory, node))))

    async def rows(self) -> list[Event]:
        """All rows that were written so far; a machine that is out of reach is asked again later."""
        asked_ns, complete = time_ns(), True
        for file in self._files:
            try:
                self._rows += await asyncio.to_thread(file.more)
            except MachineError:
                complete = False
        if complete:
            self.read_ns = asked_ns
        return self._rows
