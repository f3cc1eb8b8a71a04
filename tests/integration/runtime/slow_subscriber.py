"""A subscriber as a process of its own, which may be stopped, or reads two messages a second until it is told to hurry.

It writes a line for each message and gap: `seq 7`, `gap 12`, `over REASON`; and `drained` when nothing more comes.
"""

import asyncio
import sys
from typing import cast

import holdfast
from holdfast.model.slow_messages import Slow
from holdfast.protocols.config import LinkConfig

PAUSE_S = 0.5


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def read(address: str, slow: Slow, slow_bytes: int | None, link: LinkConfig) -> None:
    async with holdfast.connect(address, name="slow", link=link) as client:
        slow_s = 1.0 if slow == "disconnect" else None
        inbox = await client.subscribe("t", slow=slow, slow_s=slow_s, slow_bytes=slow_bytes)
        say("begun")
        hurried = asyncio.ensure_future(asyncio.to_thread(sys.stdin.readline))
        while True:
            if not hurried.done():
                await asyncio.wait({hurried}, timeout=PAUSE_S)
            try:
                message = await inbox.get(0.5)
            except TimeoutError:
                say("drained")
                continue
            except holdfast.Gap as gap:
                if not gap.goes_on:
                    say(f"over {gap}")
                    return
                say(f"gap {gap.dropped}")
                continue
            say(f"seq {message.seq}")
            if message.payload == b"end":
                return


if __name__ == "__main__":
    chosen = cast("Slow", sys.argv[2])
    kept_bytes = None if chosen == "block" else int(sys.argv[3])
    holdfast.run(read(sys.argv[1], chosen, kept_bytes, LinkConfig(window_bytes=int(sys.argv[4]))))
