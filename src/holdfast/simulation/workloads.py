"""Random workloads: one number makes a tree, clients, subscriptions and publications that get in each other's way.

Every workload is a `Scenario`, so that one that goes wrong can be shrunk and written down. Keys are few and topics
overlap, so that messages conflict; publishers react to deliveries, so that causal chains form; every direction of
every link has its own speed, so that paths overtake each other.

Half of the workloads are dense in one way, since a broken rule that one kind hardly ever meets, another meets often:
`crowded` ones, where everybody wants the one topic that everybody publishes on, and `tangled` ones, where two topics
have the heart of the tree in common and each leaf publishes on the one that it is outside of.
"""

from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Literal, get_args

from msgspec import Struct

from holdfast.model.errors import ConfigError, HoldfastError
from holdfast.model.guarantees import GUARANTEES, TOTAL
from holdfast.protocols.registry import find_protocol
from holdfast.simulation.absences import AbsenceAuthor
from holdfast.simulation.applications import judged_rows
from holdfast.simulation.booting import boot_s
from holdfast.simulation.checkers.contents import alterations
from holdfast.simulation.checkers.honesty import complaints
from holdfast.simulation.checkers.names import judge_names
from holdfast.simulation.circumstances import network_of, session_of, suspect_s_of
from holdfast.simulation.delta_failures import DeltaFailures
from holdfast.simulation.failures import (
    BROKERS_MIN,
    DELTA,
    FLAP_S,
    FLAPPING,
    LATE_SPAN_S,
    MIDST,
    NAMES,
    PARTED,
    RETURNING_CLASSES,
    SILENCE_S,
    STORM_S,
    FailureAuthor,
    FailureClass,
    classes_for,
    problem_of,
)
from holdfast.simulation.faults import (
    Attach,
    Command,
    Confirm,
    Crash,
    Cut,
    Detach,
    Freeze,
    Heal,
    Join,
    Leave,
    NodeFault,
    Publish,
    React,
    Reset,
    Slow,
    Subscribe,
    Thaw,
    Unsubscribe,
    When,
)
from holdfast.simulation.flip_schedules import flipping, with_payloads
from holdfast.simulation.kernel import stream
from holdfast.simulation.namesakes import NamesakeAuthor, background_of
from holdfast.simulation.outcomes import Outcome
from holdfast.simulation.questions import OFTEN, questions
from holdfast.simulation.scenarios import ClientSettings, Scenario, Timed
from holdfast.simulation.site_failures import SiteFailureAuthor
from holdfast.simulation.sites import REPLICAS_USUALLY, Sites
from holdfast.simulation.trees import Parents, bushy_tree, print_tree, random_tree
from holdfast.simulation.world import QUIET_S, BrokerFactory, Simulation

BROKERS_MAX = 31
BROKERS_DENSE_MIN = 4
BROKERS_BUSHY = 14
"""Larger trees with a broker that has most of the others below it take too long to come up on the slowest networks."""
SITES_MAX = {1: 8, 3: 4, 5: 2}
"""By the brokers of a site."""
LONE_SITES = 0.15
"""How often a site has one broker, where that one does not die."""
CLIENTS_MAX = 10
LONE: tuple[FailureClass | None, ...] = (None, "freeze", "cut", "majority")
"""What a site of one broker survives, by waiting."""
LIMIT_S = 120.0
BEGIN_SOON_S = (0.2, 1.0, 2.0)
ABSENCES_TOO = 0.7
"""How often there are absences beside what else happens to trees that pass over whoever is absent."""
QUIET_HEALING_S = 3.0
"""Where silence means something, calm must have lasted longer than it."""
DONE_S = 25.0
"""So long after the last failure everything is done, where nobody returns."""
JOIN_S = 10.0
"""Long enough for the slowest of these networks: whoever is given up because of it would be one failure too many."""
JOIN_FLAPPING_S = 3.0
"""Where links flap, a repair must not last longer than the flapping; frames take half a silence at most there."""
TOPICS = ("a", "b", "a/x", "a/y", "b/x/z")
PATTERNS = (*TOPICS, "#", "+", "a/#", "a/+", "+/x", "b/+/z", "+/x/#")
FILTERS = (
    "",
    "",
    "",
    "n > 4",
    "n <= 6",
    "kind = 'r'",
    "kind in ('g', 'b') or n = 1",
    "not n > 7",
    "kind startswith 'r'",
)
KINDS = ("r", "g", "b", "rg")

