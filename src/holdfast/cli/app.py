"""All commands, and what becomes of their errors.

Exit codes: 0 if it worked, 1 if what was examined is not right (a promise broken, a broker not ready) or something
failed on the way, 2 if what was asked for cannot be, 130 after Ctrl-C.
"""

import sys
from typing import Annotated

import typer

from holdfast import __version__
from holdfast.cli import (
    EXIT_INTERRUPTED,
    agents,
    audits,
    benchmarks,
    clusters,
    demonstration,
    experiments,
    explorations,
    faults,
    messages,
    nights,
    pipeline,
    plays,
    repositories,
    routes,
    simulations,
    stores,
)
from holdfast.cli.options import help_of
from holdfast.cli.output import complain, print_line
from holdfast.cluster.machines import MachineError
from holdfast.cluster.play.performance import PlayError
from holdfast.cluster.processes import ProcessError
from holdfast.cluster.workers import WorkerError
from holdfast.model.errors import HoldfastError

EXIT_FAILED, EXIT_MISUSE = 1, 2

app = typer.Typer(
    name="holdfast",
    help="Publish/subscribe in which every message picks its own delivery guarantee.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print_line(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
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


for panel, commands in (
    ("Begin here", (demonstration.demo,)),
    ("A cluster on this machine, or on several", (clusters.up, clusters.status, clusters.down, clusters.broker)),
    ("A cluster on this machine, or on several", (agents.agent, routes.route)),
    (
        "Faults, and what becomes of them",
        (faults.crash, faults.freeze, faults.thaw, faults.restart, faults.leave, faults.cut, faults.heal, faults.why),
    ),
    ("Messages", (messages.pub, messages.sub)),
    ("Reliable topics", (repositories.repository,)),
    (
        "Runs in virtual time, and proofs",
        (plays.play, simulations.simulate, simulations.campaign, explorations.explore, nights.night, audits.audit),
    ),
    ("Figures", (benchmarks.bench, experiments.experiment, simulations.protocols)),
):
    for command in commands:
        app.command(help=help_of(command), rich_help_panel=panel)(command)
app.add_typer(repositories.topics_app, rich_help_panel="Reliable topics")
app.add_typer(stores.app, rich_help_panel="What repositories keep")
app.add_typer(pipeline.app, rich_help_panel="The data pipeline, on Spark")


def main() -> None:
    """Run the command that the arguments of this process name, and exit."""
    try:
        # A command returns nothing and raises its exit code, if it has one, as `typer.Exit`.
        code = app(standalone_mode=False)
        if code == EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        sys.exit(code)
    except typer.TyperException as error:
        complain(f"{_sentence(error.format_message() or 'a command is missing')} {_advice(error)}")
        sys.exit(EXIT_MISUSE)
    except (ProcessError, WorkerError, MachineError, PlayError) as error:
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
    sys.exit(EXIT_FAILED if isinstance(first, ProcessError | WorkerError | MachineError) else EXIT_MISUSE)
