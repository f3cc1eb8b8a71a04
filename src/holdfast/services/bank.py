"""A replicated bank with mixed consistency: the service of the Ginger thesis (sections 1.2.1 and 5.2).

A bank is a topic, its accounts are keys, and every site that keeps its data is a replica that subscribes to the topic
and applies what is delivered. Each operation asks for the weakest guarantee under which the replicas stay equal:

| operation                 | guarantee  | keys           | why this is enough                                      |
| ------------------------- | ---------- | -------------- | ------------------------------------------------------- |
| `GetBalance(account)`     | `eventual` | the account    | it changes nothing                                      |
| `Deposit(account, ...)`   | `causal`   | the account    | additions commute with each other                       |
| `Withdraw(account, ...)`  | `total`    | the account    | whether it is refused depends on what came before       |
| `Transfer(from, to, ...)` | `total`    | both accounts  | the same, on two accounts at once                       |
| `ApplyInterest(account)`  | `total`    | the account    | multiplying and rounding do not commute with adding     |

Why all replicas end equal. Deposits commute with one another but not with the three total operations. By the total
guarantee every message on key k, deposits included, is on the same side of each total message on k at every replica,
and the total messages on k are in one order. So take a total message m and an account k of it: what was applied to k
before m is the same set everywhere, cut into the same slices by the same total messages in the same order; within a
slice there are only deposits, whose sum does not depend on their order. Going through the total messages in the order
of one replica, each finds (by induction) the same balances on its accounts at every replica, hence has the same
outcome there, a refusal included. After the last message the balances are equal.

The argument needs every operation to travel with the guarantee and the keys of the table, so a replica refuses one that
did not: deterministically, like everything it does. Amounts are whole cents.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from random import Random
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from holdfast.model.batches import Message
from holdfast.model.errors import LocalMisuse
from holdfast.model.guarantees import Guarantee

AMOUNT_CENTS_MAX = 10**12
OPENING_CENTS = 100_00
INTEREST_PER_MYRIAD = 25
"""The fixed interest rate of `ApplyInterest`: hundredths of a percent, rounded down to the cent."""
MYRIAD = 10_000
FIRST_ACCOUNT = 162_550_400
ACCOUNTS = 100
MIX = (0.4, 0.3, 0.3)
"""Shares of eventual, causal and total operations in the workload of section 5.2."""

Account = Annotated[str, Meta(min_length=1, max_length=64)]
Cents = Annotated[int, Meta(ge=1, le=AMOUNT_CENTS_MAX)]


class GetBalance(Struct, frozen=True, tag="get_balance", tag_field="operation"):
    account: Account


class Deposit(Struct, frozen=True, tag="deposit", tag_field="operation"):
    account: Account
    cents: Cents


class Withdraw(Struct, frozen=True, tag="withdraw", tag_field="operation"):
    account: Account
    cents: Cents


class Transfer(Struct, frozen=True, tag="transfer", tag_field="operation"):
    account: Account
    to: Account
    cents: Cents


class ApplyInterest(Struct, frozen=True, tag="apply_interest", tag_field="operation"):
    account: Account


Operation = GetBalance | Deposit | Withdraw | Transfer | ApplyInterest

_REQUIRED: Mapping[type, Guarantee] = {
    GetBalance: Guarantee.EVENTUAL,
    Deposit: Guarantee.CAUSAL,
    Withdraw: Guarantee.TOTAL,
    Transfer: Guarantee.TOTAL,
    ApplyInterest: Guarantee.TOTAL,
}
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Operation] = msgspec.json.Decoder(Operation)


def guarantee_of(operation: Operation) -> Guarantee:
    """The guarantee with which the operation must be published."""
    return _REQUIRED[type(operation)]


def keys_of(operation: Operation) -> tuple[str, ...]:
    """The accounts that the operation touches: the keys with which it must be published."""
    if isinstance(operation, Transfer) and operation.to != operation.account:
        return (operation.account, operation.to)
    return (operation.account,)


def encode(operation: Operation) -> bytes:
    """The payload that carries the operation."""
    return _encoder.encode(operation)


class TransferOutcome(Struct, frozen=True):
    """What one operation came to: the account's balance afterwards, or why it was refused."""

    balance_cents: int | None
    refusal: str = ""

    @property
    def refused(self) -> bool:
        return bool(self.refusal)


