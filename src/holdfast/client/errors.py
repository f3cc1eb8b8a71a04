"""What a client raises beside the errors that everyone shares (`model.errors`).

Every failed request says whether it surely did not happen or may have: see `outcome`.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.model.errors import ConfigError, ConnectionLost, Definite, Indefinite, LocalMisuse
from holdfast.model.identities import name_of
from holdfast.model.receipt_messages import Finding


class AddressError(ConfigError):
    """Raised when a broker's address cannot be read."""


class MessageError(LocalMisuse, ValueError):
    """Raised when what is to be published is not a message: its payload, keys or attributes."""


class ClientClosed(LocalMisuse):
    """Raised when a client that was closed is asked for something."""


class ConnectionFailed(Definite):
    """Raised when no broker at the given addresses took the client in. Nothing was begun."""


class NotConfirmed(Indefinite):
    """Raised when a publication cannot be confirmed: a subscriber to which it is owed lacks it, or may lack it.

    `lacking` subscribers, some of them named in `lack`, lack the message although it is owed to them; `given_up`
    subscribers, some named in `gone`, have been given up since; `reason` says why there may be others. It is safe to
    ask again later.
    """

    def __init__(self, publication: str, finding: Finding) -> None:
        finding = replace(finding, lack=tuple(map(name_of, finding.lack)), gone=tuple(map(name_of, finding.gone)))
        super().__init__(
            f"{publication} is not confirmed: {finding}; those who are not named have it, or were not owed"
        )
        self.lacking, self.lack = finding.lacking, finding.lack
        self.given_up, self.gone, self.reason = finding.given_up, finding.gone, finding.broken


class SessionLost(ConnectionLost):
    """Raised when the session ended without our doing. Publications that were not accepted may have happened."""


class NameTaken(SessionLost):
    """Raised when another client has connected under this client's name: a name belongs to one session at a time.

    Accepted messages go on to their subscribers. A service with several replicas gives each replica its own name.
    """


class Gap(SessionLost):
    """Raised by a subscription, once and in its place in the stream: messages are missing here, or may be.

    All earlier messages that were owed to the subscription have been handed out, once and in order. `received` has the
    number of the last one of each publisher (of the last `PUBLISHERS_MAX` publishers): an application that can fetch
    the missing messages from elsewhere begins behind these numbers.

    `goes_on` says whether the subscription lives. If it is true, a broker had to let messages go that may be missing
    here, or the subscription has dropped messages that were not read, and the next iteration continues behind them. If
    it is false, the subscription is over: the session is lost (connect and subscribe again), or the application read
    too slowly (subscribe again).

    `dropped` is the number of messages that were dropped here because they were not read in time; 0 if it is not
    known.
    """

    def __init__(
        self,
        sentence: str,
        pattern: str,
        where: str,
        received: Mapping[str, int],
        goes_on: bool = False,
        dropped: int = 0,
    ) -> None:
        super().__init__(sentence)
        self.pattern, self.where, self.received, self.goes_on = pattern, where, dict(received), goes_on
        self.dropped = dropped
