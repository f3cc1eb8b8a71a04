"""What a client raises beside the errors that everyone shares (`model.errors`).

Every failed request says whether it surely did not happen or may have: see `outcome`.
"""

from holdfast.model.errors import ConfigError, ConnectionLost, Definite, LocalMisuse


class AddressError(ConfigError):
    """Raised when a broker's address cannot be read."""


class MessageError(LocalMisuse, ValueError):
    """Raised when what is to be published is not a message: its payload, keys or attributes."""


class ClientClosed(LocalMisuse):
    """Raised when a client that was closed is asked for something."""


class ConnectionFailed(Definite):
    """Raised when no broker at the given addresses took the client in. Nothing was begun."""


class SessionLost(ConnectionLost):
    """Raised when the session ended without our doing. Publications that were not accepted may have happened."""
