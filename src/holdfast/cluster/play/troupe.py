"""The clients of a play as processes: what the master tells them, and what they say of themselves."""

import asyncio
from itertools import count
from time import monotonic
from typing import Any
from urllib.parse import urlencode

import msgspec

from holdfast.cluster.config import LOOPBACK, Cluster
from holdfast.cluster.machines import MachineError, Running
from holdfast.cluster.play.client_process import Order, PlayClientSettings
from holdfast.cluster.play.statements import ClientLine
from holdfast.cluster.processes import POLL_S, READY_S, ProcessError, Processes

MODULE = "holdfast.cluster.play.client_process"
ANSWER_S = 5.0


class Member:
    """One client: its process, its control port, and what it was told and has not answered."""

    def __init__(self, name: str, running: Running, port: int) -> None:
        self.name, self.running, self.port = name, running, port
        self.crashed = self.frozen = False
        self.asked: dict[str, tuple[str, str]] = {}
        """Subscriptions that were asked for, by token, until they are answered."""
        self.heard = 0
        """How many of its troubles were told."""


class Troupe:
    """All clients of a play that runs on processes."""

    def __init__(self, processes: Processes, run: str) -> None:
        self._processes, self._run = processes, run
        self.members: dict[str, Member] = {}
        self._tokens = count(1)

    @property
    def _cluster(self) -> Cluster:
        return self._processes.cluster

    async def enter(self, lines: list[ClientLine]) -> None:
        """Start these clients, and return when all of them have a session."""
        for line in lines:
            machine = self._processes.machines[line.machine]
            [port] = await asyncio.to_thread(machine.free_ports, 1, LOOPBACK)
            settings = PlayClientSettings(
                name=line.name,
                address=",".join(self._addresses(line.at)),
                cluster=self._cluster.name,
                health_port=port,
                trace=await asyncio.to_thread(self._processes.trace_on, line.machine),
                run=self._run,
            )
            running = await asyncio.to_thread(
                self._processes.start, "client", line.name, MODULE, settings, line.machine
            )
            self.members[line.name] = Member(line.name, running, port)
        await asyncio.gather(*(self._wait_ready(self.members[line.name]) for line in lines))

    def _addresses(self, home: str) -> list[str]:
        """The client's own broker, and where brokers stand in for each other the others behind it."""
        cluster = self._cluster
        others = [one.address for one in cluster.brokers if one.name != home]
        return [*cluster.addresses_of(home), *(others if cluster.tolerance and not cluster.is_fixed else ())]

    async def _wait_ready(self, member: Member) -> None:
        limit = monotonic() + READY_S
        while True:
            try:
                await self._ask(member, "/status")
                return
            except (OSError, ValueError, TimeoutError):
                if monotonic() > limit:
                    tail = self._processes.machines[member.running.machine].tail(member.running.log)
                    raise ProcessError(
                        f"client {member.name} has no session within {READY_S:g} s. Its log ends:\n{tail}"
                    ) from None
            self._processes.check()
            await asyncio.sleep(POLL_S)

    async def _ask(self, member: Member, path: str, method: str = "GET") -> dict[str, Any]:
        machine = self._processes.machines[member.running.machine]
        try:
            async with asyncio.timeout(ANSWER_S):
                return await machine.ask(member.running.title, LOOPBACK, member.port, path, method)
        except MachineError as error:
            # Its agent may be started again; until then the client gives no answer.
            raise OSError(str(error)) from None

    # ------------------------------------------------------------------------------------------------------- orders

    async def subscribe(self, client: str, pattern: str, where: str) -> str:
        token = await self._tell(client, "/subscribe", pattern=pattern, where=where)
        self.members[client].asked[token] = (pattern, where)
        return token

    async def unsubscribe(self, client: str, pattern: str, where: str) -> str:
        return await self._tell(client, "/unsubscribe", pattern=pattern, where=where)

    async def publish(self, client: str, order: Order) -> str:
        return await self._tell(client, "/publish", order=msgspec.json.encode(order).decode())

    async def _tell(self, client: str, command: str, **query: str) -> str:
        """Give an order, and return the token under which its end is told."""
        member, token = self.members[client], str(next(self._tokens))
        try:
            await self._ask(member, f"{command}?{urlencode({'token': token, **query})}", "POST")
        except ValueError as error:
            raise ProcessError(f"client {client} declines: {error}") from None
        except (OSError, TimeoutError) as error:
            state = "is frozen" if member.frozen else "gives no answer"
            raise ProcessError(f"client {client} {state}: {str(error) or 'too late'}") from None
        return token

    async def answered(self, client: str, token: str, timeout_s: float) -> str | None:
        """What became of an order: `done`, or what went wrong; `None` if that takes longer."""
        limit = monotonic() + timeout_s
        while monotonic() < limit:
            said = await self.status(client)
            if said is not None and token in said["answers"]:
                return str(said["answers"][token])
            await asyncio.sleep(POLL_S)
        return None

    async def status(self, client: str) -> dict[str, Any] | None:
        """What a client says of itself; `None` if it gives no answer."""
        member = self.members[client]
        try:
            said = await self._ask(member, "/status")
        except (OSError, ValueError, TimeoutError):
            return None
        for token in said["answers"]:
            member.asked.pop(token, None)
        return said

    # -------------------------------------------------------------------------------------------------------- being

    def playing(self) -> list[Member]:
        """Those who are neither dead nor frozen."""
        return [member for member in self.members.values() if not member.crashed and not member.frozen]

    async def busy(self) -> list[str]:
        """Who waits for what, in words; empty when everybody is done."""
        found = []
        for member in self.members.values():
            if member.crashed:
                continue
            said = None if member.frozen else await self.status(member.name)
            if said is None:
                found.append(f"{member.name} {'is frozen' if member.frozen else 'gives no answer'}")
                continue
            found += [f"{member.name} waits for {what}" for what in (*said["pending"], *said["waiting_for"])]
        return found

    async def troubles(self) -> list[str]:
        """What went wrong with clients and was not told yet."""
        found = []
        for member in self.playing():
            said = await self.status(member.name) or {"troubles": []}
            found += [f"{member.name}: {trouble}" for trouble in said["troubles"][member.heard :]]
            member.heard = len(said["troubles"])
        return found
