"""Small worlds to explore: which brokers, which clients, what their applications ask for, and which faults may come."""

from collections import Counter
from collections.abc import Callable
from itertools import combinations, cycle, islice

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.errors import ConfigError
from holdfast.model.guarantees import GUARANTEES
from holdfast.protocols.config import BrokerConfig, ClientConfig
from holdfast.protocols.moving import MovingClient
from holdfast.protocols.neighbourhoods import children_of, edges_around
from holdfast.protocols.node import BrokerNode, Node
from holdfast.protocols.registry import check_supported, find_protocol
from holdfast.protocols.sesdad import SiteClient
from holdfast.simulation.exploring.machines import Cast, ScriptCommand
from holdfast.simulation.exploring.mirrors import symmetries
from holdfast.simulation.exploring.worlds import Budget, Commanded, Rules, Stage, World
from holdfast.simulation.faults import Crash, Cut, Freeze, Heal, Publish, Recover, Reset, Subscribe, Thaw, Unsubscribe
from holdfast.simulation.scenarios import Scenario, Timed
from holdfast.simulation.sites import REPLICAS_USUALLY, Sites
from holdfast.simulation.trees import Parents, parse_tree

BOOT_STEPS_MAX = 100_000
BROKERS_MAX = 16
CLIENTS_MAX = 16
TOPICS = ("a", "b")
KEY = "k"
EXPLORED = ("publish", "subscribe", "unsubscribe", "crash", "recover", "reset", "freeze", "thaw", "cut", "heal")

BrokerFactory = Callable[[BrokerConfig, int], BrokerNode]
Script = tuple[ScriptCommand, ...]


class Plan(Struct, frozen=True):
    """One world, before it begins."""

    tree: str
    protocol: str = "ginger"
    tolerance: int = 0
    scripts: dict[str, Script] = {}
    """By client, `name@broker`: the commands of its application, each given when the requests before were answered."""
    budget: Budget = Budget()
    mortal: tuple[str, ...] = ()
    """Brokers that may crash, if there are crashes; none named: all of them."""
    freezable: tuple[str, ...] = ()
    """Brokers that may freeze, if there are freezes; none named: all of them."""
    cuttable: tuple[tuple[str, str], ...] = ()
    """Pairs of brokers that may be parted, if there are cuts; none named: all neighbours in the tree."""
    idle_frames: bool = False
    """Whether acknowledgements of links and heartbeats arrive in any order, too."""
    replicas: int = REPLICAS_USUALLY
    """With a protocol whose trees are trees of sites: how many brokers each has."""

    @property
    def sites(self) -> Sites | None:
        """The sites of the tree, if the protocol has sites."""
        return Sites(parse_tree(self.tree), self.replicas) if find_protocol(self.protocol).sited else None

    def scenario(self, steps: tuple[str, ...] = ()) -> Scenario:
        """The scenario that says the same, and which steps are taken in it."""
        timetable = [Timed(0.0, command) for script in self.scripts.values() for command in script]
        brokers = parse_tree(self.tree) if self.sites is None else self.sites.brokers()
        crashes = [Timed(0.0, Crash(name)) for name in islice(cycle(self.mortal or brokers), self.budget.crashes)]
        return Scenario(
            self.tree,
            protocol=self.protocol,
            tolerance=self.tolerance,
            replicas=self.replicas,
            timetable=(*timetable, *crashes),
            steps=steps,
        )


