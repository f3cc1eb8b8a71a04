"""A script on a stage: its lines one after the other, the event log, what was expected, and the verdict at the end."""

from collections.abc import Callable
from time import monotonic
from typing import Any

from msgspec import Struct

from holdfast.cluster.play.cast import Cast
from holdfast.cluster.play.event_log import EventLog
from holdfast.cluster.play.expectations import complaint_about
from holdfast.cluster.play.grammar import Statement
from holdfast.cluster.play.stage import QUIET_LIMIT_S, NotQuietError, Stage
from holdfast.cluster.play.statements import (
    Action,
    ClientLine,
    Cut,
    Expectation,
    ExpectAudit,
    ExpectNode,
    Part,
    Publish,
    Setup,
    Status,
    Wait,
    WaitQuiet,
)
from holdfast.cluster.status import ClusterStatus
from holdfast.model.errors import HoldfastError, WorkFailed
from holdfast.model.trace import Event
from holdfast.simulation.checkers import check

POLL_MS = 50.0
"""How often an expectation that may take a while is looked at."""
TELL_MS = 250.0
"""How often what happens is told while a script waits in real time."""
SIMULATION = "simulation"
NOBODY_WAITED = " (nothing has waited since line {line} published: put WaitQuiet before the Expect)"


class Failure(Struct, frozen=True):
    """A line that did not come out as the script says."""

    line: int
    text: str
    complaint: str


class Summary(Struct, frozen=True):
    """What became of a play."""

    ok: bool
    stage: str
    protocol: str
    tolerance: int
    brokers: int
    clients: int
    published: int
    expectations: int
    failures: list[Failure]
    verdict: dict[str, Any]
    played: bool
    """Whether there was any action."""
    seconds: float
    """As long as it took in the world outside."""
    seed: int | None = None
    virtual_s: float | None = None


class PlayError(WorkFailed):
    """Raised when a line could not be carried out: the play ends with it."""


