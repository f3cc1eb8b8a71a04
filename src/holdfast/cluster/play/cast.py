"""Who takes part in a play: brokers, clients, machines and settings, gathered line by line and checked as they come.

A line is judged by what stands before it: a broker's parent, a client's broker and whoever an action names have to be
there already. So each error has the number of the line that causes it, and a line that is typed at the prompt is
judged as one of a file is.
"""

from collections.abc import Iterable

from holdfast.cluster.config import (
    BASE_PORT,
    HEALTH_PORT_OFFSET,
    LOOPBACK,
    Broker,
    Client,
    Cluster,
    MachineEntry,
    checked,
    parse_cluster,
)
from holdfast.cluster.play import statements as said
from holdfast.cluster.play.grammar import Statement
from holdfast.cluster.play.statements import Action, BrokerLine, ClientLine, MachineLine, Setup, SiteLine
from holdfast.cluster.play.words import ScriptError
from holdfast.cluster.sections import listed, meant
from holdfast.model.guarantees import GUARANTEES, GuaranteeError
from holdfast.protocols.registry import PROTOCOLS, check_supported, find_protocol
from holdfast.protocols.sesdad.sites import REPLICAS
from holdfast.runtime.places import place_of

PROTOCOL = "ginger"
ROUTING = "filtering"
USUAL_RANK = 2
"""Publications that name no guarantee are causal, as those of the client library are, if the protocol gives that."""


