"""A replica of the bank at one site: a client that applies what is delivered and publishes what its site asks for."""

from collections.abc import Callable, Iterable

from holdfast.client import Client, Receipt, Subscription
from holdfast.model.batches import Message
from holdfast.services.bank import OPENING_CENTS, Bank, Operation, TransferOutcome, encode, guarantee_of, keys_of

Watcher = Callable[[Message, TransferOutcome], None]


class Replica:
    """One bank (a topic) at one site. Made by `open_replica`."""

    def __init__(self, client: Client, subscription: Subscription, topic: str, bank: Bank) -> None:
        self.topic, self.bank = topic, bank
        self._client, self._subscription = client, subscription

    async def perform(self, operation: Operation) -> Receipt:
        """Publish an operation with the guarantee and the keys that it needs; every replica will apply it, this too."""
        return await self._client.publish(
            self.topic, encode(operation), guarantee=guarantee_of(operation), keys=keys_of(operation)
        )

    async def follow(self, watcher: Watcher | None = None) -> None:
        """Apply whatever is delivered, for as long as the subscription lasts."""
        apply = self.bank.apply
        async for messages in self._subscription.batches():
            for message in messages:
                outcome = apply(message)
                if watcher is not None:
                    watcher(message, outcome)


async def open_replica(
    client: Client, topic: str, accounts: Iterable[str], opening_cents: int = OPENING_CENTS
) -> Replica:
    """Subscribe to the bank's topic; what is published after this returns reaches the replica."""
    bank = Bank(accounts, opening_cents)
    return Replica(client, await client.subscribe(topic, slow="block"), topic, bank)
