"""How a session ended, as the error that everybody gets who still wanted something from it."""

from holdfast.client.errors import ClientClosed, NameTaken, SessionLost
from holdfast.model.errors import Refused
from holdfast.model.identities import name_of
from holdfast.protocols.clients import ClientNode


class Outdated(Refused):
    """Raised when a session may not begin because one that is known there is `later`, by the clock that drew it."""

    def __init__(self, sentence: str, later: str) -> None:
        super().__init__(sentence)
        self.later = later


class Sited(Refused):
    """Raised when the broker is one of several of a site, with all of which a client has sessions."""


def closed(machine: ClientNode) -> ClientClosed:
    return ClientClosed(f"client {name_of(machine.name)} is closed: connect again")


def refused(machine: ClientNode, where: str, reason: str) -> Refused:
    """No broker has let it in."""
    sentence = f"{where} does not take {name_of(machine.name)} in: {reason}"
    if machine.at_a_site:
        return Sited(sentence)
    return Outdated(sentence, machine.taken_by) if machine.taken_by else Refused(sentence)


def lost(machine: ClientNode, how: str, renewable: bool = False) -> SessionLost:
    """It had a session, which ended without its doing; `renewable`: it could have come back by itself."""
    doubt = f"; its publications after #{machine.accepted_seq} may or may not have happened"
    kind = NameTaken if machine.taken_by else SessionLost
    advice = "; connect again, or use `reconnect`, by which a client comes back by itself"
    return kind(
        f"client {name_of(machine.name)} {how}{doubt if in_doubt(machine) else ''}"
        f"{advice if renewable and kind is SessionLost else ''}"
    )


def lost_for_now(machine: ClientNode, how: str, known: int = 0) -> SessionLost:
    """The same for a session that another one will follow: what has never left is carried over, and is in no doubt."""
    never_sent = machine.never_sent()
    first, last = max(machine.accepted_seq, known) + 1, (never_sent[0].first if never_sent else machine.next_seq) - 1
    numbers = f"#{first}" if first == last else f"#{first} to #{last}"
    doubt = f"; of its publications {numbers} may or may not have happened" if first <= last else ""
    return SessionLost(f"client {name_of(machine.name)} {how}{doubt}")


def in_doubt(machine: ClientNode) -> bool:
    """Whether it has published something of which it does not know that its broker has it."""
    return machine.next_seq - 1 > machine.accepted_seq
