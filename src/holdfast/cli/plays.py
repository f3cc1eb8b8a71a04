"""`holdfast play`: scripts that play an evening of a cluster, on the simulator or on real processes."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import msgspec
import typer

from holdfast.cli.clusters import tree_of
from holdfast.cli.options import AsJson
from holdfast.cli.output import console, note, notes, print_json, print_line
from holdfast.cli.prompts import SOURCE, WELCOME, Prompt, Screen, close_editor, open_editor
from holdfast.cluster.play.cast import Cast, check_script
from holdfast.cluster.play.grammar import Statement, parse_script
from holdfast.cluster.play.performance import Performance, Summary
from holdfast.cluster.play.processes import ProcessStage
from holdfast.cluster.play.recording import Recording
from holdfast.cluster.play.simulated import SimulatedStage
from holdfast.cluster.play.stage import Stage
from holdfast.cluster.status import ClusterStatus
from holdfast.model.errors import ConfigError
from holdfast.model.plurals import counted
from holdfast.model.trace import Event
from holdfast.model.verdicts import Verdict
from holdfast.storage.traces import write_trace

FILE_BYTES_MAX = 1 << 20


class On(StrEnum):
    """Where a script is played."""

    SIMULATION = "simulation"
    PROCESSES = "processes"


def play(
    script: Annotated[
        Path | None, typer.Argument(help="A script, one command a line; without it, a prompt to type commands at.")
    ] = None,
    on: Annotated[
        On | None,
        typer.Option("--on", help="Virtual time, or real processes. Scripts: simulation; the prompt: processes."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", "-s", min=0, help="The seed of a simulation, instead of the script's own.")
    ] = None,
    trace: Annotated[Path | None, typer.Option("--trace", "-t", help="Write the trace into this directory.")] = None,
    log: Annotated[Path | None, typer.Option("--log", help="Write the event log to this file, not to stdout.")] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep logs, traces and state of processes there.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="At the prompt: write what is typed as a script.")
    ] = None,
    secret_file: Annotated[
        Path | None, typer.Option("--secret-file", help="The secret that the agents of the script's machines have.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Play a script: start a cluster, publish, crash, cut and heal as its lines say, and judge what came of it.

    The same script runs in virtual time (--on simulation, where a seed gives one run to the byte) and with real
    processes on this machine (--on processes). It prints an event log, and at its end the verdict of the audit.
    Exit code 1 if a line `Expect ...` is not fulfilled or a promise was broken, 2 if a line cannot be read.

    Without a script commands are typed at a prompt while the cluster runs; Help lists them. With --record they become
    a script. docs/play.md describes the language.

    \b
    Examples
      holdfast play examples/scripts/brokers-lost-in-turn.play
      holdfast play examples/scripts/bank.play --on processes --trace traces/bank
      holdfast play examples/scripts/partition.play --seed 7 --log events.txt --json
      holdfast play --record evening.play
    """
    if script is None:
        _play_at_prompt(on or On.PROCESSES, seed, trace, log, keep, record, secret_file, as_json=as_json)
        return
    if record is not None:
        raise ConfigError("--record writes what is typed at the prompt; with a script there is nothing to type.")
    lines = read_script(script)
    check_script(lines, str(script))
    with ExitStack() as stack:
        stage = _stage(stack, on or On.SIMULATION, seed, keep)
        say = _sayer(stack, log, as_json=as_json)
        show = show_aside if as_json else show_status
        summary, rows = asyncio.run(_play(Performance(stage, _cast(str(script), secret_file), say, show), lines))
    _report(summary, rows, trace, as_json=as_json)


def _play_at_prompt(
    on: On,
    seed: int | None,
    trace: Path | None,
    log: Path | None,
    keep: Path | None,
    record: Path | None,
    secret_file: Path | None,
    *,
    as_json: bool,
) -> None:
    with ExitStack() as stack:
        stage = _stage(stack, on, seed, keep)
        recording = Recording(record, stage.name) if record is not None else None
        if recording is not None:
            stack.callback(recording.close)
        cast, screen = _cast(SOURCE, secret_file), Screen()
        screen.editor = open_editor(cast)
        stack.callback(close_editor, screen.editor)
        if screen.editor is not None:
            print_line(WELCOME)
        say = screen.say if log is None and not as_json else _sayer(stack, log, as_json=as_json)
        show = show_aside if as_json else show_status
        prompt = Prompt(Performance(stage, cast, say, show), screen, recording)
        summary, rows = prompt.run()
    if record is not None:
        note(f"what was typed is in {record}; `holdfast play {record}` plays it again")
    _report(summary, rows, trace, as_json=as_json)


