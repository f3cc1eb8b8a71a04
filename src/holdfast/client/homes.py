"""Where a client may be used: in the event loop, and the process, in which it was connected.

A client that is used from another loop would wait for answers that come in its own, and one in a forked child would
write to the connection of its parent. Both say so at once.
"""

import os
from asyncio import AbstractEventLoop, _get_running_loop

from holdfast.model.errors import LocalMisuse


class _Process:
    """How often this process was forked off: a number that changes in every child, and costs nothing to look at."""

    forks = 0


def _note_fork() -> None:
    _Process.forks += 1


os.register_at_fork(after_in_child=_note_fork)


class Home:
    """The loop and the process of whoever makes it; `what` names in errors what belongs there."""

    __slots__ = ("_forks", "_what", "loop")

    def __init__(self, what: str) -> None:
        self._what, self._forks = what, _Process.forks
        self.loop: AbstractEventLoop | None = _get_running_loop()

    def check(self) -> None:
        """Raise `LocalMisuse` unless this is the process, and its running loop the loop."""
        if self._forks != _Process.forks:
            self.check_process()
        if self.loop is not _get_running_loop():
            raise LocalMisuse(
                f"{self._what} belongs to the event loop in which it was made, and was used from another one: connect "
                "in each loop, or use holdfast.connect_sync, whose client any thread may use. Nothing was done."
            )

    def check_process(self) -> None:
        """The same for the process alone."""
        if self._forks != _Process.forks:
            raise LocalMisuse(
                f"{self._what} belongs to the process that made it, and was used in a forked child: connect again in "
                "the child. Nothing was done."
            )