class Bank:
    """One replica's state: a pure machine that applies delivered messages, whatever they are, and never fails."""

    def __init__(self, accounts: Iterable[str], opening_cents: int = OPENING_CENTS) -> None:
        self.balances: dict[str, int] = dict.fromkeys(accounts, opening_cents)
        self.applied = 0
        self.refused = 0
        if not self.balances:
            raise LocalMisuse("A bank needs at least one account.")

    def apply(self, message: Message) -> TransferOutcome:
        """Apply a delivered message; what it cannot be is refused in the same way at every replica."""
        outcome = self._applied(message)
        self.applied += 1
        self.refused += outcome.refused
        return outcome

    def _applied(self, message: Message) -> TransferOutcome:
        try:
            operation = _decoder.decode(message.payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return TransferOutcome(None, "the payload is no operation of this bank")
        required = guarantee_of(operation)
        if message.guarantee.rank < required.rank:
            return TransferOutcome(None, f"published as {message.guarantee}, which is weaker than {required}")
        keys = keys_of(operation)
        for account in keys:
            if account not in message.keys:
                return TransferOutcome(None, f"published without the key {account}")
            if account not in self.balances:
                return TransferOutcome(None, f"there is no account {account}")
        return self._performed(operation)

    def _performed(self, operation: Operation) -> TransferOutcome:
        balances, account = self.balances, operation.account
        match operation:
            case GetBalance():
                pass
            case Deposit(cents=cents):
                balances[account] += cents
            case ApplyInterest():
                balances[account] += balances[account] * INTEREST_PER_MYRIAD // MYRIAD
            case Withdraw(cents=cents) | Transfer(cents=cents) if balances[account] < cents:
                return TransferOutcome(balances[account], f"{balances[account]} cents are less than {cents}")
            case Withdraw(cents=cents):
                balances[account] -= cents
            case Transfer(to=to, cents=cents):
                balances[account] -= cents
                balances[to] += cents
        return TransferOutcome(balances[account])

    def digest(self) -> str:
        """A fingerprint of all balances: equal at replicas that are equal."""
        return sha256(msgspec.json.encode(sorted(self.balances.items()))).hexdigest()


# --------------------------------------------------------------------------------------------------------- workload


def account_numbers(count: int = ACCOUNTS) -> tuple[str, ...]:
    """The account numbers of a bank, in the style of the thesis' annex IX."""
    return tuple(str(FIRST_ACCOUNT + index) for index in range(count))


def workload(
    chance: Random,
    accounts: Sequence[str],
    operations: int,
    mix: tuple[float, float, float] = MIX,
) -> Iterator[Operation]:
    """That many operations on random accounts, in the shares of `mix`, in random order."""
    eventual = round(operations * mix[0])
    causal = min(round(operations * mix[1]), operations - eventual)
    ranks = [0] * eventual + [1] * causal + [2] * (operations - eventual - causal)
    chance.shuffle(ranks)
    for rank in ranks:
        yield _random_operation(chance, accounts, rank)


def _random_operation(chance: Random, accounts: Sequence[str], rank: int) -> Operation:
    account = chance.choice(accounts)
    if rank == 0:
        return GetBalance(account)
    if rank == 1:
        return Deposit(account, chance.randint(1, 50_00))
    kind = chance.choice((Withdraw, Transfer, ApplyInterest))
    if kind is Withdraw:
        return Withdraw(account, chance.randint(1, 120_00))
    if kind is Transfer and len(accounts) > 1:
        other = chance.choice([one for one in accounts if one != account])
        return Transfer(account, other, chance.randint(1, 120_00))
    return ApplyInterest(account)
