"""`holdfast up`, `down`, `status` and `broker`: clusters of real processes on this machine."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from holdfast.cli.options import (
    STATE_DIRECTORY,
    AsJson,
    ProtocolName,
    RemoteAddress,
    StateDirectory,
    check_name,
    remote_places,
)
from holdfast.cli.output import complain, console, note, print_json, print_line, progress
from holdfast.client.addresses import Address, parse_addresses
from holdfast.cluster.agents.remote import machines_of
from holdfast.cluster.config import BASE_PORT, CLUSTER_NAME, LOOPBACK, Cluster, load_cluster
from holdfast.cluster.evaluation import default_cluster
from holdfast.cluster.fetching import fetch
from holdfast.cluster.processes import Processes, broker_settings, forget, stop_processes
from holdfast.cluster.remote_status import remote_status
from holdfast.cluster.state import (
    DEFAULT_DIRECTORY,
    State,
    forget_state,
    locked,
    read_state,
    running_state,
    write_state,
)
from holdfast.cluster.status import BrokerStatus, ClusterStatus, cluster_status
from holdfast.model.errors import ConfigError
from holdfast.model.plurals import counted
from holdfast.protocols.registry import find_protocol
from holdfast.runtime.broker import run_broker
from holdfast.runtime.settings import DELTA_MAX, BrokerSettings

WATCH_S = 1.0


def up(
    file: Annotated[Path | None, typer.Argument(help="A cluster file; without it, the tree of the evaluation.")] = None,
    base_port: Annotated[
        int | None, typer.Option("--base-port", min=1, max=65535, help="The first broker's port; the others follow.")
    ] = None,
    clients: Annotated[bool, typer.Option(help="Start the file's clients too: replicas of the bank.")] = True,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="A directory for what all of them report, to be audited later.")
    ] = None,
    state: StateDirectory = STATE_DIRECTORY,
) -> None:
    """Start a cluster in the background: one process a broker, on this machine and on those that the file names.

    On another machine `holdfast agent` starts the processes, in the file `[machines.NAME]` says where it listens.
    Without a file it is the tree on which Ginger was evaluated: eight brokers, five clients. It returns when every
    broker is ready; `holdfast status` shows the tree, `holdfast down` stops it.

    \b
    Examples
      holdfast up
      holdfast up examples/clusters/chain-of-three.toml --base-port 9000
      holdfast up --trace traces/today
    """
    cluster = load_cluster(file) if file else default_cluster()
    if base_port is not None:
        cluster = cluster.at_base_port(base_port)
    with locked(state):
        earlier = read_state(state)
        if earlier is not None and (alive := earlier.alive(machines_of(earlier.cluster))):
            processes = counted(len(alive), "process", "processes")
            raise ConfigError(
                f"cluster {earlier.cluster.name} is running in {state} already ({processes}); "
                "stop it with `holdfast down`, or name another --state."
            )
        # Whoever restarts a broker may stand in another directory.
        asyncio.run(_start(cluster, state, str(trace.resolve()) if trace else "", with_clients=clients))
    count = len(cluster.brokers)
    if count == 1:
        note(f"the broker is ready; clients connect to {cluster.root.address}")
    else:
        note(f"{count} brokers are ready; clients connect to {cluster.root.address} or to any other")


async def _start(cluster: Cluster, state: Path, trace: str, *, with_clients: bool) -> None:
    processes = Processes(cluster, state, attached=False, trace=trace)
    ready: list[str] = []
    with progress() as advance:

        def on_ready(name: str) -> None:
            ready.append(name)
            advance("brokers", len(ready), len(cluster.brokers))

        await processes.start_brokers(on_ready)
    try:
        await processes.start_repositories()
    except BaseException:
        await processes.stop()
        raise
    if with_clients:
        for client in cluster.clients:
            processes.start_replica(client)
    write_state(state, State(cluster, processes.let_go(), trace))


def down(state: StateDirectory = STATE_DIRECTORY) -> None:
    """Stop the cluster that `holdfast up` started: processes drain and end; one that does not end is killed.

    Logs and traces of other machines are fetched to this one. Exit code 1 if a machine gives no answer: its processes
    may live on, and are stopped when this is said again.

    \b
    Examples
      holdfast down
      holdfast down --state /tmp/chain
    """
    running = running_state(state)
    machines = machines_of(running.cluster)
    with locked(state):
        alive = running.alive(machines)
        killed = asyncio.run(stop_processes(alive, machines))
        left = [one for one in running.running if one.machine in machines.lost]
        fetch(machines, running.running, running.trace, state)
        forget(machines)
        if left:
            write_state(state, State(running.cluster, left, running.trace))
        else:
            forget_state(state)
    note(f"stopped {counted(len(alive), 'process', 'processes')} of cluster {running.cluster.name}")
    if killed:
        note(f"these did not leave in time and were killed: {', '.join(killed)}")
    for machine, reason in machines.lost.items():
        titles = ", ".join(one.title for one in left if one.machine == machine)
        note(f"{reason} These may live on: {titles}; say `holdfast down` again when machine {machine} answers.")
    if left:
        raise typer.Exit(1)


def status(
    context: typer.Context,
    state: StateDirectory = STATE_DIRECTORY,
    address: RemoteAddress = "",
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again every second, until Ctrl-C; as lines, with --json.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the broker tree as it is now, with its clients. Exit code 1 if a broker is not ready.

    Each broker is asked for its parent, so after a failure this is the repaired tree; brokers that do not answer are
    listed at the end. During a repair a line ↻ below a broker says for what it waits, and which brokers it misses.
    `holdfast why NAME` lists everything for which a broker waits.

    With --address, or the environment variable HOLDFAST_ADDRESS, the command asks a cluster that runs elsewhere: the
    broker at that address knows where the others are. The health endpoints of the brokers have to be within reach.

    \b
    Examples
      holdfast status --watch
      holdfast status --address broker-1.example:7400
      holdfast status --json | jq '.brokers[] | select(.ready | not) | .name'
    """
    places = remote_places(context, address)
    look = partial(remote_status, places) if places else _looker(running_state(state, has_address=True).cluster)
    if watch:
        asyncio.run(_watch(look, as_json))
        return
    seen = asyncio.run(look())
    if as_json:
        print_json(seen)
    else:
        console.print(tree_of(seen))
    if not seen.ready:
        raise typer.Exit(1)


