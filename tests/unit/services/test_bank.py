"""The bank as a pure machine: what each operation does, and that replicas end equal under any legal order."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.batches import Message
from holdfast.model.errors import LocalMisuse
from holdfast.model.guarantees import Guarantee
from holdfast.services.bank import (
    MIX,
    ApplyInterest,
    Bank,
    Deposit,
    GetBalance,
    Operation,
    Transfer,
    Withdraw,
    account_numbers,
    encode,
    guarantee_of,
    keys_of,
    workload,
)


def message(operation: Operation, seq: int = 1, publisher: str = "alice") -> Message:
    return Message("bank/x", encode(operation), publisher, seq, guarantee_of(operation), keys_of(operation))


def bank(**balances: int) -> Bank:
    made = Bank(balances)
    made.balances.update(balances)
    return made


def test_a_deposit_adds_and_a_withdrawal_takes():
    replica = bank(a=100)
    assert replica.apply(message(Deposit("a", 50))).balance_cents == 150
    assert replica.apply(message(Withdraw("a", 30))).balance_cents == 120
    assert replica.apply(message(GetBalance("a"))).balance_cents == 120
    assert (replica.applied, replica.refused) == (3, 0)


def test_a_transfer_moves_money_between_two_accounts():
    replica = bank(a=100, b=5)
    assert replica.apply(message(Transfer("a", "b", 100))).balance_cents == 0
    assert replica.balances == {"a": 0, "b": 105}


def test_a_transfer_to_the_same_account_changes_nothing():
    replica = bank(a=100)
    assert replica.apply(message(Transfer("a", "a", 60))).balance_cents == 100


def test_interest_is_rounded_down_to_the_cent():
    replica = bank(a=100_399)
    assert replica.apply(message(ApplyInterest("a"))).balance_cents == 100_399 + 250


@pytest.mark.parametrize("operation", [Withdraw("a", 101), Transfer("a", "b", 101)])
def test_what_would_make_a_balance_negative_is_refused_and_changes_nothing(operation: Operation):
    replica = bank(a=100, b=0)
    outcome = replica.apply(message(operation))
    assert (outcome.balance_cents, outcome.refusal) == (100, "100 cents are less than 101")
    assert replica.balances == {"a": 100, "b": 0}
    assert replica.refused == 1


@pytest.mark.parametrize(
    ("operation", "guarantee", "keys"),
    [
        (GetBalance("a"), "eventual", ("a",)),
        (Deposit("a", 1), "causal", ("a",)),
        (Withdraw("a", 1), "total", ("a",)),
        (Transfer("a", "b", 1), "total", ("a", "b")),
        (ApplyInterest("a"), "total", ("a",)),
    ],
)
def test_every_operation_has_its_guarantee_and_its_keys(operation: Operation, guarantee: str, keys: tuple[str, ...]):
    assert (guarantee_of(operation), keys_of(operation)) == (guarantee, keys)


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        (Message("t", b"\xff{", "x", 1, Guarantee.TOTAL, ("a",)), "the payload is no operation of this bank"),
        (Message("t", b'{"operation":"rob","account":"a"}', "x", 1, Guarantee.TOTAL, ("a",)), "no operation"),
        (Message("t", encode(Deposit("a", 1)), "x", 1, Guarantee.FIFO, ("a",)), "published as fifo, which is weaker"),
        (Message("t", encode(Deposit("a", 1)), "x", 1, Guarantee.CAUSAL), "published without the key a"),
        (Message("t", encode(Transfer("a", "b", 1)), "x", 1, Guarantee.TOTAL, ("a",)), "published without the key b"),
        (message(Deposit("nobody", 1)), "there is no account nobody"),
        (Message("t", b'{"operation":"deposit","account":"a","cents":-5}', "x", 1, Guarantee.TOTAL, ("a",)), "no oper"),
        (
            Message("t", b'{"operation":"deposit","account":"a","cents":0.5}', "x", 1, Guarantee.TOTAL, ("a",)),
            "no oper",
        ),
    ],
)
def test_what_did_not_travel_as_it_must_is_refused(wrong: Message, refusal: str):
    replica = bank(a=100, b=100)
    assert refusal in replica.apply(wrong).refusal
    assert replica.balances == {"a": 100, "b": 100}


@given(st.binary(max_size=200))
def test_no_payload_makes_a_replica_fail(payload: bytes):
    replica = bank(a=100)
    replica.apply(Message("t", payload, "x", 1, Guarantee.TOTAL, ("a",)))
    assert replica.applied == 1


def test_a_bank_without_accounts_is_refused():
    with pytest.raises(LocalMisuse):
        Bank([])


def legal_reordering(messages: list[Message], chance: Random) -> list[Message]:
    """Another order that the guarantees allow: only neighbours that share no key with a total one may change places."""
    order = list(messages)
    for _ in range(4 * len(order)):
        at = chance.randrange(len(order) - 1)
        first, second = order[at], order[at + 1]
        one_is_total = Guarantee.TOTAL in (first.guarantee, second.guarantee)
        if not (one_is_total and set(first.keys) & set(second.keys)):
            order[at : at + 2] = [second, first]
    return order


@given(st.integers(0, 2**32))
def test_replicas_end_equal_in_every_order_that_the_guarantees_allow(seed: int):
    chance = Random(seed)
    accounts = account_numbers(4)
    messages = [message(operation, seq) for seq, operation in enumerate(workload(chance, accounts, 40), 1)]
    one, other = Bank(accounts), Bank(accounts)
    one_outcomes = {sent.seq: one.apply(sent) for sent in messages}
    other_outcomes = {sent.seq: other.apply(sent) for sent in legal_reordering(messages, chance)}
    assert one.balances == other.balances
    assert one.digest() == other.digest()
    for sent in messages:
        if sent.guarantee is Guarantee.TOTAL and sent.keys:
            assert one_outcomes[sent.seq].refused == other_outcomes[sent.seq].refused


def test_an_order_that_the_guarantees_forbid_can_make_replicas_differ():
    withdrawal, deposit = message(Withdraw("a", 150)), message(Deposit("a", 100), seq=2)
    one, other = bank(a=100), bank(a=100)
    for sent in (withdrawal, deposit):
        one.apply(sent)
    for sent in (deposit, withdrawal):
        other.apply(sent)
    assert one.digest() != other.digest()


def test_a_workload_has_exactly_its_shares_and_comes_again_with_its_seed():
    operations = list(workload(Random(7), account_numbers(), 500))
    ranks = [guarantee_of(operation) for operation in operations]
    shares = (ranks.count(Guarantee.EVENTUAL), ranks.count(Guarantee.CAUSAL), ranks.count(Guarantee.TOTAL))
    assert shares == tuple(int(500 * share) for share in MIX)
    assert operations == list(workload(Random(7), account_numbers(), 500))
    assert operations != list(workload(Random(8), account_numbers(), 500))


@pytest.mark.parametrize("operations", [0, 1, 2, 3, 7])
def test_a_small_workload_has_as_many_operations_as_asked_for(operations: int):
    assert len(list(workload(Random(1), account_numbers(1), operations))) == operations
