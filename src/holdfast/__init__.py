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
        Acknowledgement,
        AckOptions,
        AddressError,
        By,
        Client,
        ClientClosed,
        ConnectionFailed,
        DurableReceipt,
        DurableSubscription,
        Gap,
        Level,
        LinkConfig,
        ManualMessage,
        ManualSubscription,
        MessageError,
        NameTaken,
        NotConfirmed,
        OnConnected,
        OnDisconnected,
        OnGap,
        Opening,
        Receipt,
        SessionLost,
        Start,
        Subscription,
        SyncClient,
        SyncDurableReceipt,
        SyncDurableSubscription,
        SyncManualMessage,
        SyncManualSubscription,
        SyncReceipt,
        SyncSubscription,
        TraceTarget,
        connect,
        connect_sync,
        run,
    )
    from holdfast.model.batches import Attributes, Keys, Message
    from holdfast.model.errors import (
        ConfigError,
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
    from holdfast.model.filters import Value
    from holdfast.model.guarantees import Guarantee, GuaranteeError, GuaranteeName
    from holdfast.model.reliable import Entry
    from holdfast.model.slow_messages import Slow
    from holdfast.model.trace import Event

__version__ = "0.1.0"

# The client's rooms are loaded when somebody asks for them: a program that reads a trace or simulates needs no sockets.
_HOME = {
    "AckOptions": "holdfast.client",
    "Acknowledgement": "holdfast.client",
    "AddressError": "holdfast.client",
    "Attributes": "holdfast.model.batches",
    "By": "holdfast.client",
    "Client": "holdfast.client",
    "ClientClosed": "holdfast.client",
    "ConfigError": "holdfast.model.errors",
    "ConnectionFailed": "holdfast.client",
    "ConnectionLost": "holdfast.model.errors",
    "Definite": "holdfast.model.errors",
    "DurableReceipt": "holdfast.client",
    "DurableSubscription": "holdfast.client",
    "Entry": "holdfast.model.reliable",
    "Event": "holdfast.model.trace",
    "FilterError": "holdfast.model.errors",
    "Gap": "holdfast.client",
    "Guarantee": "holdfast.model.guarantees",
    "GuaranteeError": "holdfast.model.guarantees",
    "GuaranteeName": "holdfast.model.guarantees",
    "HoldfastError": "holdfast.model.errors",
    "Indefinite": "holdfast.model.errors",
    "Keys": "holdfast.model.batches",
    "Level": "holdfast.client",
    "LinkConfig": "holdfast.client",
    "LocalMisuse": "holdfast.model.errors",
    "ManualMessage": "holdfast.client",
    "ManualSubscription": "holdfast.client",
    "Message": "holdfast.model.batches",
    "MessageError": "holdfast.client",
    "NameTaken": "holdfast.client",
    "NotConfirmed": "holdfast.client",
    "OnConnected": "holdfast.client",
    "OnDisconnected": "holdfast.client",
    "OnGap": "holdfast.client",
    "Opening": "holdfast.client",
    "Receipt": "holdfast.client",
    "Refused": "holdfast.model.errors",
    "RequestFailed": "holdfast.model.errors",
    "SessionLost": "holdfast.client",
    "Slow": "holdfast.model.slow_messages",
    "Start": "holdfast.client",
    "Subscription": "holdfast.client",
    "SyncClient": "holdfast.client",
    "SyncDurableReceipt": "holdfast.client",
    "SyncDurableSubscription": "holdfast.client",
    "SyncManualMessage": "holdfast.client",
    "SyncManualSubscription": "holdfast.client",
    "SyncReceipt": "holdfast.client",
    "SyncSubscription": "holdfast.client",
    "TopicError": "holdfast.model.errors",
    "TraceTarget": "holdfast.client",
    "Value": "holdfast.model.filters",
    "connect": "holdfast.client",
    "connect_sync": "holdfast.client",
    "run": "holdfast.client",
}

__all__ = [
    "AckOptions",
    "Acknowledgement",
    "AddressError",
    "Attributes",
    "By",
    "Client",
    "ClientClosed",
    "ConfigError",
    "ConnectionFailed",
    "ConnectionLost",
    "Definite",
    "DurableReceipt",
    "DurableSubscription",
    "Entry",
    "Event",
    "FilterError",
    "Gap",
    "Guarantee",
    "GuaranteeError",
    "GuaranteeName",
    "HoldfastError",
    "Indefinite",
    "Keys",
    "Level",
    "LinkConfig",
    "LocalMisuse",
    "ManualMessage",
    "ManualSubscription",
    "Message",
    "MessageError",
    "NameTaken",
    "NotConfirmed",
    "OnConnected",
    "OnDisconnected",
    "OnGap",
    "Opening",
    "Receipt",
    "Refused",
    "RequestFailed",
    "SessionLost",
    "Slow",
    "Start",
    "Subscription",
    "SyncClient",
    "SyncDurableReceipt",
    "SyncDurableSubscription",
    "SyncManualMessage",
    "SyncManualSubscription",
    "SyncReceipt",
    "SyncSubscription",
    "TopicError",
    "TraceTarget",
    "Value",
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
