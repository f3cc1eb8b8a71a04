"""The compiled build that `make fast` leaves behind, and whether it is one of the sources that run here.

A build is a copy of the whole package in which machines and simulator have extension modules beside their sources. It
lies in `build/fast/DIGEST`, and the digest is that of all sources and of the interpreter: a build of other sources has
another name, so no process can take it for a build of these. Only processes that make many simulated runs are started
with it. Whatever changes machines while it runs, as tests do, never meets it.
"""

import os
import sysconfig
from hashlib import sha256
from pathlib import Path

import holdfast

PACKAGE = Path(holdfast.__file__).parent
BUILDS = PACKAGE.parents[1] / "build" / "fast"
DIGEST_CHARACTERS = 16
SWITCH = "HOLDFAST_FAST"
"""With 0 in this variable of the environment no build is used."""


def digest_of(package: Path) -> str:
    """The name of a build of these sources by this interpreter."""
    found = sha256(str(sysconfig.get_config_var("EXT_SUFFIX")).encode())
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        found.update(f"\n{path.relative_to(package).as_posix()} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()[:DIGEST_CHARACTERS]


def find_build(package: Path = PACKAGE, builds: Path = BUILDS) -> Path | None:
    """The directory to import the compiled package from; none if there is no build of exactly these sources."""
    if os.environ.get(SWITCH) == "0" or not builds.is_dir():
        return None
    build = builds / digest_of(package)
    return build if build.is_dir() else None


def is_outdated(package: Path = PACKAGE, builds: Path = BUILDS) -> bool:
    """Whether there is a build, but of other sources."""
    if os.environ.get(SWITCH) == "0" or not builds.is_dir():
        return False
    return find_build(package, builds) is None and any(len(one.name) == DIGEST_CHARACTERS for one in builds.iterdir())


def environment_with(build: Path | None) -> dict[str, str] | None:
    """The environment of a process that is to import the package from there; none if it need not be told."""
    if build is None:
        return None
    places = [str(build), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
