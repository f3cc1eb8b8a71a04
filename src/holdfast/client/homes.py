"""Where a client may be used: in the event loop, and the process, in which it was connected.

A client that is used from another loop would wait for answers that come in its own, and one in a forked child would
write to the connection of its parent. Both say so at once.
"""

import os
from asyncio import AbstractEventLoop, _get_running_loop
from threading import get_ident
from weakref import WeakSet

from holdfast.model.errors import LocalMisuse

NOWHERE = 0
"""The thread of a home that a forked child has from its parent: no thread has that number."""
_homes: "WeakSet[Home]" = WeakSet()


def _leave_homes() -> None:
    for home in _homes:
        home.thread = NOWHERE


os.register_at_fork(after_in_child=_leave_homes)


class Home:
    """The loop and the process of whoever makes it; `what` names in errors what belongs there.

    To look up the running loop takes a third of the time of a publication, since Python 3.11 asks the system for the
    process each time. So the path of every message looks whether `home.thread` is `get_ident()`, and calls `check` only
    if it is not; what happens once in a turn of the loop calls `check` in any case.
    """

    __slots__ = ("__weakref__", "_what", "loop", "thread")

    def __init__(self, what: str) -> None:
        self._what, self.thread = what, get_ident()
        self.loop: AbstractEventLoop | None = _get_running_loop()
        _homes.add(self)

    def check(self) -> None:
        """Raise `LocalMisuse` unless this is the process, and its running loop the loop."""
        if self.thread == NOWHERE:
            self.check_process()
        if self.loop is not _get_running_loop():
            raise LocalMisuse(
                f"{self._what} belongs to the event loop in which it was made, and was used from another one: connect "
                "in each loop, or use holdfast.connect_sync, whose client any thread may use. Nothing was done."
            )

    @property
    def is_of_this_process(self) -> bool:
        return self.thread != NOWHERE

    def check_process(self) -> None:
        """The same for the process alone."""
        if self.thread == NOWHERE:
            raise LocalMisuse(
                f"{self._what} belongs to the process that made it, and was used in a forked child: connect again in "
                "the child. Nothing was done."
            )
