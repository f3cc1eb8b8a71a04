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
    """Raised when a publication cannot be confirmed: there is no evidence that everybody has it that it was owed to.

    `lacking` subscribers, some of them named in `lack`, do not have it though it should have come; `given_up` ones,
    some named in `gone`, have been given up since; `reason` says why there may be others. Asking again later is safe.
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
    """Raised when another client has connected under this client's name, which is one session's at a time.

    What was accepted goes on to its subscribers. A service with several replicas gives each a name of its own.
    """


class Gap(SessionLost):
    """Raised by a subscription, once and in its place in the stream: messages are missing here, or may be.

    Everything that was owed to the subscription and came before has been handed over, once and in order. `received`
    says how far that is: the number of the last message that it handed over of each publisher (of the last
    `PUBLISHERS_MAX` that were heard of). An application that can get at what was published meanwhile knows from it
    where to go on.

    `goes_on` says whether the subscription lives: a broker let something go that may be missing here, or the
    subscription has dropped what was not read, and reading goes on behind it. If it does not, the subscription is over,
    since the session is lost (connect and subscribe again) or since nobody read (subscribe again).

    `dropped` is how many messages were dropped here because nobody read them in time; 0 where nobody knows.
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
