"""Holdfast: a publish/subscribe broker network in which every message picks its own delivery guarantee.

```python
import holdfast

async with holdfast.connect("holdfast://127.0.0.1:7400", name="alice") as client:
    orders = await client.subscribe("bank/+/orders", where="amount > 100")
    receipt = await client.publish("bank/lisbon/orders", b"...", guarantee="total", keys=["PT50-1"],
                                   attributes={"amount": 120})
    await receipt.confirmed()
    async for message in orders:
        ...
```
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client import (
        AddressError,
        Client,
        ClientClosed,
        ConnectionFailed,
        Gap,
        MessageError,
        NameTaken,
        NotConfirmed,
        Receipt,
        SessionLost,
        Subscription,
        SyncClient,
        SyncReceipt,
        SyncSubscription,
        connect,
        connect_sync,
        run,
    )
    from holdfast.model.batches import Message
    from holdfast.model.errors import (
        ConnectionLost,
        Definite,
        FilterError,
        HoldfastError,
        Indefinite,
        LocalMisuse,
        Refused,
        RequestFailed,
        TopicError,
    )
    from holdfast.model.guarantees import Guarantee, GuaranteeError
    from holdfast.model.slow_messages import Slow

__version__ = "0.1.0"

# The client's rooms are loaded when somebody asks for them: a program that reads a trace or simulates needs no sockets.
_HOME = {
    "AddressError": "holdfast.client",
    "Client": "holdfast.client",
    "ClientClosed": "holdfast.client",
    "ConnectionFailed": "holdfast.client",
    "ConnectionLost": "holdfast.model.errors",
    "Definite": "holdfast.model.errors",
    "FilterError": "holdfast.model.errors",
    "Gap": "holdfast.client",
    "NameTaken": "holdfast.client",
    "Guarantee": "holdfast.model.guarantees",
    "GuaranteeError": "holdfast.model.guarantees",
    "HoldfastError": "holdfast.model.errors",
    "Indefinite": "holdfast.model.errors",
    "LocalMisuse": "holdfast.model.errors",
    "Message": "holdfast.model.batches",
    "MessageError": "holdfast.client",
    "NotConfirmed": "holdfast.client",
    "Receipt": "holdfast.client",
    "Refused": "holdfast.model.errors",
    "RequestFailed": "holdfast.model.errors",
    "SessionLost": "holdfast.client",
    "Slow": "holdfast.model.slow_messages",
    "Subscription": "holdfast.client",
    "SyncClient": "holdfast.client",
    "SyncReceipt": "holdfast.client",
    "SyncSubscription": "holdfast.client",
    "TopicError": "holdfast.model.errors",
    "connect": "holdfast.client",
    "connect_sync": "holdfast.client",
    "run": "holdfast.client",
}

__all__ = [
    "AddressError",
    "Client",
    "ClientClosed",
    "ConnectionFailed",
    "ConnectionLost",
    "Definite",
    "FilterError",
    "Gap",
    "Guarantee",
    "GuaranteeError",
    "HoldfastError",
    "Indefinite",
    "LocalMisuse",
    "Message",
    "MessageError",
    "NameTaken",
    "NotConfirmed",
    "Receipt",
    "Refused",
    "RequestFailed",
    "SessionLost",
    "Slow",
    "Subscription",
    "SyncClient",
    "SyncReceipt",
    "SyncSubscription",
    "TopicError",
    "connect",
    "connect_sync",
    "run",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"holdfast has no {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
