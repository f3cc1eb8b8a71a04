"""A whole cluster in virtual time: brokers, clients, a network, and a timetable of faults and commands.

    sim = Simulation(tree="0-1 0-2 1-3", protocol="ginger", seed=7)
    sim.at(0.0, Subscribe("bob@2", "orders"))
    sim.at(1.0, Cut("1", "0"))
    sim.at(2.0, Publish("alice@3", "orders", b"a", guarantee="causal"))
    sim.at(9.0, Heal())
    sim.run_until_quiet(limit_s=60)
    assert sim.delivered("bob@2", "orders") == [b"a"]

One seed gives one run, to the byte. Every use of chance has a stream of its own, so that adding one changes no other.
"""

import gc
from collections.abc import Callable
from itertools import count
from random import Random
from time import perf_counter

from msgspec.structs import replace

from holdfast.model.batches import Message
from holdfast.model.errors import ConfigError, HoldfastError
from holdfast.model.filters import parse_filter
from holdfast.model.guarantees import check_guarantee
from holdfast.model.messages import Ack, Ping, Pong
from holdfast.model.topics import check_pattern, check_topic
from holdfast.model.trace import Event, Recorder
from holdfast.protocols.config import BrokerConfig, ClientConfig
from holdfast.protocols.durable import kept_in
from holdfast.protocols.moving import MovingClient
from holdfast.protocols.neighbourhoods import children_of, edges_around
from holdfast.protocols.node import BrokerNode, ClientCommands
from holdfast.protocols.registry import check_supported, find_protocol
from holdfast.protocols.sesdad import SiteClient
from holdfast.simulation import faults
from holdfast.simulation.applications import ClientHost, Hook, Request, judged_rows, stride_of
from holdfast.simulation.checkers import Verdict, check
from holdfast.simulation.disk import Disk, DiskConfig
from holdfast.simulation.faults import ClientCommand, Command, LinkFault, NodeFault, When
from holdfast.simulation.hosts import Host, Reports, Watch
from holdfast.simulation.kernel import Kernel, stream
from holdfast.simulation.network import Network, NetworkConfig, NetworkStream
from holdfast.simulation.sites import REPLICAS_USUALLY, Sites
from holdfast.simulation.summaries import summarize
from holdfast.simulation.trees import Parents, below_themselves, parse_tree

QUIET_S = 1.0
POLL_S = 0.25
IDLE_FRAMES = (Ack, Ping, Pong)
"""What nodes say to each other when they have nothing to say."""

BrokerFactory = Callable[[BrokerConfig, int], BrokerNode]
ClientFactory = Callable[[ClientConfig, int], ClientCommands]


class NotQuiet(HoldfastError):  # noqa: N818 - it says what happened
    """Raised when a simulation has not come to rest in time: who waits for what, and how to see it again."""


