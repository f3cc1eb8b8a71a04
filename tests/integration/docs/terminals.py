"""A document's shell session: the reader's terminal, with a cluster on ports that nobody uses.

The documents say the ports of a first cluster, 7400 and on, and the health ports, 7500 and on. A test must not depend
on who has those: they stand for ports of a block of its own, in the text and as the default of `holdfast`.
"""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.documents import Example, problems_with
from tests.tidy.sources import ROOT

SESSION_S = 120.0
WAIT_S = 30
FIRST_BLOCK, LAST_BLOCK, BLOCK_PORTS = 10_000, 12_000, 200
"""Below the ports that other tests take (`cluster.ports`)."""
SAID_PORT = 7400

_PORT = re.compile(r"(127\.0\.0\.1:|\bport = |-port[ =])(7[45]\d\d)\b")

HOLDFAST = """#!/bin/sh
case " $* " in
*" -a "* | *" --address "* | *" --file "* | *" -f "* | *" --help "*) ;;
*)
    case "$1" in
    up) set -- "$@" --base-port {port} ;;
    pub | sub | topics) set -- "$@" -a 127.0.0.1:{port} ;;
    esac
    ;;
esac
exec "{python}" -m holdfast "$@"
"""


def said_here(text: str, base_port: int) -> str:
    """The text with ports of ours in the place of those that documents say."""
    return _PORT.sub(lambda found: f"{found[1]}{int(found[2]) - SAID_PORT + base_port}", text)


@contextmanager
def block_of_ports() -> Iterator[int]:
    """The first of as many ports as a cluster takes; the one before it is held for as long as they are used."""
    for start in range(FIRST_BLOCK, LAST_BLOCK, BLOCK_PORTS):
        with socket.socket() as claim:
            try:
                claim.bind(("127.0.0.1", start))
            except OSError:
                continue
            yield start + 1
            return
    raise AssertionError("every block of ports is taken")


class Session:
    """A shell in a directory of its own; `holdfast`, `python` and `examples` are the repository's."""

    def __init__(self, directory: Path, base_port: int) -> None:
        self.directory, self.base_port = directory, base_port
        tools = directory / ".tools"
        tools.mkdir()
        self._tool(tools / "holdfast", HOLDFAST.format(port=base_port, python=sys.executable))
        self._tool(tools / "python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (directory / "examples").symlink_to(ROOT / "examples")
        self.environment = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "200",
        }

    def _tool(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def run(self, examples: Sequence[Example]) -> None:
        """Run them one after the other, as one shell; raises `AssertionError` at the first that fails."""
        script = "set -eu -o pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || :' EXIT\n"
        script += "".join(self._lines(one) for one in examples)
        ended = subprocess.run(
            ["bash", "-c", said_here(script, self.base_port)],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SESSION_S,
            check=False,
        )
        at = ended.stdout.split()[-1] if ended.stdout.split() else "the beginning"
        assert ended.returncode == 0, f"{at} ended with {ended.returncode}: {ended.stderr}\n{self._printed(at)}"
        self._compare(examples)

    def _lines(self, example: Example) -> str:
        """What the shell does for one block."""
        begin, out = f"echo {example}\n", self._out(example)
        if name := example.option("file "):
            return f"{begin}mkdir -p \"$(dirname '{name}')\"\n{_written(name, example.text)}"
        if example.language == "python":
            name = f"example-{example.line}.py"
            return f'{begin}{_written(name, example.text)}python -W error {name} >"{out}" 2>&1\n'
        if example.language in ("toml", "text", "filter"):
            return ""
        if awaited := example.option("second terminal: "):
            return (
                f'{begin}(\n{example.text}) >"{out}" 2>&1 &\n'
                f"for _ in $(seq {WAIT_S * 20}); do grep -q '{awaited}' \"{out}\" && break; sleep 0.05; done\n"
                f"grep -q '{awaited}' \"{out}\"\n"
            )
        return f'{begin}{{\n{example.text}}} >"{out}" 2>&1\n'

    def _out(self, example: Example) -> str:
        return f"output-{Path(example.document).stem}-{example.line}.txt"

    def _printed(self, at: str) -> str:
        document, _, line = at.partition(":")
        path = self.directory / f"output-{Path(document).stem}-{line}.txt"
        return path.read_text() if path.exists() else ""

    def _compare(self, examples: Sequence[Example]) -> None:
        """What was printed is what the document says."""
        first = second = ""
        for one in examples:
            if one.language == "text":
                out = second if one.said == "output of second terminal" else first
                printed = (self.directory / out).read_text()
                assert problems_with(said_here(one.text, self.base_port), printed) == [], str(one)
            elif one.said.startswith("second terminal"):
                second = self._out(one)
            elif not one.option("file ") and one.language in ("sh", "python"):
                first = self._out(one)

    def close(self) -> None:
        """No cluster of this session goes on."""
        if (self.directory / ".holdfast" / "cluster.json").exists():
            subprocess.run(
                [str(self.directory / ".tools" / "holdfast"), "down"],
                cwd=self.directory,
                env=self.environment,
                capture_output=True,
                timeout=SESSION_S,
                check=False,
            )


def _written(name: str, text: str) -> str:
    return f"cat >'{name}' <<'END_OF_EXAMPLE'\n{text}END_OF_EXAMPLE\n"
