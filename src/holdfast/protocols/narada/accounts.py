"""Accounts of readers that acknowledge each message: what they have acknowledged out of order, and have out.

An account is complete by itself, and replaces the one before it: what was acknowledged above the reader's sync, by
identity, so that it is true at every repository; and what was handed out and not acknowledged, with how often. All
repositories of the bundle hear it. If the reader waits for it, the one that steers it stores it with the next commit,
and says so then: an acknowledgement that was confirmed is not forgotten by a crash of that repository. Otherwise it is
stored when something else is.
"""

from holdfast.protocols.narada.consumed_position import merged_position
from holdfast.protocols.narada.events import SubscriberAck, Sync
from holdfast.protocols.narada.participant import Effects
from holdfast.protocols.narada.stream_state import RepositoryStream
from holdfast.protocols.narada.subscription import Subscription, saved


class Accounts:
    """The accounts of one stream at one repository."""

    def __init__(self, stream_state: RepositoryStream) -> None:
        self._stream_state = stream_state
        self._heard: dict[str, Subscription] = {}
        self._committing: list[tuple[Subscription, int]] = []

    def hear(self, one: Subscription, event: SubscriberAck) -> None:
        """A reader's account; one that comes late changes nothing."""
        if event.account > one.account:
            one.account, one.out = event.account, event.out
            if event.steering != self._stream_state.name:
                # It is told from the sync of another repository on, and ours may lie before what we knew.
                one.consumed = merged_position(one.consumed, one.beyond)
            if not event.partial:
                one.beyond = (event.reached, event.lacks)
            self._stream_state.put_later(saved(one), "subscriber", one.name)
        if event.waits and event.steering == self._stream_state.name:
            self._stream_state.put(saved(one), "subscriber", one.name)
            self._heard[one.name] = one

    def begin_commit(self) -> None:
        """What was heard by now is in the commit that begins."""
        self._committing = [(one, one.account) for one in self._heard.values()]
        self._heard = {}

    def committed(self) -> Effects:
        """It is stored: say so."""
        stored, self._committing = self._committing, []
        stream_state = self._stream_state
        if not stream_state.serving:
            return []
        return [
            stream_state.say_to(
                one.name,
                Sync(
                    stream_state.stream,
                    stream_state.name,
                    stream_state.era,
                    one.sync,
                    stream_state.end,
                    stream_state.session,
                    account,
                ),
            )
            for one, account in stored
        ]
