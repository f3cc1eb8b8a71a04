"""What hurts whoever lives here is bounded: long chains of classes, large classes, other objects' private attributes.

`scripts/house.py` finds it in the sources; `house.toml` lists what is over a limit today. That list can only shrink.
"""

import ast
import gc
import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from tests.tidy.sources import ROOT


def _loaded() -> ModuleType:
    found = importlib.util.spec_from_file_location("house", ROOT / "scripts" / "house.py")
    assert found is not None
    assert found.loader is not None
    module = sys.modules["house"] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


house = _loaded()
LIMITS = ("levels", "methods", "attributes", "privates", "names")


@pytest.fixture(scope="module")
def over() -> dict[str, dict[str, int]]:
    # Trees of syntax are many objects without circles: to look for circles takes most of the time.
    gc.disable()
    try:
        found: dict[str, dict[str, int]] = house.over_limits()
    finally:
        gc.enable()
    return found


@pytest.mark.parametrize("limit", LIMITS)
def test_nothing_is_over_a_limit_but_what_was_and_not_further(limit: str, over: dict[str, dict[str, int]]):
    known = house.listed()[limit]
    worse = {name: f"{known.get(name, 'not listed')} -> {figure}" for name, figure in over[limit].items()}
    assert {name: said for name, said in worse.items() if over[limit][name] > known.get(name, 0)} == {}


@pytest.mark.parametrize("limit", LIMITS)
def test_an_exception_that_is_none_any_more_is_not_listed(limit: str, over: dict[str, dict[str, int]]):
    stale = sorted(set(house.listed()[limit]) - set(over[limit]))
    assert stale == [], "run: python scripts/house.py --shrink"


def test_the_list_shrinks_and_never_grows():
    before = {"levels": {"a.A": 5, "b.B": 3}, "names": {"C": 2}}
    now = {"levels": {"a.A": 4, "d.D": 9}, "names": {"C": 3}}
    assert house.shrunk(before, now) == {"levels": {"a.A": 4}, "names": {"C": 2}}


SOURCES = {
    "model.base": "class Base(ABC):\n    def __init__(self):\n        self.one = self._two = 1\n    def f(self): ...\n",
    "model.middle": "from holdfast.model.base import Base\nclass Middle(Base):\n    def f(self): return self._two\n",
    "model.top": (
        "from holdfast.model.middle import Middle\nclass Top(Middle):\n    def g(self): self.three = 1\n"
        "class Wrong(ValueError): ...\nclass Face(Protocol):\n    def f(self): ...\nclass Base(Face): ...\n"
        "def f(it):\n    it._two = 2\n    return it._own\nclass Other:\n    def __init__(self): self._own = 1\n"
    ),
}


def test_chains_overridden_methods_and_inherited_attributes_are_found():
    known = house.classes({name: ast.parse(source) for name, source in SOURCES.items()})
    top, middle = known["model.top.Top"], known["model.middle.Middle"]
    assert (top.levels, [one.name for one in top.ancestors]) == (3, ["model.middle.Middle", "model.base.Base"])
    assert (top.all_attributes, top.all_methods) == ({"one", "_two", "three"}, {"__init__", "f", "g"})
    assert (middle.overridden, middle.inherited_privates) == ({"f"}, {"_two"})
    assert known["model.top.Base"].levels == 1
    assert known["model.top.Wrong"].is_error


def test_private_attributes_of_other_objects_and_repeated_names_are_found():
    trees = {name: ast.parse(source) for name, source in SOURCES.items()}
    assert house.touched_privates(trees) == {"model.top: _two": 1}
    assert house.repeated_names(house.classes(trees)) == {"Base": 2}


# ---------------------------------------------------------------------------------------- the parts of a Ginger broker


def _parts_script() -> ModuleType:
    loader = SourceFileLoader("parts", str(ROOT / "scripts" / "parts"))
    found = importlib.util.spec_from_loader("parts", loader)
    assert found is not None
    module = importlib.util.module_from_spec(found)
    loader.exec_module(module)
    return module


def test_no_part_of_a_broker_sets_anything_of_another_one():
    script = _parts_script()
    known = script.parts()
    assert len(known) == 14
    assert {name: found for name in known if (found := script.set_elsewhere(name, known))} == {}


def test_what_a_part_sets_of_another_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    script = _parts_script()
    (tmp_path / "one.py").write_text("class One:\n    def f(self):\n        self._broker.other.kept = self._own = 1\n")
    monkeypatch.setattr(script, "GINGER", tmp_path)
    assert script.set_elsewhere("one", {"one": "One", "other": "Other"}) == ["self._broker.other.kept"]


def test_the_page_of_parts_is_what_the_sources_say():
    script = _parts_script()
    assert script.PAGE.read_text() == script.page()
