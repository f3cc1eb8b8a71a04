"""What an application imports to publish and subscribe."""

from holdfast.client.connecting import connect
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
from holdfast.client.receipts import Receipt
from holdfast.client.session import Client
from holdfast.client.subscriptions import Subscription
from holdfast.client.sync import SyncClient, SyncSubscription, connect_sync
from holdfast.client.sync_receipts import SyncReceipt
from holdfast.runtime.process import run

__all__ = [
    "AddressError",
    "Client",
    "ClientClosed",
    "ConnectionFailed",
    "Gap",
    "MessageError",
    "NameTaken",
    "NotConfirmed",
    "Receipt",
    "SessionLost",
    "Subscription",
    "SyncClient",
    "SyncReceipt",
    "SyncSubscription",
    "connect",
    "connect_sync",
    "run",
]