Kind = Literal["mixed", "crowded", "tangled"]
FaultKind = Literal["reset", "cut", "freeze", "slow", "flip"]
FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)


class Trouble(Struct, frozen=True):
    """What goes wrong in a random run, beside the traffic."""

    faults: tuple[FaultKind, ...] = ()
    """What happens to links and connections."""
    failure: FailureClass | None = None
    """What happens to brokers, which then repair the tree."""
    tolerance: int = 0
    degree_max: int = 0
    """How many neighbours a broker keeps; children beyond that are moved, in the midst of it all."""
    totals: tuple[int, int] | None = None
    """Between which percentages the share of `total` among the messages of a run lies; as it comes, if nothing is said.
    It is no trouble at all, but it is drawn for each seed, too, and a replay needs it."""

    def check(self) -> None:
        """Refuse what a tolerance cannot promise to survive."""
        if self.failure is not None and (problem := problem_of(self.failure, self.tolerance, self.degree_max)):
            raise ConfigError(problem)

    def options(self) -> str:
        """The same on the command line."""
        words = [f" --fault {kind}" for kind in self.faults]
        if self.failure is not None:
            words.append(f" --faults {self.failure}")
        if self.tolerance:
            words.append(f" --tolerance {self.tolerance}")
        if self.degree_max:
            words.append(f" --degree-max {self.degree_max}")
        if self.totals is not None:
            words.append(f" --totals {self.totals[0]}..{self.totals[1]}")
        return "".join(words)


CALM = Trouble()


def replay_command(protocol: str, seed: int, trouble: Trouble = CALM) -> str:
    """The command line that repeats one random run."""
    options = trouble.options()
    return f"holdfast campaign --protocol {protocol} --seeds {seed}..{seed}{options}"


def run_one(seed: int, protocol: str = "ginger", trouble: Trouble = CALM, check_invariants: bool = False) -> Outcome:
    """Make the random run of that number and judge it."""
    scenario = random_scenario(seed, protocol, trouble)
    return judge(scenario, replay_command(protocol, seed, trouble), check_invariants)


def judge(
    scenario: Scenario, replay: str, check_invariants: bool = False, make: BrokerFactory | None = None
) -> Outcome:
    """Run a scenario to its end; whatever goes wrong is in the outcome."""
    sim = scenario.build(make, check_invariants=check_invariants, replay=replay)
    verdict, error = None, ""
    try:
        undone = _undone(sim, scenario.complete_s)
        sim.run_until_quiet(scenario.limit_s, _quiet_s(scenario))
        verdict = sim.check()
        clients = {name: sim.client(name) for name in sim.clients}
        rows, accepted = judged_rows(sim.events, clients), sim.accepted_by_lost_sessions()
        names = judge_names(sim.events, [one for client in clients.values() for one in client.session()])
        error = "; ".join([*sim.unrepaired(), *complaints(rows, accepted), *names, *alterations(sim.reports)])
        if scenario.gaps:
            # What is missing without a word is a complaint; a session that is lost has told its application.
            verdict = replace(verdict, lost=0)
        else:
            error = "; ".join([*undone, *sim.failures(), *([error] if error else [])])
    except (HoldfastError, AssertionError, LookupError, TypeError, ValueError, AttributeError) as broken:
        error = "\n".join([f"{type(broken).__name__}: {broken}", *getattr(broken, "__notes__", ())])
    return Outcome(
        seed=scenario.seed,
        protocol=scenario.protocol,
        verdict=verdict,
        error=error,
        replay=replay,
        messages=sum(isinstance(timed.command, Publish) for timed in scenario.timetable),
        brokers=len(sim.tree),
        events=sim.kernel.events,
        virtual_s=sim.now,
        wall_s=sim.wall_s,
    )


def _undone(sim: Simulation, complete_s: float) -> list[str]:
    """What nodes still wait for at the time by which everything has to be done."""
    if not complete_s:
        return []
    sim.run_for(complete_s)
    waiting = sim.network.waiting()
    return [f"{len(waiting)} still waited after {complete_s:g} s: {'; '.join(waiting[:5])}"] if waiting else []


def _quiet_s(scenario: Scenario) -> float:
    """How long nothing may happen before a run is over."""
    if not scenario.tolerance:
        return QUIET_S
    silence_s = scenario.session.silence_s
    return QUIET_HEALING_S if silence_s >= SILENCE_S else QUIET_HEALING_S * silence_s / SILENCE_S


# ------------------------------------------------------------------------------------------------------ making one


