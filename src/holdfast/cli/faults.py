"""`holdfast crash`, `freeze`, `thaw`, `restart`, `cut`, `heal` and `why`: see a running cluster suffer and recover."""

import asyncio
import signal
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from holdfast.cli.options import STATE_DIRECTORY, AsJson, RemoteAddress, StateDirectory, remote_places
from holdfast.cli.output import note, print_json, print_line
from holdfast.client.addresses import Address
from holdfast.cluster import faults
from holdfast.cluster.agents.remote import machines_of
from holdfast.cluster.config import Cluster
from holdfast.cluster.processes import Processes, kill_node, repository_host, signal_node
from holdfast.cluster.remote_status import ask, remote_status
from holdfast.cluster.site_config import Site
from holdfast.cluster.state import State, locked, running_state, write_state
from holdfast.cluster.status import broker_status, tell
from holdfast.model.errors import ConfigError
from holdfast.model.plurals import counted

LEAVE_S = 30.0
POLL_S = 0.05

BrokerName = Annotated[str, typer.Argument(help="A broker of the cluster, as `holdfast status` names it.")]


def crash(name: BrokerName, state: StateDirectory = STATE_DIRECTORY) -> None:
    """Kill a broker with SIGKILL: no last words, nothing drained, as if its machine had lost power.

    In a cluster with a tolerance of 1 or 2 the others repair the tree and its clients move to other brokers; nothing
    is lost, repeated or reordered. Without a tolerance its clients lose their sessions, and what is behind it is cut
    off until it is back.

    \b
    Examples
      holdfast crash 1 && holdfast status
      holdfast restart 1
    """
    running = _running(state, name)
    title = asyncio.run(kill_node(running.running, name, machines_of(running.cluster)))
    note(f"{title} is killed; {_what_follows(running.cluster, title)}")


def freeze(name: BrokerName, state: StateDirectory = STATE_DIRECTORY) -> None:
    """Stop a broker with SIGSTOP: its connections stay open, and nothing comes through them any more.

    The others notice its silence within a second. One that is thawed before that goes on as if nothing had happened;
    one that is thawed later learns that it was given up, and comes back as a newcomer.

    \b
    Examples
      holdfast freeze 2 && sleep 2 && holdfast thaw 2
    """
    running = _running(state, name)
    title = signal_node(running.running, name, signal.SIGSTOP, machines_of(running.cluster))
    note(f"{title} is frozen; {_what_follows(running.cluster, title)}")


def thaw(name: BrokerName, state: StateDirectory = STATE_DIRECTORY) -> None:
    """Let a frozen broker go on (SIGCONT).

    \b
    Examples
      holdfast thaw 2
    """
    running = _running(state, name)
    title = signal_node(running.running, name, signal.SIGCONT, machines_of(running.cluster))
    note(f"{title} goes on")


def restart(name: BrokerName, state: StateDirectory = STATE_DIRECTORY) -> None:
    """Start a broker again that has crashed, under the same name and address; returns when it serves.

    In a cluster with a tolerance it joins the repaired tree as a newcomer: below the parent of its file if that one
    takes it in, else below any other broker. It may so stand elsewhere than before. A broker of LoCaMu comes back to
    its place, with what it had written down.

    \b
    Examples
      holdfast restart 1
    """
    with locked(state):
        running = _running(state, name)
        processes = Processes(running.cluster, state, attached=False, trace=running.trace)
        processes.running = list(running.running)
        asyncio.run(_restart(processes, name, state, running.trace))
    note(f"{'repository' if _is_repository(running.cluster, name) else 'broker'} {name} is ready")


async def _restart(processes: Processes, name: str, state: Path, trace: str) -> None:
    processes.restart(name)
    # Written down at once: whatever happens next, `holdfast down` finds it.
    write_state(state, State(processes.cluster, list(processes.running), trace))
    try:
        await processes.wait_ready(name)
    finally:
        processes.let_go()


