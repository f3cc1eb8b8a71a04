"""Carries the trials of the Narada experiment out."""

import asyncio
import tempfile
from pathlib import Path

from holdfast.experiments.narada import NaradaRow, NaradaSummary, NaradaTrial
from holdfast.experiments.narada_delivery import deliveries
from holdfast.experiments.narada_machines import responses, storage
from holdfast.experiments.narada_recovery import recoveries, restarts
from holdfast.model.errors import HoldfastError


def run(trial: NaradaTrial) -> NaradaRow:
    """Carry a trial out; everything that it started has ended when this returns."""
    try:
        with tempfile.TemporaryDirectory(prefix="holdfast-narada-") as place:
            return NaradaRow(trial, "", _figures(trial, Path(place)))
    except HoldfastError as error:
        return NaradaRow(trial, f"{trial.title}: {error}", {})


def _figures(trial: NaradaTrial, directory: Path) -> dict[str, NaradaSummary]:
    match trial.kind:
        case "storage":
            return storage(trial, directory)
        case "responses":
            return responses(trial, directory)
        case "delivery":
            return asyncio.run(deliveries(trial, directory))
        case "restart":
            return asyncio.run(restarts(trial, directory))
        case "recovery":
            return asyncio.run(recoveries(trial, directory))
