"""The command line: parse, call, render. Nobody imports it."""

from holdfast.cli.app import main

__all__ = ["main"]