class Cast:
    """What a script has said so far. `admit` takes its lines one after the other, and refuses what cannot be."""

    def __init__(self, source: str = "script") -> None:
        self._source = source
        self.protocol, self.tolerance, self.policy, self.ordering = PROTOCOL, 0, "", ""
        self.level: said.LoggingLevelName = "light"
        self.seed: int | None = None
        self.machines: dict[str, MachineLine] = {}
        self.brokers: dict[str, BrokerLine] = {}
        self.sites: dict[str, SiteLine] = {}
        self.clients: dict[str, ClientLine] = {}
        self._settings: dict[str, Setup] = {}
        """The last line of each setting, for errors about it that show when everything is said."""
        self.crashed: set[str] = set()
        self.secret_file = ""
        """Where the secret is that the agents of machines share with us; empty: as the environment says."""
        self.begun_at = 0
        """The line with which the cluster started; 0 before that."""
        self.begun_with = ""

    @property
    def nodes(self) -> dict[str, str]:
        """All brokers, those of sites included, and on which machine each is."""
        if not self.sites:
            return {name: line.machine for name, line in self.brokers.items()}
        return {
            f"{name}.{number}": line.machine_of(number)
            for name, line in self.sites.items()
            for number in range(1, line.replicas + 1)
        }

    def members(self, name: str) -> list[str]:
        """The brokers of a site, or the broker of that name."""
        if name not in self.sites:
            return [name]
        return [f"{name}.{number}" for number in range(1, self.sites[name].replicas + 1)]

    def admit(self, statement: Statement) -> None:
        """Take the next line in; raises `ScriptError` if it cannot be there."""
        if isinstance(statement, Setup):
            if self.begun_at:
                raise self._error(
                    statement,
                    f"the cluster runs since line {self.begun_at} ({self.begun_with}): say this before that line",
                )
            self._set_up(statement)
        elif isinstance(statement, ClientLine):
            self._add_client(statement)
        else:
            if not self.begun_at:
                self._begin(statement)
            self._check_action(statement)

    def _error(self, statement: Statement, sentence: str) -> ScriptError:
        return ScriptError(f"{self._source}:{statement.line}: {sentence}.")

    # --------------------------------------------------------------------------------------------------- the set-up

    def _set_up(self, line: Setup) -> None:
        self._settings[type(line).__name__] = line
        match line:
            case said.ProtocolName(name=name):
                if name not in PROTOCOLS:
                    known = sorted(PROTOCOLS)
                    raise self._error(
                        line, f"there is no protocol {name!r}{meant(name, known)}; expected {listed(known)}"
                    )
                self.protocol = name
            case said.Tolerance(count=count):
                self.tolerance = count
            case said.RoutingPolicy(policy=policy):
                self.policy = policy
            case said.Ordering(guarantee=guarantee):
                self.ordering = guarantee
            case said.LoggingLevel(level=level):
                self.level = level
            case said.Seed(seed=seed):
                self.seed = seed
            case MachineLine(name=name, address=address):
                self._check_new(line, name)
                if place_of(address) is None:
                    raise self._error(line, f"{address!r} is no address; expected HOST:PORT of the machine's agent")
                self.machines[name] = line
            case BrokerLine():
                self._add_place(line, self.brokers)
                self.brokers[line.name] = line
            case SiteLine():
                self._add_place(line, self.sites)
                self.sites[line.name] = line

    def _add_place(self, line: BrokerLine | SiteLine, places: dict[str, BrokerLine] | dict[str, SiteLine]) -> None:
        self._check_new(line, line.name)
        for machine in (line.machine,) if isinstance(line, BrokerLine) else line.machines:
            self._check_machine(line, machine)
        kind = "broker" if isinstance(line, BrokerLine) else "site"
        if line.parent is not None and line.parent not in places:
            raise self._error(
                line,
                f"there is no {kind} {line.parent!r}{meant(line.parent, places)} above line {line.line} to be the "
                f"parent of {line.name}; expected {listed(places)}",
            )
        if line.parent is None and places:
            root = next(iter(places))
            raise self._error(line, f"{root} is the root already, and a tree has one: give {line.name} a Parent")

    def _check_new(self, line: Statement, name: str) -> None:
        for kind, names in (
            ("broker", self.brokers),
            ("site", self.sites),
            ("machine", self.machines),
            ("client", self.clients),
        ):
            if name in names:
                raise self._error(line, f"there is a {kind} {name} already; everybody needs a name of its own")

    def _check_machine(self, line: Statement, machine: str) -> None:
        if machine and machine not in self.machines:
            raise self._error(
                line,
                f"there is no machine {machine!r}{meant(machine, self.machines)}; expected {listed(self.machines)}. "
                f"Say first where it is: Machine {machine} HOST:PORT",
            )

    def _add_client(self, line: ClientLine) -> None:
        known = self.clients.get(line.name)
        if known is not None and (known.at, known.machine) == (line.at, line.machine):
            # A publisher that also subscribes, said in two lines.
            self.clients[line.name] = ClientLine(
                known.line,
                known.text,
                known.name,
                known.at,
                known.machine,
                known.publishes or line.publishes,
                known.subscribes or line.subscribes,
            )
            return
        self._check_new(line, line.name)
        self._check_machine(line, line.machine)
        places = {**self.brokers, **self.sites}
        if line.at not in places:
            raise self._error(
                line, f"there is no broker or site {line.at!r}{meant(line.at, places)}; expected {listed(places)}"
            )
        self.clients[line.name] = line

    def _begin(self, action: Action) -> None:
        """The first action starts the cluster: now everything has to fit together."""
        if not self.brokers and not self.sites:
            raise self._error(action, "there is no broker yet: say first Broker NAME")
        self.check_set_up()
        self.begun_at, self.begun_with = action.line, action.text

    def check_set_up(self) -> None:
        """Whether what was said of brokers, machines and settings fits together."""
        self._check_sites()
        if self.ordering:
            self._check_guarantee(self._settings["Ordering"], self.ordering)
        bare: list[BrokerLine | SiteLine] = [one for one in self.brokers.values() if not one.machine]
        bare += [one for one in self.sites.values() if not one.machines]
        if self.machines and bare:
            raise self._error(
                bare[0],
                f"{bare[0].name} is on no machine, and the brokers of other machines could not reach it: say On",
            )
        if self.tolerance and find_protocol(self.protocol).survives == ():
            raise self._error(
                self._settings["Tolerance"], f"protocol {self.protocol} tolerates no lost broker; leave Tolerance out"
            )

    def _check_sites(self) -> None:
        if find_protocol(self.protocol).sited:
            self._check_replicas()
            if self.tolerance:
                raise self._error(
                    self._settings["Tolerance"],
                    f"Tolerance {self.tolerance} is for trees of single brokers; a site of three survives the loss of "
                    "one of them, a site of five that of two. Leave the line out",
                )
            return
        if self.sites:
            first = next(iter(self.sites.values()))
            raise self._error(
                first,
                f"protocol {self.protocol} knows no sites, it has a tree of single brokers: write Broker {first.name} "
                "instead, with a Tolerance of 1 if it is to survive a crash",
            )
        if self.policy:
            raise self._error(
                self._settings["RoutingPolicy"],
                f"RoutingPolicy {self.policy} is for protocols with sites; {self.protocol} routes every publication to "
                "where its subscribers are. Leave the line out",
            )

    def _check_replicas(self) -> None:
        if self.brokers:
            first = next(iter(self.brokers.values()))
            raise self._error(
                first, f"brokers of protocol {self.protocol} are those of sites: write Site {first.name} instead"
            )
        usual = next((line.replicas for line in self.sites.values()), 0)
        for line in self.sites.values():
            if line.replicas not in REPLICAS:
                raise self._error(line, f"a site of {line.replicas} brokers cannot be; expected 1, 3 or 5")
            if line.replicas != usual:
                raise self._error(line, f"all sites of a script have as many replicas as the first one: {usual}")

    # ------------------------------------------------------------------------------------------------------- actions

    def guarantee_of(self, publish: said.Publish) -> str:
        """The guarantee of these publications."""
        if publish.guarantee or self.ordering:
            return publish.guarantee or self.ordering
        ranks = [rank for rank in find_protocol(self.protocol).guarantees if rank <= USUAL_RANK]
        return str(GUARANTEES[max(ranks)])

    def _check_guarantee(self, line: Statement, guarantee: str) -> None:
        try:
            check_supported(self.protocol, guarantee)
        except GuaranteeError as error:
            raise self._error(line, str(error).rstrip(".")) from None

    def _check_action(self, action: Action) -> None:
        match action:
            case said.Publish(client=client):
                self._client(action, client, "publishes", "Publisher")
                self._check_guarantee(action, self.guarantee_of(action))
            case said.Subscribe(client=client) | said.Unsubscribe(client=client):
                self._client(action, client, "subscribes", "Subscriber")
            case said.Crash(node=node):
                self._node(action, node)
                self.crashed.add(node)
            case said.Freeze(node=node) | said.Unfreeze(node=node):
                self._node(action, node)
                self._check_alive(action, node)
            case said.Restart(node=node):
                self._check_restart(action, node)
            case said.Cut(one=one, other=other):
                self._check_brokers(action, (one, other))
            case said.Part(side=side):
                there = [name for one in side for name in self.members(one)]
                self._check_brokers(action, there)
                if len(there) == len(self.nodes):
                    raise self._error(action, "these are all brokers there are: name those of one side alone")
            case said.ExpectDelivered(client=client, publisher=publisher):
                self._check_expected(action, (client, publisher))
            case said.ExpectOrder(client=client, runs=runs):
                self._check_expected(action, (client, *(run.publisher for run in runs)))
            case said.ExpectNode(node=node):
                self._check_brokers(action, (node,))
            case _:
                pass

    def _check_alive(self, action: Action, node: str) -> None:
        if node in self.crashed:
            back = f"Restart {node} first" if node in self.nodes else "a client that crashed does not come back"
            raise self._error(action, f"{node} has crashed: {back}")

    def _check_restart(self, action: Action, node: str) -> None:
        if node in self.clients:
            raise self._error(
                action,
                f"{node} is a client, and a client that crashed does not come back: name another one, At a broker",
            )
        self._check_brokers(action, (node,))
        if node not in self.crashed:
            raise self._error(action, f"{node} runs; say Crash {node} first, or Unfreeze {node} if it is frozen")
        self.crashed.discard(node)

    def _client(self, action: Action, name: str, duty: str, word: str) -> None:
        line = self.clients.get(name)
        if line is None:
            advice = f"say first {word} {name} At BROKER"
            raise self._error(
                action,
                f"there is no client {name!r}{meant(name, self.clients)}; {advice}, or name one of those "
                f"there are: {listed(self.clients)}",
            )
        if not getattr(line, duty):
            raise self._error(action, f"{name} is no {word.lower()}; say first {word} {name} At {line.at}")
        self._check_alive(action, name)

    def _node(self, action: Action, name: str) -> None:
        known = [*self.nodes, *self.clients]
        self._check_no_site(action, name)
        if name not in known:
            raise self._error(
                action, f"there is no broker or client {name!r}{meant(name, known)}; expected {listed(known)}"
            )
        if isinstance(action, said.Crash) and name in self.crashed:
            raise self._error(action, f"{name} has crashed already")

    def _check_brokers(self, action: Action, names: Iterable[str]) -> None:
        asked, known = list(names), self.nodes
        for name in asked:
            self._check_no_site(action, name)
            if name not in known:
                raise self._error(action, f"there is no broker {name!r}{meant(name, known)}; expected {listed(known)}")
        if len(set(asked)) < len(asked):
            raise self._error(action, f"{asked[0]} is named twice; name different brokers")

    def _check_no_site(self, action: Action, name: str) -> None:
        if name in self.sites:
            raise self._error(action, f"{name} is a site; name one of its brokers: {listed(self.members(name))}")

    def _check_expected(self, action: Action, names: Iterable[str]) -> None:
        for name in names:
            if name and name not in self.clients:
                raise self._error(
                    action, f"there is no client {name!r}{meant(name, self.clients)}; expected {listed(self.clients)}"
                )

    # -------------------------------------------------------------------------------------------------- the cluster

    def cluster(self) -> Cluster:
        """The brokers and clients as a cluster, on consecutive ports unless lines name others."""
        if self.sites:
            return self._cluster_of_sites()
        machines = {name: MachineEntry(name, line.address, self.secret_file) for name, line in self.machines.items()}
        brokers = tuple(
            Broker(
                name,
                line.parent,
                machines[line.machine].place[0] if line.machine else LOOPBACK,
                line.port or BASE_PORT + index,
                (line.port or BASE_PORT + index) + HEALTH_PORT_OFFSET,
                line.latency_ms,
                line.machine,
            )
            for index, (name, line) in enumerate(self.brokers.items())
        )
        clients = tuple(Client(name, line.at, (), line.machine) for name, line in self.clients.items())
        cluster = Cluster(
            "play", self.protocol, brokers, clients, tolerance=self.tolerance, machines=tuple(machines.values())
        )
        return checked(cluster, self._source)

    def _cluster_of_sites(self) -> Cluster:
        """The same as a file would say it."""
        lines = [f'name = "play"\nprotocol = "{self.protocol}"\nrouting = "{self.policy or ROUTING}"']
        for name, machine in self.machines.items():
            lines.append(f'[machines.{name}]\naddress = "{machine.address}"\nsecret_file = "{self.secret_file}"')
        for name, site in self.sites.items():
            lines.append(f'[sites."{name}"]\nreplicas = {site.replicas}')
            lines += [f'parent = "{site.parent}"'] if site.parent is not None else []
            lines.append(f"machines = {list(site.machines)}")
        for name, client in self.clients.items():
            lines.append(f'[clients."{name}"]\nbroker = "{client.at}"\nmachine = "{client.machine}"')
        return parse_cluster("\n".join(lines), self._source)


def check_script(script: Iterable[Statement], source: str = "script") -> Cast:
    """Judge all lines of a script before anything is started; the cast as it is at its end."""
    cast = Cast(source)
    for statement in script:
        cast.admit(statement)
    cast.check_set_up()
    return cast
