"""Every experiment on the bench, by name."""

from operator import attrgetter

from holdfast.experiments import ginger
from holdfast.experiments.experiment import Experiment
from holdfast.experiments.ginger_report import report as ginger_report
from holdfast.model.errors import ConfigError

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        Experiment(
            "ginger",
            "reconfiguration time by rounds, latency by guarantee, keys and faults (thesis, figures 5.3 to 5.5)",
            ginger.Trial,
            ginger.Row,
            ginger.trials,
            ginger.run,
            attrgetter("trial"),
            ginger_report,
        ),
    )
}


def find_experiment(name: str) -> Experiment:
    """The experiment of that name, or a sentence that lists the known ones."""
    found = EXPERIMENTS.get(name)
    if found is None:
        raise ConfigError(f"there is no experiment {name!r}; choose one of {', '.join(EXPERIMENTS)}.")
    return found
