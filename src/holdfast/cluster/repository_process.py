"""A repository as a process: `python -m holdfast.cluster.repository_process JSON [--attached]`.

It answers `GET /health` and `GET /status` as a broker does, `GET /metrics` for Prometheus, to readers `GET /lanes`,
`/messages` and `/locate`, and obeys `POST /give-up?stream=S&publisher=P` and `POST /leave?stream=S`. Exit codes are
those of a broker.
"""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable
from time import monotonic

from holdfast.client import ConnectionFailed
from holdfast.cluster.broker_process import ATTACHED, follow_starter
from holdfast.model.errors import HoldfastError, LocalMisuse
from holdfast.protocols.narada.participant import Effects
from holdfast.runtime.exposition import exposition
from holdfast.runtime.health import Health
from holdfast.runtime.logs import ProcessLog
from holdfast.runtime.process import tune_collector
from holdfast.runtime.serving import EXIT_FAILED, EXIT_MISUSE, EXIT_STOPPED, complainer, main_of, run_server
from holdfast.services.lanes import LaneReading, asked_text
from holdfast.services.repository import RepositoryService
from holdfast.services.repository_metrics import repository_metrics
from holdfast.services.repository_settings import RepositorySettings
from holdfast.storage.stores import StoreFailed, shown_url

WHAT_TO_DO = (
    "The repository ends. Nothing that it acknowledged is concerned: put it right (is there room on the disk, does the "
    "database answer?) and start it again; it goes on where it was, and gets what it misses from its siblings."
)


class RepositoryCommands:
    """What a repository is told over its health port."""

    def __init__(self, service: RepositoryService) -> None:
        self._service = service

    def table(self) -> dict[str, Callable[[dict[str, str]], dict[str, object]]]:
        return {"/give-up": self.give_up, "/leave": self.leave}

    def give_up(self, query: dict[str, str]) -> dict[str, object]:
        stream, publisher = asked_text(query, "stream"), asked_text(query, "publisher")
        count, effects = self._service.machine.give_up(stream, publisher)
        self._service.enter(lambda: effects)
        return {"given_up": count}

    def leave(self, query: dict[str, str]) -> dict[str, object]:
        effects: Effects = self._service.machine.leave(asked_text(query, "stream"), monotonic())
        self._service.enter(lambda: effects)
        return {"leaving": True}


async def serve(settings: RepositorySettings, complain: Callable[[str], object]) -> int:
    """Take part until a signal ends it; returns the exit code. `complain` gets a sentence if the store fails."""
    log = ProcessLog("holdfast.repository", node=settings.name)
    service = RepositoryService(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, service.stop)
    health = Health(
        settings.name,
        service.ready,
        service.status,
        RepositoryCommands(service).table(),
        lambda: exposition(repository_metrics(service.status())),
        LaneReading(service).table(),
    )
    try:
        if settings.health_port is not None:
            port = await health.listen(settings.host, settings.health_port)
            log.info("listening", host=settings.host, health_port=port)
        await service.open()
        url = shown_url(settings.store_url)
        log.info("keeping", streams=list(settings.streams), store=url, acknowledges=str(settings.level))
        tune_collector()
        await service.serve()
    except LocalMisuse:
        raise
    except StoreFailed as error:
        sentence = f"{str(error).rstrip('.')}. {WHAT_TO_DO}"
        log.error("failed", reason=sentence)
        complain(sentence)
        return EXIT_FAILED
    except ConnectionFailed as error:
        log.error("failed", reason=str(error))
        complain(f"{error}.")
        return EXIT_MISUSE
    except HoldfastError as error:
        log.error("failed", error=error)
        return EXIT_FAILED
    finally:
        health.close()
        await service.close()
    log.info("stopped")
    return EXIT_STOPPED


def run_repository(settings: RepositorySettings, complain: Callable[[str], object] | None = None) -> int:
    """Be that repository until a signal ends it; `complain` gets the sentence if it cannot begin or its store fails."""
    say = complain or complainer("repository")
    return run_server(settings, lambda told: serve(told, say), "repository", say)


def main(arguments: list[str]) -> int:
    if ATTACHED in arguments[1:]:
        threading.Thread(target=follow_starter, daemon=True).start()
    return main_of(arguments, RepositorySettings, "repository", run_repository)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
