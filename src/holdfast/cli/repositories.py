"""`holdfast repository` and `holdfast topics`: who keeps what is published, and how far its readers are."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from holdfast.cli.options import DEFAULT_ADDRESS, Address, AsJson, ClusterName, check_name, help_of
from holdfast.cli.output import complain, console, note, print_json
from holdfast.client import connect
from holdfast.client.listening import Listener
from holdfast.cluster.config import CLUSTER_NAME, LOOPBACK, load_cluster
from holdfast.cluster.processes import repository_settings
from holdfast.cluster.repository_process import run_repository
from holdfast.model.batches import Batch
from holdfast.model.errors import ConfigError
from holdfast.model.reliable import LEVELS, Level, Retention
from holdfast.model.topics import check_pattern
from holdfast.protocols.narada.directory import ASKING_TOPIC, answer_topic, question, read_answer
from holdfast.runtime.process import run
from holdfast.services.repository_settings import RepositorySettings

ANSWERS_S = 1.0
COLUMNS = ("stream", "repository", "state", "stored", "missing", "damaged", "durable subscribers")


def repository(
    name: Annotated[str, typer.Argument(help="Name of this repository; the same name finds its store again.")],
    streams: Annotated[
        list[str] | None, typer.Option("--stream", "-s", help="A reliable topic, such as 'bank/#'. Repeatable.")
    ] = None,
    store: Annotated[
        str, typer.Option("--store", help="sqlite:PATH, segments:DIR or postgresql://...; sqlite:NAME.db if not said.")
    ] = "",
    level: Annotated[
        str, typer.Option("--level", help="Where a message is when it is acknowledged: memory, written or fsynced.")
    ] = Level.FSYNCED.value,
    keep_s: Annotated[
        float | None, typer.Option("--keep-s", min=1.0, help="Remove messages after so many seconds; default: never.")
    ] = None,
    keep_bytes: Annotated[
        int | None,
        typer.Option("--keep-bytes", min=1, help="Remove the oldest messages of a stream beyond so many bytes."),
    ] = None,
    forget_unread: Annotated[
        bool, typer.Option("--forget-unread", help="Remove unread messages, too; their readers get a gap.")
    ] = False,
    address: Address = DEFAULT_ADDRESS,
    cluster: ClusterName = CLUSTER_NAME,
    host: Annotated[
        str, typer.Option("--host", help="Where its health endpoint listens, for Spark to read.")
    ] = LOOPBACK,
    health_port: Annotated[int, typer.Option("--health-port", min=0, max=65535, help="0: no health endpoint.")] = 0,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Take everything else from a cluster file.")] = None,
) -> None:
    """Run one repository in the foreground: it stores the messages of its reliable topics for durable subscribers.

    Every repository of a topic stores all its messages; of N repositories N-1 may be lost. A repository that is new, or
    was away, first fetches the missing messages from the others. SIGTERM or Ctrl-C ends it; every message that it has
    acknowledged is in its store.

    \b
    Examples
      holdfast repository r1 --stream 'bank/#'
      holdfast repository r2 --stream 'bank/#' --store segments:r2 --level written -a 127.0.0.1:7401
      holdfast repository r3 --stream 'bank/#' --keep-s 604800
    """
    check_name("a repository", name)
    if level not in LEVELS:
        raise ConfigError(f"--level {level!r} is no level; choose one of {', '.join(LEVELS)}.")
    if file is not None:
        described = load_cluster(file)
        raise typer.Exit(run_repository(repository_settings(described, described.repository(name)), complain))
    if not streams:
        raise ConfigError("a repository keeps something: name a topic or a pattern with --stream.")
    settings = RepositorySettings(
        name=name,
        addresses=tuple(one.strip() for one in address.split(",")),
        store=store,
        streams=tuple(streams),
        cluster=cluster,
        level=Level(level),
        retention=dict.fromkeys(streams, Retention(keep_s, keep_bytes, not forget_unread)),
        host=host,
        health_port=health_port or None,
    )
    raise typer.Exit(run_repository(settings, complain))


topics_app = typer.Typer(name="topics", invoke_without_command=True, rich_markup_mode="rich")


def topics(
    context: typer.Context,
    address: Address = DEFAULT_ADDRESS,
    cluster: ClusterName = CLUSTER_NAME,
    as_json: AsJson = False,
) -> None:
    """Show the reliable topics: their repositories, the stored messages, and the lag of each durable subscriber.

    Exit code 1 if no repository answers.

    \b
    Examples
      holdfast topics
      holdfast topics --json | jq '.[].streams'
    """
    if context.invoked_subcommand is not None:
        return
    found = run(_ask(address, cluster))
    if as_json:
        print_json(found)
    elif found:
        console.print(_table(found))
    if not found:
        note("no repository answers; start one with `holdfast repository`")
        raise typer.Exit(1)


def forget(
    name: Annotated[str, typer.Argument(help="The name of the durable subscription.")],
    pattern: Annotated[str, typer.Argument(help="What it was subscribed to, or the reliable topic that it read.")],
    address: Address = DEFAULT_ADDRESS,
    cluster: ClusterName = CLUSTER_NAME,
) -> None:
    """End a durable subscription whose reader will not come back: nothing is kept for it any more.

    Every repository forgets it, those that are away when they return. Somebody who reads under that name, now or later,
    begins a new subscription. A name that nobody knows is no error.

    \b
    Examples
      holdfast topics forget billing 'bank/#'
    """
    check_name("a durable subscription", name)
    check_pattern(pattern)
    run(_forget(name, pattern, address, cluster))
    note(f"the subscription {name} to {pattern} is over")


async def _forget(name: str, pattern: str, address: str, cluster: str) -> None:
    async with connect(address, cluster=cluster) as client:
        await client.forget_subscription(name, pattern)


topics_app.callback(help=help_of(topics))(topics)
topics_app.command(help=help_of(forget))(forget)


async def _ask(address: str, cluster: str) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}

    def hear(batch: Batch) -> None:
        for payload in batch.payload_list():
            said = read_answer(payload)
            if said is not None:
                # Whoever may publish may publish nonsense.
                with suppress(msgspec.DecodeError):
                    found[said.repository] = msgspec.json.decode(said.status, type=dict[str, Any])

    async with connect(address, cluster=cluster) as client:
        await client.subscribe_as(Listener(client, answer_topic(client.name), hear))
        client.publish_nowait(ASKING_TOPIC, question(client.name), 0)
        await asyncio.sleep(ANSWERS_S)
    return [found[name] for name in sorted(found)]


def _table(found: list[dict[str, Any]]) -> Table:
    table = Table(*COLUMNS, box=None, pad_edge=False)
    witnesses = _witnesses(found)
    for one in found:
        for stream, said in one["streams"].items():
            readers = ", ".join(
                f"{name} at {about['sync']:,}" + (f" ({about['lag']:,} behind)" if about["lag"] else "")
                for name, about in said["subscribers"].items()
                if witnesses[stream, name] == one["name"]
            )
            kept = f"{said['end'] - said['kept'] + 1:,}" + (f" from {said['kept']:,}" if said["kept"] > 1 else "")
            lacking = (str(said["places"]), str(said["damaged"]))
            table.add_row(stream, one["name"], said["state"], kept, *lacking, readers or "none")
    return table


def _witnesses(found: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """For each stream and durable subscriber, the one repository that says how far the subscriber is.

    Every repository numbers the messages in an order of its own, and hears late of subscribers that read from another
    one: two positions of one subscriber would say nothing. The repository that the subscriber reads from knows best;
    if that one does not answer, the repository at which the subscriber is farthest.
    """
    claims: dict[tuple[str, str], list[tuple[bool, int, str]]] = {}
    for one in found:
        for stream, said in one["streams"].items():
            for name, about in said["subscribers"].items():
                is_elsewhere = about.get("steering") != one["name"]
                claims.setdefault((stream, name), []).append((is_elsewhere, about["lag"], one["name"]))
    return {who: min(claim)[-1] for who, claim in claims.items()}
