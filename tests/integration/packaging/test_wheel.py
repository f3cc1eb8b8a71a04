"""The wheel: built from a copy of the source, installed with the pinned requirements into an empty environment."""

import email
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT

LIMIT_S = 300.0
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE", "src")
UNREACHABLE = re.compile("NewConnectionError|Temporary failure in name resolution|Network is unreachable")
PROGRAM = """
import holdfast
for name in holdfast.__all__:
    getattr(holdfast, name)
from importlib.metadata import metadata
print(metadata("holdfast")["Name"], holdfast.__version__, holdfast.__file__)
"""


def run(*command: object, cwd: Path) -> str:
    """What a command prints; nothing of this repository is on its path."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ran = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if UNREACHABLE.search(ran.stderr):
        pytest.skip("the package index cannot be reached")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("wheel")
    source = work / "source"
    source.mkdir()
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(ROOT / name, source / name)
    quiet = ("-qq", "--disable-pip-version-check", "--no-input")
    run(sys.executable, "-m", "pip", "wheel", *quiet, "--no-deps", "--wheel-dir", work, source, cwd=work)
    [made] = work.glob("holdfast-*.whl")
    return made


def test_the_wheel_says_what_it_is(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [place] = [name for name in names if name.endswith(".dist-info/METADATA")]
        said = email.message_from_bytes(archive.read(place))
    assert {"holdfast/py.typed", "holdfast/pipeline/report.css"} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "benchmarks"))]
    assert said["Description-Content-Type"] == "text/markdown"
    assert str(said.get_payload()).startswith("# Holdfast\n")
    versions = {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)}
    assert versions <= set(said.get_all("Classifier", []))
    assert said["License-Expression"] == "Apache-2.0"


def test_the_wheel_works_in_an_environment_that_has_nothing_else(wheel: Path, tmp_path: Path):
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    quiet = ("-qq", "--disable-pip-version-check", "--no-input")
    run(python, "-m", "pip", "install", *quiet, "--constraint", ROOT / "requirements.txt", wheel, cwd=tmp_path)
    name, version, place = run(python, "-c", PROGRAM, cwd=tmp_path).split()
    assert (name, wheel.name.split("-")[1]) == ("holdfast", version)
    assert Path(place).is_relative_to(tmp_path / "venv")
    assert run(tmp_path / "venv" / "bin" / "holdfast", "--version", cwd=tmp_path) == f"holdfast {version}\n"
    assert "ginger" in run(tmp_path / "venv" / "bin" / "holdfast", "protocols", cwd=tmp_path)
