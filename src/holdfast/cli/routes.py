"""`holdfast route`: where a message would go in a cluster, without starting it."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson, parse_attributes
from holdfast.cli.output import console, print_json
from holdfast.cluster.config import load_cluster
from holdfast.cluster.routes import NodeRoute, Routes


def route(
    file: Annotated[Path, typer.Argument(help="A cluster file with clients and their subscriptions.")],
    topic: Annotated[str, typer.Option("--topic", help="The topic of the message.")],
    attributes: Annotated[
        list[str] | None, typer.Option("--attr", help="name=value, as its publisher would say. Repeatable.")
    ] = None,
    at: Annotated[str, typer.Option("--at", help="The broker, or client, where it is published.")] = "",
    failed: Annotated[str, typer.Option("--failed", help="Nodes that are failed, by commas.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show which nodes a message would go to: the recipients that each node computes, and the way it takes.

    For `protocol = "delta"` these are the recipient sets of the paper, for the file's tolerance; clients are nodes of
    the tree. Nodes in --failed are gone past. With --at, only nodes on the way of the message have a next one.

    \b
    Examples
      holdfast route examples/clusters/delta.toml --topic orders --attr amount=120
      holdfast route examples/clusters/delta.toml --topic orders --at b1 --failed b2,b3 --json
    """
    names = tuple(one.strip() for one in failed.split(",") if one.strip())
    found = Routes(load_cluster(file), names).for_topic(topic, parse_attributes(attributes or []), at)
    if as_json:
        nodes = {name: {"recipients": list(one.recipients), "next": list(one.next)} for name, one in found.items()}
        print_json({"nodes": nodes})
        return
    _print(found)


def _print(found: dict[str, NodeRoute]) -> None:
    width = max(len(name) for name in found)
    for name, one in found.items():
        recipients = ", ".join(one.recipients) or "nobody"
        onwards = f"  -> {', '.join(one.next)}" if one.next else ""
        console.print(f"{name:<{width}}  {recipients}{onwards}", highlight=False, markup=False)
