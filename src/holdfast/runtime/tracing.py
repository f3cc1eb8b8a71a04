"""From a node's reports to its trace: the same rows that the simulator writes, with the time of the wall clock."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import time_ns
from urllib.parse import quote

from holdfast.model.trace import Event, Recorder
from holdfast.protocols.node import Report
from holdfast.runtime.logs import ProcessLog
from holdfast.storage.traces import SUFFIX, TraceWriter, go_on

RUN = "live"
"""The name of a run that nobody named."""
FLUSH_S = 0.5
"""How long a row may lie in memory: what a killed process may fail to say."""

TraceTarget = str | Path | Callable[[Event], None]


class Trace:
    """A sink for one node's reports: writes rows to a file, or hands each to a callable.

    What a callable raises is logged: it is the application's, and the node goes on.
    One that is not `fresh` goes on with the history that an earlier life of the node has left in the file.
    """

    def __init__(self, target: TraceTarget, node: str, run: str = RUN, *, fresh: bool = True) -> None:
        self._recorder = Recorder(run, node)
        self._writer: TraceWriter | None = None
        self._flush_timer: asyncio.TimerHandle | None = None
        self._log = ProcessLog("holdfast.trace", node=node)
        if callable(target):
            self._take = target
        else:
            file = own_file(Path(target), node)
            if not fresh:
                self._recorder.index = go_on(file)
            self._writer = TraceWriter(file, fresh=fresh)

    def __call__(self, report: Report) -> None:
        rows = self._recorder.record(
            time_ns(),
            report.event,
            report.batch,
            report.pattern,
            report.where,
            report.peer,
            report.detail,
            report.overhead,
            report.seq,
        )
        if self._writer is None:
            for row in rows:
                self._hand_over(row)
            return
        self._writer.extend(rows)
        if self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(FLUSH_S, self._flush)

    def _hand_over(self, row: Event) -> None:
        try:
            self._take(row)
        except Exception as error:  # noqa: BLE001
            self._log.warning("the callable that takes the trace raised", error=repr(error))

    def _flush(self) -> None:
        self._flush_timer = None
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Write what is left. Closing again does nothing."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if self._writer is not None:
            self._writer.close()


def own_file(path: Path, node: str) -> Path:
    """In a directory every node has a file of its own, named after it."""
    return path if path.suffix == SUFFIX else path / (quote(node, safe="") + SUFFIX)
