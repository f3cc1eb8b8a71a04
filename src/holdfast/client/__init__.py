"""What an application imports to publish and subscribe."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client.connecting import connect
    from holdfast.client.durable import DurableSubscription, Start
    from holdfast.client.durable_publishers import DurableReceipt
    from holdfast.client.errors import (
        AddressError,
        ClientClosed,
        ConnectionFailed,
        Gap,
        MessageError,
        NameTaken,
        NotConfirmed,
        SessionLost,
    )
    from holdfast.client.manual import Acknowledgement, AckOptions, ManualMessage, ManualSubscription, SyncManualMessage
    from holdfast.client.notices import OnConnected, OnDisconnected, OnGap
    from holdfast.client.opening import Opening
    from holdfast.client.receipts import By, Level, Receipt
    from holdfast.client.session import Client
    from holdfast.client.subscriptions import Subscription
    from holdfast.client.sync import SyncClient, connect_sync
    from holdfast.client.sync_receipts import SyncDurableReceipt, SyncReceipt
    from holdfast.client.sync_subscriptions import (
        SyncDurableSubscription,
        SyncManualSubscription,
        SyncSubscription,
    )
    from holdfast.protocols.config import LinkConfig
    from holdfast.runtime.process import run
    from holdfast.runtime.tracing import TraceTarget

# Names are loaded when somebody asks for them: a command that parses an address needs no session.
_HOME = {
    "AckOptions": "holdfast.client.manual",
    "Acknowledgement": "holdfast.client.manual",
    "AddressError": "holdfast.client.errors",
    "By": "holdfast.client.receipts",
    "Client": "holdfast.client.session",
    "ClientClosed": "holdfast.client.errors",
    "ConnectionFailed": "holdfast.client.errors",
    "DurableReceipt": "holdfast.client.durable_publishers",
    "DurableSubscription": "holdfast.client.durable",
    "Gap": "holdfast.client.errors",
    "Level": "holdfast.client.receipts",
    "LinkConfig": "holdfast.protocols.config",
    "ManualMessage": "holdfast.client.manual",
    "ManualSubscription": "holdfast.client.manual",
    "MessageError": "holdfast.client.errors",
    "NameTaken": "holdfast.client.errors",
    "NotConfirmed": "holdfast.client.errors",
    "OnConnected": "holdfast.client.notices",
    "OnDisconnected": "holdfast.client.notices",
    "OnGap": "holdfast.client.notices",
    "Opening": "holdfast.client.opening",
    "Receipt": "holdfast.client.receipts",
    "SessionLost": "holdfast.client.errors",
    "Start": "holdfast.client.durable",
    "Subscription": "holdfast.client.subscriptions",
    "SyncClient": "holdfast.client.sync",
    "SyncDurableReceipt": "holdfast.client.sync_receipts",
    "SyncDurableSubscription": "holdfast.client.sync_subscriptions",
    "SyncManualMessage": "holdfast.client.manual",
    "SyncManualSubscription": "holdfast.client.sync_subscriptions",
    "SyncReceipt": "holdfast.client.sync_receipts",
    "SyncSubscription": "holdfast.client.sync_subscriptions",
    "TraceTarget": "holdfast.runtime.tracing",
    "connect": "holdfast.client.connecting",
    "connect_sync": "holdfast.client.sync",
    "run": "holdfast.runtime.process",
}

__all__ = [
    "AckOptions",
    "Acknowledgement",
    "AddressError",
    "By",
    "Client",
    "ClientClosed",
    "ConnectionFailed",
    "DurableReceipt",
    "DurableSubscription",
    "Gap",
    "Level",
    "LinkConfig",
    "ManualMessage",
    "ManualSubscription",
    "MessageError",
    "NameTaken",
    "NotConfirmed",
    "OnConnected",
    "OnDisconnected",
    "OnGap",
    "Opening",
    "Receipt",
    "SessionLost",
    "Start",
    "Subscription",
    "SyncClient",
    "SyncDurableReceipt",
    "SyncDurableSubscription",
    "SyncManualMessage",
    "SyncManualSubscription",
    "SyncReceipt",
    "SyncSubscription",
    "TraceTarget",
    "connect",
    "connect_sync",
    "run",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"holdfast.client has no {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return list(__all__)