def leave(name: BrokerName, state: StateDirectory = STATE_DIRECTORY) -> None:
    """Let a leaf of a LoCaMu tree leave it for good; returns when every broker knows. Its name is not used again.

    Brokers of LoCaMu keep their places: one that is stopped or crashed is waited for. One that is not to come back
    leaves with this command. Only leaves can: those below it leave first. Its clients have to go to other brokers.

    \b
    Examples
      holdfast leave right-b && holdfast status
    """
    with locked(state):
        running = _running(state, name)
        asyncio.run(_leave(running, name))
        brokers = tuple(one for one in running.cluster.brokers if one.name != name)
        cluster = msgspec.structs.replace(running.cluster, brokers=brokers)
        left = [one for one in running.running if one.title != f"broker {name}"]
        write_state(state, State(cluster, left, running.trace))
    note(f"broker {name} has left the tree")


async def _leave(running: State, name: str) -> None:
    machines = machines_of(running.cluster)
    process = next((one for one in running.alive(machines) if one.title == f"broker {name}"), None)
    if process is None:
        raise ConfigError(f"broker {name} is not running; start it again with `holdfast restart {name}`, then it can.")
    await tell(running.cluster.broker(name), "/leave", machines.ask_broker)
    deadline = monotonic() + LEAVE_S
    while machines.is_alive(process):
        if monotonic() > deadline:
            raise ConfigError(
                f"broker {name} is still leaving after {LEAVE_S:g} s: all brokers have to hear of it, so bring those "
                "back that are absent, and say it again."
            )
        await asyncio.sleep(POLL_S)


def cut(
    name: BrokerName,
    other: Annotated[str, typer.Argument(help="The broker to cut it off from.")],
    state: StateDirectory = STATE_DIRECTORY,
) -> None:
    """Cut two brokers off from each other: both drop and refuse connections with the other, until `holdfast heal`.

    It is the brokers that do it, so no privileges are needed; the rest of the network is as before. Each of the two
    takes the other for lost.

    \b
    Examples
      holdfast cut 0 1 && holdfast status
      holdfast heal
    """
    cluster = _running(state, name).cluster
    if name == other:
        raise ConfigError(f"broker {name} cannot be cut off from itself; name two brokers.")
    asyncio.run(faults.cut(cluster, name, other, machines_of(cluster).ask_broker))
    note(f"brokers {name} and {other} are cut off from each other until `holdfast heal`")


def heal(state: StateDirectory = STATE_DIRECTORY) -> None:
    """Take every cut back.

    \b
    Examples
      holdfast heal
    """
    cluster = running_state(state).cluster
    healed = asyncio.run(faults.heal(cluster, machines_of(cluster).ask_broker))
    note(f"{counted(healed, 'broker has', 'brokers have')} taken every cut back")


def why(
    context: typer.Context,
    name: BrokerName,
    state: StateDirectory = STATE_DIRECTORY,
    address: RemoteAddress = "",
    as_json: AsJson = False,
) -> None:
    """Say in words for what a broker waits: messages on their way to the top, a repair, credit, a dead peer.

    Exit code 1 if it does not answer.

    With --address, or the environment variable HOLDFAST_ADDRESS, it is a broker of a cluster that runs elsewhere. A
    repository that runs elsewhere is asked at its own health endpoint.

    \b
    Examples
      holdfast why 1
      holdfast why b2 --address broker-1.example:7400
      holdfast why 1 --json | jq '.waiting_for[]'
    """
    places = remote_places(context, address)
    answer = (
        asyncio.run(_asked_elsewhere(name, places))
        if places
        else _asked_here(_running(state, name, has_address=True), name)
    )
    reasons = [str(reason) for reason in answer.said.get("waiting_for", ())]
    if as_json:
        said = {"answers": bool(answer.said), "silence": answer.silence, "waiting_for": reasons}
        print_json({"name": name, "kind": answer.title.partition(" ")[0], **said})
    else:
        for reason in reasons or (["nothing"] if answer.said else []):
            print_line(f"{answer.title} waits for {reason}")
        if answer.silence:
            print_line(answer.silence)
    if not answer.said:
        raise typer.Exit(1)


