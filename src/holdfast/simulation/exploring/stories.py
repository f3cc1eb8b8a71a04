"""Stories: the steps from the beginning of a world to what was found, as a text to read and as steps to play again.

A step is one line. `0>1#1` is the arrival of the next frame from 0 to 1 on their first connection; `lose 0>1#1` the
loss of all that is left there; `dial c0>1` an attempt to connect; `command c0` the next command of that application;
`timer 1 acks` a timer, when nothing else can happen, and `early timer 1 acks` one that fires before; `crash 1`,
`return 1`, `reset 0 1`, `freeze 1` and `cut 0 1` are faults, and `thaw 1` and `heal 0 1` the end of two of them.
"""

import re
from collections.abc import Iterable, Iterator

from holdfast.model.errors import ConfigError
from holdfast.model.messages import Data
from holdfast.model.trace import Event
from holdfast.simulation.exploring.judging import Judge, events_of
from holdfast.simulation.exploring.machines import Broken
from holdfast.simulation.exploring.plans import Plan, plan_of, staged
from holdfast.simulation.exploring.search import moves_of
from holdfast.simulation.exploring.worlds import (
    IDLE,
    Commanded,
    Crashed,
    Delivered,
    Frozen,
    Healed,
    Knocked,
    Lost,
    Move,
    Parted,
    Rang,
    Reset,
    Returned,
    Stage,
    Thawed,
    Wire,
    World,
)
from holdfast.simulation.faults import Publish
from holdfast.simulation.scenarios import Scenario

_WIRE = re.compile(r"(?P<sender>[^>#\s]+)>(?P<receiver>[^>#\s]+)#(?P<number>\d+)\Z")
_DIAL = re.compile(r"dial (?P<host>[^>\s]+)>(?P<peer>\S+?)(?: at (?P<address>\S+))?\Z")
LEGAL = "0>1#1, lose 0>1#1, dial c0>1, command c0, timer 1 acks, early timer 1 acks, crash 1, return 1, reset 0 1, "
LEGAL += "freeze 1, thaw 1, cut 0 1, heal 0 1"


# ------------------------------------------------------------------------------------------------------------- steps


_ABOUT_ONE: dict[str, type[Commanded | Crashed | Returned | Frozen | Thawed]] = {
    "command": Commanded,
    "crash": Crashed,
    "return": Returned,
    "freeze": Frozen,
    "thaw": Thawed,
}
_ABOUT_TWO: dict[str, type[Reset | Parted | Healed]] = {"reset": Reset, "cut": Parted, "heal": Healed}
_WORDS: dict[type, str] = {kind: word for word, kind in (*_ABOUT_ONE.items(), *_ABOUT_TWO.items())}


def step_text(move: Move) -> str:
    """The line that stands for a step."""
    match move:
        case Delivered(wire):
            return _wire_text(wire)
        case Lost(wire):
            return f"lose {_wire_text(wire)}"
        case Knocked(host, peer, address):
            return f"dial {host}>{peer}" + (f" at {address}" if address else "")
        case Commanded(host):
            return f"{_WORDS[Commanded]} {host}"
        case Rang(host, name, _, early):
            return f"{'early ' if early else ''}timer {host} {name}"
        case Crashed(host) | Returned(host) | Frozen(host) | Thawed(host):
            return f"{_WORDS[type(move)]} {host}"
        case Reset(host, peer) | Parted(host, peer) | Healed(host, peer):
            return f"{_WORDS[type(move)]} {host} {peer}"


def _wire_text(wire: Wire) -> str:
    sender, receiver, number = wire
    return f"{sender}>{receiver}#{number}"


def read_step(stage: Stage, world: World, text: str) -> Move:
    """The step that a line stands for, in that world; it must be one that can be taken there."""
    move = _parsed(stage, world, text)
    possible = moves_of(stage, world)
    if move not in possible:
        could = ", ".join(step_text(one) for one in possible[:20]) or "nothing"
        raise ConfigError(f"steps: {text!r} cannot happen there; possible are {could}.")
    return move


def _parsed(stage: Stage, world: World, text: str) -> Move:
    word, _, rest = text.partition(" ")
    if found := _WIRE.match(text if word != "lose" else rest):
        wire = (found["sender"], found["receiver"], int(found["number"]))
        return Lost(wire) if word == "lose" else Delivered(wire)
    if dial := _DIAL.match(text):
        return Knocked(dial["host"], dial["peer"], dial["address"] or "")
    if text.startswith(("timer ", "early timer ")):
        return _timer(stage, world, text)
    words = rest.split()
    if word in _ABOUT_TWO and len(words) == 2:
        return _ABOUT_TWO[word](words[0], words[1])
    if word in _ABOUT_ONE and len(words) == 1:
        return _ABOUT_ONE[word](words[0])
    raise ConfigError(f"steps: {text!r} is no step; write one like {LEGAL}.")


