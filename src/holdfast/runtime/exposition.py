"""Figures in the text that Prometheus reads (its exposition format, version 0.0.4).

There are three kinds of lines and one rule for quoting, so there is no library here.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_QUOTED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Metric(Struct, frozen=True):
    """One figure, for each set of labels; `kind` is `gauge` or `counter`, and a counter's name ends in `_total`."""

    name: str
    kind: str
    help: str
    samples: tuple[tuple[Mapping[str, str], float], ...]


def exposition(metrics: Iterable[Metric]) -> str:
    """All metrics as text; those without a sample are left out."""
    lines: list[str] = []
    for metric in metrics:
        if metric.samples:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
            lines += [f"{metric.name}{_labels(labels)} {value:.17g}" for labels, value in metric.samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_QUOTED)}"' for name, value in labels.items()) + "}"
