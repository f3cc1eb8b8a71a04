"""The table of commands: each name stands for a command of its module."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

from holdfast.cli.app import COMMANDS, GROUPS, make_app
from tests.unit.cli.command_line import CommandLine


def _names(wanted: str = "") -> set[str]:
    app = make_app(wanted)
    commands = {command.callback.__name__ for command in app.registered_commands if command.callback is not None}
    return commands | {str(group.typer_instance.info.name) for group in app.registered_groups if group.typer_instance}


def test_every_name_of_the_table_is_a_command_or_a_group() -> None:
    table = {name for commands in COMMANDS for name in commands.names} | {group.name for group in GROUPS}
    assert _names() == table


def test_a_name_of_the_table_loads_one_command_and_any_other_name_all_of_them() -> None:
    assert _names("status") == {"status"}
    assert _names("topics") == {"topics"}
    assert _names("--version") == set()
    assert _names("statsu") == _names()


def test_one_command_does_not_load_the_modules_of_others() -> None:
    program = (
        "import sys; from holdfast.cli.app import make_app; make_app('pub'); "
        "print([name for name in sys.modules if name.startswith(('holdfast.experiments', 'holdfast.simulation'))])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def _bracketed() -> Iterator[tuple[str, str]]:
    """Every text in brackets in the description of a command: rich takes some of them for markup, and drops them."""
    for commands in COMMANDS:
        for name in commands.names:
            told = getattr(import_module(f"holdfast.cli.{commands.module}"), name).__doc__ or ""
            yield from ((name, found) for found in re.findall(r"\[[a-z][^\[\]]*\]", told))


@pytest.mark.parametrize(("command", "text"), sorted(set(_bracketed())))
def test_the_help_of_a_command_shows_what_its_description_has_in_brackets(
    holdfast: CommandLine, command: str, text: str
) -> None:
    assert text in holdfast(command, "--help").out
