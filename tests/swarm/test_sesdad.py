"""Random worlds of sites, with every class of failures; intruders among their brokers end no node.

`holdfast campaign --protocol sesdad --faults all` makes more.
"""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import pytest

from holdfast.model.messages import Data, Frame, Hello
from holdfast.model.site_messages import Change
from holdfast.model.wire import FrameReader, WireError, encode
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.registry import find_protocol
from holdfast.protocols.sesdad import SesdadBroker, SiteClient
from holdfast.protocols.sesdad.announcements import Announcements
from holdfast.protocols.sesdad.desk import Desk
from holdfast.protocols.sesdad.peers import Peers
from holdfast.protocols.sesdad.routes import Routes
from holdfast.protocols.sesdad.streams import Stream, Unit
from holdfast.simulation.failures import FailureClass, classes_for
from holdfast.simulation.workloads import FAULT_KINDS, Trouble, run_one
from tests.support.forgeries import ALL_MESSAGES, Forger
from tests.swarm.seeds import FIRST, RUNS

SEEDS = range(FIRST, FIRST + max(2, RUNS // 400))
SITES = (("a", ("a.1", "a.2", "a.3")), ("b", ("b.1",)))


@pytest.mark.parametrize("failure", [one for one in classes_for("sesdad") if one != "names"])
def test_sites_keep_their_promises_whatever_befalls_f_of_their_brokers(failure: FailureClass):
    for seed in SEEDS:
        outcome = run_one(seed, "sesdad", Trouble((), failure))
        assert outcome.ok, outcome


FOUND: tuple[tuple[int, FailureClass], ...] = (
    (800271, "majority"),  # A state of an epoch that is over was put in force by two brokers of three.
    (900523, "names"),  # A broker that had begun anew vouched for what its earlier life had promised to wait with.
    (901179, "names"),  # A publisher was told a beginning that was not the one in force.
    (910256, "storm"),  # A broker yielded to an epoch that it had heard of before, and did not tell its later state.
    (901392, "majority"),  # What was kept for a client that had gone came back with another broker's state.
    (910056, "crash"),  # The site began without a broker that had not heard from one that died; that waited for two.
    (950015, "designated"),  # What an earlier designated broker had announced was taken for the word of a later one.
    (950017, "crash"),  # No run: brokers that dial a dead one were taken for traffic, and the run for one without rest.
    (970651, "majority"),  # Requests were repeated at every beat, and filled links that take 400 bytes at a time.
    (
        975042,
        "crash",
    ),  # A later request was carried out before an earlier one that nobody had heard; that counted as done.
    (910093, "names"),  # A broker that had answered without a memory had one by now, and nobody asked it.
)


@pytest.mark.parametrize(("seed", "failure"), FOUND)
def test_what_a_campaign_has_found_is_survived(seed: int, failure: FailureClass):
    outcome = run_one(seed, "sesdad", Trouble((), failure))
    assert outcome.ok, outcome


@pytest.mark.parametrize("failure", ["crash", "designated", "freeze", "storm"])
def test_sites_that_agree_on_every_message_keep_their_promises_too(failure: FailureClass):
    outcome = run_one(SEEDS[0] + 1, "sesdad-agreement", Trouble((), failure))
    assert outcome.ok, outcome


def test_sites_keep_their_promises_on_links_that_break():
    for seed in SEEDS:
        outcome = run_one(seed, "sesdad", Trouble(tuple(kind for kind in FAULT_KINDS if kind != "flip")))
        assert outcome.ok, outcome


def test_what_sites_survive_is_declared():
    assert set(find_protocol("sesdad").survives or ()) >= {"crash", "designated", "chosen", "recover", "freeze"}


class Rule(NamedTuple):
    """A rule that is left out: what stands in its place, and a run that shows it."""

    owner: type
    name: str
    instead: Callable[..., Any]
    failure: FailureClass
    seed: int


def goes_on_alone(stream: Stream, *_: object) -> Unit | None:
    """Process what no other broker may hold."""
    return stream.units.get(stream.next)


def counts_every_holder(stream: Stream, losses_max: int, *_: object) -> Unit | None:
    """Count those that have promised to wait for a later state, too."""
    unit = stream.units.get(stream.next)
    return unit if unit is not None and len(unit.holders) > losses_max else None


def takes_one_brokers_word(client: SiteClient) -> None:
    """Take for accepted, and forget, what a single broker has."""
    highest = max(client._marks.values(), default=0)
    client.accepted_seq = max(client.accepted_seq, min(highest, client.next_seq - 1))
    client._release(highest)
    client._leave_if_drained()


def keeps_its_choice(client: SiteClient, peer: str) -> None:
    """Choose nobody else in place of a broker that is lost."""
    client._marks.pop(peer, None)
    client._count_marks()
    if peer == client._broker and client._there():
        client._turn_to(client._picker.pick(client._there()))


def says_all_again(*_: object) -> bool:
    """Repeat requests also where the earlier ones have not left: links that take 400 bytes at a time never get free."""
    return False


def takes_requests_in_any_order(desk: Desk, relay: str, change: Change, _: int, routes: Routes, version: int) -> None:
    """Carry a later request out before an earlier one, which counts as done from then on."""
    ASK(desk, relay, change, 0, routes, version)


ASK = Desk.ask
LEFT_OUT = [
    Rule(Stream, "ready", goes_on_alone, "chosen", 5),
    Rule(Stream, "ready", counts_every_holder, "chosen", 5),
    Rule(SiteClient, "_count_marks", takes_one_brokers_word, "crash", 5),
    Rule(SiteClient, "_lost", keeps_its_choice, "chosen", 4),
    Rule(Desk, "ask", takes_requests_in_any_order, "crash", 975042),
    Rule(Peers, "is_jammed", says_all_again, "freeze", 970613),
]


@pytest.mark.parametrize("rule", LEFT_OUT, ids=lambda rule: rule.instead.__name__)
def test_a_node_without_a_rule_is_caught_by_a_random_run(rule: Rule, monkeypatch: pytest.MonkeyPatch):
    assert run_one(rule.seed, "sesdad", Trouble((), rule.failure)).ok
    monkeypatch.setattr(rule.owner, rule.name, rule.instead)
    assert not run_one(rule.seed, "sesdad", Trouble((), rule.failure)).ok


def test_a_table_that_a_yielding_broker_brings_is_announced(monkeypatch: pytest.MonkeyPatch):
    """Seed 980064, without any failure: a subscription was confirmed of which no other site had been told."""
    assert run_one(980064, "sesdad").ok
    monkeypatch.setattr(Announcements, "replaced", lambda _self, _table, _version: None)
    assert "silent losses" in run_one(980064, "sesdad").complaint()


def well_typed(frame: Data) -> Frame | None:
    """The frame as it would arrive; nothing if it does not keep to the wire."""
    try:
        [read] = FrameReader().feed(encode(frame))
    except (WireError, TypeError):
        return None
    return read


@pytest.mark.parametrize("intruder", ["a.2", "b.1", "mallory"])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_a_peer_says_ends_no_broker(intruder: str, seed: int):
    """Words of any kind, in any order, from a broker of the site, of another one, or a client."""
    chance = Random(seed)
    forger = Forger(chance, ["a.1", "a.2", "a.3", "b.1", "alice"], intruder)
    kind = "client" if intruder == "mallory" else "broker"
    node = SesdadBroker(BrokerConfig("a.1", site="a", sites=SITES, upper_site=""), 7)
    node.start(0.0)
    node.memories.answered = {"a.2": False, "a.3": False}
    node._serve_if_told()
    session, number, now = 0, 0, 0.0
    for _ in range(1500):
        now += 0.01
        if node.hub.links.get(intruder) is None or not node.hub.links[intruder].is_open or number % 97 == 96:
            session, number = session + 1, 0
            node.peer_down(intruder, now)
            node.receive(intruder, Hello(3, intruder, kind, "holdfast", session, False, 0, 1 << 20, True), now)  # type: ignore[arg-type]
        frame = well_typed(Data((number + 1) % 128, forger.message(ALL_MESSAGES)))
        if frame is None:
            continue
        number += 1
        node.receive(intruder, frame, now)
        for timer in ("marks", "hold-back", "notice", "behind"):
            node.timer(timer, now)
        node.settle(now)
        node.status()
        node.waiting_for()
