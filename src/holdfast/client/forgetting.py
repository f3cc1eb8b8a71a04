"""Ends durable subscriptions by their name."""

import asyncio
from secrets import randbits

from holdfast.client.errors import SessionLost
from holdfast.client.participants import ParticipantDriver, Session
from holdfast.protocols.narada import Forgetter
from holdfast.protocols.narada.participant import SubscriptionEnded
from holdfast.runtime.logs import ProcessLog

TOKEN_BITS = 62


async def forget_subscription(client: Session, client_name: str, stream: str, name: str, timeout_s: float) -> None:
    """Say that the subscription is over until a repository has stored it; the others learn it from that one."""
    log = ProcessLog("holdfast.durable", node=client_name)
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    machine = Forgetter(stream, name, client_name, randbits(TOKEN_BITS))

    def on_ended(effect: SubscriptionEnded) -> None:
        log.debug("a subscription is over", stream=effect.stream, name=name, repository=effect.repository)
        if not ended.done():
            ended.set_result(None)

    driver = ParticipantDriver(client, machine, {SubscriptionEnded: on_ended}, log)
    driver.start()
    try:
        async with asyncio.timeout(timeout_s):
            await ended
    except TimeoutError:
        raise SessionLost(
            f"no repository of {stream} said within {timeout_s:g} s that the subscription {name} is over: it may be, "
            "or not. Ask again; `holdfast topics` shows who is there."
        ) from None
    finally:
        await driver.close()