def _looker(cluster: Cluster) -> Callable[[], Coroutine[Any, Any, ClusterStatus]]:
    return partial(cluster_status, cluster, machines_of(cluster).ask_broker)


async def _watch(look: Callable[[], Coroutine[Any, Any, ClusterStatus]], as_json: bool) -> None:
    while as_json:
        print_line(msgspec.json.encode(await look(), enc_hook=str).decode())
        await asyncio.sleep(WATCH_S)
    if not console.is_terminal:
        while True:
            console.print(tree_of(await look()))
            await asyncio.sleep(WATCH_S)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(tree_of(await look()), refresh=True)
            await asyncio.sleep(WATCH_S)


def tree_of(seen: ClusterStatus) -> Tree:
    """The cluster as it looks from the root, as the brokers report it."""
    tree = Tree(f"cluster {seen.cluster}, protocol {seen.protocol}", guide_style="dim")
    shown: set[str] = set()
    for broker in seen.tops():
        _add_broker(tree, seen, broker, shown)
    # Asked one after the other while they repair, they may name each other: then nobody of them is at the top.
    for broker in seen.brokers:
        if broker.answers and broker.name not in shown:
            _add_broker(tree, seen, broker, shown)
    for broker in seen.silent():
        tree.add(_broker_line(broker))
    return tree


def _add_broker(tree: Tree, seen: ClusterStatus, broker: BrokerStatus, shown: set[str]) -> None:
    shown.add(broker.name)
    branch = tree.add(_broker_line(broker))
    for sentence in broker.healing:
        branch.add(Text(f"↻ {sentence}", style="yellow"))
    for client in broker.clients:
        branch.add(Text(f"□ {client}", style="dim"))
    for child in seen.children(broker.name):
        if child.name not in shown:
            _add_broker(branch, seen, child, shown)


def _broker_line(broker: BrokerStatus) -> Text:
    line = Text()
    mark = "●" if broker.ready else "○" if broker.answers else "✗"
    line.append(f"{mark} ", style="green" if broker.ready else "red")
    line.append(broker.name, style="bold")
    line.append(f"  {broker.address.removeprefix('holdfast://')}", style="dim")
    if broker.answers and broker.parent is None:
        line.append("  root", style="bold")
    if broker.ready:
        line.append(_figures(broker.status), style="dim")
    else:
        line.append(f"  {broker.reason}", style="red")
    if cut_off := broker.status.get("cut_off"):
        line.append(f"  cut off from {', '.join(cut_off)}", style="yellow")
    return line


