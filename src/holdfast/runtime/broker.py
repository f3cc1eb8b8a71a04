"""A broker as a process: a listener, the node and its driver, a health endpoint, logs, and an orderly end.

`run_broker` returns the exit code: 0 after an orderly stop (SIGTERM or SIGINT: drain, then leave; a second signal does
not wait), 1 if the node failed, 2 if it could not begin, with one sentence on stderr.

Where brokers repair the tree (`tolerance` above 0), a broker that the others gave up, or that was started again after a
crash, is a newcomer: it asks its parent and then the others of `join`, one after the other, until one takes it in. One
that is new altogether needs a single address (`seeds`): whoever listens there says its name, and how it repairs trees.

Where brokers are told the tree around them (`edges`) nobody changes places: one that comes back after a crash goes on
with what it had written down.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from ssl import SSLContext
from time import monotonic
from typing import Any

import msgspec

from holdfast.model.errors import LocalMisuse
from holdfast.model.messages import Twig
from holdfast.model.terms import Contact
from holdfast.protocols.config import SESSIONS_MAX
from holdfast.protocols.durable import Kept, kept_in
from holdfast.protocols.node import BrokerNode, Report, Restart, Restorable
from holdfast.protocols.registry import find_protocol, make_broker
from holdfast.protocols.treeview import TreeView
from holdfast.runtime.broker_metrics import broker_metrics
from holdfast.runtime.driver import Driver, Sink
from holdfast.runtime.exposition import exposition
from holdfast.runtime.health import Health
from holdfast.runtime.introducing import Introduction, introduction_of, who_is_there
from holdfast.runtime.joining import Candidates
from holdfast.runtime.logs import ProcessLog
from holdfast.runtime.open_files import allow_connections
from holdfast.runtime.places import place_of
from holdfast.runtime.process import new_incarnation, tune_collector
from holdfast.runtime.serving import EXIT_FAILED, EXIT_STOPPED, main_of, run_server
from holdfast.runtime.settings import BrokerSettings, address_text
from holdfast.runtime.tracing import Trace
from holdfast.storage.state_file import StateFile
from holdfast.storage.state_log import StateLog

WARNINGS = frozenset({"congested", "excluded", "forced", "gap", "hole", "refused", "suspect", "violation"})
"""Reports that somebody should look at; the others are for information."""

SEED_S, SEED_MAX_S = 0.2, 2.0
"""How long to wait before the next address is asked who is there: longer each time, up to a limit."""


class BrokerProcess:
    """A broker that runs inside the current event loop. `serve` is its whole life."""

    def __init__(
        self, settings: BrokerSettings, ssl_server: SSLContext | None = None, ssl_client: SSLContext | None = None
    ) -> None:
        settings.check()
        self.settings = settings
        self._may_begin = settings.newcomer is None and settings.parent is None
        """Whether it may be the root of a new tree if it finds nobody."""
        self._ssl_server = ssl_server
        self._log = ProcessLog("holdfast.broker", node=settings.name)
        self._state = _state_of(settings)
        self._restore()
        self._candidates = self._new_candidates()
        self.node = self._new_node(self.settings.parent, settings.port)
        # A newcomer may have been here before: its trace goes on where it was killed.
        settings = self.settings
        fresh = not (settings.newcomer or self._returns)
        self._trace = Trace(settings.trace, settings.name, settings.run, fresh=fresh) if settings.trace else None
        self._stopped = asyncio.Event()
        self._signals: asyncio.Queue[str] = asyncio.Queue()
        self.stopping = False
        self.port = 0
        self.health_port = 0
        sinks: list[Sink] = [self._note]
        if self._trace is not None:
            sinks.append(self._trace)
        self.driver = Driver(
            self.node,
            self._address_of,
            handlers={Restart: lambda restart: self._restart(restart.reason)},
            sinks=sinks,
            limits=settings.limits,
            log=self._log,
            ssl_client=ssl_client,
            keep=None if self._state is None else self._state.write,
        )
        self._introduce()
        self._looking: asyncio.Task[None] | None = None
        commands = {"/cut": self._cut, "/heal": self._heal, "/leave": self._leave} if settings.experiments else {}
        self._health = Health(settings.name, self.ready, self.status, commands, self.metrics, local_commands=True)

    # ---------------------------------------------------------------------------------------------- being somebody

    def _introduce(self) -> None:
        """Say to strangers from now on who this is, and where its health endpoint is."""
        settings = self.settings
        self.driver.introduce_as(
            introduction_of(settings.name, settings.protocol, settings.tolerance, self.health_port)
        )

    def _places(self) -> dict[str, str]:
        """Where the brokers listen that this one knows: what it was told at its start, and what it has learnt since."""
        settings, view = self.settings, getattr(self.node, "view", None)
        told = {**settings.neighbours, **settings.addresses}
        places = {name: address_text(*place) for name, place in told.items()}
        if isinstance(view, TreeView):
            places |= {one.name: one.address for one in view.near() if one.address}
        return {name: places[name] for name in sorted(places) if name != settings.name}

    def _restore(self) -> None:
        """Learn from what an earlier life has written down who else is there, and whether they go on without us."""
        kept, settings = Kept(), self.settings
        if self._state is not None:
            if self._state.refused:
                self._log.warning("state refused", reason=self._state.refused)
            kept = kept_in(self._state.pairs)
        if settings.seeds:
            places = (place_of(one.address) for one in kept.tree)
            seeds = tuple(dict.fromkeys((*settings.seeds, *(place for place in places if place is not None))))
            self.settings = msgspec.structs.replace(settings, seeds=seeds)
        elif settings.tolerance:
            self._remember(kept.tree)
        self._returns = settings.is_fixed and settings.newcomer is not False and bool(self._pairs or settings.site)
        if settings.newcomer is None or settings.is_fixed:
            newcomer = bool(settings.tolerance and kept.tree and not settings.is_fixed)
            self.settings = msgspec.structs.replace(self.settings, newcomer=newcomer)
        if kept.epoch:
            self._log.info("restored", epoch=kept.epoch, knows=[one.name for one in kept.tree])

    @property
    def _pairs(self) -> dict[str, bytes]:
        return {} if self._state is None else self._state.pairs

    def _new_node(self, parent: str | None, port: int) -> BrokerNode:
        pairs = self._pairs
        incarnation = new_incarnation(after=kept_in(pairs).epoch)
        node = make_broker(self.settings.protocol, self.settings.config(parent, port), incarnation)
        if pairs and isinstance(node, Restorable):
            node.restore(dict(pairs))
        return node

    def _new_candidates(self) -> Candidates:
        alone = self._begin_as_root if self._may_begin else None
        return Candidates(self.settings.candidates(), self._attempt, self._joined, alone)

    def _begin_as_root(self) -> bool:
        """Nobody whom the configured root has known is in a tree now: if all were lost at once, it begins a new one."""
        if self.stopping:
            return False
        self._log.warning("nobody is there: begins as the root")
        self.node = self._new_node(None, self.port)
        self.driver.replace(self.node)
        self.driver.start()
        return True

    def _restart(self, reason: str) -> None:
        """The others have given this broker up: it begins anew, when what it said last has been carried out."""
        self._log.warning("begins anew", reason=reason)
        # There is a tree, or nobody could have given us up.
        self._may_begin = False
        self._remember_others()
        asyncio.get_running_loop().call_soon(self._candidates.begin)

    def _remember_others(self) -> None:
        """Whoever was near may take us in, too: those that we were told of at the start may all be lost."""
        view = getattr(self.node, "view", None)
        if not isinstance(view, TreeView):
            return
        self._remember(view.near())
        self._candidates.close()
        self._candidates = self._new_candidates()

    def _remember(self, near: tuple[Contact, ...]) -> None:
        settings = self.settings
        places = {one.name: place_of(one.address) for one in near if one.name != settings.name}
        found = {name: place for name, place in places.items() if place is not None}
        self.settings = msgspec.structs.replace(
            settings,
            addresses={**found, **settings.addresses},
            join=tuple(dict.fromkeys((*settings.join, *found))),
        )

    def _attempt(self, parent: str) -> None:
        """Begin anew as a newcomer below that broker."""
        if not self.stopping:
            self._log.info("asks to be taken in", peer=parent)
            self.node = self._new_node(parent, self.port)
            self.driver.replace(self.node)
            self.driver.start()

    def _joined(self, parent: str) -> tuple[bool, bool]:
        """Whether the broker serves, and whether that parent has at least answered."""
        links = self.node.status().get("links")
        return self.node.ready(), isinstance(links, dict) and links.get(parent) == "open"

    # ------------------------------------------------------------------------------------------------ experiments

    def _cut(self, query: dict[str, str]) -> dict[str, object]:
        peer = query.get("peer", "")
        if not peer:
            raise LocalMisuse("say whom to be cut off from, as in /cut?peer=b1")
        self._log.warning("cut off", peer=peer)
        self.driver.cut(peer)
        return {"cut_off": self.driver.cuts}

    def _heal(self, query: dict[str, str]) -> dict[str, object]:  # noqa: ARG002
        self.driver.heal()
        return {"cut_off": self.driver.cuts}

    def _leave(self, query: dict[str, str]) -> dict[str, object]:  # noqa: ARG002
        """Leave the tree for good, where brokers keep their places in it: a stop would be an absence."""
        leave = getattr(self.node, "leave", None)
        if leave is None:
            raise LocalMisuse(f"a broker of protocol {self.node.protocol} leaves when it is stopped")
        self.driver.carry_out(leave(monotonic()))
        self.driver.settle_soon()
        return {"leaving": self.settings.name}

    # ------------------------------------------------------------------------------------------------------- life

    def ready(self) -> bool:
        return not self.stopping and not self.driver.failed.done() and self.node.ready()

    def status(self) -> dict[str, object]:
        return {
            **self.node.status(),
            "name": self.settings.name,
            "cluster": self.settings.cluster,
            "protocol": self.node.protocol,
            "ready": self.ready(),
            "stopping": self.stopping,
            "connected": self.driver.peers,
            "cut_off": self.driver.cuts,
            "tolerance": self.settings.tolerance,
            **view_of(self.node),
            "places": self._places(),
            "waiting_for": self.node.waiting_for(),
        }

    def metrics(self) -> str:
        """What `status` says, as figures for Prometheus."""
        return exposition(broker_metrics(self.status()))

    async def start(self) -> None:
        """Listen, then start the node. Raises `ListenError` if a port cannot be had."""
        settings = self.settings
        _, self.port = await self.driver.listen(settings.host, settings.port, self._ssl_server)
        if settings.health_port is not None:
            self.health_port = await self._health.listen(settings.host, settings.health_port)
            self._introduce()
        self._log.info("listening", host=settings.host, port=self.port, health_port=self.health_port)
        if settings.seeds:
            self._looking = asyncio.ensure_future(self._look_around())
            return
        if settings.newcomer:
            self._candidates.begin()
            return
        if not settings.port:
            # Now it is known where this broker is.
            self.node = self._new_node(settings.parent, self.port)
            self.driver.replace(self.node)
        self.driver.start()

    def _address_of(self, peer: str) -> tuple[str, int] | None:
        return self.settings.addresses.get(peer)

    async def _ask_seed(self, host: str, port: int) -> Introduction | None:
        try:
            return await who_is_there(host, port)
        except (OSError, TimeoutError) as error:
            self._log.warning("nobody answers", address=f"{host}:{port}", reason=str(error) or "no answer in time")
            return None

    async def _look_around(self) -> None:
        """Ask at the seeds who is there, until somebody answers, and join whoever it is in the way of its tree."""
        settings, asked = self.settings, 0
        place = settings.seeds[0]
        while (found := await self._ask_seed(*place)) is None:
            asked += 1
            await asyncio.sleep(min(SEED_S * asked, SEED_MAX_S))
            place = settings.seeds[asked % len(settings.seeds)]
        self._log.info("found", peer=found.name, tolerance=found.tolerance, protocol=found.protocol)
        if settings.protocol != found.protocol and find_protocol(found.protocol).recovers:
            # What it has to write down goes to another kind of file, which is open already.
            self._log.warning("cannot join", reason=f"that is a tree of {found.protocol}: say so with --protocol")
            self.stop("it was told another protocol")
            return
        self.settings = msgspec.structs.replace(
            settings,
            parent=found.name,
            protocol=found.protocol,
            tolerance=found.tolerance,
            addresses={found.name: place},
            seeds=(),
        )
        self._introduce()
        self._candidates = Candidates((found.name,), self._attempt, self._joined)
        if found.tolerance and not self.settings.is_fixed:
            self._candidates.begin()
        else:
            self._attempt(found.name)

    def stop(self, why: str) -> None:
        """Ask for an orderly end; asked again, it does not wait any longer."""
        self._signals.put_nowait(why)

    async def serve(self) -> int:
        """Run until somebody stops it or the node fails; returns the exit code."""
        try:
            await self.start()
            tune_collector()
            asked = asyncio.ensure_future(self._signals.get())
            ends: set[asyncio.Future[Any]] = {asked, self.driver.failed}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                asked.cancel()
                return EXIT_FAILED
            await self._drain(asked.result())
            return EXIT_STOPPED
        finally:
            await self._close()

    async def _drain(self, why: str) -> None:
        self.stopping = True
        self._log.info("stopping", reason=why, drain_s=self.settings.drain_s)
        self.driver.stop_listening()
        self.driver.enter(self.node.stop)
        drained = asyncio.ensure_future(self._stopped.wait())
        impatient = asyncio.ensure_future(self._signals.get())
        ends: set[asyncio.Future[Any]] = {drained, impatient, self.driver.failed}
        await asyncio.wait(ends, timeout=self.settings.drain_s, return_when=asyncio.FIRST_COMPLETED)
        drained.cancel()
        impatient.cancel()
        if not self._stopped.is_set():
            self._log.warning("left before everything had drained", waiting_for=self.node.waiting_for())

    async def _close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._candidates.close()
        self._health.close()
        await self.driver.close()
        if isinstance(self._state, StateLog):
            self._state.close()
        if self._trace is not None:
            self._trace.close()
        self._log.info("stopped")

    def _note(self, report: Report) -> None:
        if report.event == "stopped":
            self._stopped.set()
            if not self.stopping:
                self.stop("it has left the tree")
        elif report.event == "refused":
            self._candidates.refused(report.peer)
        if report.batch is not None:
            # What happens with every message is the trace's, not the log's.
            return
        write = self._log.warning if report.event in WARNINGS else self._log.info
        said = {"peer": report.peer, "pattern": report.pattern, "where": report.where, "detail": report.detail}
        write(report.event, **{name: value for name, value in said.items() if value})


def _state_of(settings: BrokerSettings) -> StateFile | StateLog | None:
    """Where the broker keeps what it persists: much of it at each message, or a few facts."""
    if not settings.state_dir:
        return None
    kind = StateLog if find_protocol(settings.protocol).recovers else StateFile
    return kind(Path(settings.state_dir), settings.cluster, settings.name)


def view_of(node: BrokerNode) -> dict[str, object]:
    """What a broker knows of the tree around it, by names: enough to repair it, and nothing of what is farther away."""
    view = getattr(node, "view", None)
    if not isinstance(view, TreeView):
        return {}
    above, line = ([one.name for one in contacts] for contacts in (view.chain, view.senior))
    return {"view": {"above": above, "line": line, "below": _below(view.children.values())}}


def _below(twigs: Iterable[Twig]) -> dict[str, object]:
    return {twig.name: _below(twig.twigs) for twig in twigs if twig.kind == "broker"}


async def _serve(settings: BrokerSettings) -> int:
    allowed = allow_connections(SESSIONS_MAX)
    if allowed < SESSIONS_MAX:
        log = ProcessLog("holdfast.broker", node=settings.name)
        log.warning("open files", connections_max=allowed, reason="raise the limit of open files (ulimit -n) for more")
    broker = BrokerProcess(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, broker.stop, number.name)
    return await broker.serve()


def run_broker(settings: BrokerSettings, complain: Callable[[str], object] | None = None) -> int:
    """Be that broker until a signal ends it; returns the exit code. `complain` gets the sentence of exit code 2."""
    return run_server(settings, _serve, "broker", complain)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m holdfast.runtime.broker", description="Run one broker.")
    parser.add_argument("--config-json", required=True, help="the settings, as JSON: see BrokerSettings")
    return main_of([parser.parse_args(arguments).config_json], BrokerSettings, "broker", run_broker)


if __name__ == "__main__":
    sys.exit(main())
