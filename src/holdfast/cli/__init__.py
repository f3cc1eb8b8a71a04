"""The command line: parse, call, render. Nobody imports it."""

import sys
from contextlib import suppress
from importlib import import_module

EXIT_INTERRUPTED = 130


def main() -> None:
    """The `holdfast` command."""
    try:
        # Loading all commands takes a moment in which Ctrl-C must be one sentence, as later.
        import_module("holdfast.cli.app").main()
    except KeyboardInterrupt:
        with suppress(OSError):
            sys.stderr.write("holdfast: interrupted.\n")
        sys.exit(EXIT_INTERRUPTED)
