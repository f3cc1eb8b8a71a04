"""Options that several commands share, and how their texts are read."""

from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.markup import escape

from holdfast.client.addresses import Address as Place
from holdfast.client.addresses import parse_addresses
from holdfast.cluster.state import DEFAULT_DIRECTORY
from holdfast.model.errors import ConfigError
from holdfast.model.filters import Value

NAME_BYTES_MAX = 128
DEFAULT_ADDRESS = "holdfast://127.0.0.1:7400"

ADDRESS_VARIABLE = "HOLDFAST_ADDRESS"
"""The environment variable that says where the cluster is, for commands that are not told."""

Address = Annotated[
    str,
    typer.Option(
        "--address",
        "-a",
        envvar=ADDRESS_VARIABLE,
        help="Where the broker is; several, separated by commas, are tried in turn.",
    ),
]
RemoteAddress = Annotated[
    str,
    typer.Option(
        "--address",
        "-a",
        envvar=ADDRESS_VARIABLE,
        help="Ask a cluster that runs elsewhere: HOST:PORT of any broker, or of its health endpoint.",
    ),
]
ClusterName = Annotated[str, typer.Option("--cluster", help="The name of the cluster, if it has one of its own.")]
Name = Annotated[str | None, typer.Option("--name", "-n", help="Name of this client; without it a random one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text for people.")]
StateDirectory = Annotated[Path, typer.Option("--state", help="Where a running cluster is written down.")]
ProtocolName = Annotated[str, typer.Option("--protocol", "-p", help="Which protocol; `holdfast protocols` lists them.")]

STATE_DIRECTORY = DEFAULT_DIRECTORY


def remote_places(context: typer.Context, address: str) -> tuple[Place, ...]:
    """Where to ask a cluster that runs elsewhere; nothing if the one that --state names is meant."""
    given = {
        name
        for name in ("address", "state")
        if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    }
    if given == {"address", "state"}:
        raise ConfigError("--address asks a cluster elsewhere, and --state one of this machine: choose one of them.")
    return parse_addresses(address) if address and "state" not in given else ()


def check_name(what: str, name: str) -> None:
    """Raise `ConfigError` if nobody could be called that."""
    if not name or not name.isprintable() or len(name.encode(errors="replace")) > NAME_BYTES_MAX:
        raise ConfigError(f"{what} has a name of 1 to {NAME_BYTES_MAX} bytes that can be printed, not {name!r}.")


def parse_attributes(pairs: list[str]) -> dict[str, Value]:
    """Each `name=value`; a value that is a JSON number, boolean or string is one, anything else is text."""
    attributes: dict[str, Value] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"--attr {pair!r} is no attribute; write name=value, as in --attr amount=120.")
        attributes[name] = _value(text)
    return attributes


def _value(text: str) -> Value:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, str | int | float | bool) else text


def parse_seeds(text: str) -> range:
    """`7` is one seed, `1..200` are two hundred."""
    first, dots, last = text.partition("..")
    try:
        seeds = range(int(first), int(last if dots else first) + 1)
    except ValueError:
        raise ConfigError(f"--seeds {text!r} cannot be read; write a number, or two as in 1..200.") from None
    if not seeds or seeds.start < 0:
        raise ConfigError(f"--seeds {text!r} has no seed in it; write the smaller one first, from 0 on, as in 1..200.")
    return seeds


def help_of(command: Callable[..., None]) -> str:
    """The docstring with each paragraph on one line, for the terminal to wrap; examples stay as they are.

    Brackets, as in `[machines.west]`, are text here and not markup, which would leave them out.
    """
    paragraphs = cleandoc(command.__doc__ or "").split("\n\n")
    lines = (text if text.startswith("\b") else " ".join(text.split()) for text in paragraphs)
    return escape("\n\n".join(lines))
