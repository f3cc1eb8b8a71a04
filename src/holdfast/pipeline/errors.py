"""What Spark reports when something of ours failed in one of its workers, as the sentence that was meant."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from holdfast.model.errors import HoldfastError

# The last line of a Python traceback, from the name of the error on, up to where Java goes on.
_SENTENCE = re.compile(
    r"^(?:\w+\.)*\w*(?:Error|Failed|Lost|Refused|Closed): (.+?)(?=\n\s*(?:\n|at |Traceback)|\Z)",
    re.MULTILINE | re.DOTALL,
)
SENTENCE_CHARACTERS_MAX = 1000


class PipelineError(HoldfastError):
    """Raised when a job could not be carried out, with the reason in one sentence."""


@contextmanager
def spoken_plainly() -> Iterator[None]:
    """Turn the page that Spark writes about an error into its reason."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise PipelineError(reason_of(str(error))) from error


def reason_of(text: str) -> str:
    """The innermost sentence of an error that came through Spark."""
    found = _SENTENCE.findall(text)
    reason = found[-1] if found else text.strip().partition("\n")[0]
    reason = " ".join(reason.split())
    return reason if len(reason) <= SENTENCE_CHARACTERS_MAX else reason[:SENTENCE_CHARACTERS_MAX] + "..."