def _cast(source: str, secret_file: Path | None) -> Cast:
    cast = Cast(source)
    cast.secret_file = str(secret_file.resolve()) if secret_file is not None else ""
    return cast


def _stage(stack: ExitStack, on: On, seed: int | None, keep: Path | None) -> Stage:
    if on is On.SIMULATION:
        return SimulatedStage(seed)
    if keep is None:
        return ProcessStage(Path(stack.enter_context(TemporaryDirectory(prefix="holdfast-play-"))))
    if keep.exists() and any(keep.iterdir()):
        raise ConfigError(f"--keep {keep} is not empty; name a new directory, so that runs are not mixed up.")
    return ProcessStage(keep)


def read_script(path: Path) -> list[Statement]:
    """The lines of a script's file."""
    try:
        data = path.read_bytes()
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError(f"The script {path} has {len(data)} bytes; at most {FILE_BYTES_MAX} are read.")
        return parse_script(data.decode("utf-8-sig"), str(path))
    except FileNotFoundError:
        raise ConfigError(f"There is no script {path}; examples/scripts has some to start from.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"The script {path} is not UTF-8 text (byte {error.start}).") from None
    except OSError as error:
        raise ConfigError(f"The script {path} cannot be read: {error.strerror or error}.") from None


def _sayer(stack: ExitStack, log: Path | None, *, as_json: bool) -> Callable[[str], None]:
    """Where the lines of the event log go."""
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        file = stack.enter_context(log.open("w"))

        def write(line: str) -> None:
            file.write(line + "\n")
            file.flush()

        return write
    return (lambda _: None) if as_json else print_line


async def _play(performance: Performance, lines: list[Statement]) -> tuple[Summary, list[Event]]:
    try:
        for statement in lines:
            await performance.perform(statement)
        return await performance.finish()
    finally:
        await performance.end()


def show_status(seen: ClusterStatus) -> None:
    """The tree, beside the event log."""
    console.print(tree_of(seen))


def show_aside(seen: ClusterStatus) -> None:
    """The tree on stderr: stdout is for JSON."""
    notes.print(tree_of(seen))


def _report(summary: Summary, rows: list[Event], trace: Path | None, *, as_json: bool) -> None:
    written = str(write_trace(trace, rows)) if trace is not None else ""
    if not summary.played:
        note("nothing was played: there is no action, such as Publish, Wait or Status")
    if as_json:
        print_json({**msgspec.to_builtins(summary), "trace": written})
    else:
        _print_summary(summary, written)
    if not summary.ok:
        raise typer.Exit(1)


def _print_summary(summary: Summary, written: str) -> None:
    for failure in summary.failures:
        print_line(f"line {failure.line}: {failure.text}: {failure.complaint}")
    verdict = msgspec.convert({key: value for key, value in summary.verdict.items() if key != "ok"}, Verdict)
    for example in verdict.examples:
        print_line(f"  {example}")
    met = summary.expectations - sum(one.text.casefold().startswith("expect") for one in summary.failures)
    faults = ", ".join(f"{count} {kind}" for kind, count in verdict.faults.items() if count) or "nothing"
    where = f"simulation, seed {summary.seed}" if summary.virtual_s is not None else summary.stage
    took = f"{summary.virtual_s:.3f} s of virtual time" if summary.virtual_s is not None else f"{summary.seconds:.1f} s"
    print_line(
        f"{summary.protocol} on {where}: {counted(summary.published, 'publication')}, "
        f"{counted(verdict.deliveries, 'delivery', 'deliveries')} in {took}; "
        f"{met} of {counted(summary.expectations, 'expectation')} met; the audit finds {faults} wrong"
    )
    if written:
        note(f"the trace is in {written}; `holdfast audit {Path(written).parent}` judges it again")
