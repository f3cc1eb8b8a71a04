"""A compiled build is used only if it is one of the sources that run here, by processes started with it."""

import os
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.cluster.compiled import PACKAGE, SWITCH, digest_of, environment_with, find_build, is_outdated

ROOT = Path(__file__).parents[3]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(SWITCH, raising=False)
    (tmp_path / "package" / "part").mkdir(parents=True)
    (tmp_path / "package" / "part" / "one.py").write_text("x = 1\n")
    return tmp_path / "package"


@pytest.fixture
def builds(tmp_path: Path, package: Path) -> Path:
    """Where there is a build of the package."""
    (tmp_path / "builds" / digest_of(package)).mkdir(parents=True)
    return tmp_path / "builds"


def script() -> ModuleType:
    spec = spec_from_file_location("fast", ROOT / "scripts" / "fast.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_build_of_these_sources_is_found(package: Path, builds: Path):
    assert find_build(package, builds) == builds / digest_of(package)
    assert not is_outdated(package, builds)


@pytest.mark.parametrize(("path", "text"), [("part/one.py", "x = 2\n"), ("part/two.py", ""), ("one.py", "x = 1\n")])
def test_a_build_of_other_sources_is_not_used_and_that_is_said(package: Path, builds: Path, path: str, text: str):
    (package / path).write_text(text)
    assert find_build(package, builds) is None
    assert is_outdated(package, builds)


def test_where_nothing_was_built_nothing_is_found_and_nothing_is_said(package: Path, tmp_path: Path):
    assert find_build(package, tmp_path / "builds") is None
    assert not is_outdated(package, tmp_path / "builds")


def test_a_build_that_is_not_finished_is_neither_used_nor_outdated(package: Path, tmp_path: Path):
    (tmp_path / "builds" / "unfinished-123").mkdir(parents=True)
    assert find_build(package, tmp_path / "builds") is None
    assert not is_outdated(package, tmp_path / "builds")


def test_the_switch_turns_builds_off(package: Path, builds: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(SWITCH, "0")
    assert find_build(package, builds) is None
    assert not is_outdated(package, builds)


def test_a_process_imports_the_build_before_anything_else(builds: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    environment = environment_with(builds)
    assert environment is not None
    assert environment["PYTHONPATH"] == f"{builds}{os.pathsep}elsewhere"
    assert environment_with(None) is None


@pytest.mark.parametrize(
    ("source", "fits"),
    [
        ("class A:\n    x: int\n", True),
        ("class A(Struct):\n    x: int\n", True),
        ("class A(Struct, frozen=True):\n    x: int\n", False),
        ("@runtime_checkable\nclass A(Protocol):\n    x: int\n", False),
    ],
)
def test_a_module_that_mypyc_would_change_stays_interpreted(source: str, fits: bool):
    assert script().is_compilable(source) is fits


def test_the_hot_modules_can_be_compiled():
    chosen = {path.as_posix() for path in script().modules(PACKAGE)}
    hot = {"protocols/hub.py", "protocols/links.py", "protocols/ginger/repairing_broker.py", "simulation/kernel.py"}
    hot |= {"simulation/hosts.py", "simulation/network.py", "protocols/comparators/meshes.py"}
    assert {f"holdfast/{name}" for name in hot} <= chosen
