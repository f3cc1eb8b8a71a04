"""All commands, and what becomes of their errors.

Exit codes: 0 if it worked, 1 if what was examined is not right (a promise broken, a broker not ready) or something
failed on the way, 2 if what was asked for cannot be, 130 after Ctrl-C.
"""

import sys
from importlib import import_module
from typing import Annotated, NamedTuple

import typer

from holdfast import __version__
from holdfast.cli import EXIT_INTERRUPTED
from holdfast.cli.options import help_of
from holdfast.cli.output import complain, print_line
from holdfast.model.errors import HoldfastError, WorkFailed

EXIT_FAILED, EXIT_MISUSE = 1, 2


def _show_version(wanted: bool) -> None:
    if wanted:
        print_line(f"holdfast {__version__}")
        raise typer.Exit


def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Publish/subscribe in which every message picks its own delivery guarantee."""
    del version
    if context.invoked_subcommand is None:
        print_line(context.get_help())


class Commands(NamedTuple):
    """Commands of one module of this package, under one heading of the help."""

    panel: str
    module: str
    names: tuple[str, ...]


class Group(NamedTuple):
    """A command with commands of its own."""

    panel: str
    module: str
    attribute: str
    name: str


_CLUSTERS, _PROOFS, _FIGURES = "A cluster on this machine, or on several", "Runs in virtual time, and proofs", "Figures"
COMMANDS = (
    Commands("Begin here", "demonstration", ("demo",)),
    Commands(_CLUSTERS, "clusters", ("up", "status", "down", "broker")),
    Commands(_CLUSTERS, "agents", ("agent",)),
    Commands(_CLUSTERS, "routes", ("route",)),
    Commands(
        "Faults, and what becomes of them",
        "faults",
        ("crash", "freeze", "thaw", "restart", "leave", "cut", "heal", "why"),
    ),
    Commands("Messages", "messages", ("pub", "sub")),
    Commands("Reliable topics", "repositories", ("repository",)),
    Commands(_PROOFS, "plays", ("play",)),
    Commands(_PROOFS, "simulations", ("simulate", "campaign")),
    Commands(_PROOFS, "explorations", ("explore",)),
    Commands(_PROOFS, "nights", ("night",)),
    Commands(_PROOFS, "audits", ("audit",)),
    Commands(_FIGURES, "benchmarks", ("bench",)),
    Commands(_FIGURES, "experiments", ("experiment",)),
    Commands(_FIGURES, "simulations", ("protocols",)),
)
GROUPS = (
    Group("Reliable topics", "repositories", "topics_app", "topics"),
    Group("What repositories keep", "stores", "app", "store"),
    Group("The data pipeline, on Spark", "pipeline", "app", "pipeline"),
)
VERSION = "--version"


def make_app(wanted: str = "") -> typer.Typer:
    """The application with the command `wanted` alone, or with all commands where no command has that name.

    One command needs one module, and loading all of them takes a third of a second.
    """
    app = typer.Typer(
        name="holdfast",
        help="Publish/subscribe in which every message picks its own delivery guarantee.",
        invoke_without_command=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    known = {name for commands in COMMANDS for name in commands.names} | {group.name for group in GROUPS}
    chosen = {wanted} if wanted in known | {VERSION} else known
    for commands in COMMANDS:
        for name in commands.names:
            if name in chosen:
                command = getattr(import_module(f"holdfast.cli.{commands.module}"), name)
                app.command(help=help_of(command), rich_help_panel=commands.panel)(command)
    for group in GROUPS:
        if group.name in chosen:
            part = getattr(import_module(f"holdfast.cli.{group.module}"), group.attribute)
            app.add_typer(part, rich_help_panel=group.panel)
    return app


def main() -> None:
    """Run the command that the arguments of this process name, and exit."""
    try:
        # A command returns nothing and raises its exit code, if it has one, as `typer.Exit`.
        code = make_app(*sys.argv[1:2])(standalone_mode=False)
        if code == EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        sys.exit(code)
    except typer.TyperException as error:
        complain(f"{_sentence(error.format_message() or 'a command is missing')} {_advice(error)}")
        sys.exit(EXIT_MISUSE)
    except WorkFailed as error:
        complain(str(error))
        sys.exit(EXIT_FAILED)
    except HoldfastError as error:
        complain(str(error))
        sys.exit(EXIT_MISUSE)
    except ExceptionGroup as group:
        _complain_about(group)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        complain(f"the system refused{where}: {error.strerror or error}.")
        sys.exit(EXIT_MISUSE)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _advice(error: typer.TyperException) -> str:
    context: typer.Context | None = getattr(error, "ctx", None)
    return f"`{context.command_path if context else 'holdfast'} --help` says what is possible."


def _complain_about(group: "ExceptionGroup[Exception]") -> None:
    """Of several things that went wrong at once the first is enough to say, unless one is a defect."""
    ours, defects = group.split(HoldfastError)
    if defects is not None or ours is None:
        raise group
    first: BaseException = ours
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    complain(str(first))
    sys.exit(EXIT_FAILED if isinstance(first, WorkFailed) else EXIT_MISUSE)
