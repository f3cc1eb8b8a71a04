"""Every experiment on the bench, by name."""

from operator import attrgetter

from holdfast.experiments import delta, ginger, locamu, narada, sesdad
from holdfast.experiments.delta_report import report as delta_report
from holdfast.experiments.experiment import Experiment
from holdfast.experiments.ginger_report import report as ginger_report
from holdfast.experiments.locamu_points import points as locamu_points
from holdfast.experiments.locamu_report import report as locamu_report
from holdfast.experiments.narada_report import report as narada_report
from holdfast.experiments.narada_run import run as run_narada
from holdfast.experiments.sesdad_report import report as sesdad_report
from holdfast.model.errors import ConfigError

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        Experiment(
            "ginger",
            "reconfiguration time by rounds, latency by guarantee, keys and faults (thesis, figures 5.3 to 5.5)",
            ginger.GingerTrial,
            ginger.GingerRow,
            ginger.trials,
            ginger.run,
            attrgetter("trial"),
            ginger_report,
        ),
        Experiment(
            "narada",
            "costs of reliable delivery on real processes of this machine (paper, Table 1 and figures 3 to 6)",
            narada.NaradaTrial,
            narada.NaradaRow,
            narada.trials,
            run_narada,
            attrgetter("trial"),
            narada_report,
            timed=True,
        ),
        Experiment(
            "locamu",
            "throughput and metadata of LoCaMu, its rivals and Ginger (thesis, figures 5.1 to 5.4)",
            locamu.LocamuPoint,
            locamu.LocamuRow,
            locamu_points,
            locamu.run,
            attrgetter("point"),
            locamu_report,
        ),
        Experiment(
            "sesdad",
            "sites of three brokers: flooding and filtering, spread of the load, recovery of a last message",
            sesdad.Point,
            sesdad.Row,
            sesdad.points,
            sesdad.run,
            attrgetter("point"),
            sesdad_report,
        ),
        Experiment(
            "delta",
            "recipient sets (paper, Table 1), messages, confirmation, state and recovery past failed nodes",
            delta.DeltaPoint,
            delta.DeltaRow,
            delta.points,
            delta.run,
            attrgetter("point"),
            delta_report,
        ),
    )
}


def find_experiment(name: str) -> Experiment:
    """The experiment of that name, or a sentence that lists the known ones."""
    found = EXPERIMENTS.get(name)
    if found is None:
        raise ConfigError(f"there is no experiment {name!r}; choose one of {', '.join(EXPERIMENTS)}.")
    return found