def _timer(stage: Stage, world: World, text: str) -> Rang:
    early = text.startswith("early ")
    host, _, name = text.removeprefix("early ").removeprefix("timer ").partition(" ")
    state = stage.state(world, host) if host in stage.machines else None
    due = [due for due, timer in state.timers if timer == name] if state is not None else []
    if not due:
        raise ConfigError(f"steps: {text!r}: {host} has no timer {name!r} there.")
    return Rang(host, name, due[0], early)


# ------------------------------------------------------------------------------------------------------------- words


def told(plan: Plan, stage: Stage, root: World, story: Iterable[Move]) -> Iterator[str]:
    """The story in words, a line a step; what nobody needs to read (heartbeats, acknowledgements) is left out."""
    world = root
    for move in story:
        line = _sentence(plan, stage, world, move)
        if line:
            yield line
        try:
            world, _ = stage.after(world, move)
        except Broken as broken:
            yield f"and then {broken}"
            return


def _sentence(plan: Plan, stage: Stage, world: World, move: Move) -> str:
    match move:
        case Delivered((sender, receiver, _) as wire):
            if isinstance(stage.frame(world, wire), IDLE):
                return ""
            return f"{receiver} gets {_frame_words(stage, world, wire)} from {sender}"
        case Lost((sender, receiver, _)):
            return f"what was under way from {sender} to {receiver} is lost"
        case Knocked(host, peer, _):
            return f"{host} connects to {peer}"
        case Commanded(host):
            script = next(script for name, script in plan.scripts.items() if name.partition("@")[0] == host)
            return f"{host} {_command_words(script[world.asked[stage.places[host]]])}"
        case Rang(host, name, due_s, _):
            return f"the timer {name!r} of {host} fires, at {due_s:g} s"
        case Reset(host, peer) | Parted(host, peer) | Healed(host, peer):
            return _ABOUT_LINKS[type(move)].format(host, peer)
        case Crashed(host) | Returned(host) | Frozen(host) | Thawed(host):
            return f"{host} {_ABOUT_BROKERS[type(move)]}"


_ABOUT_BROKERS: dict[type, str] = {
    Crashed: "crashes",
    Returned: "comes back",
    Frozen: "freezes",
    Thawed: "goes on",
}
_ABOUT_LINKS: dict[type, str] = {
    Reset: "the connection between {} and {} breaks",
    Parted: "nothing passes between {} and {} any more",
    Healed: "{} and {} reach each other again",
}


def _command_words(command: object) -> str:
    if isinstance(command, Publish):
        return f"publishes {command.payload.decode(errors='replace')!r} on {command.topic!r} ({command.guarantee})"
    return f"{type(command).__name__.lower()}s {'from ' * (type(command).__name__ == 'Unsubscribe')}{command.pattern!r}"  # type: ignore[attr-defined]


def _frame_words(stage: Stage, world: World, wire: Wire) -> str:
    frame = stage.frame(world, wire)
    if frame is None:
        return "the end of the connection"
    message = frame.message if isinstance(frame, Data) else frame
    batch = getattr(message, "batch", None)
    about = f" {batch.publisher}#{batch.first}" if batch is not None else ""
    return f"{type(message).__name__}{about}"


# ------------------------------------------------------------------------------------------------------------ playing


class Played:
    """What became of a story that was played again."""

    def __init__(self, events: list[Event], complaint: str, steps: int) -> None:
        self.events, self.complaint, self.steps = events, complaint, steps


def play(scenario: Scenario, protocol: str | None = None) -> Played:
    """Take the steps of a scenario, one after the other.

    With another protocol some of them do not exist: those are left out, and what is left at the end happens, too.
    """
    stage, world = staged(plan_of(scenario, protocol))
    other = protocol not in (None, scenario.protocol)
    taken = 0
    try:
        for text in scenario.steps:
            if other and _parsed(stage, world, text) not in moves_of(stage, world):
                continue
            world, _ = stage.after(world, read_step(stage, world, text))
            taken += 1
        while other and (left := [move for move in moves_of(stage, world) if isinstance(move, Delivered | Commanded)]):
            world, _ = stage.after(world, left[0])
            taken += 1
    except Broken as broken:
        return Played(events_of(stage, world), str(broken), taken)
    judge = Judge()
    complaint = judge.complaint_so_far(stage, world) if moves_of(stage, world) else judge.complaint(stage, world)
    return Played(events_of(stage, world), complaint, taken)