def random_scenario(
    seed: int,
    protocol: str = "ginger",
    trouble: Trouble = CALM,
    brokers_max: int = BROKERS_MAX,
) -> Scenario:
    """The scenario of that number."""
    if not find_protocol(protocol).sited:
        trouble.check()
    if trouble.failure is not None and trouble.failure not in classes_for(protocol):
        legal = ", ".join(classes_for(protocol)) or "none"
        raise ConfigError(f"failures of class {trouble.failure!r} are not for {protocol}; there are {legal}.")
    return _Author(seed, protocol, brokers_max, trouble).scenario()


class _Author:
    """Makes up one scenario. Every aspect has its own stream, so that a change to one leaves the others alone."""

    def __init__(self, seed: int, protocol: str, brokers_max: int, trouble: Trouble) -> None:
        self.seed, self.protocol, self.trouble = seed, protocol, trouble
        self.info = find_protocol(protocol)
        self.ranks = self.info.guarantees
        self.failure = trouble.failure
        if self.failure == NAMES:
            self.failure = background_of(protocol, trouble.tolerance, stream(seed, "background"))
        self.hasty = self.info.grows and self.failure is not None
        self.replicas = self._replicas() if self.info.sited else 1
        shape = stream(seed, "shape")
        if self.info.sited:
            brokers_max = min(brokers_max, SITES_MAX[self.replicas])
        kinds: tuple[Kind, ...] = ("mixed", "mixed", "crowded", "tangled")
        self.kind: Kind = shape.choice(kinds) if brokers_max >= BROKERS_DENSE_MIN else "mixed"
        plant = bushy_tree if trouble.degree_max else random_tree
        self.tree: Parents = plant(shape, self._brokers(shape, brokers_max))
        places = list(self.tree)
        if self.kind != "tangled":
            places = shape.choices(places, k=shape.randint(2, CLIENTS_MAX))
        self.clients = [f"c{number}@{place}" for number, place in enumerate(places)]
        self.topics = shape.sample(TOPICS, {"mixed": shape.randint(1, 3), "crowded": 1, "tangled": 2}[self.kind])
        self.keys = [f"k{n}" for n in range(shape.randint(1, {"mixed": 4, "crowded": 2, "tangled": 1}[self.kind]))]
        self.span_s = shape.choice((0.02, 0.1, 0.3, 1.0 if self.kind == "mixed" else 0.05))
        self.begin_s = shape.choice((0.0, 0.5, 2.0)) if self.kind == "mixed" else 2.0
        self.weights = [shape.choice((0, 1, 1, 3)) for _ in self.ranks]
        if self.kind != "mixed" or not any(self.weights):
            self.weights = [shape.choice((1, 3)) for _ in self.ranks]
        self.share = self._share()
        if self.hasty:
            # Everybody serves from the beginning, and what is not there yet may be absent.
            self.begin_s = shape.choice(BEGIN_SOON_S)
        elif self.info.sited:
            self.begin_s = shape.choice((1.0, 2.0))
        elif trouble.tolerance:
            # Only what has joined is repaired, and the deepest trees take a while to come up.
            self.begin_s = boot_s(
                self.tree, network_of(seed, self.hasty).bytes_per_s is not None, trouble.degree_max > 0
            )
        if self.failure == "storm" and not self.info.sited:
            self.span_s = STORM_S
        if self.failure in FLAPPING:
            self.span_s = FLAP_S
        if self.failure == "late":
            self.span_s = LATE_SPAN_S
        if self.failure in RETURNING_CLASSES or self.hasty:
            self.span_s = shape.choice((0.1, 1.0, 2.5 if self.hasty else 4.0))
        self.entries: list[Timed] = []

    def _replicas(self) -> int:
        """Brokers of a site: mostly three, sometimes five, or one where nobody is to die."""
        if self.failure in LONE and stream(self.seed, "single").random() < LONE_SITES:
            return 1
        return stream(self.seed, "sites").choice((3, 3, 3, 5))

    def _share(self) -> float | None:
        """How many of the messages are total ones, where it is asked for: then the other guarantees share the rest."""
        if self.trouble.totals is None or TOTAL not in self.ranks:
            return None
        least, most = self.trouble.totals
        return stream(self.seed, "totals").uniform(least, most) / 100

    def _brokers(self, shape: Random, brokers_max: int) -> int:
        # Most trees are small, where messages meet most often, but every size comes up.
        least, most = {"mixed": (1, brokers_max), "crowded": (3, brokers_max), "tangled": (BROKERS_DENSE_MIN, 9)}[
            self.kind
        ]
        if self.trouble.degree_max:
            # Nobody is moved where there are not more neighbours than a broker keeps.
            least, most = max(least, self.trouble.degree_max + 2), max(BROKERS_BUSHY, self.trouble.degree_max + 2)
        if self.trouble.failure is not None:
            least = max(least, 1 if self.info.sited else BROKERS_MIN.get(self.failure or NAMES, 3))
        return min(least + int((most + 1 - least) * shape.random() ** (3 if self.hasty else 2)), brokers_max)

    def scenario(self) -> Scenario:
        if self.kind == "tangled":
            self._tangle()
        else:
            self._subscriptions()
            self._publications()
        if self.failure in OFTEN:
            self.entries += questions(stream(self.seed, "questions"), self.entries)
        self._failures()
        self._comings_and_goings()
        self._faults(self.trouble.faults)
        if self.trouble.failure == NAMES:
            self._namesakes()
        if "flip" in self.trouble.faults:
            self.entries = list(with_payloads(stream(self.seed, "payloads"), self.entries))
        timetable = tuple(sorted(self.entries, key=lambda timed: timed.time_s))
        return Scenario(
            tree=print_tree(self.tree),
            name=f"random {self.seed}",
            protocol=self.protocol,
            seed=self.seed,
            # Whoever comes and goes again and again in a storm does so for minutes.
            limit_s=max(LIMIT_S, timetable[-1].time_s + LIMIT_S / 2) if timetable else LIMIT_S,
            tolerance=0 if self.info.sited else self.trouble.tolerance,
            majority=self.failure in PARTED,
            gaps=self.failure in FLAPPING,
            complete_s=self._complete_s(),
            # Where a broker and its clients die for good, whoever comes back begins anew.
            durable=self.failure in ("recover", *FLAPPING) and not (self.info.shares_fate or self.info.sited),
            join_s=self._join_s(),
            suspect_s=suspect_s_of(self.seed, self.failure, self.hasty, self.info.shares_fate),
            degree_max=self.trouble.degree_max,
            replicas=self.replicas if self.info.sited else REPLICAS_USUALLY,
            routing=stream(self.seed, "routing").choice(("flooding", "filtering")) if self.info.sited else "filtering",
            move_pause_s=self._move_pause_s() if self.trouble.degree_max else None,
            network=network_of(self.seed, self.hasty, self.failure),
            session=session_of(self.seed, self.failure, self.hasty),
            clients=self._consumers(),
            timetable=timetable,
        )

    def _complete_s(self) -> float:
        """Where nobody returns, everything is done long before somebody does, and before clients lose patience."""
        if self.failure != "stay":
            return 0.0
        lost_s = [timed.time_s for timed in self.entries if isinstance(timed.command, Crash)]
        return max(lost_s, default=0.0) + DONE_S

    def _join_s(self) -> float | None:
        if not self.trouble.tolerance:
            return None
        return JOIN_FLAPPING_S if self.failure in FLAPPING else JOIN_S

    def _add(self, time_s: float, command: Command) -> None:
        self.entries.append(Timed(round(time_s, 6), command))

    def _moment(self, chance: Random) -> float:
        return self.begin_s + chance.random() * self.span_s

    def _move_pause_s(self) -> float:
        """The tree takes its shape when it comes up, or when the traffic begins, or in the midst of that."""
        latest_s = self.begin_s + self.span_s
        return stream(self.seed, "moves").choice((0.05, self.begin_s - 1.0, self.begin_s, latest_s))

    def _consumers(self) -> tuple[ClientSettings, ...]:
        chance = stream(self.seed, "consumers")
        return tuple(
            ClientSettings(client, chance.choice((1.0, 5.0))) for client in self.clients if chance.random() < 0.15
        )

    def _subscriptions(self) -> None:
        chance = stream(self.seed, "subscriptions")
        for client in self.clients:
            if self.kind == "crowded" and chance.random() < 0.85:
                self._add(0.0, Subscribe(client, self.topics[0]))
                continue
            for _ in range(chance.choice((0, 1, 1, 2, 3))):
                self._subscription(client, chance)

    def _subscription(self, client: str, chance: Random) -> None:
        pattern, where = chance.choice((*self.topics, *PATTERNS)), chance.choice(FILTERS)
        time_s = 0.0 if chance.random() < 0.7 else self._moment(chance)
        self._add(time_s, Subscribe(client, pattern, where))
        while chance.random() < 0.25:
            time_s += chance.random() * self.span_s
            self._add(time_s, Unsubscribe(client, pattern, where))
            if chance.random() < 0.5:
                return
            time_s += chance.random() * self.span_s
            self._add(time_s, Subscribe(client, pattern, where))

    def _publications(self) -> None:
        chance = stream(self.seed, "publications")
        publishers = chance.sample(self.clients, chance.randint(1, len(self.clients)))
        left = chance.randint(5, chance.choice((20, 80, 150)))
        while left > 0:
            client, time_s = chance.choice(publishers), self._moment(chance)
            burst = [self._publication(client, chance) for _ in range(min(left, chance.choice((1, 1, 1, 2, 5))))]
            left -= len(burst)
            for publication in burst:
                self._add(time_s, publication)
            if chance.random() < 0.05:
                self._add(time_s, Confirm(client, burst[-1].topic))
        for client in self.clients:
            if chance.random() < 0.3:
                self._add(0.0, self._reaction(client, chance))

    def _publication(self, client: str, chance: Random) -> Publish:
        guarantee, keys, attributes = self._kind(chance)
        return Publish(client, chance.choice(self.topics), b"", guarantee, keys, attributes)

    def _kind(self, chance: Random) -> tuple[str, tuple[str, ...], dict[str, str | int | float | bool]]:
        [rank] = chance.choices(self.ranks, self.weights)
        if self.share is not None:
            others = [weight if rank != TOTAL else 0 for rank, weight in zip(self.ranks, self.weights, strict=True)]
            weaker = chance.choices(self.ranks, others)[0] if any(others) else rank
            rank = TOTAL if chance.random() < self.share else weaker
        count = min(chance.choice((0, 1, 1, 1, 2, 3)), len(self.keys))
        attributes: dict[str, str | int | float | bool] = {}
        if chance.random() < 0.7:
            attributes = {"n": chance.randint(0, 9), "kind": chance.choice(KINDS)}
        return GUARANTEES[rank].value, tuple(chance.sample(self.keys, count)), attributes

    def _reaction(self, client: str, chance: Random) -> React:
        guarantee, keys, attributes = self._kind(chance)
        return React(
            client,
            chance.choice((*self.topics, "#")),
            chance.choice(self.topics),
            b"",
            guarantee,
            keys,
            attributes,
            times=chance.randint(1, 6),
            after_s=chance.choice((0.0, 0.0, 0.01)),
        )

    def _tangle(self) -> None:
        chance = stream(self.seed, "tangle")
        inner = {parent for parent in self.tree.values() if parent is not None}
        heart = [client for client in self.clients if client.partition("@")[2] in inner]
        fringe = {client: chance.choice(self.topics) for client in self.clients if client not in heart}
        for client in self.clients:
            for topic in (fringe[client],) if client in fringe else self.topics:
                self._add(0.0, Subscribe(client, topic))
        # A publisher waits for its own total messages, so those at the fringe, who are to wait for others', have none.
        weaker = [GUARANTEES[rank].value for rank in self.ranks if rank != TOTAL] or ["total"]
        strongest = GUARANTEES[max(self.ranks)].value
        for _ in range(chance.randint(30, 100)):
            if chance.random() < 0.5 if self.share is None else chance.random() >= self.share:
                client, wanted = chance.choice(list(fringe.items()))
                topic = next(topic for topic in self.topics if topic != wanted)
                message = Publish(client, topic, b"", chance.choice(weaker), tuple(self.keys))
            else:
                message = Publish(chance.choice(heart), chance.choice(self.topics), b"", strongest, tuple(self.keys))
            self._add(self._moment(chance), message)

    def _comings_and_goings(self) -> None:
        """Somebody comes late, publishes and subscribes; somebody who takes all subscriptions back leaves, for good."""
        chance = stream(self.seed, "comings and goings")
        if chance.random() < 0.3:
            late = f"late@{chance.choice(self._lasting() or self._staying())}"
            time_s = self._moment(chance)
            self._add(time_s, Attach(late))
            self._add(time_s, Subscribe(late, chance.choice(self.topics)))
            self._add(time_s + self.span_s / 2, self._publication(late, chance))
        if chance.random() < 0.3:
            brief = f"brief@{chance.choice(self._staying())}"
            pattern = chance.choice(self.topics)
            self._add(0.0, Subscribe(brief, pattern))
            for _ in range(chance.randint(1, 4)):
                self._add(self._moment(chance), self._publication(brief, chance))
            end_s = self.begin_s + self.span_s
            self._add(end_s, Unsubscribe(brief, pattern))
            self._add(end_s + chance.choice((0.0, 0.05)), Detach(brief))

    def _namesakes(self) -> None:
        chance, places = stream(self.seed, "namesakes"), self._lasting() or self._staying()
        for one in NamesakeAuthor(chance, places, self.topics, self.ranks, self.begin_s, self.span_s).entries():
            self._add(*one)

    def _lasting(self) -> list[str]:
        """Brokers that nothing befalls: whoever knows one address alone cannot come by another."""
        struck = {timed.command.node for timed in self.entries if isinstance(timed.command, NodeFault | When)}
        return [name for name in self.tree if name not in struck]

    def _staying(self) -> list[str]:
        """Brokers that do not leave for good."""
        leaving = {timed.command.node for timed in self.entries if isinstance(timed.command, Leave)}
        return [name for name in self.tree if name not in leaving]

    # ------------------------------------------------------------------------------------------------------- faults

    def _absences(self, tree: Parents) -> None:
        chance, trouble = stream(self.seed, "absences"), self.trouble
        absences = AbsenceAuthor(
            chance, tree, trouble.tolerance, self.begin_s, self.span_s, crashes=self.failure != "away"
        )
        for time_s, command in absences.entries():
            self._add(max(0.0, time_s), command)

    def _failures(self) -> None:
        failure = self.failure
        if failure is not None and self.info.sited:
            self.entries += self._site_failures().entries(failure)
        elif failure in RETURNING_CLASSES:
            self._absences(self.tree)
        elif failure in DELTA:
            chance = stream(self.seed, f"failures {failure}")
            where = (self.tree, self.clients, self.topics, self.trouble.tolerance, self.begin_s, self.span_s)
            for time_s, command in DeltaFailures(chance, *where).entries(failure):
                self._add(time_s, command)
        elif failure is not None:
            chance = stream(self.seed, f"failures {failure}")
            guarantees = tuple(GUARANTEES[rank] for rank in self.ranks)
            midst = self.info.says or MIDST
            place = (self.tree, self.clients, self.topics, self.begin_s, self.span_s)
            self.entries += FailureAuthor(chance, *place, guarantees, midst, self.info.grows).entries(failure)
            if self.hasty and chance.random() < ABSENCES_TOO:
                self._absences(self._tree_in_the_end())

    def _site_failures(self) -> SiteFailureAuthor:
        chance, sites = stream(self.seed, f"failures {self.failure}"), Sites(self.tree, self.replicas)
        return SiteFailureAuthor(chance, sites, self.clients, self.begin_s, self.span_s, self.info.says)

    def _tree_in_the_end(self) -> Parents:
        """With those who come to stay, and without those who leave."""
        joins = [timed.command for timed in self.entries if isinstance(timed.command, Join)]
        leaving = {timed.command.node for timed in self.entries if isinstance(timed.command, Leave)}
        tree = {**self.tree, **{join.node: join.parent for join in joins}}
        return {name: parent for name, parent in tree.items() if name not in leaving}

    def _faults(self, kinds: tuple[FaultKind, ...]) -> None:
        if not kinds:
            return
        chance = stream(self.seed, "faults")
        pairs = [(parent, name) for name, parent in self.tree.items() if parent is not None]
        if find_protocol(self.protocol).meshed:
            pairs = list(combinations(self.tree, 2))
        pairs += [(client.partition("@")[2], client) for client in self.clients]
        if self.info.sited:
            pairs = self._site_failures().pairs()
        for _ in range(chance.randint(1, 6)):
            one, other = chance.choice(pairs)
            time_s = self._moment(chance)
            self._fault(chance.choice(kinds), one, other, time_s, chance)

    def _fault(self, kind: FaultKind, one: str, other: str, time_s: float, chance: Random) -> None:
        lasting_s = chance.choice((0.05, 0.5, 3.0, 15.0 if kind == "cut" else 3.0))
        if kind == "reset":
            self._add(time_s, Reset(one, other))
        elif kind == "cut":
            self._add(time_s, Cut(one, other))
            self._add(time_s + lasting_s, Heal(one, other))
        elif kind == "freeze":
            self._add(time_s, Freeze(other))
            self._add(time_s + lasting_s, Thaw(other))
        elif kind == "flip":
            self.entries += flipping(chance, one, other, time_s, lasting_s)
        else:
            self._add(time_s, Slow(one, other, chance.choice((5.0, 30.0)), 1.0))
            self._add(time_s + lasting_s, Slow(one, other, 1.0))
