"""What was typed at the prompt, as a script that plays the same again.

On real processes time passes while somebody thinks; the pauses between commands become lines `Wait`.
"""

from pathlib import Path
from time import monotonic

from holdfast.cluster.play.grammar import Statement
from holdfast.cluster.play.statements import ClientLine, Setup
from holdfast.model.errors import ConfigError

PAUSE_S_MIN = 0.05
HEAD = "# Recorded by holdfast play --record, on {stage}.\n"


class Recording:
    """A script that grows with each line that was carried out."""

    def __init__(self, path: Path, stage: str) -> None:
        if path.exists():
            raise ConfigError(f"--record {path} is there already; name a new file, or remove it first.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("x")
        except OSError as error:
            raise ConfigError(f"--record {path} cannot be written: {error.strerror or error}.") from None
        self._pauses = stage == "processes"
        self._ended_at: float | None = None
        self._write(HEAD.format(stage=stage))

    def _write(self, text: str) -> None:
        self._file.write(text)
        # Whatever ends the session, what was typed is there.
        self._file.flush()

    def add(self, statement: Statement, begun_at: float) -> None:
        """A line that was carried out; `begun_at` is when that began."""
        acts = not isinstance(statement, Setup | ClientLine)
        if acts and self._pauses and self._ended_at is not None and begun_at - self._ended_at >= PAUSE_S_MIN:
            self._write(f"Wait {round((begun_at - self._ended_at) * 100) * 10}\n")
        self._write(f"{statement.text}\n")
        if acts:
            self._ended_at = monotonic()

    def close(self) -> None:
        self._file.close()
