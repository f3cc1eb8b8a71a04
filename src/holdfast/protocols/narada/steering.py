"""How a client finds the repository that steers it, and when it looks for another one.

The client asks the whole bundle and takes whoever answers first, give or take a grace in which a slower answer to a
faster probe may still come: what counts is the round-trip time. Whoever is asked for something and stays silent is
given up; so is one that says that it leaves. There is no handshake: what a client says to the bundle names its steering
repository, so that the others know that they are to be passive. After a partition two repositories may both believe
that they steer a client; both may say what they like, since nothing that they say does harm when it is heard twice.
"""

from holdfast.protocols.narada.config import SteeringConfig
from holdfast.protocols.narada.events import Migrate, Probe, ProbeReply, encode
from holdfast.protocols.narada.participant import Effects, Say
from holdfast.protocols.narada.topics import bundle_topic
from holdfast.protocols.node import Report, SetTimer

PROBE_TIMER = "probe"


class Steering:
    """The choice of one client on one stream."""

    def __init__(self, config: SteeringConfig, stream: str, client: str) -> None:
        self._config, self._stream, self._client = config, stream, client
        self.repository = ""
        """Whoever steers the client; empty while it looks for somebody."""
        self.round_trips_s: dict[str, float] = {}
        self._token = 0
        self._asked_at = 0.0
        self._wait_s = config.probe_s
        self._answers: dict[str, float] = {}
        self._avoided = ""
        self._unheard_since: float | None = None
        self.failovers = 0

    @property
    def looking(self) -> bool:
        return not self.repository

    def look(self, now: float) -> Effects:
        """Ask the bundle who is there."""
        self.repository = ""
        self._token += 1
        self._asked_at = now
        self._answers.clear()
        self._unheard_since = None
        wait_s, self._wait_s = self._wait_s, min(2 * self._wait_s, self._config.probe_max_s)
        return [
            Say(bundle_topic(self._stream), encode(Probe(self._stream, self._client, self._token))),
            SetTimer(PROBE_TIMER, wait_s),
        ]

    def on_reply(self, reply: ProbeReply, now: float) -> Effects:
        """Somebody is there. An answer to an earlier question tells nothing about time."""
        if reply.token != self._token or self.repository or reply.repository in self._answers:
            return []
        took_s = now - self._asked_at
        self._answers[reply.repository] = took_s
        before_s = self.round_trips_s.get(reply.repository)
        self.round_trips_s[reply.repository] = took_s if before_s is None else (3 * before_s + took_s) / 4
        return [SetTimer(PROBE_TIMER, self._config.grace_s)] if len(self._answers) == 1 else []

    def on_timer(self, now: float) -> Effects:
        """The wait is over: choose among those who answered, or ask again. Whether one was chosen, `looking` says."""
        if self.repository:
            return []
        candidates = [name for name in self._answers if name != self._avoided] or list(self._answers)
        if not candidates:
            # Whoever was given up is as good as anybody when nobody else is there.
            self._avoided = ""
            return self.look(now)
        self.repository = min(candidates, key=lambda name: (self.round_trips_s[name], name))
        self._wait_s = self._config.probe_s
        self._avoided = ""
        self._unheard_since = None
        return [Report("steered", peer=self.repository)]

    # -------------------------------------------------------------------------------------------------------- silence

    def asked(self, now: float) -> None:
        """The steering repository was asked for something that it must answer."""
        if self._unheard_since is None:
            self._unheard_since = now

    def heard_from(self, repository: str) -> None:
        if repository == self.repository:
            self._unheard_since = None

    def is_silent(self, now: float) -> bool:
        since = self._unheard_since
        return bool(self.repository) and since is not None and now - since >= self._config.failover_s

    def give_up(self, now: float, why: str) -> Effects:
        """Look for another one."""
        self._avoided = self.repository
        self.failovers += 1
        return [Report("failover", peer=self._avoided, detail=why), *self.look(now)]

    def on_migrate(self, event: Migrate, now: float) -> Effects:
        if event.repository != self.repository:
            return []
        return self.give_up(now, "it leaves the bundle")
