"""What an application imports to publish and subscribe."""

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
from holdfast.client.sync import (
    SyncClient,
    SyncDurableSubscription,
    SyncManualSubscription,
    SyncSubscription,
    connect_sync,
)
from holdfast.client.sync_receipts import SyncDurableReceipt, SyncReceipt
from holdfast.protocols.config import LinkConfig
from holdfast.runtime.process import run
from holdfast.runtime.tracing import TraceTarget

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
