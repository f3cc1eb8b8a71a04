"""Plays a script in virtual time, and returns what came of it."""

import asyncio
from typing import NamedTuple

from holdfast.cluster.play.cast import Cast, check_script
from holdfast.cluster.play.grammar import parse_script
from holdfast.cluster.play.performance import Performance, Summary
from holdfast.cluster.play.simulated import SimulatedStage
from holdfast.model.trace import Event


class Played(NamedTuple):
    summary: Summary
    rows: list[Event]
    log: list[str]

    @property
    def complaints(self) -> dict[int, str]:
        return {one.line: one.complaint for one in self.summary.failures}


def play(text: str, seed: int = 1) -> Played:
    """Play it to its end."""
    script = parse_script(text)
    check_script(script)
    log: list[str] = []

    async def perform() -> Played:
        performance = Performance(SimulatedStage(seed), Cast(), log.append, lambda seen: log.append(str(seen.ready)))
        for statement in script:
            await performance.perform(statement)
        return Played(*await performance.finish(), log)

    return asyncio.run(perform())
