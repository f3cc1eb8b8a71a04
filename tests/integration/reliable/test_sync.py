"""Durable publications and subscriptions without asyncio."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

import holdfast
from holdfast.client.sync_receipts import SyncDurableReceipt
from holdfast.client.sync_subscriptions import SyncDurableSubscription
from holdfast.model.errors import LocalMisuse, Refused
from holdfast.protocols.narada import Registration
from tests.integration.reliable.bundles import repository_here
from tests.integration.support_brokers import PATIENCE_S, address_of, broker_here, until

OWNED = (Registration("bank/#", "bank", 1, ("alice", "bob"), None),)


@pytest.fixture
def address() -> Iterator[str]:
    """A broker and a repository that run in a thread of their own for the time of a test."""
    ready = threading.Event()
    said: list[tuple[asyncio.AbstractEventLoop, asyncio.Event, str]] = []

    async def serve() -> None:
        async with broker_here() as broker, repository_here(broker, owners=OWNED) as repository:
            await until(repository.ready, "the repository serves")
            over = asyncio.Event()
            said.append((asyncio.get_running_loop(), over, address_of(broker)))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: holdfast.run(serve()))
    thread.start()
    assert ready.wait(PATIENCE_S)
    loop, over, where = said[0]
    yield where
    loop.call_soon_threadsafe(over.set)
    thread.join()


def publish(client: holdfast.SyncClient, first: int, last: int) -> holdfast.SyncReceipt:
    receipts = [client.publish("bank/a", b"%d" % number, durable=True) for number in range(first, last + 1)]
    return receipts[-1].stored(PATIENCE_S)


def read(subscription: holdfast.SyncSubscription, count: int) -> list[int]:
    return [int(subscription.get(PATIENCE_S).payload) for _ in range(count)]


def test_what_is_stored_is_read_once_across_visits_without_asyncio(address: str):
    with holdfast.connect_sync(address, name="alice") as alice:
        last = publish(alice, 1, 50)
        assert isinstance(last, SyncDurableReceipt)
        assert (last.level, last.storage) == ("stored", "fsynced by one repository")
        with alice.subscribe("bank/#", durable="billing") as today:
            assert isinstance(today, SyncDurableSubscription)
            assert read(today, 20) == list(range(1, 21))
        # Closing the client ends what was not unsubscribed, in the same way.
        with holdfast.connect_sync(address, name="bob") as bob:
            assert read(bob.subscribe("bank/#", durable="billing"), 10) == list(range(21, 31))
        publish(alice, 51, 60)
        tomorrow = alice.subscribe("bank/#", durable="billing")
        assert read(tomorrow, 30) == list(range(31, 61))
        late = alice.subscribe("bank/#", durable="late", start=55)
        assert read(late, 6) == list(range(55, 61))


def test_a_subscription_that_is_ended_begins_anew_without_asyncio(address: str):
    with holdfast.connect_sync(address, name="alice") as alice:
        publish(alice, 1, 5)
        billing = alice.subscribe("bank/#", durable="billing")
        assert read(billing, 3) == [1, 2, 3]
        billing.unsubscribe()
        alice.forget_subscription("billing", "bank/#")
        assert read(alice.subscribe("bank/#", durable="billing"), 5) == [1, 2, 3, 4, 5]


def test_plain_and_durable_publications_of_one_client_keep_their_numbers_apart(address: str):
    with holdfast.connect_sync(address, name="alice") as alice, alice.subscribe("plain") as inbox:
        known = [alice.publish("plain", b"x") for _ in range(3)]
        assert [receipt.seq for receipt in known] == [1, 2, 3]
        receipts: list[holdfast.SyncReceipt] = []
        for number in range(30):
            receipts.append(alice.publish("plain", b"%d" % number))
            alice.publish("bank/a", b"%d" % number, durable=True)
        receipts[-1].confirmed(PATIENCE_S)
        got = [inbox.get(PATIENCE_S) for _ in range(33)]
        assert [message.seq for message in got] == [receipt.seq for receipt in (*known, *receipts)]
        with pytest.raises(LocalMisuse, match="without durable=True"):
            receipts[0].stored()


def test_what_is_published_on_a_topic_that_was_declared_reliable_is_stored_without_asyncio(address: str):
    with holdfast.connect_sync(address, name="alice", reliable=["bank/#"]) as alice:
        alice.publish("bank/a", b"1")
        alice.publish("bank/a", b"0", durable=False)
        last = alice.publish_many("bank/a", [b"2", b"3"])
        assert isinstance(last, SyncDurableReceipt)
        last.stored(PATIENCE_S)
        assert not isinstance(alice.publish("plain", b"x"), SyncDurableReceipt)
        assert read(alice.subscribe("bank/#", durable="all"), 3) == [1, 2, 3]


def test_who_may_not_publish_durably_is_told_so_and_goes_on_with_the_rest(address: str):
    mallory = holdfast.connect_sync(address, name="mallory")
    inbox = mallory.subscribe("plain")
    refused = mallory.publish("bank/a", b"x", durable=True)
    with pytest.raises(Refused, match="has not registered mallory to publish"):
        refused.stored(PATIENCE_S)
    again = mallory.publish("bank/a", b"y", durable=True)
    plain = mallory.publish("plain", b"z").accepted(PATIENCE_S)
    assert inbox.get(PATIENCE_S).payload == b"z"
    with pytest.raises(Refused):
        again.stored(PATIENCE_S)
    assert (again.level, plain.level) == ("refused", "accepted")
    with pytest.raises(Refused, match="has not registered mallory"):
        mallory.close()
