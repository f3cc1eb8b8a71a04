"""Scenarios: a timetable of workload and faults as one value, which a TOML file writes down.

```toml
tree = "0-1 0-2"                       # the first of each pair is the parent of the second
limit_s = 30                           # virtual seconds within which it must come to rest

[network]
latency = { kind = "uniform", low_ms = 1, high_ms = 5 }     # or constant, exponential, lognormal

[[at]]
time_s = 0
do = "subscribe"
client = "bob@2"
pattern = "orders"

[[at]]
time_s = 1
do = "publish"                         # or any other word of `simulation.faults`
client = "alice@1"
topic = "orders"
payload = "order {n}"
guarantee = "causal"
count = 10                             # ten times, numbered from 1
every_s = 0.01

[expect]
delivered = { bob = 10 }
```

`tolerance = 1` makes the brokers repair the tree when one of them is lost; `suspect_s` and `join_s` say how long they
wait before they give another one up. `[[load]]` makes clients publish at random, `[[client]]` says how fast one
consumes, `[session]` sets the links' windows, `[disk]` the disks' delays; with `durable = true` brokers write to them.
`steps = [...]`, which `holdfast explore` writes, says in which order everything happens; times mean nothing then.
"""

import tomllib
from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from holdfast.model.errors import ConfigError, HoldfastError
from holdfast.model.guarantees import check_guarantee
from holdfast.protocols.config import BrokerConfig, ClientConfig, LinkConfig
from holdfast.protocols.registry import find_protocol
from holdfast.simulation.checkers import Verdict
from holdfast.simulation.disk import DiskConfig
from holdfast.simulation.faults import ClientCommand, Command, Fault, Join, Publish, Seconds, Times
from holdfast.simulation.kernel import stream
from holdfast.simulation.latencies import Latency
from holdfast.simulation.network import LinkSettings, NetworkConfig
from holdfast.simulation.sites import REPLICAS_USUALLY
from holdfast.simulation.tables import converted, plain, print_toml, tagged
from holdfast.simulation.trees import parse_tree
from holdfast.simulation.world import BrokerFactory, Simulation

FILE_BYTES_MAX = 1 << 22
ENTRIES_MAX = 1_000_000

Tolerance = Annotated[int, Meta(ge=0, le=8)]
Delay = Annotated[float, Meta(gt=0, le=3600)]
Degree = Annotated[int, Meta(ge=0, le=1_000_000)]
Routing = Literal["filtering", "flooding"]
Share = Annotated[float, Meta(ge=0)]


class Timed(Struct, frozen=True):
    """One entry of a timetable."""

    time_s: float
    command: Command


class ClientSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What is particular about a client's application."""

    client: str
    consume_ms: Annotated[float, Meta(ge=0, le=60_000)] = 0.0
    """How long it takes for each message."""


class Load(Struct, frozen=True, forbid_unknown_fields=True):
    """Each of these clients publishes `count` messages at random intervals, with random guarantees and keys."""

    clients: Annotated[tuple[str, ...], Meta(min_length=1)]
    topic: str
    count: Times
    every_s: Annotated[float, Meta(gt=0)]
    start_s: Seconds = 0.0
    mix: dict[str, Share] = field(default_factory=lambda: {"fifo": 1.0})
    """Shares of guarantees."""
    keys: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    """How many different keys there are."""
    keys_each: Annotated[int, Meta(ge=1, le=8)] = 1
    """How many of them a message has at most."""
    payload_bytes: Annotated[int, Meta(ge=0, le=1 << 20)] = 16


class Expect(Struct, frozen=True, forbid_unknown_fields=True):
    """What must come out."""

    ok: bool = True
    """Whether the checkers find nothing. A scenario that shows a protocol's fault says false."""
    deliveries: int | None = None
    delivered: dict[str, int] = {}
    """How many messages each client gets."""
    order: dict[str, tuple[str, ...]] = {}
    """Exactly which payloads a client gets, in order."""
    failures: int = 0
    """Commands that do not succeed."""


