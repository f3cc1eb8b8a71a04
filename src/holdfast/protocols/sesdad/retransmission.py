"""When to ask for what is missing: delays that follow the round trips that were measured.

The report waits for 1.5 s before it asks for a message that later ones wait for, and for 3 s after the last message
before it asks whether there is another one (section 6). Both are right for some network and wrong for all others. Here
they follow the round trips between asking and getting (Jacobson 1988): a few of them before a request, twice as much
before a notification. Fixed delays can be set, such as the report's.
"""

REPORT_REQUEST_S, REPORT_NOTIFY_S = 1.5, 3.0
INITIAL_S = 0.1
REQUEST_MIN_S, REQUEST_MAX_S = 0.02, 3.0
NOTIFY_RATIO = 2.0
"""The report's own: 3 s to 1.5 s."""
DOUBLINGS_MAX = 10


class InVain:
    """How often something was asked for, and has not come."""

    __slots__ = ("_place", "times")

    def __init__(self) -> None:
        self._place = self.times = 0

    def since(self, place: int) -> int:
        """How often what comes next after that number was asked for."""
        if place != self._place:
            self._place, self.times = place, 0
        return self.times


class Delays:
    """How long one node waits before it asks; `request_s` and `notify_s` of 0 adapt."""

    def __init__(self, request_s: float = 0.0, notify_s: float = 0.0) -> None:
        self._request_s, self._notify_s = request_s, notify_s
        self._smooth_s: float | None = None
        self._spread_s = 0.0

    def sample(self, round_trip_s: float) -> None:
        """So long it took from a question to its answer."""
        if self._smooth_s is None:
            self._smooth_s, self._spread_s = round_trip_s, round_trip_s / 2
            return
        self._spread_s += (abs(round_trip_s - self._smooth_s) - self._spread_s) / 4
        self._smooth_s += (round_trip_s - self._smooth_s) / 8

    @property
    def request_s(self) -> float:
        """How long something is missing before it is asked for."""
        if self._request_s:
            return self._request_s
        wait_s = INITIAL_S if self._smooth_s is None else self._smooth_s + 4 * self._spread_s
        return min(max(wait_s, REQUEST_MIN_S), REQUEST_MAX_S)

    def again_s(self, times: int) -> float:
        """How long something is missing before it is asked for once more, after so many times in vain.

        Twice as long each time: a link whose round trip is longer than the wait has no room for anything but answers.
        """
        wait_s = self.request_s
        return min(wait_s * (1 << min(times, DOUBLINGS_MAX)), max(wait_s, REQUEST_MAX_S))

    @property
    def notify_s(self) -> float:
        """How long after the last message it is asked whether there is another one."""
        return self._notify_s or NOTIFY_RATIO * self.request_s


class Questions:
    """Notifications that were not answered yet: by number, to whom, and when."""

    def __init__(self) -> None:
        self._serial = 0
        self._open: dict[int, tuple[str, float]] = {}

    def ask(self, peer: str, now: float) -> int:
        self._serial += 1
        self._open[self._serial] = (peer, now)
        return self._serial

    def answered(self, serial: int, now: float) -> float | None:
        """How long the answer took, if it was awaited."""
        asked = self._open.pop(serial, None)
        return None if asked is None else now - asked[1]

    def overdue(self, before: float) -> bool:
        """Whether something that was asked before that time is not answered: it is not waited for any longer."""
        late = [serial for serial, (_, asked_at) in self._open.items() if asked_at <= before]
        for serial in late:
            del self._open[serial]
        return bool(late)

    def lost(self, peer: str) -> bool:
        """Whether that peer, which is lost, has left something unanswered."""
        unanswered = [serial for serial, (asked, _) in self._open.items() if asked == peer]
        for serial in unanswered:
            del self._open[serial]
        return bool(unanswered)

    def __len__(self) -> int:
        return len(self._open)
