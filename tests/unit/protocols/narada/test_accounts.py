"""Accounts of readers that acknowledge each message: stored, and answered then; what comes late changes nothing."""

from holdfast.protocols.narada.dissemination import Dissemination
from holdfast.protocols.narada.events import ControlEvent, SubscriberAck, Sync, catenation, decode
from holdfast.protocols.narada.participant import Commit, Effects, Put, Say
from holdfast.protocols.narada.repository import Repository
from holdfast.protocols.narada.subscription import restored
from tests.support.reliable import publish, subscriber, world_of

STREAM = "orders"
READER = 9


def repository() -> tuple[Repository, Dissemination]:
    """One that has five messages of alice, and knows bob, who has had none."""
    world = world_of(1)
    alice = world.publisher("alice")
    world.subscriber("bob", subscriber("bob"))
    world.run(1.0)
    world.crash("bob")()
    publish(world, alice, 1, 5, 1.5)
    world.run(4.0)
    machine = world.repositories["r1"].machine
    return machine, machine.streams[STREAM].dissemination


def account(number: int, *acked: int, steering: str = "r1", waits: bool = True, partial: bool = False) -> SubscriberAck:
    """Bob has had all five, and acknowledged these."""
    cats = [catenation(1, one) for one in range(1, 6)]
    lacks = tuple(("alice", cat, cat) for at, cat in enumerate(cats, 1) if at not in acked)
    out = tuple((*one, 1) for one in lacks)
    told = {"account": number, "reached": (("alice", cats[-1]),), "lacks": lacks, "out": out}
    if partial:
        told |= {"reached": (), "lacks": ()}
    return SubscriberAck(STREAM, "bob", steering, 1, (), (), READER, **told, waits=waits, partial=partial)  # type: ignore[arg-type]


def said(effects: Effects) -> list[ControlEvent | None]:
    return [decode(effect.payload) for effect in effects if isinstance(effect, Say)]


def accounts_said(effects: Effects) -> list[int]:
    return [event.account for event in said(effects) if isinstance(event, Sync)]


def test_an_account_is_answered_when_it_is_stored_and_not_before():
    machine, table = repository()
    assert accounts_said(table.on_ack(account(1, 2, 4), lambda *_: None)) == [0]
    effects = machine.settle(10.0)
    [value] = [one.value for one in effects if isinstance(one, Put) and "subscriber" in one.key]
    [commit] = [one for one in effects if isinstance(one, Commit)]
    assert accounts_said(effects) == []
    # What is heard while it is being stored is not what was stored.
    table.on_ack(account(2, 2, 4, 5), lambda *_: None)
    assert accounts_said(machine.stored(commit.token, 10.0)) == [1]
    kept = restored("bob", value)
    assert kept.known(((), ())) == ((("alice", catenation(1, 5)),), account(1, 2, 4).lacks)
    assert kept.out == account(1, 2, 4).out


def test_an_account_that_comes_late_or_that_nobody_waits_for_is_not_stored_at_once():
    machine, table = repository()
    table.on_ack(account(2, 2, 4), lambda *_: None)
    [commit] = [one for one in machine.settle(10.0) if isinstance(one, Commit)]
    machine.stored(commit.token, 10.0)
    table.on_ack(account(1, 2, waits=False), lambda *_: None)
    assert table.subscriptions["bob"].account == 2
    table.on_ack(account(3, 2, 4, 5, waits=False), lambda *_: None)
    assert not any(isinstance(one, Commit) for one in machine.settle(10.1))
    assert table.subscriptions["bob"].account == 3


def test_an_account_that_is_too_much_to_tell_takes_nothing_away():
    _, table = repository()
    table.on_ack(account(1, 2, 4), lambda *_: None)
    table.on_ack(account(2, 2, 4, 5, partial=True), lambda *_: None)
    assert table.subscriptions["bob"].beyond[1] == account(1, 2, 4).lacks


def test_an_account_told_to_another_repository_takes_nothing_away_that_was_known_here():
    _, table = repository()
    table.on_ack(account(1, 2, 4), lambda *_: None)
    table.on_ack(SubscriberAck(STREAM, "bob", "r2", 1, (), (), READER, account=2), lambda *_: None)
    one = table.subscriptions["bob"]
    assert one.beyond == ((), ())
    assert one.known(((), ())) == ((("alice", catenation(1, 5)),), account(1, 2, 4).lacks)


def test_the_accounts_of_a_later_reader_begin_anew():
    _, table = repository()
    table.on_ack(account(7, 2, 4), lambda *_: None)
    later = SubscriberAck(STREAM, "bob", "r1", 1, (), (), READER + 1, account=1)
    table.on_ack(later, lambda *_: None)
    assert (table.subscriptions["bob"].account, table.subscriptions["bob"].reader) == (1, READER + 1)