class Scenario(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that makes a run but the seed and the protocol, which have defaults."""

    tree: str
    name: str = ""
    protocol: str = "ginger"
    seed: int = 0
    limit_s: Annotated[float, Meta(gt=0)] = 60.0
    tolerance: Tolerance = 0
    """How many adjacent brokers may be lost before a repair has ended."""
    majority: bool = False
    """Whether total messages need a majority of the tree's brokers: two parts of a parted tree cannot both have it."""
    gaps: bool = False
    """Whether messages may be missing to a subscriber that was told so: more may fail here than a tree survives."""
    complete_s: Seconds = 0.0
    """By then everything that was asked for has to be done, whoever is still failed; 0: whenever it is."""
    durable: bool = False
    """Whether brokers write down what they need after a crash; else one that recovers is told whom to join."""
    suspect_s: Delay | None = None
    join_s: Delay | None = None
    degree_max: Degree = 0
    """How many neighbours a broker keeps; 0: as many as there are."""
    move_pause_s: Delay | None = None
    replicas: int = REPLICAS_USUALLY
    """How many brokers each site has, with a protocol whose trees are trees of sites: 1, 3 or 5."""
    routing: Routing = "filtering"
    """Whether sites get what they want, or everything."""
    request_s: Seconds = 0.0
    """How long something is missing before it is asked for; 0 follows the round trips that are measured."""
    notify_s: Seconds = 0.0
    """How long after the last message it is asked whether there is another one; 0 as above."""
    network: NetworkConfig = NetworkConfig()
    disk: DiskConfig = DiskConfig()
    session: LinkConfig = LinkConfig()
    clients: tuple[ClientSettings, ...] = ()
    loads: tuple[Load, ...] = ()
    timetable: tuple[Timed, ...] = ()
    expect: Expect = Expect()
    steps: tuple[str, ...] = ()
    """The order in which things happen, if it is not up to time and chance: see `exploring.stories`."""
    source: str = ""
    """The file that it was read from."""

    def build(
        self,
        protocol: str | BrokerFactory | None = None,
        seed: int | None = None,
        check_invariants: bool = False,
        replay: str = "",
    ) -> Simulation:
        """The simulation, ready to run."""
        seed = self.seed if seed is None else seed
        protocol = self.protocol if protocol is None else protocol
        if self.source and not replay:
            replay = f"holdfast simulate {self.source} --protocol {protocol} --seed {seed}"
        sim = Simulation(
            self.tree,
            protocol,
            seed,
            network=self.network,
            disk=self.disk,
            broker=self._broker(),
            client=ClientConfig("*", link=self.session, request_s=self.request_s, notify_s=self.notify_s),
            replicas=self.replicas,
            shares_fate=find_protocol(protocol if isinstance(protocol, str) else self.protocol).shares_fate,
            check_invariants=check_invariants,
            replay=replay,
        )
        for one in self.clients:
            sim.client(one.client).consume_s = one.consume_ms / 1000
        entries = [(timed.time_s, timed.command) for timed in self.timetable]
        for number, load in enumerate(self.loads):
            entries += _publications(load, seed, number)
        _fill(sim, entries)
        return sim

    def _broker(self) -> BrokerConfig:
        brokers = len(parse_tree(self.tree)) if self.majority else 0
        config = BrokerConfig("*", link=self.session, tolerance=self.tolerance, brokers=brokers, durable=self.durable)
        return replace(
            config,
            suspect_s=self.suspect_s or config.suspect_s,
            join_s=self.join_s or config.join_s,
            degree_max=self.degree_max,
            move_pause_s=self.move_pause_s or config.move_pause_s,
            routing=self.routing,
            request_s=self.request_s,
            notify_s=self.notify_s,
        )

    def complaints(self, sim: Simulation, verdict: Verdict) -> list[str]:
        """In which ways a finished run is not what was expected."""
        found = []
        if verdict.ok != self.expect.ok:
            found.append(f"expected ok = {self.expect.ok}, but the checkers say {verdict}")
        if self.expect.deliveries is not None and verdict.deliveries != self.expect.deliveries:
            found.append(f"expected {self.expect.deliveries} deliveries, but there were {verdict.deliveries}")
        for client, count in self.expect.delivered.items():
            if (actual := len(sim.deliveries(client))) != count:
                found.append(f"expected {count} deliveries to {client}, but there were {actual}")
        for client, order in self.expect.order.items():
            if (payloads := sim.delivered(client)) != [text.encode() for text in order]:
                found.append(f"expected {client} to get {', '.join(order)}, but it got {payloads}")
        if len(sim.failures()) != self.expect.failures:
            found.append(f"expected {self.expect.failures} failures, but there were {sim.failures()}")
        return found

    def toml(self) -> str:
        """The file that says the same."""
        table = plain(self)
        rows = [{"time_s": timed.time_s, **plain(timed.command)} for timed in self.timetable]
        table.pop("timetable", None)
        table.pop("source", None)
        links = table.get("network", {}).pop("links", [])
        lists = {"client": table.pop("clients", []), "link": links, "load": table.pop("loads", []), "at": rows}
        return print_toml(table | {key: value for key, value in lists.items() if value})


def _fill(sim: Simulation, entries: list[tuple[float, Command]]) -> None:
    # A client may name a broker that joins later, and a fault a client by its name alone, so they come first.
    for _, command in entries:
        if isinstance(command, Join):
            sim.expect(command)
    for _, command in entries:
        if isinstance(command, ClientCommand):
            sim.client(command.client)
    for time_s, command in entries:
        try:
            sim.at(time_s, command)
        except HoldfastError as error:
            word = type(command).__struct_config__.tag
            raise ConfigError(f"at {time_s:g} s, {word}: {error}") from None


def _publications(load: Load, seed: int, number: int) -> Iterator[tuple[float, Publish]]:
    guarantees = [check_guarantee(name).value for name in load.mix]
    bounds = list(accumulate(load.mix.values()))
    for client in load.clients:
        chance = stream(seed, f"load {number} {client}")
        time_s = load.start_s
        for count in range(1, load.count + 1):
            time_s += chance.uniform(0.5, 1.5) * load.every_s
            [guarantee] = chance.choices(guarantees, cum_weights=bounds)
            keys = chance.sample(range(load.keys), min(load.keys, chance.randint(1, load.keys_each)))
            payload = f"{client.partition('@')[0]}-{count}".encode().ljust(load.payload_bytes, b".")
            yield time_s, Publish(client, load.topic, payload, guarantee, tuple(f"k{key}" for key in keys))


# ------------------------------------------------------------------------------------------------------------ files


class _File(Struct, frozen=True):
    """The keys of a scenario file; lists have the name of one entry."""

    tree: str
    name: str = ""
    protocol: str = "ginger"
    seed: int = 0
    limit_s: Annotated[float, Meta(gt=0)] = 60.0
    tolerance: Tolerance = 0
    majority: bool = False
    gaps: bool = False
    durable: bool = False
    suspect_s: Delay | None = None
    join_s: Delay | None = None
    degree_max: Degree = 0
    move_pause_s: Delay | None = None
    replicas: int = REPLICAS_USUALLY
    routing: Routing = "filtering"
    request_s: Seconds = 0.0
    notify_s: Seconds = 0.0
    network: dict[str, Any] = {}
    disk: dict[str, Any] = {}
    session: dict[str, Any] = {}
    expect: dict[str, Any] = {}
    steps: tuple[str, ...] = ()
    client: list[dict[str, Any]] = []
    link: list[dict[str, Any]] = []
    load: list[dict[str, Any]] = []
    at: list[dict[str, Any]] = []


def load_scenario(path: Path) -> Scenario:
    """The scenario that a file describes; its name is the file's unless it says another."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"There is no scenario file {path}; examples/scenarios has some to start from.") from None
    except OSError as error:
        raise ConfigError(f"The scenario file {path} cannot be read: {error.strerror or error}.") from None
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"The scenario file {path} has {len(data)} bytes; at most {FILE_BYTES_MAX} are allowed.")
    try:
        scenario = parse_scenario(data.decode(), str(path))
    except UnicodeDecodeError as error:
        raise ConfigError(f"The scenario file {path} is not UTF-8 text (byte {error.start}).") from None
    return replace(scenario, name=scenario.name or path.stem, source=str(path))


def parse_scenario(text: str, source: str = "scenario") -> Scenario:
    """The scenario that a TOML text describes; `source` is what errors call it."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not TOML: {error}.") from None
    file = converted(raw, _File, source)
    scenario = Scenario(
        tree=file.tree,
        name=file.name,
        protocol=file.protocol,
        seed=file.seed,
        limit_s=file.limit_s,
        tolerance=file.tolerance,
        majority=file.majority,
        gaps=file.gaps,
        durable=file.durable,
        suspect_s=file.suspect_s,
        join_s=file.join_s,
        degree_max=file.degree_max,
        move_pause_s=file.move_pause_s,
        replicas=file.replicas,
        routing=file.routing,
        request_s=file.request_s,
        notify_s=file.notify_s,
        network=_network(file, source),
        disk=converted(file.disk, DiskConfig, f"{source}: disk"),
        session=converted(file.session, LinkConfig, f"{source}: session"),
        clients=tuple(converted(one, ClientSettings, f"{source}: client[{at}]") for at, one in enumerate(file.client)),
        loads=tuple(converted(one, Load, f"{source}: load[{at}]") for at, one in enumerate(file.load)),
        timetable=tuple(timed for at, row in enumerate(file.at) for timed in _entries(row, f"{source}: at[{at}]")),
        expect=converted(file.expect, Expect, f"{source}: expect"),
        steps=file.steps,
    )
    _check(scenario, source)
    return scenario


