"""A database that goes away and comes back: nothing is stored by halves, and its repository waits for it."""

import asyncio

import pytest

import holdfast
from holdfast.model.reliable import Level
from holdfast.storage.stores import StoreAway, open_store
from tests.integration.reliable.bundles import STREAM, payload_of, publish, read, repository_here
from tests.integration.support_brokers import address_of, broker_here, until
from tests.support.entries import entry
from tests.support.postgres import PostgresServer


def test_what_was_buffered_when_the_server_went_is_stored_altogether_or_not_at_all(postgres: PostgresServer):
    with open_store(f"{postgres.url}#buffered") as store:
        store.append("orders", [entry(1)])
        store.put("key", b"value")
        postgres.kill()
        with pytest.raises(StoreAway):
            store.append("bank", [entry(1)])
        postgres.start()
        with pytest.raises(StoreAway, match="what was buffered is not stored"):
            store.append("bank", [entry(1)])
        with pytest.raises(StoreAway):
            store.commit(Level.FSYNCED)
        assert (store.streams(), list(store.items())) == ([], [])
        store.append("bank", [entry(1)])
        store.commit(Level.FSYNCED)
        assert store.streams() == ["bank"]


def test_a_change_is_not_carried_out_over_another_connection_than_it_was_made_on(postgres: PostgresServer):
    with open_store(f"{postgres.url}#moved") as store:
        store.append("orders", [entry(1)])
        postgres.kill()
        postgres.start()
        with pytest.raises(StoreAway):
            store.items()
        with pytest.raises(StoreAway):
            store.commit(Level.FSYNCED)
        assert store.streams() == []
        postgres.kill()
        with pytest.raises(StoreAway):
            store.verify()
        postgres.start()
        assert store.verify() == []


def test_a_repository_waits_for_its_database_and_begins_again(postgres: PostgresServer):
    async def story() -> None:
        async with (
            broker_here() as broker,
            holdfast.connect(address_of(broker), name="alice") as alice,
            repository_here(broker, store=f"{postgres.url}#waits") as one,
            alice.subscribe(STREAM, durable="billing") as billing,
        ):
            await publish(alice, 1, 20)
            assert await read(billing, 20) == [payload_of("alice", number) for number in range(1, 21)]
            await asyncio.to_thread(postgres.kill)
            published = asyncio.ensure_future(publish(alice, 21, 40))
            await until(lambda: not one.ready(), "it notices")
            [waiting] = one._waiting_for()
            assert "its store: " in waiting
            await asyncio.to_thread(postgres.start)
            await published
            assert await read(billing, 20) == [payload_of("alice", number) for number in range(21, 41)]
            assert one.ready()
            assert one._waiting_for() == []

    holdfast.run(story())
    with open_store(f"{postgres.url}#waits") as store:
        found = [one for part in store.read(STREAM, 1, 1 << 40, 1 << 30) for one in part.batch.payload_list()]
        assert found == [payload_of("alice", number) for number in range(1, 41)]
        assert store.verify() == []
