"""The command line: parse, call, render. Nobody imports it."""

import sys
from importlib import import_module

EXIT_INTERRUPTED = 130


def main() -> None:
    """The `holdfast` command."""
    try:
        # Loading all commands takes a moment in which Ctrl-C must be as quiet as later.
        import_module("holdfast.cli.app").main()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
