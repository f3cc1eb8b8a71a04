"""One broker of a cluster as a process: `python -m holdfast.cluster.broker_process JSON [--attached]`.

An attached broker lives no longer than whoever started it: when the other end of its standard input goes away, however
that happened, it stops as if it had been told to.
"""

import os
import signal
import sys
import threading

from holdfast.runtime.broker import run_broker
from holdfast.runtime.serving import main_of
from holdfast.runtime.settings import BrokerSettings

ATTACHED = "--attached"


def follow_starter() -> None:
    """Wait for the end of standard input, in a thread of its own, then stop this process like anybody would."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main(arguments: list[str]) -> int:
    if ATTACHED in arguments[1:]:
        threading.Thread(target=follow_starter, daemon=True).start()
    return main_of(arguments, BrokerSettings, "broker", run_broker)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