class Simulation:
    """One run. `protocol` is a name on the bench, or a function that makes a broker of its configuration.

    The tree is a text, as `parse_tree` reads it, or each broker with its parent, parents first.
    """

    def __init__(
        self,
        tree: str | Parents = "0",
        protocol: str | BrokerFactory = "ginger",
        seed: int = 0,
        *,
        network: NetworkConfig | None = None,
        disk: DiskConfig | None = None,
        broker: BrokerConfig | None = None,
        client: ClientConfig | None = None,
        clients: ClientFactory | None = None,
        tolerance: int | None = None,
        replicas: int = REPLICAS_USUALLY,
        shares_fate: bool | None = None,
        check_invariants: bool = False,
        replay: str = "",
    ) -> None:
        """With a protocol whose brokers form sites, `tree` is one of sites, each of so many `replicas`."""
        self.seed, self.tree = seed, parse_tree(tree) if isinstance(tree, str) else dict(tree)
        sited = find_protocol(protocol).sited if isinstance(protocol, str) else getattr(protocol, "sited", False)
        self.sites = Sites(self.tree, replicas) if sited else None
        if self.sites is not None:
            self.tree = self.sites.brokers()
        self.protocol = protocol if isinstance(protocol, str) else ""
        self._make_broker = find_protocol(protocol).make if isinstance(protocol, str) else protocol
        if shares_fate is None:
            shares_fate = isinstance(protocol, str) and find_protocol(protocol).shares_fate
        self._shares_fate = shares_fate
        self._hops = find_protocol(protocol).hops if isinstance(protocol, str) else getattr(protocol, "hops", None)
        self._grows = find_protocol(protocol).grows if isinstance(protocol, str) else hasattr(protocol, "leave")
        self._make_client = clients or (SiteClient if sited else MovingClient)
        self._broker_config, self._client_config = broker or BrokerConfig("*"), client or ClientConfig("*")
        if tolerance is not None:
            self._broker_config = replace(self._broker_config, tolerance=tolerance)
        self._check_invariants = check_invariants
        self._disk_config = disk or DiskConfig()
        self.replay = replay or f"Simulation(tree={tree!r}, protocol={protocol!r}, seed={seed}) with its timetable"
        self.kernel = Kernel()
        self.network = Network(self.kernel, network or NetworkConfig(), seed)
        self.reports: Reports = []
        self.wall_s = 0.0
        self._commands_left = 0
        self._started = False
        self._first_command: dict[str, tuple[float, ClientCommand]] = {}
        self._clients: dict[str, ClientHost] = {}
        self._recorders: dict[str, Recorder] = {}
        self._events: list[Event] = []
        self._recorded = 0
        self._newcomers: dict[str, None] = {}
        self._children = children_of(self.tree)
        for name, parent in self.tree.items():
            self._add_broker(name, parent)

    # --------------------------------------------------------------------------------------------------- the cast

    def _add_broker(self, name: str, parent: str | None) -> None:
        config = replace(self._broker_config, name=name, parent=parent, address=name)
        if self._hops is not None and name not in self._newcomers:
            edges = edges_around(self.tree, self._children, name, self._hops(config.tolerance))
            config = replace(config, edges=tuple(edges))
        if self.sites is not None:
            config = self.sites.placed(config)
        make, lives, disk = self._make_broker, count(1), self._disk(name)

        def make_node(incarnation: int) -> BrokerNode:
            life = next(lives)
            if life == 1 or not config.tolerance or self._hops is not None:
                # Whoever has its place in the tree keeps it, and comes back to the one that is to take it in.
                return make(config, incarnation)
            above = self._kept_parent(name, disk) if config.durable else self._parent_now(name, life)
            return make(replace(config, parent=above), incarnation)

        chance_for, check = self._chance_for(name), self._check_invariants
        Host(name, self.network, disk, self.reports, chance_for, make_node, check)

    def _parent_now(self, name: str, life: int) -> str | None:
        """Whom a broker that begins anew is told of: its own parent if that serves, else somebody who does."""
        serving = [other for other in self.tree if other != name and self._serves(other)]
        parent = self.tree[name]
        if parent in serving or not serving:
            return parent
        return self._chance_for(name)(f"parent {life}").choice(serving)

    def _kept_parent(self, name: str, disk: Disk) -> str | None:
        """Who takes a broker in that comes back with what it wrote down: its parent, or the first of those it knew."""
        above = self.tree[name]
        asked = [*([] if above is None else [above]), *(one.name for one in kept_in(disk.pairs).tree)]
        return next((other for other in asked if other != name and self._serves(other)), next(iter(asked), None))

    def _serves(self, name: str) -> bool:
        host = self.network.hosts[name]
        return host.up and not host.frozen and host.node.ready()  # type: ignore[attr-defined]  # it drives a broker

    def _chance_for(self, name: str) -> Callable[[str], Random]:
        """Where a host gets chance for a purpose. It keeps none: a world may have very many hosts."""
        return lambda purpose: stream(self.seed, f"host {name} {purpose}")

    def _disk(self, name: str) -> Disk:
        kernel, chance_for = self.kernel, self._chance_for(name)
        return Disk(kernel, self._disk_config, lambda: chance_for(f"disk {kernel.now}"))

    def client(self, address: str) -> ClientHost:
        """The host of a client, `name@broker`; it is made when it is first named."""
        name, _, broker = address.partition("@")
        if self.sites is not None:
            broker = self.sites.site_of(broker) or broker
        host = self._clients.get(name)
        if host is None:
            return self._add_client(address, name, broker)
        if broker and host.broker != broker:
            raise ConfigError(f"client {address}: {name} is at broker {host.broker} already, and a client has one.")
        return host

    def _add_client(self, address: str, name: str, broker: str) -> ClientHost:
        homes = self.tree if self.sites is None else self.sites.members
        if not name or broker not in homes:
            known, kind = ", ".join([*homes][:20]), "broker" if self.sites is None else "site"
            raise ConfigError(f"client {address!r}: write name@{kind}, with one of the {kind}s {known}.")
        if name in self.tree:
            raise ConfigError(f"client {address!r}: {name} is the name of a broker; choose another one.")
        config = replace(self._client_config, name=name, broker=broker, stride=stride_of(self._chance_for(name)))
        if self.sites is not None:
            config = replace(config, site=self.sites.members[broker])
        make = self._make_client
        host = ClientHost(
            name,
            broker,
            self.network,
            self._disk(name),
            self.reports,
            self._chance_for(name),
            lambda incarnation: make(config, incarnation),
            self._check_invariants,
        )
        self._clients[name] = host
        return host

    @property
    def clients(self) -> list[str]:
        """The names of all clients, in the order in which they were first named."""
        return list(self._clients)

    def host(self, name: str) -> Host:
        """The host of a broker or of a client that is known already."""
        host = self.network.hosts.get(name.partition("@")[0])
        if host is None:
            if "@" in name:
                return self.client(name)
            known = ", ".join([*self.network.hosts][:20])
            raise ConfigError(f"there is no broker or client {name!r}; there are {known}.")
        return host

    def node(self, name: str) -> BrokerNode | ClientCommands:
        """The machine itself, for whoever wants to look inside."""
        return self.host(name).node  # type: ignore[return-value]  # a host drives one of the two

    # ---------------------------------------------------------------------------------------------- the timetable

    def at(self, time_s: float, command: Command) -> None:
        """Let a fault happen, or an application give a command, at that time."""
        if time_s < self.kernel.now:
            raise ConfigError(f"{command} at {time_s} s: it is {self.kernel.now} s already; choose a later time.")
        self._validate(command)
        if isinstance(command, ClientCommand):
            self._mention(time_s, command)
        self._commands_left += 1
        self.kernel.at(time_s, self._happen, command)

    def _mention(self, time_s: float, command: ClientCommand) -> None:
        host = self.client(command.client)
        first = self._first_command.get(host.name)
        if self._started and first is None and not isinstance(command, faults.Attach):
            host.start()
        if first is None or time_s < first[0]:
            self._first_command[host.name] = (time_s, command)

    def _validate(self, command: Command) -> None:
        """Refuse now what could only go wrong later, in the midst of a run."""
        if isinstance(command, faults.Publish | faults.React):
            check_topic(command.topic)
            check_guarantee(command.guarantee)
            if self.protocol:
                check_supported(self.protocol, command.guarantee)
        if isinstance(command, faults.Subscribe | faults.Unsubscribe | faults.React):
            check_pattern(command.pattern)
        if isinstance(command, faults.Subscribe | faults.Unsubscribe) and command.where:
            parse_filter(command.where)
        if isinstance(command, faults.Join):
            self.expect(command)
        if isinstance(command, When):
            self._validate(command.fault)
        if isinstance(command, When | NodeFault):
            self.host(command.node)
        if isinstance(command, faults.Part):
            for name in command.side:
                if self.sites is None or name not in self.sites.members:
                    self.host(name)
        elif isinstance(command, LinkFault) and command != faults.Heal():
            self.host(command.a)
            self.host(command.b)

    def expect(self, command: faults.Join) -> None:
        """Make the host of a broker that will join, so that clients and faults can name it."""
        if command.node in self._newcomers and self.tree[command.node] == command.parent:
            return
        if self._hops is not None and not self._grows:
            raise ConfigError(f"join: {command.node!r} cannot join; with this protocol the tree is fixed.")
        if command.node in self.network.hosts:
            raise ConfigError(f"join: there is a {command.node!r} already; a broker that comes anew has a new name.")
        self.host(command.parent)
        self._newcomers[command.node] = None
        self.tree[command.node] = command.parent
        self._add_broker(command.node, command.parent)

    def _happen(self, command: Command) -> None:
        self._commands_left -= 1
        self.do(command)

    def do(self, command: Command) -> None:
        """Let it happen now."""
        if isinstance(command, NodeFault):
            self._do_to_node(command)
        elif isinstance(command, LinkFault):
            self._do_to_link(command)
        elif isinstance(command, When):
            self._watch(command)
        else:
            self._do_for_client(command)

    def _watch(self, command: When) -> None:
        watches = self.host(command.node).watches
        watch = Watch(command.sends, command.count, lambda: self.do(command.fault))
        watches.append(watch)
        if command.within_s is not None:
            self.kernel.after(command.within_s, lambda _: watches.remove(watch) if watch in watches else None)

    def _do_to_node(self, fault: NodeFault) -> None:
        host = self.host(fault.node)
        match fault:
            case faults.Crash():
                host.crash()
                if self._shares_fate:
                    self._bury_clients_of(host.name)
            case faults.Recover():
                host.recover()
            case faults.Freeze():
                host.freeze()
            case faults.Thaw():
                host.thaw()
            case faults.Stop():
                host.stop()
            case faults.Join():
                host.start()
            case faults.Leave():
                host.retire()

    def _bury_clients_of(self, broker: str) -> None:
        """Where a broker and its clients are one process of the model they die together, and for good."""
        for client in self._clients.values():
            if client.broker == broker:
                client.crash()
                client.buried = True

    def _do_to_link(self, fault: LinkFault) -> None:
        network = self.network
        match fault:
            case faults.Heal(a="", b=""):
                network.heal_all()
            case faults.Heal(a, b):
                network.heal(self.host(a), self.host(b))
            case faults.Cut(a, b):
                network.cut(self.host(a), self.host(b))
            case faults.Part(side):
                self._part(side)
            case faults.Reset(a, b):
                network.reset(self.host(a), self.host(b))
            case faults.Flip(a, b, share):
                network.flip(self.host(a), self.host(b), share)
            case faults.Slow(a, b, factor, back_factor):
                network.slow(self.host(a), self.host(b), factor, back_factor or factor)

    def _part(self, side: tuple[str, ...]) -> None:
        if self.sites is not None:
            side = tuple(one for name in side for one in self.sites.members.get(name, (name,)))
        there = {*side, *(name for name, client in self._clients.items() if self._home_of(client) in side)}
        for one in there & self.network.hosts.keys():
            for other in self.network.hosts.keys() - there:
                self.network.cut(self.network.hosts[one], self.network.hosts[other])

    def _home_of(self, client: ClientHost) -> str:
        """The broker with which a client is on one side of a parted network: of a site the first."""
        return client.broker if self.sites is None else self.sites.members[client.broker][0]

    def _do_for_client(self, command: ClientCommand) -> None:
        host = self.client(command.client)
        match command:
            case faults.Attach():
                host.start()
            case faults.React():
                host.react(command)
            case _:
                host.give(command)

    def on_deliver(self, client: str, hook: Hook) -> None:
        """Call `hook(message)` at each delivery to that client. It may use `at`, and must not enter a node."""
        self.client(client).hooks.append(hook)

    # ---------------------------------------------------------------------------------------------------- running

    @property
    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self.kernel.now

    def run_for(self, seconds: float) -> None:
        """Let that much virtual time pass."""
        self._run(self.kernel.now + seconds)

    def _run(self, until_s: float) -> None:
        began, collecting = perf_counter(), gc.isenabled()
        # A run makes very many objects that stay and hardly any circle: looking for circles takes a fifth of the time.
        gc.disable()
        try:
            if not self._started:
                self._start()
            self.kernel.run(until_s)
        except Exception as error:
            error.add_note(f"at {self.kernel.now:.9f} s of virtual time; to see it again: {self.replay}")
            raise
        finally:
            if collecting:
                gc.enable()
            self.wall_s += perf_counter() - began

    def _start(self) -> None:
        self._started = True
        for name in self.tree:
            if name not in self._newcomers:
                self.network.hosts[name].start()
        for name, host in self._clients.items():
            first = self._first_command.get(name)
            if first is None or not isinstance(first[1], faults.Attach):
                host.start()

    def run_until_quiet(self, limit_s: float = 60.0, quiet_s: float = QUIET_S) -> None:
        """Run until nothing has been going on for `quiet_s`; raise `NotQuiet` if that takes more than `limit_s`.

        Quiet means: the timetable is done, nothing is under way but heartbeats and acknowledgements, nobody waits for
        anything, and no more was said in all that time.
        """
        deadline_s = self.kernel.now + limit_s
        calm_since_s, said = self.kernel.now, -1
        self._run(self.kernel.now)
        while True:
            next_s, saying = self._next_business_s(), self._frames_said()
            waits = any(host.waiting_for() for host in self.network.hosts.values())
            busy = next_s is not None or said != saying or waits
            if not busy and self.kernel.now - calm_since_s >= quiet_s:
                return
            if self.kernel.now >= deadline_s:
                raise NotQuiet(self._why_not_quiet(limit_s))
            said = saying
            self._run(min(max(next_s or 0.0, self.kernel.now + POLL_S), deadline_s))
            if busy:
                # The calm begins after the business at the earliest, which may have been far ahead.
                calm_since_s = self.kernel.now

    def _next_business_s(self) -> float | None:
        """When the next thing happens that is neither a timer, nor an idle frame, nor an attempt to reach the dead."""
        vain = self.network.is_vain
        untimed = (one for one in self.kernel.queue if not Host.is_timer(one[2]) and not vain(one[2], one[3]))
        return min(
            (entry[0] for entry in untimed if not isinstance(NetworkStream.frame_of(entry), IDLE_FRAMES)), default=None
        )

    def _frames_said(self) -> int:
        return sum(count for kind, count in self.network.sent.items() if kind not in IDLE_FRAMES)

    def _why_not_quiet(self, limit_s: float) -> str:
        lines = [f"not quiet after {limit_s:g} s of virtual time (now {self.kernel.now:.3f} s)"]
        lines += [f"  {one}" for one in self.network.waiting()]
        if self._commands_left:
            lines.append(f"  {self._commands_left} entries of the timetable are still to come")
        if len(lines) == 1:
            lines.append("  nobody says that it waits, but frames keep going to and fro")
        return "\n".join([*lines, f"to see it again: {self.replay}"])

    # ----------------------------------------------------------------------------------------------------- results

    def delivered(self, client: str, topic: str | None = None) -> list[bytes]:
        """The payloads that the client was given, in order; those of one topic if it is named."""
        return [message.payload for message in self.deliveries(client) if topic in (None, message.topic)]

    def deliveries(self, client: str) -> list[Message]:
        """The messages that the client was given, in order."""
        return [message for _, batch in self._known_client(client).delivered for message in batch.messages()]

    def completed(self, client: str) -> list[Request]:
        """The commands of the client that were confirmed, in the order of confirmation."""
        return self._known_client(client).completed

    def failures(self, client: str | None = None) -> list[str]:
        """What did not work out, for one client or for all."""
        hosts = self._clients.values() if client is None else [self._known_client(client)]
        return [failure for host in hosts if not host.over for failure in host.failures]

    def accepted_by_lost_sessions(self) -> dict[str, int]:
        """Of each client whose session was lost, how many of its publications a broker has accepted."""
        return {name: client.accepted_seq for name, client in self._clients.items() if client.ended}

    def unrepaired(self) -> list[str]:
        """What a repair should not leave behind: orders that were not certain, and brokers outside of the one tree."""
        found = [f"forced at {name}: {report.detail}" for _, name, report in self.reports if report.event == "forced"]
        if any(report.event == "crossed" for _, _, report in self.reports):
            # Messages stand in different orders already, and it was said of which: no later repair can follow both.
            found = []
        above = {name: getattr(self.node(name), "parent", None) for name in self.tree if self._serves(name)}
        roots = sorted(name for name, parent in above.items() if parent not in above)
        astray = below_themselves(above)
        if self._broker_config.tolerance and astray:
            found.append(f"below themselves: {', '.join(astray)}")
        if self._broker_config.tolerance and len(roots) > 1:
            found.append(f"several roots: {', '.join(f'{name} (parent {above[name]})' for name in roots)}")
        return found

    def _known_client(self, address: str) -> ClientHost:
        name = address.partition("@")[0]
        if name not in self._clients:
            raise ConfigError(f"there is no client {address!r}; there are {', '.join(self._clients) or 'none'}.")
        return self.client(address)

    @property
    def events(self) -> list[Event]:
        """The trace so far, in the order in which things happened."""
        run = f"{self.protocol or 'simulation'}-{self.seed}"
        reports, self._recorded = self.reports[self._recorded :], len(self.reports)
        for time_s, name, report in reports:
            recorder = self._recorders.get(name)
            if recorder is None:
                recorder = self._recorders[name] = Recorder(run, name)
            self._events += recorder.record(
                round(time_s * 1e9),
                report.event,
                report.batch,
                report.pattern,
                report.where,
                report.peer,
                report.detail,
                report.overhead,
                report.seq,
            )
        return self._events

    def check(self) -> Verdict:
        """What the checkers say of the trace so far."""
        return check(judged_rows(self.events, self._clients))

    def summary(self) -> dict[str, object]:
        """The run's figures: events, frames by type, latency by guarantee."""
        return summarize(self)