class Performance:
    """Plays lines as they come, from a file or from the prompt."""

    def __init__(
        self,
        stage: Stage,
        cast: Cast,
        say: Callable[[str], None] = lambda _: None,
        show: Callable[[ClusterStatus], None] = lambda _: None,
    ) -> None:
        """`say` gets the lines of the event log, `show` the tree that `Status` asks for."""
        self._stage, self.cast, self._say, self._show = stage, cast, say, show
        self.log = EventLog()
        self.begun = False
        self.failures: list[Failure] = []
        self.expectations = 0
        self._meant_broken = False
        self._unawaited: Publish | None = None
        self._logged = 0
        self._started_at = monotonic()

    # ---------------------------------------------------------------------------------------------------- one line

    async def perform(self, statement: Statement) -> None:
        """Carry out one line; raises `ScriptError` if it cannot be there, `PlayError` if it could not be done."""
        self.cast.admit(statement)
        if isinstance(statement, Setup):
            return
        try:
            if isinstance(statement, ClientLine):
                if self.begun:
                    self.log.know(statement.name)
                    await self._stage.enter(self.cast.clients[statement.name])
                return
            if not self.begun:
                await self._begin()
            self.log.command(statement.line, statement.text, self._stage.now_ns())
            await self._act(statement)
            await self.catch_up()
        except HoldfastError as error:
            raise PlayError(f"line {statement.line} ({statement.text}): {error}") from error

    async def _begin(self) -> None:
        self.begun = True
        self.log.level = self.cast.level
        for name in self.cast.clients:
            self.log.know(name)
        await self._stage.begin(self.cast)
        self.log.begun_ns = self._stage.now_ns()

    async def _act(self, action: Action) -> None:
        stage = self._stage
        match action:
            case Wait(ms=ms):
                await self._wait(ms)
            case WaitQuiet(limit_ms=limit_ms):
                await self._wait_quiet(action, QUIET_LIMIT_S if limit_ms is None else limit_ms / 1000)
            case Status():
                await self._collect()
                self._tell(stage.now_ns())
                self._show(await stage.status())
            case Part(side=side):
                there = [name for one in side for name in self.cast.members(one)]
                for one in there:
                    for other in [name for name in self.cast.nodes if name not in there]:
                        await stage.do(Cut(action.line, action.text, one, other))
            case _ if isinstance(action, Expectation):
                await self._expect(action)
            case _:
                if isinstance(action, Publish):
                    self._unawaited = action
                if said := await stage.do(action):
                    self.log.command(0, f"{action.text}: {said}", stage.now_ns())

    async def _wait(self, ms: float) -> None:
        """Let time pass. Real time passes in steps, and what happens in each is told at its end."""
        stage, until_ns = self._stage, self._stage.now_ns() + round(ms * 1e6)
        if stage.name == SIMULATION:
            await stage.wait(ms)
            return
        while (left_ms := (until_ns - stage.now_ns()) / 1e6) > 0:
            await stage.wait(min(left_ms, TELL_MS))
            await self.catch_up()

    async def _wait_quiet(self, action: WaitQuiet, limit_s: float) -> None:
        try:
            await self._stage.wait_quiet(limit_s)
            self._unawaited = None
        except NotQuietError as error:
            self._fail(action, str(error))

    async def _expect(self, expectation: Expectation) -> None:
        self.expectations += 1
        complaint = await complaint_about(expectation, self._stage)
        limit_ns = self._stage.now_ns() + round(expectation.within_ms * 1e6)
        while complaint and self._stage.now_ns() < limit_ns:
            await self._stage.wait(POLL_MS)
            complaint = await complaint_about(expectation, self._stage)
        if isinstance(expectation, ExpectAudit) and expectation.mark == "broken":
            self._meant_broken = True
        if complaint:
            self._fail(expectation, complaint + self._hint(expectation))

    def _hint(self, expectation: Expectation) -> str:
        """What may be missing in the script, if it expects messages that nobody has waited for."""
        if self._unawaited is None or expectation.within_ms or isinstance(expectation, ExpectNode):
            return ""
        return NOBODY_WAITED.format(line=self._unawaited.line)

    def _fail(self, action: Action, complaint: str) -> None:
        self.failures.append(Failure(action.line, action.text, complaint))
        self.log.command(0, f"[{action.line}] FAILED: {complaint}", self._stage.now_ns())

    async def catch_up(self) -> None:
        """Say what has happened and is certain to be in its place."""
        if self.begun:
            await self._collect()
            self._tell(self._stage.horizon_ns())

    async def _collect(self) -> list[Event]:
        rows = await self._stage.rows()
        self.log.add(rows[self._logged :])
        self._logged = len(rows)
        return rows

    def _tell(self, horizon_ns: int | None) -> None:
        for line in self.log.lines(horizon_ns):
            self._say(line)

    # ------------------------------------------------------------------------------------------------------ the end

    async def finish(self, *, wait: bool = True) -> tuple[Summary, list[Event]]:
        """Wait until all has arrived, if wanted, and judge; the trace as it was judged."""
        if not self.begun:
            return self._summary([], None), []
        if wait and self._unawaited is not None:
            end = WaitQuiet(self._unawaited.line, "end of the script")
            await self._wait_quiet(end, QUIET_LIMIT_S)
        rows = await self._collect()
        self._tell(None)
        judged = self._stage.judged(rows)
        return self._summary(judged, self._stage.now_ns()), judged

    async def end(self) -> None:
        """Stop everybody."""
        await self._stage.end()

    def _summary(self, rows: list[Event], now_ns: int | None) -> Summary:
        verdict = check(rows)
        virtual = self._stage.name == SIMULATION and now_ns is not None
        return Summary(
            ok=not self.failures and (verdict.ok or self._meant_broken),
            stage=self._stage.name,
            protocol=self.cast.protocol,
            tolerance=self.cast.tolerance,
            brokers=len(self.cast.nodes),
            clients=len(self.cast.clients),
            published=sum(row.event == "publish" for row in rows),
            expectations=self.expectations,
            failures=list(self.failures),
            verdict=verdict.as_dict(),
            played=self.begun,
            seconds=round(monotonic() - self._started_at, 3),
            seed=self._stage.seed,
            virtual_s=round(((now_ns or 0) - self.log.begun_ns) / 1e9, 6) if virtual else None,
        )