class Explanation(NamedTuple):
    """What a broker or a repository says of itself; if it says nothing, why that is."""

    title: str
    said: dict[str, Any]
    silence: str = ""


def _asked_here(running: State, name: str) -> Explanation:
    """The same of a cluster that was started here."""
    cluster, machines = running.cluster, machines_of(running.cluster)
    if _is_repository(cluster, name):
        one = cluster.repository(name)
        title, reason = f"repository {name}", "nobody listens on its health port"
        said = asyncio.run(machines.health_of(title, one.machine, repository_host(cluster, one), one.health_port))
    else:
        answer = asyncio.run(broker_status(cluster.broker(name), machines.ask_broker))
        title, reason, said = f"broker {name}", answer.reason, answer.status
    if said:
        return Explanation(title, said)
    process = next((one for one in running.alive(machines) if one.title == title), None)
    if process is None and machines.lost:
        return Explanation(title, {}, f"{title} does not answer: {reason}; {' '.join(machines.lost.values())}")
    if process is None:
        return Explanation(title, {}, f"{title} is not running; `holdfast restart {name}` starts it again")
    if machines[process.machine].is_frozen(process):
        return Explanation(title, {}, f"{title} is frozen; `holdfast thaw {name}` lets it go on")
    return Explanation(title, {}, f"{title} does not answer: {reason}")


async def _asked_elsewhere(name: str, places: tuple[Address, ...]) -> Explanation:
    """The same of a cluster that runs elsewhere."""
    for answer in await asyncio.gather(*map(ask, places)):
        if answer.name == name and answer.said and not answer.is_broker:
            return Explanation(f"repository {name}", answer.said)
    seen = await remote_status(places)
    for broker in seen.brokers:
        if broker.name == name:
            title = f"broker {name}"
            silence = "" if broker.answers else f"{title} does not answer: {broker.reason}"
            return Explanation(title, broker.status if broker.answers else {}, silence)
    listed = ", ".join(broker.name for broker in seen.brokers)
    raise ConfigError(
        f"cluster {seen.cluster} has no broker {name} that can be found; there are {listed}. "
        "A repository is asked at its own health endpoint."
    )


def _running(state: Path, name: str, has_address: bool = False) -> State:
    running = running_state(state, has_address)
    if not _is_repository(running.cluster, name):
        running.cluster.broker(name)
    return running


def _is_repository(cluster: Cluster, name: str) -> bool:
    return any(one.name == name for one in cluster.repositories)


def _what_follows(cluster: Cluster, title: str) -> str:
    if title.startswith("repository"):
        return "the other repositories of its topics stand in for it, if there are any; `holdfast topics` shows them"
    name = title.rpartition(" ")[2]
    site = cluster.site_of(name)
    if site is not None:
        return _what_follows_in(site, name)
    if cluster.is_fixed and cluster.tolerance:
        return "the others pass it over and keep what it lacks; `holdfast status` shows it"
    if cluster.tolerance:
        return "the others repair the tree; `holdfast status` shows it"
    return (
        "this cluster has no tolerance: the sessions of its clients are lost, and what is behind it is cut off until "
        f"`holdfast restart {name}`"
    )


def _what_follows_in(site: Site, broker: str) -> str:
    losses = (len(site.members) - 1) // 2
    if not losses:
        return f"it is the only broker of site {site.name}, which is waited for until `holdfast restart {broker}`"
    return (
        f"the others of site {site.name} stand in for it, and lose nothing while no more than {losses} of "
        f"{len(site.members)} are away; `holdfast restart {broker}` brings it back"
    )