def _network(file: _File, source: str) -> NetworkConfig:
    table = dict(file.network)
    for key in ("latency", "client_latency"):
        if isinstance(table.get(key), dict):
            table[key] = plain(tagged(table[key], Latency, "kind", f"{source}: network.{key}"))
    links = []
    for at, one in enumerate(file.link):
        place = f"{source}: link[{at}]"
        if isinstance(one.get("latency"), dict):
            one["latency"] = plain(tagged(one["latency"], Latency, "kind", f"{place}.latency"))
        links.append(converted(one, LinkSettings, place))
    legal = [name for name in NetworkConfig.__struct_fields__ if name != "links"]
    return replace(converted(table, NetworkConfig, f"{source}: network", legal), links=tuple(links))


class _Repeat(Struct, frozen=True):
    time_s: Seconds
    count: Times = 1
    every_s: Seconds = 0.0


def _entries(row: dict[str, Any], place: str) -> Iterator[Timed]:
    """The entries that one `[[at]]` stands for: one, or as many as it counts."""
    repeated = row.get("do") == "publish"
    own = ("time_s", "count", "every_s") if repeated else ("time_s",)
    repeat = converted({key: row.pop(key) for key in own if key in row}, _Repeat, place)
    payload = row.get("payload")
    if isinstance(payload, str):
        row["payload"] = payload.encode()
    if isinstance(row.get("fault"), Mapping):
        row["fault"] = plain(tagged(row["fault"], Fault, "do", f"{place}.fault"))
    command: Command = tagged(row, Command, "do", place)
    for number in range(1, repeat.count + 1):
        numbered = command
        if isinstance(command, Publish) and isinstance(payload, str):
            numbered = replace(command, payload=payload.replace("{n}", str(number)).encode())
        yield Timed(repeat.time_s + (number - 1) * repeat.every_s, numbered)


def _check(scenario: Scenario, source: str) -> None:
    """Build it once: names, topics, filters and guarantees that cannot be are said now, with the file's name."""
    entries = len(scenario.timetable) + sum(load.count * len(load.clients) for load in scenario.loads)
    if entries > ENTRIES_MAX:
        raise ConfigError(
            f"{source}: {entries} publications and faults are too many; at most {ENTRIES_MAX} are allowed."
        )
    for at, load in enumerate(scenario.loads):
        if not any(load.mix.values()):
            raise ConfigError(f"{source}: load[{at}].mix: some share must be above 0.")
    try:
        sim = scenario.build()
    except HoldfastError as error:
        raise ConfigError(f"{source}: {error}") from None
    for client in (*scenario.expect.delivered, *scenario.expect.order):
        if client.partition("@")[0] not in sim.clients:
            known = ", ".join(sim.clients) or "none"
            raise ConfigError(f"{source}: expect: there is no client {client!r}; there are {known}.")