def _figures(said: dict[str, Any]) -> str:
    backlog = sum(said.get("backlog_bytes", {}).values())
    waiting = f", {counted(backlog, 'byte')} waiting" if backlog else ""
    slow = "".join(f", {name} is slow ({_slow(one)})" for name, one in said.get("slow", {}).items())
    return f"  {counted(said.get('subscriptions', 0), 'subscription')}{waiting}{slow}"


def _slow(one: dict[str, Any]) -> str:
    """How far a client is behind, and what becomes of that."""
    behind = f"{counted(one['bytes'], 'byte')} behind" if one["bytes"] else "not behind now"
    return f"{', '.join(one['policies'])}: {behind}" + (f", {one['dropped']} dropped" if one["dropped"] else "")


def broker(
    name: Annotated[str, typer.Argument(help="Name of this broker.")],
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Take everything else from a cluster file.")] = None,
    parent: Annotated[
        str, typer.Option("--parent", help="The broker above: NAME@HOST:PORT, or HOST:PORT of one that is running.")
    ] = "",
    host: Annotated[str, typer.Option("--host", help="Where to listen.")] = LOOPBACK,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: let the system choose.")] = BASE_PORT,
    health_port: Annotated[int, typer.Option("--health-port", min=0, max=65535, help="0: no health endpoint.")] = 0,
    cluster: Annotated[
        str, typer.Option("--cluster", help="The cluster's name; its clients say it too.")
    ] = CLUSTER_NAME,
    protocol: ProtocolName = "ginger",
    tolerance: Annotated[
        int, typer.Option("--tolerance", min=0, max=DELTA_MAX, help="Adjacent brokers that may be lost at once.")
    ] = 0,
    trace: Annotated[str, typer.Option("--trace", help="A directory for the trace of what it reports.")] = "",
    state_dir: Annotated[
        str, typer.Option("--state-dir", help="A directory for the state that the broker needs after a crash.")
    ] = "",
) -> None:
    """Run one broker in the foreground; SIGTERM or Ctrl-C drains it and ends it. It logs JSON lines to stderr.

    A broker joins a running tree with the address of any broker of it: the broker at that address tells its name, its
    protocol and the tolerance of the tree.

    In the directory --state-dir the broker keeps its epoch, the addresses of its neighbours and the numbers of
    publishers. Started again after a crash, with the same options, it finds the tree even if the brokers that its
    options name are gone. With --file the directory is .holdfast/state, unless the file or the option names another.

    \b
    Examples
      holdfast broker solo --port 7400 --health-port 7500
      holdfast broker leaf --port 7401 --parent solo@127.0.0.1:7400
      holdfast broker newcomer --port 7409 --parent 127.0.0.1:7400
      holdfast broker middle --file examples/clusters/chain-of-three.toml --state-dir /var/lib/holdfast
    """
    check_name("a broker", name)
    if file is not None:
        described = load_cluster(file)
        settings = broker_settings(described, described.broker(name), trace, newcomer=None, directory=DEFAULT_DIRECTORY)
        if state_dir:
            settings = msgspec.structs.replace(settings, state_dir=state_dir)
    else:
        find_protocol(protocol)
        above, addresses, seeds = _parent(parent)
        settings = BrokerSettings(
            name=name,
            parent=above,
            cluster=cluster,
            protocol=protocol,
            host=host,
            port=port,
            health_port=health_port or None,
            addresses=addresses,
            seeds=seeds,
            tolerance=tolerance,
            newcomer=None,
            state_dir=state_dir,
            trace=trace,
        )
    raise typer.Exit(run_broker(settings, complain))


def _parent(text: str) -> tuple[str | None, dict[str, Address], tuple[Address, ...]]:
    """The parent's name and where it is; or merely where it is, if there is no name."""
    if not text:
        return None, {}, ()
    name, at, place = text.rpartition("@")
    if (at and not name) or ":" not in place:
        raise ConfigError(f"--parent {text!r} cannot be read; write NAME@HOST:PORT, or HOST:PORT of one that runs.")
    addresses = parse_addresses(place)
    return (name, {name: addresses[0]}, ()) if name else (None, {}, addresses)
