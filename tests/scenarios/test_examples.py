"""Every scenario in examples/ does what it says it shows."""

from pathlib import Path

import pytest

from holdfast.simulation.scenarios import load_scenario

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "scenarios").glob("*.toml"))


def test_there_are_examples():
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_begins_with_what_it_shows_and_expects_something(path: Path):
    text = path.read_text()
    assert text.startswith("# ")
    assert "[expect" in text


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_comes_out_as_it_expects(path: Path):
    scenario = load_scenario(path)
    sim = scenario.build(check_invariants=True)
    sim.run_until_quiet(scenario.limit_s)
    assert scenario.complaints(sim, sim.check()) == []


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem != "bank"], ids=lambda path: path.stem)
def test_an_example_does_so_with_other_seeds_too(path: Path, seed: int):
    scenario = load_scenario(path)
    sim = scenario.build(seed=seed, check_invariants=True)
    sim.run_until_quiet(scenario.limit_s)
    assert scenario.complaints(sim, sim.check()) == []
