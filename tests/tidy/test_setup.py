"""The set-up script, driven with a Python that only pretends: what it installs, when, and how it refuses."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT

# It keeps a diary of what it was asked, and makes environments whose Python is itself. The flags are files, so that a
# test can take an ability away: no `new` is a Python that is too old, no `ensurepip` one without python3-venv.
FAKE_PYTHON = """#!/bin/sh
flags={home}/flags
case "$*" in
    --version) echo "Python 3.99" ;;
    *"version_info <"*) [ -e $flags/new ] ;;
    *version_info*) echo 3.99 ;;
    *"import ensurepip"*) [ -e $flags/ensurepip ] ;;
    *"-m pip --version"*) [ -e $flags/pip ] ;;
    *"-m pip install"*) [ -e $flags/index ] && echo "$*" >>{home}/diary ;;
    *"-m virtualenv --version"*) [ -e $flags/virtualenv ] ;;
    *"-m venv"* | *"-m virtualenv"*)
        echo "$*" >>{home}/diary
        for target; do :; done
        mkdir -p $target/bin && cp "$0" $target/bin/python && touch $flags/pip ;;
    *) exit 9 ;;
esac
"""
FAKE_APT_GET = """#!/bin/sh
echo "apt-get $*" >>{home}/diary
case "$1" in install) touch {home}/flags/ensurepip ;; esac
"""


@dataclass
class Newcomer:
    """Somebody with a copy of the project, few tools on PATH and one Python."""

    home: Path

    @property
    def project(self) -> Path:
        return self.home / "project"

    def setup(self, level: str = "run") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.project / "scripts/setup", level],
            env={"PATH": str(self.home / "bin"), "POSTGRES_HOME": str(self.home / "postgresql")},
            capture_output=True,
            text=True,
            check=False,
        )

    def diary(self) -> list[str]:
        """What Python and apt-get were asked since the last look."""
        path = self.home / "diary"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def can(self, *abilities: str) -> None:
        flags = self.home / "flags"
        shutil.rmtree(flags, ignore_errors=True)
        flags.mkdir()
        for ability in abilities:
            (flags / ability).touch()

    def tool(self, name: str, text: str) -> None:
        path = self.home / "bin" / name
        path.write_text(text.format(home=self.home))
        path.chmod(0o755)


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    someone = Newcomer(tmp_path)
    (tmp_path / "bin").mkdir()
    for tool in ("sh", "dirname", "cat", "rm", "mkdir", "cp", "touch", "mktemp", "sha256sum", "cksum", "flock"):
        if found := shutil.which(tool):
            (tmp_path / "bin" / tool).symlink_to(found)
    someone.tool("python3", FAKE_PYTHON)
    someone.tool("id", "#!/bin/sh\necho 1000\n")
    someone.tool("initdb", "#!/bin/sh\n")
    someone.can("new", "ensurepip", "index")
    (someone.project / "scripts").mkdir(parents=True)
    for name in ("scripts/setup", "pyproject.toml", *(path.name for path in ROOT.glob("requirements*.txt"))):
        shutil.copy(ROOT / name, someone.project / name)
    return someone


def test_the_first_run_makes_an_environment_and_installs_the_pins_then_the_package(newcomer: Newcomer):
    done = newcomer.setup()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "setup: making .venv with Python 3.99",
        "setup: installing requirements.txt",
        "setup: installing holdfast itself, editable",
    ]
    made, pins, package = newcomer.diary()
    assert made == "-m venv .venv"
    assert pins.endswith("-r requirements.txt")
    assert package.endswith("--no-deps --editable .")


def test_the_second_run_says_nothing_and_does_nothing(newcomer: Newcomer):
    newcomer.setup("dev")
    newcomer.diary()
    # What tests need includes what running needs, so neither of the two has anything left to do.
    for level in ("dev", "run"):
        again = newcomer.setup(level)
        assert (again.returncode, again.stdout, again.stderr, newcomer.diary()) == (0, "", "", [])


def test_a_machine_without_postgresql_is_given_a_server_for_the_tests_alone(newcomer: Newcomer):
    (newcomer.home / "bin" / "initdb").unlink()
    newcomer.setup()
    assert not any("pgserver" in line for line in newcomer.diary())
    done = newcomer.setup("dev")
    assert (done.returncode, done.stderr) == (0, "")
    assert any("--no-deps" in line and "pgserver==" in line for line in newcomer.diary())


def test_a_server_of_debian_is_found_without_path(newcomer: Newcomer):
    (newcomer.home / "bin" / "initdb").unlink()
    place = newcomer.home / "postgresql" / "15" / "bin"
    place.mkdir(parents=True)
    (place / "initdb").write_text("#!/bin/sh\n")
    (place / "initdb").chmod(0o755)
    newcomer.setup("dev")
    assert not any("pgserver" in line for line in newcomer.diary())


@pytest.mark.parametrize("changed", ["pyproject.toml", "requirements.txt", "requirements-dev.txt"])
def test_a_changed_pin_is_installed_into_the_same_environment(newcomer: Newcomer, changed: str):
    newcomer.setup("dev")
    newcomer.diary()
    with (newcomer.project / changed).open("a") as file:
        file.write("# newer\n")
    assert newcomer.setup("dev").returncode == 0
    pins, _package = newcomer.diary()
    assert pins.endswith("-r requirements-dev.txt")


def test_a_project_that_was_moved_gets_a_new_environment(newcomer: Newcomer):
    newcomer.setup()
    newcomer.diary()
    elsewhere = newcomer.home / "elsewhere"
    newcomer.project.rename(elsewhere)
    shutil.copytree(elsewhere, newcomer.project)
    assert newcomer.setup().stdout == ""
    subprocess.run(
        [elsewhere / "scripts/setup"], env={"PATH": str(newcomer.home / "bin")}, check=True, capture_output=True
    )
    assert newcomer.diary()[0] == "-m venv .venv"


def test_an_installation_that_failed_is_tried_again_the_next_time(newcomer: Newcomer):
    newcomer.can("new", "ensurepip")
    failed = newcomer.setup()
    assert failed.returncode == 2
    assert "pip could not install requirements.txt" in failed.stderr
    newcomer.can("new", "ensurepip", "pip", "index")
    newcomer.diary()
    assert newcomer.setup().returncode == 0
    assert [line.split()[-1] for line in newcomer.diary()] == ["requirements.txt", "."]


def test_a_python_that_is_too_old_is_refused_with_what_to_install(newcomer: Newcomer):
    newcomer.can("ensurepip", "index")
    refused = newcomer.setup()
    assert refused.returncode == 2
    assert "no Python of at least 3.11" in refused.stderr
    assert newcomer.diary() == []


def test_without_ensurepip_root_gets_the_missing_package_from_apt(newcomer: Newcomer):
    newcomer.can("new", "index")
    newcomer.tool("id", "#!/bin/sh\necho 0\n")
    newcomer.tool("apt-get", FAKE_APT_GET)
    assert newcomer.setup().returncode == 0
    assert newcomer.diary()[:3] == ["apt-get update -qq", "apt-get install -y -qq python3.99-venv", "-m venv .venv"]


def test_without_ensurepip_a_virtualenv_that_is_there_will_do(newcomer: Newcomer):
    newcomer.can("new", "index", "virtualenv")
    assert newcomer.setup().returncode == 0
    assert newcomer.diary()[0] == "-m virtualenv --quiet .venv"


def test_without_ensurepip_pip_can_borrow_virtualenv(newcomer: Newcomer):
    newcomer.can("new", "index", "pip")
    assert newcomer.setup().returncode == 0
    borrowed, made = newcomer.diary()[:2]
    assert "--target" in borrowed
    assert made == "-m virtualenv --quiet .venv"


def test_without_any_way_to_make_an_environment_the_sentence_says_which_package_is_missing(newcomer: Newcomer):
    newcomer.can("new", "index")
    refused = newcomer.setup()
    assert refused.returncode == 2
    assert "Install the package python3-venv" in refused.stderr


def test_an_unknown_level_is_refused(newcomer: Newcomer):
    refused = newcomer.setup("everything")
    assert refused.returncode == 2
    assert refused.stderr == "setup: there is no level 'everything'; choose run, dev or bench.\n"


@pytest.mark.parametrize("path", sorted(ROOT.glob("requirements*.txt")), ids=lambda path: path.name)
def test_every_pin_is_exact_and_names_no_place(path: Path):
    pins = [line for line in path.read_text().splitlines() if not line.startswith(("#", "-r requirements"))]
    assert pins
    assert [line for line in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_the_scripts_can_be_run():
    for name in ("scripts/setup", "scripts/pins", ".ci/run"):
        assert os.access(ROOT / name, os.X_OK), name
