"""A room imports only the rooms above it: the scan that keeps the house as it is drawn."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.sources import PACKAGE, Import, imports_of, package_modules

# From the top of the house to its bottom.
ROOMS = (
    "model",
    "protocols",
    "storage",
    "simulation",
    "runtime",
    "client",
    "services",
    "cluster",
    "experiments",
    "pipeline",
    "web",
    "cli",
)
# What the order alone would allow and the design does not: one protocol, two drivers that know nothing of each other;
# and a pipeline that judges what they left behind without knowing either.
STRANGERS = {"runtime": {"simulation"}, "pipeline": {"simulation", "runtime"}}
# The two modules that live in no room. The face is what an application sees when it says `import holdfast`.
FACE, DOOR = "__init__.py", "__main__.py"
FACE_IMPORTS = {"model", "client"}
DOOR_IMPORTS = {"cli"}


def layering_violations(source: str, path: Path) -> list[str]:
    """Say every import in `source` that the house forbids; `path` is relative to the package's parent."""
    room = _room_of(path)
    if room not in {*ROOMS, FACE, DOOR}:
        return [f"{path}: there is no room {room}; the rooms are {', '.join(ROOMS)}"]
    allowed = _allowed(room)
    legal = ", ".join(name for name in (*ROOMS, "holdfast") if name in allowed)
    return [
        f"{path}:{imported.line}: {room} imports {target}; it may import only {legal}"
        for imported in imports_of(source, path)
        if (target := _room_imported(imported)) is not None and target not in allowed
    ]


def _room_of(path: Path) -> str:
    return path.parts[1]


def _allowed(room: str) -> set[str]:
    if room == FACE:
        return FACE_IMPORTS
    if room == DOOR:
        return DOOR_IMPORTS
    position = ROOMS.index(room)
    # The face stands on the client, so whoever may not import the client may not import the face either.
    face = {"holdfast"} if position > ROOMS.index("client") else set()
    return {*ROOMS[: position + 1], *face} - STRANGERS.get(room, set())


def _room_imported(imported: Import) -> str | None:
    package, *rest = imported.module.split(".")
    if package != "holdfast":
        return None
    if rest and (rest[0] in ROOMS or len(rest) > 1):
        return rest[0]
    return "holdfast"


@pytest.mark.parametrize("path", package_modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_imports_only_the_rooms_above_its_own(path: Path):
    assert layering_violations(path.read_text(), path.relative_to(PACKAGE.parent)) == []


@pytest.mark.parametrize(
    ("path", "source", "target"),
    [
        ("holdfast/model/topics.py", "from holdfast.protocols.routing import Table", "protocols"),
        ("holdfast/model/topics.py", "import holdfast.client", "client"),
        ("holdfast/model/topics.py", "from holdfast import __version__", "holdfast"),
        ("holdfast/model/topics.py", "from .. import protocols", "protocols"),
        ("holdfast/model/topics.py", "from ..protocols import routing", "protocols"),
        ("holdfast/model/__init__.py", "from ..protocols import routing", "protocols"),
        ("holdfast/protocols/ginger/node.py", "from ...simulation.clock import Clock", "simulation"),
        ("holdfast/protocols/links.py", "def f():\n    import holdfast.runtime.tcp", "runtime"),
        ("holdfast/protocols/links.py", "importlib.import_module('holdfast.runtime')", "runtime"),
        ("holdfast/protocols/links.py", "__import__('holdfast.runtime.tcp')", "runtime"),
        ("holdfast/simulation/network.py", "from holdfast.runtime import tcp", "runtime"),
        ("holdfast/runtime/broker.py", "from holdfast.simulation import network", "simulation"),
        ("holdfast/runtime/broker.py", "from holdfast import connect", "holdfast"),
        ("holdfast/client/aio.py", "from holdfast.services import bank", "services"),
        ("holdfast/web/page.py", "from holdfast.cli import main", "cli"),
        ("holdfast/services/bank.py", "from holdfast.attic.trunk import Coat", "attic"),
        ("holdfast/__init__.py", "from holdfast.runtime import tcp", "runtime"),
        ("holdfast/__init__.py", "from .cli import main", "cli"),
        ("holdfast/__main__.py", "from holdfast.runtime import tcp", "runtime"),
    ],
)
def test_an_import_from_below_is_reported_with_its_place(path: str, source: str, target: str):
    [violation] = layering_violations(source, Path(path))
    assert violation.startswith(f"{path}:{source.count(chr(10)) + 1}: ")
    assert f" imports {target};" in violation


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("holdfast/model/wire.py", "from holdfast.model.messages import Message\nimport msgspec"),
        ("holdfast/model/wire.py", "from . import messages"),
        ("holdfast/protocols/ginger/node.py", "from ..links import Link\nfrom holdfast.model import topics"),
        ("holdfast/simulation/network.py", "from holdfast.protocols import ginger"),
        ("holdfast/runtime/broker.py", "from holdfast.protocols import ginger\nfrom holdfast.storage import segments"),
        ("holdfast/services/bank.py", "import holdfast\nfrom holdfast import connect"),
        ("holdfast/cli/main.py", "from holdfast.simulation import network\nfrom holdfast.runtime import tcp"),
        ("holdfast/__init__.py", "from holdfast.client import connect\nfrom .model import Guarantee"),
        ("holdfast/__main__.py", "from holdfast.cli import main"),
        ("holdfast/model/wire.py", "import holdfaster.cli"),
    ],
)
def test_an_import_from_above_or_from_elsewhere_is_no_violation(path: str, source: str):
    assert layering_violations(source, Path(path)) == []


def test_the_command_line_starts_without_spark():
    # Importing pyspark takes most of a second, and most commands never need it.
    load = "import sys; from holdfast.cli.app import make_app; make_app()"
    asked = f"{load}; print(sorted({{'pyspark', 'pandas', 'pyarrow'}} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


@pytest.mark.parametrize("path", ["holdfast/utils/strings.py", "holdfast/helpers.py"])
def test_a_room_that_is_not_in_the_plan_is_refused(path: str):
    [violation] = layering_violations("", Path(path))
    assert "there is no room" in violation
