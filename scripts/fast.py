"""Compile the machines and the simulator with mypyc: `make fast`. Campaigns use the build as long as no source changes.

The build goes to `build/fast/DIGEST` (see `holdfast.cluster.compiled`), and only after runs that were made with it left
the same traces, to the byte, as runs of the sources. It takes one to three minutes of two processors.
"""

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from holdfast.cluster.compiled import BUILDS, PACKAGE, digest_of, environment_with  # noqa: E402

HOT = (
    "model/costs.py",
    "model/identities.py",
    "model/topics.py",
    "model/wire.py",
    "protocols/*.py",
    "protocols/comparators/*.py",
    "protocols/comparators/barriers/*.py",
    "protocols/comparators/cbcast/*.py",
    "protocols/comparators/delta_neighbourhood/*.py",
    "protocols/delta/*.py",
    "protocols/ginger/*.py",
    "protocols/sesdad/*.py",
    "simulation/applications.py",
    "simulation/carriers.py",
    "simulation/flips.py",
    "simulation/hosts.py",
    "simulation/kernel.py",
    "simulation/network.py",
)
"""What is compiled, if it can be. The other classes of brokers derive from what the ginger brokers derive from."""

TRIAL = """
from hashlib import sha256
from holdfast.model.trace import encode_line
from holdfast.protocols import hub
from holdfast.simulation.workloads import FAULT_KINDS, Trouble, random_scenario

print(hub.__file__.endswith(".py"))
crash, flap, links = Trouble((), "crash", 1), Trouble((), "flap", 1), Trouble(FAULT_KINDS)
cases = [("ginger", trouble) for trouble in (crash, flap, links)]
cases += [("delta", trouble) for trouble in (Trouble((), "chain", 2), Trouble((), "recovering", 1), links)]
cases += [(name, links) for name in ("barriers", "cbcast", "delta-neighbourhood", "locamu", "sesdad")]
for protocol, trouble in cases:
    for seed in range(1, 5):
        scenario = random_scenario(seed, protocol, trouble)
        sim = scenario.build()
        sim.run_until_quiet(scenario.limit_s)
        print(protocol, seed, sha256(b"".join(map(encode_line, sim.events))).hexdigest())
"""


def is_compilable(source: str) -> bool:
    """Whether mypyc makes of a module what the interpreter makes of it.

    mypyc drops the keywords of a class without a word (`frozen=True`, `gc=False`), and what it makes of a protocol
    cannot be asked for with `isinstance`.
    """
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    checked = [one for node in classes for one in node.decorator_list if ast.unparse(one).endswith("runtime_checkable")]
    return not checked and not any(node.keywords for node in classes)


def modules(package: Path) -> Iterator[Path]:
    """The modules to compile, relative to where the package lies."""
    for pattern in HOT:
        for path in sorted(package.glob(pattern)):
            if path.name != "__init__.py" and is_compilable(path.read_text()):
                yield path.relative_to(package.parent)


def compile_in(directory: Path) -> None:
    """Put extension modules beside the sources of the copy in that directory."""
    from mypyc.build import mypycify  # noqa: PLC0415 - only here, where it is known to be wanted
    from setuptools import Extension, setup  # noqa: PLC0415
    from setuptools.command.build_ext import build_ext  # noqa: PLC0415

    class BuildInParallel(build_ext):
        """One extension has all sources, and its compiler takes one after the other: here several at a time."""

        def build_extension(self, ext: Extension) -> None:
            def compiled(source: str) -> list[str]:
                return self.compiler.compile(
                    [source],
                    output_dir=self.build_temp,
                    include_dirs=ext.include_dirs,
                    extra_postargs=ext.extra_compile_args,
                )

            with ThreadPoolExecutor(os.cpu_count()) as pool:
                ext.extra_objects += [one for some in pool.map(compiled, ext.sources) for one in some]
            ext.sources = []
            super().build_extension(ext)

    os.chdir(directory)
    options = ["--config-file=", "--ignore-missing-imports", *map(str, modules(directory / "holdfast"))]
    setup(
        name="holdfast-fast",
        packages=[],
        ext_modules=mypycify(options, opt_level="2", debug_level="0", multi_file=True),
        cmdclass={"build_ext": BuildInParallel},
        script_args=["--quiet", "build_ext", "--inplace"],
    )
    shutil.rmtree(directory / "build", ignore_errors=True)


def trial(environment: dict[str, str]) -> list[str]:
    """Whether the sources ran, and the digests of some traces."""
    done = subprocess.run([sys.executable, "-c", TRIAL], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"fast: the trial run failed, so there is no build:\n{done.stderr}")
    return done.stdout.splitlines()


def main() -> None:
    target = BUILDS / digest_of(PACKAGE)
    if target.is_dir():
        print(f"fast: {target.relative_to(ROOT)} is the build of these sources")
        return
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        sys.exit(f"fast: there is no C compiler ({compiler}). Everything works without the build, only slower.")
    directory = BUILDS / f"unfinished-{os.getpid()}"
    shutil.copytree(PACKAGE, directory / "holdfast", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    try:
        print("fast: compiling; this takes one to three minutes", flush=True)
        log = directory / "log.txt"
        command = [sys.executable, __file__, "--compile", str(directory)]
        with log.open("w") as output:
            failed = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
        if failed:
            errors = [line for line in log.read_text().splitlines() if "warning:" not in line]
            sys.exit("\n".join(["fast: mypyc or the C compiler failed, so there is no build:", *errors[-30:]]))
        ours, theirs = (
            trial({**os.environ, "PYTHONPATH": str(PACKAGE.parent)}),
            trial(environment_with(directory) or {}),
        )
        if ours[0] != "True" or theirs[0] != "False" or ours[1:] != theirs[1:]:
            sys.exit("fast: compiled runs leave other traces than those of the sources, so there is no build.")
        directory.rename(target)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    for other in BUILDS.iterdir():
        if other != target and not other.name.startswith("unfinished-"):
            shutil.rmtree(other)
    print(f"fast: {target.relative_to(ROOT)} is made, and {len(ours) - 1} traces are the same; campaigns use it")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compile"]:
        compile_in(Path(sys.argv[2]))
    else:
        main()