def small_plan(
    protocol: str,
    brokers: int,
    clients: int,
    messages: int,
    tolerance: int = 0,
    budget: Budget | None = None,
    replicas: int = REPLICAS_USUALLY,
) -> Plan:
    """A world of that size: brokers in a tree with two children each, clients from its leaves on, two topics, one key.

    With a protocol whose trees are trees of sites these are sites, each of so many `replicas`.

    Of three clients two subscribe to the first topic and one to the second. The messages are published by the clients
    in turn, with the guarantees of the protocol in turn, the strongest first, three on the first topic and three on the
    second; all have the same key, so that total messages and weaker ones are about the same thing.
    """
    _check_size(brokers, clients, messages)
    pairs = [f"{(number - 1) // 2}-{number}" for number in range(1, brokers)]
    homes = [str(number) for number in range(brokers - 1, -1, -1)]
    names = [f"c{number}@{home}" for number, home in enumerate(islice(cycle(homes), clients))]
    scripts: dict[str, list[ScriptCommand]] = {
        name: [Subscribe(name, TOPICS[number % 3 == 2])] for number, name in enumerate(names)
    }
    ranks = sorted(find_protocol(protocol).guarantees, reverse=True)
    for number, (name, rank) in enumerate(islice(zip(cycle(names), cycle(ranks), strict=False), messages)):
        topic, guarantee = TOPICS[number // 3 % 2], GUARANTEES[rank].value
        scripts[name].append(Publish(name, topic, f"m{number + 1}".encode(), guarantee, (KEY,)))
    told = {name: tuple(commands) for name, commands in scripts.items()}
    return Plan(" ".join(pairs) or "0", protocol, tolerance, told, budget or Budget(), replicas=replicas)


def _check_size(brokers: int, clients: int, messages: int) -> None:
    if not (1 <= brokers <= BROKERS_MAX and 1 <= clients <= CLIENTS_MAX and messages >= 0):
        raise ConfigError(
            f"an explored world has 1 to {BROKERS_MAX} brokers and 1 to {CLIENTS_MAX} clients, and is small: "
            f"{brokers} brokers, {clients} clients and {messages} messages cannot be."
        )


def plan_of(scenario: Scenario, protocol: str | None = None) -> Plan:
    """The world of a scenario, in which nothing has a time: its commands and faults may come whenever they may."""
    scripts: dict[str, list[ScriptCommand]] = {}
    crashes: list[str] = []
    freezable: list[str] = []
    cuttable: list[tuple[str, str]] = []
    returns = resets = 0
    for timed in scenario.timetable:
        command = timed.command
        if isinstance(command, Publish | Subscribe | Unsubscribe):
            scripts.setdefault(_address(command.client, scripts), []).append(command)
        elif isinstance(command, Crash):
            crashes.append(command.node)
        elif isinstance(command, Recover):
            returns += 1
        elif isinstance(command, Reset):
            resets += 1
        elif isinstance(command, Freeze):
            freezable.append(command.node)
        elif isinstance(command, Cut):
            cuttable.append((min(command.a, command.b), max(command.a, command.b)))
        elif not isinstance(command, Thaw | Heal):  # A freeze and a cut end in any case, at every moment.
            word = type(command).__struct_config__.tag
            raise ConfigError(f"explore knows {', '.join(EXPLORED)}; the scenario has {word!r}.")
    if scenario.loads:
        raise ConfigError("explore takes no [[load]]: every message of an explored world is written down.")
    told = {name: tuple(commands) for name, commands in scripts.items()}
    budget = Budget(len(crashes), returns, resets, freezes=len(freezable), cuts=len(cuttable))
    return Plan(
        scenario.tree,
        protocol or scenario.protocol,
        scenario.tolerance,
        told,
        _at_least(budget, scenario.steps),
        tuple(dict.fromkeys(crashes)),
        tuple(dict.fromkeys(freezable)),
        tuple(dict.fromkeys(cuttable)),
        replicas=scenario.replicas,
    )


def _at_least(budget: Budget, steps: tuple[str, ...]) -> Budget:
    """A budget that has all faults of these steps."""
    counts = Counter(step.partition(" ")[0] for step in steps)
    words = {"crash": "crashes", "return": "returns", "reset": "resets", "early": "early"}
    words |= {"freeze": "freezes", "cut": "cuts"}
    return replace(budget, **{field: max(getattr(budget, field), counts[word]) for word, field in words.items()})


def _address(client: str, known: dict[str, list[ScriptCommand]]) -> str:
    """The client with its broker: a timetable may say it once."""
    name = client.partition("@")[0]
    return next((one for one in known if one.partition("@")[0] == name), client)


# ----------------------------------------------------------------------------------------------------------- staging


def staged(plan: Plan, make: BrokerFactory | None = None, *, check_invariants: bool = True) -> tuple[Stage, World]:
    """The stage of a plan, and the world when everybody is connected and nobody has asked for anything."""
    parents = parse_tree(plan.tree) if plan.sites is None else plan.sites.brokers()
    casts = [_broker(plan, parents, name, make or find_protocol(plan.protocol).make) for name in parents]
    casts += [_client(plan, address, script, parents) for address, script in plan.scripts.items()]
    awaits = find_protocol(plan.protocol).awaits
    rules = Rules(plan.idle_frames, parents, plan.mortal or tuple(parents), *_holds(plan, parents), awaits)
    stage = Stage(tuple(casts), rules, check_invariants=check_invariants)
    if plan.sites is None:  # Brokers of a site have ranks: no two of them may exchange their names.
        stage.symmetries = symmetries(parents, plan.scripts)
    world = _booted(stage, stage.opening(plan.budget))
    return stage, replace(world, budget=plan.budget, busy_s=world.now, progress_s=world.now)


def _holds(plan: Plan, parents: Parents) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Which brokers may freeze, and which may be parted."""
    edges = tuple((min(one, parent), max(one, parent)) for one, parent in parents.items() if parent is not None)
    if plan.sites is not None:
        near = [(one, plan.sites.site_of(one)) for one in parents]
        above = plan.sites.parents
        edges = tuple(
            (min(one, other), max(one, other))
            for (one, site), (other, next_to) in combinations(near, 2)
            if site == next_to or above[site] == next_to or above[next_to] == site
        )
    freezable = (plan.freezable or tuple(parents)) if plan.budget.freezes else ()
    return freezable, (plan.cuttable or edges) if plan.budget.cuts else ()


def _broker(plan: Plan, parents: Parents, name: str, make: BrokerFactory) -> Cast:
    config = BrokerConfig(name, parents[name], tolerance=plan.tolerance, address=name)
    hops = find_protocol(plan.protocol).hops
    if hops is not None:
        config = replace(config, edges=tuple(edges_around(parents, children_of(parents), name, hops(plan.tolerance))))

    if plan.sites is not None:
        config = plan.sites.placed(config)
        return Cast(name, lambda incarnation, _: make(config, incarnation), is_broker=True)

    def made(incarnation: int, parent: str | None) -> Node:
        return make(replace(config, parent=parents[name] if parent is None else parent), incarnation)

    return Cast(name, made, is_broker=True)


def _client(plan: Plan, address: str, script: Script, parents: Parents) -> Cast:
    name, _, broker = address.partition("@")
    homes = parents if plan.sites is None else plan.sites.members
    if broker not in homes or not name or name in parents:
        kind = "broker" if plan.sites is None else "site"
        raise ConfigError(f"client {address!r}: write name@{kind}, with one of the {kind}s {', '.join(homes)}.")
    for command in script:
        if isinstance(command, Publish):
            check_supported(plan.protocol, command.guarantee)
    config = ClientConfig(name, broker=broker)
    if plan.sites is not None:
        sited = replace(config, site=plan.sites.members[broker])
        return Cast(name, lambda incarnation, _: SiteClient(sited, incarnation), is_broker=False, script=script)
    return Cast(name, lambda incarnation, _: MovingClient(config, incarnation), is_broker=False, script=script)


def _booted(stage: Stage, world: World) -> World:
    """Let everybody connect, in some order, without anything else happening."""
    budget, world = world.budget, replace(world, budget=Budget())
    for _ in range(BOOT_STEPS_MAX):
        moves = [move for move in stage.moves(world) if not isinstance(move, Commanded)]
        if not moves:
            states = [stage.state(world, name) for name in stage.machines]
            if all(state is not None and state.ready and not state.waits for state in states):
                return replace(world, budget=budget)
            tick = stage.tick(world)
            moves = [tick] if tick is not None else []
        if not moves:
            break
        world, _ = stage.after(world, moves[0])
    raise ConfigError(f"the world to explore does not come up: {'; '.join(stage.waits(world))}.")
